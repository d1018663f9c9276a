// viewer.js -- the page of `tenon graph`: shows the drawings in #data, which were laid out beforehand.
//
// This and the other scripts are one function's body (html.c), in the order of CMakeLists.txt: viewer.js has panes, drawings,
// cameras and selection; panel.js the side panel and search; optimised.js what optimising did; memory.js the memory plan;
// start.js keys and the start.
//
// Everything from the model is put into the page as text (textContent, text nodes), never as markup.
// All nodes of the drawing in view are in the document; what is off screen is not displayed, and when
// zoomed out text is hidden, so that thousands of nodes stay quick.

// Directional overrides would make names read otherwise than they are.
const data = JSON.parse(document.getElementById('data').textContent.replace(/[\u202a-\u202e\u2066-\u2069]/g, '\ufffd'));
const opt = data.opt || null;
const NS = 'http://www.w3.org/2000/svg';
const FAR = 0.28, ZOOM_MIN = 0.005, ZOOM_MAX = 6, HEAD = 24, ROW = 15, MATCHES_SHOWN = 200;

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
// One, or two: before (drawing 0) and after (opt.drawing).  A pane shows one drawing at a time, and within it the bodies of
// kernels that were opened in place.  A node is named by its drawing and number: {d, i}.
const panes = [];
let pane = null;  // that keys and the panel are about
const view = p => p.views[p.current];
const rootOf = d => { while (data.drawings[d].parent >= 0) d = data.drawings[d].parent; return d; };
const paneOf = d => panes.find(p => p.root === rootOf(d)) || panes[0];
const otherPane = p => panes.length > 1 ? panes[p === panes[0] ? 1 : 0] : null;

function makePane(root, label) {
  const canvas = h('div', {id: root ? 'after' : 'canvas', class: 'canvas', role: 'img', 'aria-label': (label || '') + ' graph'});
  const mini = h('canvas', {class: 'mini', width: 1, height: 1, 'aria-hidden': 'true'});
  const crumbs = h('nav', {'aria-label': 'drawings'});
  const p = {root, label, canvas, mini, crumbs, views: [], current: root, selected: null, lit: [], linked: [], hits: [], pending: false,
    picture: document.createElement('canvas'), miniScale: 1, accent: ''};
  p.bar = label ? h('div', {class: 'bar'}, h('b', {}, label), crumbs) : null;
  p.element = h('section', {class: 'pane'}, p.bar, h('div', {class: 'stage'}, canvas, mini));
  listen(p);
  return p;
}

// ---- one drawing ----
const headPath = (w, r) => `M0 ${HEAD}V${r}a${r} ${r} 0 0 1 ${r}-${r}H${w - r}a${r} ${r} 0 0 1 ${r} ${r}V${HEAD}z`;
const canOpen = ref => opt && ref.d === opt.drawing && kernelAt.has(ref.i) && node(ref).bodies;

