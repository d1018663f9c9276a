// viewer.js -- the page of `tenon graph`: shows the drawings in #data, which were laid out beforehand.
//
// This and the other scripts are one function's body (html.c), in the order of CMakeLists.txt: viewer.js has panes, drawings,
// cameras and selection; fold.js modules that fold; colour.js colours by cost; names.js names of what is too small for its text;
// panel.js the side panel and search; optimised.js what optimising did; memory.js the memory plan; start.js keys and the start.
//
// Everything from the model is put into the page as text (textContent, text nodes), never as markup.
// An element is made when it comes into view first, its text when that is large enough to be read; what is off screen is not
// displayed.  So thousands of nodes open at once and stay quick.

// Directional overrides would make names read otherwise than they are.
const data = JSON.parse(document.getElementById('data').textContent.replace(/[\u202a-\u202e\u2066-\u2069]/g, '\ufffd'));
const opt = data.opt || null;
const NS = 'http://www.w3.org/2000/svg';
const NEAR = 0.55, ZOOM_MAX = 6, HEAD = 24, ROW = 15, MATCHES_SHOWN = 200;

// ---- small helpers ----
const h = (tag, props, ...children) => {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(props || {})) {
    if (k === 'onclick') e.addEventListener('click', v);
    else if (k === 'class') e.className = v;
    else e.setAttribute(k, v);
  }
  e.append(...children.filter(c => c !== null && c !== undefined));
  return e;
};
const s = (tag, attrs, text) => {
  const e = document.createElementNS(NS, tag);
  for (const k in attrs) e.setAttribute(k, attrs[k]);
  if (text !== undefined) e.textContent = text;
  return e;
};
const clamp = (x, lo, hi) => Math.min(Math.max(x, lo), hi);
const chip = family => h('span', {class: 'chip f' + family, title: data.families[family]});
const count = n => n.toLocaleString('en');
const scaled = (n, step, units) => {
  let i = 0;
  while (Math.abs(n) >= step && i < units.length - 1) { n /= step; i++; }
  return (i ? n.toFixed(1) : String(Math.round(n * 10) / 10)) + ' ' + units[i];
};
const bytes = n => scaled(n, 1024, ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']);
const flops = n => scaled(n, 1000, ['', 'k', 'M', 'G', 'T', 'P']) + 'FLOP';
const number = x => x === null ? '-' : String(Number(x.toPrecision(6)));
const node = ref => data.drawings[ref.d].nodes[ref.i];
const same = (a, b) => a === b || (a && b && a.d === b.d && a.i === b.i);

// ---- panes ----
// One, or two: before (drawing 0) and after (opt.drawing).  A pane shows one drawing at a time, or its modules folded, and
// within it the bodies of what was opened in place.  A node is named by its drawing and number, {d, i}: that of the drawing
// even where it is seen in a part of a fold.
const panes = [];
let pane = null;  // that keys and the panel are about
const view = p => p.views[p.current];
const rootOf = d => { while (data.drawings[d].parent >= 0) d = data.drawings[d].parent; return data.drawings[d].of === undefined ? d : data.drawings[d].of; };
const paneOf = d => panes.find(p => p.root === rootOf(d)) || panes[0];
const otherPane = p => panes.length > 1 ? panes[p === panes[0] ? 1 : 0] : null;

function makePane(root, label) {
  const canvas = h('div', {id: root ? 'after' : 'canvas', class: 'canvas', role: 'img', 'aria-label': (label || '') + ' graph'});
  const mini = h('canvas', {class: 'mini', width: 1, height: 1, 'aria-hidden': 'true'}), names = h('div', {class: 'names', 'aria-hidden': 'true'});
  const crumbs = h('nav', {'aria-label': 'drawings'}), strip = h('div', {class: 'strip'}, mini);
  const p = {root, label, canvas, mini, strip, names, crumbs, views: [], current: root, selected: null, lit: [], linked: [], hits: [], pending: false,
    picture: document.createElement('canvas'), miniX: 1, miniY: 1, accent: '', folded: false, ...foldsOf(root)};
  p.current = baseOf(p);
  p.bar = label ? h('div', {class: 'bar'}, h('b', {}, label), crumbs) : null;
  p.stage = h('div', {class: 'stage'}, h('div', {class: 'holder'}, canvas, names), strip);
  p.element = h('section', {class: 'pane'}, p.bar, p.stage);
  listen(p);
  return p;
}

// ---- one drawing ----
const headPath = (w, r) => `M0 ${HEAD}V${r}a${r} ${r} 0 0 1 ${r}-${r}H${w - r}a${r} ${r} 0 0 1 ${r} ${r}V${HEAD}z`;
const isModule = n => n.kind === 'module';
const isPort = n => n.kind === 'input' || n.kind === 'output' || n.kind === 'in' || n.kind === 'out';
const canOpen = ref => isModule(node(ref)) || (opt && ref.d === opt.drawing && kernelAt.has(ref.i) && node(ref).bodies);
const bodyOf = n => isModule(n) ? n.part : n.bodies[0][1];

// The box alone; its text is added when it can be read (nodeText).
function nodeElement(ref, n, [x, y, w, height], open) {
  const r = isPort(n) ? 11 : isModule(n) ? 7 : 4;
  const g = s('g', {class: `node f${n.family}${open ? ' open' : ''}${isModule(n) ? ' module' : ''}`, transform: `translate(${x} ${y})`, 'data-node': ref.i, 'data-d': ref.d});
  if (isModule(n) && !open) g.append(s('rect', {class: 'card under', x: 4, y: 4, width: w, height, rx: r}));
  g.append(s('rect', {class: 'card', width: w, height, rx: r}));
  g.append(open || n.rows.length ? s('path', {class: 'head', d: headPath(w, r)}) : s('rect', {class: 'head', width: w, height, rx: r}));
  if (opt && ref.d === 0 && fates[ref.i] && fates[ref.i].fate !== 'kernel') g.classList.add(fates[ref.i].fate === 'host' ? 'host' : 'gone');
  paintNode(g, n);
  return g;
}
function nodeText(g, n, w, open) {
  g.append(s('text', {class: 'title', x: w / 2, y: 16.5}, n.title + (n.bodies || isModule(n) ? open ? ' \u25be' : ' \u25b8' : '')));
  (open ? [] : n.rows).forEach(([key, value], k) => {
    const at = HEAD + ROW * k + 13.5;
    if (!key || !value) {
      g.append(s('text', {class: 'mid', x: w / 2, y: at}, key || value));
    } else {
      g.append(s('text', {class: 'key', x: 8, y: at}, key), s('text', {class: 'val', x: w - 8, y: at}, value));
    }
  });
}
function labelElement(x, y, text) {
  const g = s('g', {class: 'label'}), w = textWidth(text, true) + 5;
  g.append(s('rect', {x: x - w / 2, y: y - 10, width: w, height: 13, rx: 3}), s('text', {x, y}, text));
  return g;
}

// Edges at each node, and the nodes that use it; found once for each drawing.
const adjacencies = [];
function adjacency(d) {
  if (adjacencies[d]) return adjacencies[d];
  const n = data.drawings[d].nodes, a = {users: n.map(() => []), outgoing: n.map(() => []), incoming: n.map(() => [])};
  data.drawings[d].edges.forEach(([from, to], i) => {
    a.outgoing[from].push(i);
    a.incoming[to].push(i);
    if (a.users[from][a.users[from].length - 1] !== to) a.users[from].push(to);
  });
  return adjacencies[d] = a;
}

// Makes room for nodes that are open: what is below moves down, what is beside moves aside.  Both maps never go backwards, so
// that nothing overlaps that did not before.
function warpOf(d, inner) {
  const mid = n => n.box[1] + n.box[3] / 2, cx = n => n.box[0] + n.box[2] / 2;
  const rows = [], size = new Map(), columns = new Map();
  for (const n of d.nodes.slice().sort((a, b) => mid(a) - mid(b))) {
    let row = rows[rows.length - 1];
    if (!row || mid(n) - row.mid > 3) rows.push(row = {mid: mid(n), bottom: 0, more: 0});
    row.bottom = Math.max(row.bottom, n.box[1] + n.box[3]);
  }
  for (const [i, body] of inner) {
    const n = d.nodes[i], row = rows.find(r => Math.abs(mid(n) - r.mid) <= 3);
    const w = Math.max(n.box[2], body.w), height = HEAD + body.h, column = Math.round(cx(n));
    size.set(i, [w, height]);
    row.more = Math.max(row.more, n.box[1] + height - row.bottom);
    columns.set(column, Math.max(columns.get(column) || 0, w - n.box[2]));
  }
  const grown = rows.filter(r => r.more > 0), wide = [...columns];
  const half = wide.reduce((sum, [, w]) => sum + w / 2, 0);
  const dx = x => wide.reduce((sum, [c, w]) => sum + (Math.abs(x - c) <= 1.5 ? 0 : x > c ? w / 2 : -w / 2), half);
  const dy = y => grown.reduce((sum, r) => sum + (y >= r.bottom - 1.5 ? r.more : 0), 0);
  const box = d.nodes.map((n, i) => {
    const [w, height] = size.get(i) || [n.box[2], n.box[3]];
    return [cx(n) + dx(cx(n)) - w / 2, n.box[1] + dy(n.box[1]), w, height];
  });
  // A path begins below its node, wherever that now ends, unless it leaves another path.
  const path = ([from, to, text, parent]) => {
    let begin = null;
    const head = text.lastIndexOf('M'), aside = dx(cx(d.nodes[to]));  // the arrow's head moves as one
    return text.replace(/([MLCV])([^MLCV]*)/g, (all, c, args, place) => {
      const v = args.trim().split(/[ ,]+/).map(Number);
      if (place >= head) return `${c}${v[0] + aside} ${v[1] + dy(v[1])}`;
      if (c === 'V') return 'V' + (v[0] + dy(v[0]));
      const out = [];
      for (let k = 0; k < v.length; k += 2) {
        const first = begin === null && parent < 0;
        if (begin === null) begin = v[0];
        out.push(v[k] + (parent < 0 && v[k] === begin ? dx(cx(d.nodes[from])) : dx(v[k])), first ? box[from][1] + box[from][3] : v[k + 1] + dy(v[k + 1]));
      }
      return c + out.join(' ');
    });
  };
  return {box, path, dx, dy, w: d.w + 2 * half, h: d.h + grown.reduce((sum, r) => sum + r.more, 0)};
}

// What is open in a drawing: [number, its body].  `open`: drawing -> numbers.
function openIn(d, open) {
  const dr = data.drawings[d], found = [...(open.get(d) || [])];
  if (dr.of !== undefined && open.has(dr.of)) dr.nodes.forEach((n, i) => { if (n.leaf !== undefined && open.get(dr.of).has(n.leaf)) found.push(i); });
  return found;
}
// Places of everything in a drawing, and in what is open there.
function arrange(d, open) {
  const dr = data.drawings[d], inner = new Map(openIn(d, open).map(i => [i, arrange(bodyOf(dr.nodes[i]), open)]));
  const warp = inner.size ? warpOf(dr, inner) : null;
  return {d, inner, warp, box: warp ? warp.box : dr.nodes.map(n => n.box), w: warp ? warp.w : dr.w, h: warp ? warp.h : dr.h};
}

// Draws one drawing at (ox, oy) of the view's world, and in it the bodies of what is open.  A part of a fold has its own
// numbers, and those of the drawing that was folded.
function drawPart(v, plan, ox, oy, world) {
  const {d, inner, warp} = plan, dr = data.drawings[d], real = dr.of;
  const at = `translate(${ox} ${oy})`, edges = s('g', {transform: at}), nodes = s('g', {transform: at}), labels = s('g', {transform: at, ...(ox ? {class: 'inner'} : {})});
  const part = {d, ox, oy, node: [], edge: [], box: plan.box, w: plan.w, h: plan.h};
  const add = (make, x0, y0, x1, y1, more) => {
    const item = {make, element: null, x0: x0 + ox, y0: y0 + oy, x1: x1 + ox, y1: y1 + oy, shown: false, ...more};
    v.items.push(item);
    return item;
  };
  const into = (parent, element) => { parent.append(element); return element; };
  v.parts.set(d, part);
  if (real !== undefined && !v.parts.has(real)) v.parts.set(real, {d: real, ox: 0, oy: 0, node: [], edge: [], box: []});
  if (opt && d === 0) hulls(part, add, into, world);
  world.append(edges, nodes, labels);
  dr.edges.forEach(e => {
    const [, to, plain, , label, lx, ly] = e, path = warp ? warp.path(e) : plain;
    const top = Number(path.slice(path.indexOf(' ') + 1).match(/^-?[\d.]+/)[0]);
    part.edge.push(add(() => into(edges, s('path', {class: 'edge', d: path})), -Infinity, top, Infinity, part.box[to][1]));
    if (!label) return;
    const x = warp ? lx + warp.dx(lx) : lx, y = warp ? ly + warp.dy(ly) : ly;
    v.labels.push({text: label, item: add(() => into(labels, labelElement(x, y, label)), x - 150, y - 12, x + 150, y + 4, {near: true}), x: x + ox, y: y + oy});
  });
  dr.nodes.forEach((n, i) => {
    const [x, y, w, height] = part.box[i], open = inner.has(i), ref = n.leaf !== undefined ? {d: real, i: n.leaf} : {d, i};
    const item = add(() => into(nodes, nodeElement(ref, n, part.box[i], open)), x, y, x + w, y + height, {text: g => nodeText(g, n, w, open)});
    part.node.push(item);
    v.boxes.push({n, ref, item, open, d});
    if (n.leaf === undefined) return;
    const own = v.parts.get(real);
    own.node[n.leaf] = item;
    own.box[n.leaf] = [x + ox, y + oy, w, height];
  });
  for (const [i, body] of inner) {
    const [x, y, w] = part.box[i];
    drawPart(v, body, ox + x + (w - body.w) / 2, oy + y + HEAD, world);
  }
  return part;
}

function makeView(d, open) {
  const world = s('svg', {}), v = {d, world, camera: null, moved: 'start', items: [], labels: [], boxes: [], parts: new Map(), open, names: null};
  const part = drawPart(v, arrange(d, open), 0, 0, world);
  v.w = part.w;
  v.h = part.h;
  world.setAttribute('width', v.w);
  world.setAttribute('height', v.h);
  measureView(v);
  return v;
}
function realise(item, near) {
  if (!item.element) item.element = item.make();
  if (near && item.text) { item.text(item.element); item.text = null; }
  return item.element;
}

// Where a node is seen: itself, or the closed module that it is in; null: nowhere in this view.
function placeOf(p, ref) {
  const v = view(p), part = v.parts.get(ref.d);
  if (part && part.node[ref.i]) { const [x, y, w, height] = part.box[ref.i]; return {item: part.node[ref.i], box: [x + part.ox, y + part.oy, w, height]}; }
  const holder = moduleOf(v, ref);
  return holder ? placeOf(p, holder) : null;
}
const elementOf = (p, ref) => { const at = placeOf(p, ref); return at ? realise(at.item) : null; };
const boxOf = (p, ref) => placeOf(p, ref).box;

// Opens a kernel or a module in place, or closes it; what was under its title stays there.
function setOpen(p, change) {
  const v = view(p), open = new Map([...v.open].map(([d, set]) => [d, new Set(set)])), c = v.camera;
  change(open);
  const anchor = p.selected && placeOf(p, p.selected) ? p.selected : {d: p.current, i: 0};
  const was = data.drawings[p.current].nodes.length ? boxOf(p, anchor) : null;
  const next = makeView(p.current, open);
  p.views[p.current] = next;
  next.camera = c;
  next.moved = v.moved;
  const now = was ? placeOf(p, anchor) : null, seen = now || !was ? anchor : {d: data.drawings[anchor.d].parent, i: data.drawings[anchor.d].parentNode};
  if (was && c) {
    const box = now ? now.box : boxOf(p, seen);
    c.x += (was[0] + was[2] / 2 - box[0] - box[2] / 2) * c.k;
    c.y += (was[1] - box[1]) * c.k;
  }
  p.canvas.replaceChildren(next.world);
  drawMini(p);
  markHits(p);
  select(p, now ? p.selected : p.selected && seen);
  showLegend();
  refresh(p);
}
const flip = (open, {d, i}) => { if (!open.has(d)) open.set(d, new Set()); if (!open.get(d).delete(i)) open.get(d).add(i); };
const toggleOpen = (p, ref) => setOpen(p, open => flip(open, ref));
const isOpen = (p, ref) => Boolean(view(p).open.get(ref.d) && view(p).open.get(ref.d).has(ref.i));

// ---- camera ----
// screen = (x, y) + k * drawing
function refresh(p) {
  if (p.pending) return;
  p.pending = true;
  requestAnimationFrame(() => paint(p));
}

function paint(p) {
  p.pending = false;
  const v = view(p), c = v.camera;
  if (!c || !p.canvas.clientWidth || !(c.k > 0)) return;
  // As a style of the whole picture, so that moving needs no layout of its text.
  v.world.style.transform = `translate(${c.x}px, ${c.y}px) scale(${c.k})`;
  const near = c.k >= NEAR;
  p.canvas.classList.toggle('far', !near);
  const line = 2 ** Math.max(Math.floor(Math.log2(0.9 / c.k)), 0) * 1.2;  // lines stay visible; in steps, as a change costs time
  if (line !== v.line) v.world.style.setProperty('--line-width', v.line = line);
  const x0 = -c.x / c.k, y0 = -c.y / c.k, x1 = x0 + p.canvas.clientWidth / c.k, y1 = y0 + p.canvas.clientHeight / c.k;
  for (const it of v.items) {
    const show = it.x1 >= x0 && it.x0 <= x1 && it.y1 >= y0 && it.y0 <= y1 && (near || !it.near);
    if (show && (!it.element || (near && it.text))) realise(it, near);
    if (show === it.shown) continue;
    it.shown = show;
    if (it.element) it.element.style.display = show ? '' : 'none';
  }
  placeNames(p, near);
  paintMini(p, x0, y0, x1, y1);
}

function fit(p) {
  if (!p.canvas.clientWidth) return;
  const v = view(p), w = p.canvas.clientWidth, height = p.canvas.clientHeight;
  const k = Math.min(w / v.w, height / v.h, 1.5);
  v.camera = {k, x: (w - v.w * k) / 2, y: (height - v.h * k) / 2};
  v.moved = 'fit';
  refresh(p);
}

// The first look: the whole graph if it can be read so, else its top.  Where the page is not visible yet it has no size; then
// this is called again when it gets one.
const fits = (p, v) => Math.min(p.stage.clientWidth / v.w, p.stage.clientHeight / v.h) > (inFrame ? 0.35 : 0.75);
function startView(p) {
  const v = view(p), w = p.canvas.clientWidth, height = p.canvas.clientHeight;
  if (fits(p, v)) {
    fit(p);
  } else {
    const k = clamp(w / v.w, 0.75, 1);
    v.camera = {k, x: v.w * k <= w ? (w - v.w * k) / 2 : w / 2 - fullest(v, w / k, height / k) * k, y: 8};
  }
  v.moved = 'start';
  refresh(p);
}
// The middle of the part of the top that has most boxes.
function fullest(v, w, height) {
  const top = v.boxes.filter(b => b.item.y0 < height), centers = top.map(b => (b.item.x0 + b.item.x1) / 2);
  const inside = x => top.reduce((n, b) => n + (b.item.x0 >= x - w / 2 && b.item.x1 <= x + w / 2), 0);
  let best = centers.length ? centers[0] : v.w / 2, most = centers.length ? inside(best) : 0;
  for (const x of centers.slice(0, 400)) if (inside(x) > most) { best = x; most = inside(x); }
  return best;
}
// The page got another size.  Where nobody moved the drawing it is fitted anew.
function resized(p) {
  const v = view(p);
  if (!v || !p.canvas.clientWidth) return;
  drawMini(p);
  if (!v.camera || v.moved === 'start') startView(p);
  else if (v.moved === 'fit') fit(p);
  refresh(p);
}

// Out as far as the whole graph needs.
function zoomAt(p, px, py, factor) {
  const v = view(p), c = v.camera, least = Math.min(p.canvas.clientWidth / v.w, p.canvas.clientHeight / v.h, 1) * 0.7;
  const k = clamp(c.k * factor, least, ZOOM_MAX), f = k / c.k;
  c.x = px - (px - c.x) * f;
  c.y = py - (py - c.y) * f;
  c.k = k;
  view(p).moved = 'user';
  refresh(p);
}
const zoomBy = (p, factor) => zoomAt(p, p.canvas.clientWidth / 2, p.canvas.clientHeight / 2, factor);
function moveBy(p, dx, dy) {
  view(p).camera.x += dx;
  view(p).camera.y += dy;
  view(p).moved = 'user';
  refresh(p);
}

function center(p, ref, always) {
  const [x, y, w, height] = boxOf(p, ref), c = view(p).camera;
  if (!c) return;
  if (c.k < 0.6) c.k = 0.9;
  const sx = c.x + (x + w / 2) * c.k, sy = c.y + (y + Math.min(height / 2, 200)) * c.k;
  const W = p.canvas.clientWidth, H = p.canvas.clientHeight;
  if (!always && sx > W * 0.12 && sx < W * 0.88 && sy > H * 0.15 && sy < H * 0.85) { refresh(p); return; }
  moveBy(p, W / 2 - sx, H / 2 - sy);
}

// Brings several nodes into view, as large as fits; when they are too far apart, what is in their middle.
function showAll(p, refs) {
  const W = p.canvas.clientWidth, H = p.canvas.clientHeight, c = view(p).camera;
  const spread = list => [Math.min(...list.map(b => b[0])), Math.min(...list.map(b => b[1])), Math.max(...list.map(b => b[0] + b[2])),
    Math.max(...list.map(b => b[1] + b[3]))];
  const room = ([x0, y0, x1, y1]) => Math.min((W - 60) / (x1 - x0), (H - 80) / (y1 - y0));
  let boxes = refs.map(r => boxOf(p, r)).sort((a, b) => a[1] - b[1]), box = spread(boxes);
  while (room(box) < 0.5 && boxes.length > 1) {
    const middle = boxes[boxes.length >> 1], far = b => Math.abs(b[0] + b[2] / 2 - middle[0] - middle[2] / 2) / W + Math.abs(b[1] - middle[1]) / H;
    const keep = Math.max(Math.floor(boxes.length * 0.8), 1);
    boxes = boxes.slice().sort((a, b) => far(a) - far(b)).slice(0, keep).sort((a, b) => a[1] - b[1]);
    box = spread(boxes);
  }
  const [x0, y0, x1, y1] = box;
  if (c.k > 0.4 && c.x + x0 * c.k > 10 && c.y + y0 * c.k > 10 && c.x + x1 * c.k < W - 10 && c.y + y1 * c.k < H - 10) { refresh(p); return; }
  c.k = clamp(room(box), 0.3, Math.max(c.k, 0.9));
  c.x = W / 2 - (x0 + x1) / 2 * c.k;
  c.y = (y1 - y0) * c.k > H ? 40 - y0 * c.k : H / 2 - (y0 + y1) / 2 * c.k;
  view(p).moved = 'user';
  refresh(p);
}

// ---- minimap ----
// A strip beside the drawing, there as long as the drawing cannot be read as a whole.  It is as high as the pane; a long
// graph is drawn wider in it than it is, a wide one higher.
const MINI_LEAST = 30, MINI_MOST = 120;
function drawMini(p) {
  const v = view(p), dpr = devicePixelRatio || 1, most = p.stage.clientHeight - 16;
  p.strip.hidden = !(most > 40) || fits(p, v);
  if (p.strip.hidden) return;
  const w = Math.round(clamp(v.w * most / v.h, MINI_LEAST, panes.length > 1 ? MINI_MOST / 2 : MINI_MOST));
  p.miniX = w / v.w;
  p.miniY = Math.min(most / v.h, Math.max(p.miniX, 60 / v.h));
  const height = Math.max(Math.round(v.h * p.miniY), 12);
  for (const c of [p.mini, p.picture]) { c.width = w * dpr; c.height = height * dpr; }
  p.mini.style.width = w + 'px';
  p.mini.style.height = height + 'px';
  const g = p.picture.getContext('2d'), css = getComputedStyle(document.documentElement);
  const color = data.families.map((_, i) => css.getPropertyValue('--f' + i));
  p.accent = css.getPropertyValue('--accent');
  g.scale(dpr, dpr);
  for (const {n, ref, item, open} of v.boxes) {
    g.fillStyle = open || (isModule(n) && metric === 'family') ? p.accent : shadeOf(n) || color[n.family];
    g.globalAlpha = open ? 0.1 : isModule(n) && metric === 'family' ? 0.55 : opt && ref.d === 0 && fates[ref.i] && fates[ref.i].fate !== 'kernel' && fates[ref.i].fate !== 'host' ? 0.3 : 1;
    g.fillRect(item.x0 * p.miniX, item.y0 * p.miniY, Math.max((item.x1 - item.x0) * p.miniX, 1), Math.max((item.y1 - item.y0) * p.miniY, 0.8));
  }
}
function paintMini(p, x0, y0, x1, y1) {
  if (p.strip.hidden) return;
  const g = p.mini.getContext('2d'), v = view(p), dpr = devicePixelRatio || 1, kx = p.miniX, ky = p.miniY;
  const left = clamp(x0, 0, v.w) * kx, top = clamp(y0, 0, v.h) * ky;
  g.setTransform(1, 0, 0, 1, 0, 0);
  g.clearRect(0, 0, p.mini.width, p.mini.height);
  g.drawImage(p.picture, 0, 0);
  g.scale(dpr, dpr);
  g.strokeStyle = p.accent;
  g.lineWidth = 1.5;
  g.strokeRect(left + 1, top + 1, Math.max(Math.min(x1, v.w) * kx - left - 2, 3), Math.max(Math.min(y1, v.h) * ky - top - 2, 3));
}
function jumpMini(p, e) {
  if (!(e.buttons & 1)) return;
  const box = p.mini.getBoundingClientRect(), c = view(p).camera;
  c.x = p.canvas.clientWidth / 2 - (e.clientX - box.left) / p.miniX * c.k;
  c.y = p.canvas.clientHeight / 2 - (e.clientY - box.top) / p.miniY * c.k;
  view(p).moved = 'user';
  refresh(p);
}

// ---- pointer, wheel, touch ----
function listen(p) {
  const {canvas, mini} = p, pointers = new Map();
  const place = e => {
    const box = canvas.getBoundingClientRect();
    return {x: e.clientX - box.left, y: e.clientY - box.top};
  };
  let pressed = null, travelled = 0;
  canvas.addEventListener('pointerdown', e => {
    if (e.button > 1) return;
    closeMatches();
    canvas.setPointerCapture(e.pointerId);
    pointers.set(e.pointerId, place(e));
    if (pointers.size === 1) { pressed = e.target.closest('.node'); travelled = 0; }
    canvas.classList.add('drag');
  });
  canvas.addEventListener('pointermove', e => {
    const from = pointers.get(e.pointerId);
    if (!from) return;
    const now = place(e);
    if (pointers.size === 1) {
      moveBy(p, now.x - from.x, now.y - from.y);
    } else if (pointers.size === 2) {
      const other = [...pointers].find(([id]) => id !== e.pointerId)[1];
      const before = Math.hypot(from.x - other.x, from.y - other.y), after = Math.hypot(now.x - other.x, now.y - other.y);
      moveBy(p, (now.x - from.x) / 2, (now.y - from.y) / 2);
      if (before > 0) zoomAt(p, (now.x + other.x) / 2, (now.y + other.y) / 2, after / before);
    }
    travelled += Math.abs(now.x - from.x) + Math.abs(now.y - from.y);
    pointers.set(e.pointerId, now);
  });
  function release(e) {
    if (!pointers.delete(e.pointerId) || pointers.size) return;
    canvas.classList.remove('drag');
    if (e.type === 'pointerup' && travelled < 5) clicked(p, pressed ? {d: Number(pressed.dataset.d), i: Number(pressed.dataset.node)} : null);
  }
  canvas.addEventListener('pointerup', release);
  canvas.addEventListener('pointercancel', release);
  canvas.addEventListener('dblclick', () => { if (p.selected && !canOpen(p.selected)) enter(p); });
  canvas.addEventListener('wheel', e => {
    e.preventDefault();
    const unit = e.deltaMode === 1 ? 18 : e.deltaMode === 2 ? 400 : 1;
    if (e.shiftKey) moveBy(p, -(e.deltaX || e.deltaY) * unit, 0);
    else zoomAt(p, place(e).x, place(e).y, Math.exp(-clamp(e.deltaY * unit, -300, 300) * (e.ctrlKey ? 0.01 : 0.0016)));
  }, {passive: false});
  mini.addEventListener('pointerdown', e => { mini.setPointerCapture(e.pointerId); jumpMini(p, e); });
  mini.addEventListener('pointermove', e => jumpMini(p, e));
  new ResizeObserver(() => resized(p)).observe(canvas);
}

// A first click selects a kernel or a module, one more opens it or closes it.  A port leads to where its value comes from or
// goes to.
function clicked(p, ref) {
  const n = ref && node(ref);
  if (n && n.port >= 0) reveal(data.drawings[ref.d].of, n.port);
  else if (ref && same(ref, p.selected) && canOpen(ref)) toggleOpen(p, ref);
  else select(p, ref);
}

// ---- selection ----
// Edges at a node, as items: in the part where it is seen.
function edgesOf(p, ref) {
  const at = homeOf(view(p), ref), part = view(p).parts.get(at.d), d = data.drawings[at.d], a = adjacency(at.d), found = new Set();
  if (!part) return [];
  for (let e of [...a.incoming[at.i], ...a.outgoing[at.i]])
    for (; e >= 0 && !found.has(e); e = d.edges[e][3]) found.add(e);
  return [...found].map(e => part.edge[e]);
}
function unmark(p) {
  for (const e of p.lit) e.classList.remove('on');
  for (const e of p.linked) e.classList.remove('link', 'into');
  p.canvas.classList.remove('dim');
  p.lit = [];
  p.linked = [];
}
function select(p, ref, options) {
  if (ref && !placeOf(p, ref)) ref = null;
  for (const q of panes) { unmark(q); q.selected = null; q.element.classList.toggle('active', q === p); }
  pane = p;
  p.selected = ref;
  if (ref) {
    p.lit = [elementOf(p, ref), ...edgesOf(p, ref).map(item => realise(item))];
    for (const e of p.lit) e.classList.add('on');
    if (options && options.show) center(p, ref, options.always);
  }
  if (opt) showLinks(p, ref);
  if (ref && inFrame) showDetails(true);
  showPanel();
  const hash = ref && data.drawings[ref.d].of === undefined ? `#d${ref.d}n${ref.i}` : p.current && data.drawings[p.current].of === undefined ? `#d${p.current}` : '#';
  try { history.replaceState(null, '', hash); } catch (unused) { /* some viewers forbid it */ }
}
// Shows a drawing; that of the pane as it is folded or not.
function show(p, d) {
  p.current = d;
  if (!p.views[d]) p.views[d] = makeView(d, startOpen(d));
  p.canvas.replaceChildren(view(p).world);
  drawMini(p);
  if (!view(p).camera) startView(p);
  showCrumbs(p);
  markHits(p);
  showLegend();
  refresh(p);
}
function openDrawing(p, d, i) {
  const to = d === p.root ? baseOf(p) : d;
  if (to !== p.current) {
    select(p, null);
    show(p, to);
  }
  const ref = i === undefined ? null : {d, i};
  if (ref) openTo(p, ref);
  select(p, ref, {show: true, always: true});
}
// Goes to a node wherever it is: one in a kernel by opening that in its place, one in a module by opening that.
function reveal(d, i) {
  const p = paneOf(d), dr = data.drawings[d];
  if (p.current !== d && dr.parent >= 0 && canOpen({d: dr.parent, i: dr.parentNode})) {
    const kernel = {d: dr.parent, i: dr.parentNode};
    openDrawing(p, kernel.d, kernel.i);
    if (!isOpen(p, kernel)) setOpen(p, open => flip(open, kernel));
    select(p, i === undefined ? kernel : {d, i}, {show: true, always: true});
  } else {
    openDrawing(p, d, i);
  }
}
// Into the selected node: a kernel and a module open in place, a sub-graph is a drawing of its own.
function enter(p) {
  const n = p.selected && node(p.selected);
  if (!n) return;
  if (canOpen(p.selected)) toggleOpen(p, p.selected);
  else if (n.bodies) openDrawing(p, n.bodies[0][1]);
}
function leave(p) {
  const d = data.drawings[p.current];
  if (d.parent >= 0) openDrawing(p, d.parent, d.parentNode);
}

function showCrumbs(p) {
  const path = [];
  for (let i = p.current; i >= 0; i = data.drawings[i].parent) path.unshift(i);
  p.crumbs.replaceChildren(...path.flatMap((i, k) => {
    const name = rootOf(i) !== i && data.drawings[i].of === undefined ? data.drawings[i].title : p.label ? rootText(p) : data.model;
    const part = i === p.current ? h('span', {}, name) : h('button', {class: 'link', onclick: () => openDrawing(p, i)}, name);
    return k ? [h('span', {class: 'sep'}, '\u203a'), part] : [part];
  }));
}