function nodeElement(d, n, i, [x, y, w, height], open) {
  const port = n.kind === 'input' || n.kind === 'output', r = port ? 11 : 4;
  const g = s('g', {class: `node f${n.family}${open ? ' open' : ''}`, transform: `translate(${x} ${y})`, 'data-node': i, 'data-d': d});
  const rows = open ? [] : n.rows;
  g.append(s('rect', {class: 'card', width: w, height, rx: r}));
  g.append(open || rows.length ? s('path', {class: 'head', d: headPath(w, r)}) : s('rect', {class: 'head', width: w, height, rx: r}));
  g.append(s('text', {class: 'title', x: w / 2, y: 16.5}, n.title + (n.bodies ? open ? ' \u25be' : ' \u25b8' : '')));
  rows.forEach(([key, value], k) => {
    const at = HEAD + ROW * k + 13.5;
    if (!key || !value) {
      g.append(s('text', {class: 'mid', x: w / 2, y: at}, key || value));
    } else {
      g.append(s('text', {class: 'key', x: 8, y: at}, key), s('text', {class: 'val', x: w - 8, y: at}, value));
    }
  });
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
function warpOf(d, open) {
  const mid = n => n.box[1] + n.box[3] / 2, cx = n => n.box[0] + n.box[2] / 2;
  const rows = [], size = new Map(), columns = new Map();
  for (const n of d.nodes.slice().sort((a, b) => mid(a) - mid(b))) {
    let row = rows[rows.length - 1];
    if (!row || mid(n) - row.mid > 3) rows.push(row = {mid: mid(n), bottom: 0, more: 0});
    row.bottom = Math.max(row.bottom, n.box[1] + n.box[3]);
  }
  for (const i of open) {
    const n = d.nodes[i], inner = data.drawings[n.bodies[0][1]], row = rows.find(r => Math.abs(mid(n) - r.mid) <= 3);
    const w = Math.max(n.box[2], inner.w), height = HEAD + inner.h, column = Math.round(cx(n));
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

// Draws one drawing at (ox, oy) of the view's world, and in it the bodies of what is open.
function drawPart(v, d, ox, oy, open, world) {
  const dr = data.drawings[d], warp = open.size ? warpOf(dr, open) : null;
  const at = `translate(${ox} ${oy})`, edges = s('g', {transform: at}), nodes = s('g', {transform: at}), labels = s('g', {transform: at});
  const part = {d, ox, oy, node: [], edge: [], box: warp ? warp.box : dr.nodes.map(n => n.box), w: warp ? warp.w : dr.w, h: warp ? warp.h : dr.h};
  const add = (parent, element, x0, y0, x1, y1) => {
    parent.append(element);
    v.items.push({element, x0: x0 + ox, y0: y0 + oy, x1: x1 + ox, y1: y1 + oy, shown: true});
    return element;
  };
  v.parts.set(d, part);
  if (opt && d === 0) world.append(...hulls(part, add));
  world.append(edges, nodes, labels);
  dr.edges.forEach(e => {
    const [, to, plain, , label, lx, ly] = e, path = warp ? warp.path(e) : plain;
    const top = Number(/^M\S+ ([-\d.]+)/.exec(path)[1]);
    part.edge.push(add(edges, s('path', {class: 'edge', d: path}), -Infinity, top, Infinity, part.box[to][1]));
    if (!label) return;
    const x = warp ? lx + warp.dx(lx) : lx, y = warp ? ly + warp.dy(ly) : ly;
    add(labels, s('text', {class: 'label', x, y}, label), x - 150, y - 12, x + 150, y + 4);
  });
  dr.nodes.forEach((n, i) => {
    const [x, y, w, height] = part.box[i];
    part.node.push(add(nodes, nodeElement(d, n, i, part.box[i], open.has(i)), x, y, x + w, y + height));
    if (opt && d === 0 && fates[i] && fates[i].fate !== 'kernel') part.node[i].classList.add(fates[i].fate === 'host' ? 'host' : 'gone');
  });
  for (const i of open) {
    const inner = dr.nodes[i].bodies[0][1], [x, y, w] = part.box[i];
    drawPart(v, inner, ox + x + (w - data.drawings[inner].w) / 2, oy + y + HEAD, new Set(), world);
  }
  return part;
}

function makeView(d, open) {
  const world = s('svg', {}), v = {world, camera: null, items: [], parts: new Map(), open};
  const part = drawPart(v, d, 0, 0, open, world);
  v.w = part.w;
  v.h = part.h;
  world.setAttribute('width', v.w);
  world.setAttribute('height', v.h);
  return v;
}

const elementOf = (p, ref) => { const part = view(p).parts.get(ref.d); return part ? part.node[ref.i] : null; };
const boxOf = (p, ref) => { const part = view(p).parts.get(ref.d), [x, y, w, height] = part.box[ref.i]; return [x + part.ox, y + part.oy, w, height]; };

// Opens a kernel in place, or closes it; what was under its title stays there.
function setOpen(p, change) {
  const v = view(p), open = new Set(v.open), c = v.camera, anchor = p.selected && v.parts.has(p.selected.d) ? p.selected : {d: p.current, i: 0};
  change(open);
  const next = makeView(p.current, open), hold = next.parts.has(anchor.d) ? anchor : {d: p.current, i: data.drawings[anchor.d].parentNode};
  const was = data.drawings[p.current].nodes.length ? boxOf(p, anchor) : null;
  p.views[p.current] = next;
  next.camera = c;
  if (was) {
    const now = boxOf(p, hold);
    c.x += (was[0] + was[2] / 2 - now[0] - now[2] / 2) * c.k;
    c.y += (was[1] - now[1]) * c.k;
  }
  p.canvas.replaceChildren(next.world);
  drawMini(p);
  markHits(p);
  select(p, hold === anchor ? p.selected : hold);
  refresh(p);
}
const toggleOpen = (p, i) => setOpen(p, open => { if (!open.delete(i)) open.add(i); });

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
  // As a style of the whole picture, so that moving needs no layout of its text.
  v.world.style.transform = `translate(${c.x}px, ${c.y}px) scale(${c.k})`;
  p.canvas.classList.toggle('far', c.k < FAR);
  const x0 = -c.x / c.k, y0 = -c.y / c.k, x1 = x0 + p.canvas.clientWidth / c.k, y1 = y0 + p.canvas.clientHeight / c.k;
  for (const it of v.items) {
    const show = it.x1 >= x0 && it.x0 <= x1 && it.y1 >= y0 && it.y0 <= y1;
    if (show === it.shown) continue;
    it.shown = show;
    it.element.style.display = show ? '' : 'none';
  }
  paintMini(p, x0, y0, x1, y1);
}

function fit(p) {
  const v = view(p), w = p.canvas.clientWidth, height = p.canvas.clientHeight;
  const k = clamp(Math.min(w / v.w, height / v.h), ZOOM_MIN, 1.5);
  v.camera = {k, x: (w - v.w * k) / 2, y: (height - v.h * k) / 2};
  refresh(p);
}

// The first look: the whole graph if it can be read so, else its top.
function startView(p) {
  const v = view(p), d = data.drawings[p.current], w = p.canvas.clientWidth, height = p.canvas.clientHeight;
  if (Math.min(w / v.w, height / v.h) > 0.75) { fit(p); return; }
  const k = clamp(w / v.w, 0.75, 1);
  const first = d.nodes.length ? d.nodes[0].box[0] + d.nodes[0].box[2] / 2 : v.w / 2;
  v.camera = {k, x: v.w * k <= w ? (w - v.w * k) / 2 : w / 2 - first * k, y: 8};
  refresh(p);
}

function zoomAt(p, px, py, factor) {
  const c = view(p).camera, k = clamp(c.k * factor, ZOOM_MIN, ZOOM_MAX), f = k / c.k;
  c.x = px - (px - c.x) * f;
  c.y = py - (py - c.y) * f;
  c.k = k;
  refresh(p);
}
const zoomBy = (p, factor) => zoomAt(p, p.canvas.clientWidth / 2, p.canvas.clientHeight / 2, factor);
function moveBy(p, dx, dy) {
  view(p).camera.x += dx;
  view(p).camera.y += dy;
  refresh(p);
}

function center(p, ref, always) {
  const [x, y, w, height] = boxOf(p, ref), c = view(p).camera;
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
  refresh(p);
}

// ---- minimap ----
function drawMini(p) {
  const v = view(p), dpr = devicePixelRatio || 1, part = v.parts.get(p.current), d = data.drawings[p.current];
  p.miniScale = Math.min((panes.length > 1 ? 90 : 130) / v.w, 230 / v.h);
  const w = Math.max(Math.round(v.w * p.miniScale), 12), height = Math.max(Math.round(v.h * p.miniScale), 12);
  for (const c of [p.mini, p.picture]) { c.width = w * dpr; c.height = height * dpr; }
  p.mini.style.width = w + 'px';
  p.mini.style.height = height + 'px';
  const g = p.picture.getContext('2d'), css = getComputedStyle(document.documentElement);
  const color = data.families.map((_, i) => css.getPropertyValue('--f' + i));
  p.accent = css.getPropertyValue('--accent');
  g.scale(dpr, dpr);
  d.nodes.forEach((n, i) => {
    const [x, y, bw, bh] = part.box[i];
    g.fillStyle = color[n.family];
    g.globalAlpha = part.node[i].classList.contains('gone') ? 0.3 : 1;
    g.fillRect(x * p.miniScale, y * p.miniScale, Math.max(bw * p.miniScale, 1), Math.max(bh * p.miniScale, 0.8));
  });
}
function paintMini(p, x0, y0, x1, y1) {
  const g = p.mini.getContext('2d'), v = view(p), dpr = devicePixelRatio || 1, k = p.miniScale;
  p.mini.hidden = x0 <= 0 && y0 <= 0 && x1 >= v.w && y1 >= v.h;
  if (p.mini.hidden) return;
  const left = Math.max(x0, 0) * k, top = Math.max(y0, 0) * k;
  g.setTransform(1, 0, 0, 1, 0, 0);
  g.clearRect(0, 0, p.mini.width, p.mini.height);
  g.drawImage(p.picture, 0, 0);
  g.scale(dpr, dpr);
  g.strokeStyle = p.accent;
  g.lineWidth = 1.5;
  g.strokeRect(left + 1, top + 1, Math.max(Math.min(x1, v.w) * k - left - 2, 3), Math.max(Math.min(y1, v.h) * k - top - 2, 3));
}
function jumpMini(p, e) {
  if (!(e.buttons & 1)) return;
  const box = p.mini.getBoundingClientRect(), c = view(p).camera;
  c.x = p.canvas.clientWidth / 2 - (e.clientX - box.left) / p.miniScale * c.k;
  c.y = p.canvas.clientHeight / 2 - (e.clientY - box.top) / p.miniScale * c.k;
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
  new ResizeObserver(() => { if (view(p)) refresh(p); }).observe(canvas);
}

// A first click selects a kernel, one more opens it or closes it.
function clicked(p, ref) {
  if (ref && same(ref, p.selected) && canOpen(ref)) toggleOpen(p, ref.i);
  else select(p, ref);
}

// ---- selection ----
function edgesOf(ref) {
  const d = data.drawings[ref.d], a = adjacency(ref.d), found = new Set();
  for (let e of [...a.incoming[ref.i], ...a.outgoing[ref.i]])
    for (; e >= 0 && !found.has(e); e = d.edges[e][3]) found.add(e);
  return [...found];
}
function unmark(p) {
  for (const e of p.lit) e.classList.remove('on');
  for (const e of p.linked) e.classList.remove('link', 'into');
  p.canvas.classList.remove('dim');
  p.lit = [];
  p.linked = [];
}
function select(p, ref, options) {
  if (ref && !elementOf(p, ref)) ref = null;
  for (const q of panes) { unmark(q); q.selected = null; q.element.classList.toggle('active', q === p); }
  pane = p;
  p.selected = ref;
  if (ref) {
    const part = view(p).parts.get(ref.d);
    p.lit = [part.node[ref.i], ...edgesOf(ref).map(e => part.edge[e])];
    for (const e of p.lit) e.classList.add('on');
    if (options && options.show) center(p, ref, options.always);
  }
  if (opt) showLinks(p, ref);
  showPanel();
  const hash = ref ? `#d${ref.d}n${ref.i}` : p.current ? `#d${p.current}` : '#';
  try { history.replaceState(null, '', hash); } catch (unused) { /* some viewers forbid it */ }
}
function openDrawing(p, d, i) {
  if (d !== p.current) {
    select(p, null);
    p.current = d;
    if (!p.views[d]) p.views[d] = makeView(d, new Set());
    p.canvas.replaceChildren(view(p).world);
    if (!view(p).camera) startView(p);
    drawMini(p);
    showCrumbs(p);
    markHits(p);
    refresh(p);
  }
  select(p, i === undefined ? null : {d, i}, {show: true, always: true});
}
// Goes to a node wherever it is: one in a kernel by opening that in its place.
function reveal(d, i) {
  const p = paneOf(d), dr = data.drawings[d];
  if (p.current !== d && canOpen({d: dr.parent, i: dr.parentNode})) {
    openDrawing(p, dr.parent);
    if (!view(p).open.has(dr.parentNode)) setOpen(p, open => open.add(dr.parentNode));
    select(p, i === undefined ? {d: dr.parent, i: dr.parentNode} : {d, i}, {show: true, always: true});
  } else {
    openDrawing(p, d, i);
  }
}
// Into the selected node: a kernel opens in place, a sub-graph is a drawing of its own.
function enter(p) {
  const n = p.selected && node(p.selected);
  if (!n || !n.bodies) return;
  if (canOpen(p.selected)) toggleOpen(p, p.selected.i);
  else openDrawing(p, n.bodies[0][1]);
}
function leave(p) {
  const d = data.drawings[p.current];
  if (d.parent >= 0) openDrawing(p, d.parent, d.parentNode);
}

function showCrumbs(p) {
  const path = [];
  for (let i = p.current; i >= 0; i = data.drawings[i].parent) path.unshift(i);
  p.crumbs.replaceChildren(...path.flatMap((i, k) => {
    const name = i !== p.root ? data.drawings[i].title : p.label ? rootText(p) : data.model;
    const part = i === p.current ? h('span', {}, name) : h('button', {class: 'link', onclick: () => openDrawing(p, i)}, name);
    return k ? [h('span', {class: 'sep'}, '\u203a'), part] : [part];
  }));
}
