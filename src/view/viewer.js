// viewer.js -- the page of `tenon graph`: shows the drawings in #data, which were laid out beforehand.
//
// Everything from the model is put into the page as text (textContent, text nodes), never as markup.
// All nodes of the drawing in view are in the document; what is off screen is not displayed, and when
// zoomed out text is hidden, so that thousands of nodes stay quick.
'use strict';
(() => {
  // Directional overrides would make names read otherwise than they are.
  const data = JSON.parse(document.getElementById('data').textContent.replace(/[\u202a-\u202e\u2066-\u2069]/g, '\ufffd'));
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
  const bytes = n => {
    const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
    let i = 0;
    while (n >= 1024 && i < units.length - 1) { n /= 1024; i++; }
    return (i ? n.toFixed(1) : n) + ' ' + units[i];
  };
  const number = x => x === null ? '-' : String(Number(x.toPrecision(6)));

  // ---- the frame ----
  const crumbs = h('nav', {'aria-label': 'drawings'});
  const input = h('input', {type: 'search', placeholder: 'Search op or name   ( / )', 'aria-label': 'search', spellcheck: 'false',
    autocomplete: 'off'});
  const matchList = h('div', {id: 'matches'});
  const tool = (label, title, onclick) => h('button', {title, onclick, type: 'button'}, label);
  const shapesButton = tool('shapes', 'show the types of values (s)', () => toggleShapes());
  const canvas = h('div', {id: 'canvas', role: 'img', 'aria-label': 'graph'});
  const mini = h('canvas', {id: 'mini', width: 1, height: 1, 'aria-hidden': 'true'});
  const panel = h('aside', {id: 'panel', 'aria-live': 'polite'});
  const stage = h('main', {}, canvas, mini);
  document.body.append(
    h('header', {}, h('div', {id: 'find'}, input, matchList), crumbs, shapesButton, tool('fit', 'fit the whole graph (f)', () => fit()),
      tool('+', 'zoom in (+)', () => zoomBy(1.4)), tool('\u2212', 'zoom out (-)', () => zoomBy(1 / 1.4))),
    stage, panel);

  // ---- one drawing ----
  // views[i]: elements and camera of drawing i, made when it is first shown.
  const views = [];
  let current = -1, selected = -1, hits = new Set();
  const drawing = () => data.drawings[current];
  const view = () => views[current];

  const headPath = (w, r) => `M0 ${HEAD}V${r}a${r} ${r} 0 0 1 ${r}-${r}H${w - r}a${r} ${r} 0 0 1 ${r} ${r}V${HEAD}z`;

  function nodeElement(n, i) {
    const [x, y, w, height] = n.box;
    const port = n.kind === 'input' || n.kind === 'output', r = port ? 11 : 4;
    const g = s('g', {class: 'node f' + n.family, transform: `translate(${x} ${y})`, 'data-node': i});
    g.append(s('rect', {class: 'card', width: w, height, rx: r}));
    g.append(n.rows.length ? s('path', {class: 'head', d: headPath(w, r)}) : s('rect', {class: 'head', width: w, height, rx: r}));
    g.append(s('text', {class: 'title', x: w / 2, y: 16.5}, n.title + (n.bodies ? ' \u25b8' : '')));
    n.rows.forEach(([key, value], k) => {
      const at = HEAD + ROW * k + 13.5;
      if (!key || !value) {
        g.append(s('text', {class: 'mid', x: w / 2, y: at}, key || value));
      } else {
        g.append(s('text', {class: 'key', x: 8, y: at}, key), s('text', {class: 'val', x: w - 8, y: at}, value));
      }
    });
    return g;
  }

  function makeView(index) {
    const d = data.drawings[index];
    const world = s('svg', {width: d.w, height: d.h}), edges = s('g', {}), nodes = s('g', {}), labels = s('g', {});
    const v = {world, camera: null, items: [], node: [], edge: [], users: d.nodes.map(() => []), outgoing: d.nodes.map(() => []),
      incoming: d.nodes.map(() => [])};
    const add = (parent, element, x0, y0, x1, y1) => {
      parent.append(element);
      v.items.push({element, x0, y0, x1, y1, shown: true});
      return element;
    };
    d.edges.forEach(([from, to, path, , label, lx, ly], i) => {
      const top = Number(/^M\S+ ([-\d.]+)/.exec(path)[1]);
      v.edge.push(add(edges, s('path', {class: 'edge', d: path}), -Infinity, top, Infinity, d.nodes[to].box[1]));
      v.outgoing[from].push(i);
      v.incoming[to].push(i);
      if (!v.users[from].includes(to)) v.users[from].push(to);
      if (label) add(labels, s('text', {class: 'label', x: lx, y: ly}, label), lx - 150, ly - 12, lx + 150, ly + 4);
    });
    d.nodes.forEach((n, i) => {
      const [x, y, w, height] = n.box;
      v.node.push(add(nodes, nodeElement(n, i), x, y, x + w, y + height));
    });
    world.append(edges, nodes, labels);
    return v;
  }

  // ---- camera ----
  // screen = (x, y) + k * drawing
  let pending = false;
  function refresh() {
    if (pending) return;
    pending = true;
    requestAnimationFrame(paint);
  }

  function paint() {
    pending = false;
    const v = view(), c = v.camera;
    // As a style of the whole picture, so that moving needs no layout of its text.
    v.world.style.transform = `translate(${c.x}px, ${c.y}px) scale(${c.k})`;
    canvas.classList.toggle('far', c.k < FAR);
    const x0 = -c.x / c.k, y0 = -c.y / c.k, x1 = x0 + canvas.clientWidth / c.k, y1 = y0 + canvas.clientHeight / c.k;
    for (const it of v.items) {
      const show = it.x1 >= x0 && it.x0 <= x1 && it.y1 >= y0 && it.y0 <= y1;
      if (show === it.shown) continue;
      it.shown = show;
      it.element.style.display = show ? '' : 'none';
    }
    paintMini(x0, y0, x1, y1);
  }

  function fit() {
    const d = drawing(), w = canvas.clientWidth, height = canvas.clientHeight;
    const k = clamp(Math.min(w / d.w, height / d.h), ZOOM_MIN, 1.5);
    view().camera = {k, x: (w - d.w * k) / 2, y: (height - d.h * k) / 2};
    refresh();
  }

  // The first look: the whole graph if it can be read so, else its top.
  function start() {
    const d = drawing(), w = canvas.clientWidth, height = canvas.clientHeight;
    if (Math.min(w / d.w, height / d.h) > 0.75) { fit(); return; }
    const k = clamp(w / d.w, 0.75, 1);
    const first = d.nodes.length ? d.nodes[0].box[0] + d.nodes[0].box[2] / 2 : d.w / 2;
    view().camera = {k, x: d.w * k <= w ? (w - d.w * k) / 2 : w / 2 - first * k, y: 8};
    refresh();
  }

  function zoomAt(px, py, factor) {
    const c = view().camera, k = clamp(c.k * factor, ZOOM_MIN, ZOOM_MAX), f = k / c.k;
    c.x = px - (px - c.x) * f;
    c.y = py - (py - c.y) * f;
    c.k = k;
    refresh();
  }
  const zoomBy = factor => zoomAt(canvas.clientWidth / 2, canvas.clientHeight / 2, factor);
  function moveBy(dx, dy) {
    view().camera.x += dx;
    view().camera.y += dy;
    refresh();
  }

  function center(i, always) {
    const [x, y, w, height] = drawing().nodes[i].box, c = view().camera;
    if (c.k < 0.6) c.k = 0.9;
    const sx = c.x + (x + w / 2) * c.k, sy = c.y + (y + height / 2) * c.k;
    const W = canvas.clientWidth, H = canvas.clientHeight;
    if (!always && sx > W * 0.12 && sx < W * 0.88 && sy > H * 0.15 && sy < H * 0.85) { refresh(); return; }
    moveBy(W / 2 - sx, H / 2 - sy);
  }

  // ---- minimap ----
  const miniPicture = document.createElement('canvas');
  let miniScale = 1, miniAccent = '';
  function drawMini() {
    const d = drawing(), dpr = devicePixelRatio || 1;
    miniScale = Math.min(130 / d.w, 230 / d.h);
    const w = Math.max(Math.round(d.w * miniScale), 12), height = Math.max(Math.round(d.h * miniScale), 12);
    for (const c of [mini, miniPicture]) { c.width = w * dpr; c.height = height * dpr; }
    mini.style.width = w + 'px';
    mini.style.height = height + 'px';
    const g = miniPicture.getContext('2d'), css = getComputedStyle(document.documentElement);
    const color = data.families.map((_, i) => css.getPropertyValue('--f' + i));
    miniAccent = css.getPropertyValue('--accent');
    g.scale(dpr, dpr);
    for (const n of d.nodes) {
      const [x, y, bw, bh] = n.box;
      g.fillStyle = color[n.family];
      g.fillRect(x * miniScale, y * miniScale, Math.max(bw * miniScale, 1), Math.max(bh * miniScale, 0.8));
    }
  }
  function paintMini(x0, y0, x1, y1) {
    const g = mini.getContext('2d'), d = drawing(), dpr = devicePixelRatio || 1;
    mini.hidden = x0 <= 0 && y0 <= 0 && x1 >= d.w && y1 >= d.h;
    if (mini.hidden) return;
    const left = Math.max(x0, 0) * miniScale, top = Math.max(y0, 0) * miniScale;
    g.setTransform(1, 0, 0, 1, 0, 0);
    g.clearRect(0, 0, mini.width, mini.height);
    g.drawImage(miniPicture, 0, 0);
    g.scale(dpr, dpr);
    g.strokeStyle = miniAccent;
    g.lineWidth = 1.5;
    g.strokeRect(left + 1, top + 1, Math.max(Math.min(x1, d.w) * miniScale - left - 2, 3), Math.max(Math.min(y1, d.h) * miniScale - top - 2, 3));
  }
  function jumpMini(e) {
    if (!(e.buttons & 1)) return;
    const box = mini.getBoundingClientRect(), c = view().camera;
    c.x = canvas.clientWidth / 2 - (e.clientX - box.left) / miniScale * c.k;
    c.y = canvas.clientHeight / 2 - (e.clientY - box.top) / miniScale * c.k;
    refresh();
  }
  mini.addEventListener('pointerdown', e => { mini.setPointerCapture(e.pointerId); jumpMini(e); });
  mini.addEventListener('pointermove', jumpMini);

  // ---- pointer, wheel, touch ----
  const pointers = new Map();
  const place = e => {
    const box = canvas.getBoundingClientRect();
    return {x: e.clientX - box.left, y: e.clientY - box.top};
  };
  let pressed = null, travelled = 0;
  canvas.addEventListener('pointerdown', e => {
    if (e.button > 1) return;
    canvas.setPointerCapture(e.pointerId);
    pointers.set(e.pointerId, place(e));
    if (pointers.size === 1) { pressed = e.target.closest('.node'); travelled = 0; }
    canvas.classList.add('drag');
  });
  canvas.addEventListener('pointermove', e => {
    const p = pointers.get(e.pointerId);
    if (!p) return;
    const now = place(e);
    if (pointers.size === 1) {
      moveBy(now.x - p.x, now.y - p.y);
    } else if (pointers.size === 2) {
      const other = [...pointers].find(([id]) => id !== e.pointerId)[1];
      const before = Math.hypot(p.x - other.x, p.y - other.y), after = Math.hypot(now.x - other.x, now.y - other.y);
      moveBy((now.x - p.x) / 2, (now.y - p.y) / 2);
      if (before > 0) zoomAt((now.x + other.x) / 2, (now.y + other.y) / 2, after / before);
    }
    travelled += Math.abs(now.x - p.x) + Math.abs(now.y - p.y);
    pointers.set(e.pointerId, now);
  });
  function release(e) {
    if (!pointers.delete(e.pointerId) || pointers.size) return;
    canvas.classList.remove('drag');
    if (e.type === 'pointerup' && travelled < 5) select(pressed ? Number(pressed.dataset.node) : -1);
  }
  canvas.addEventListener('pointerup', release);
  canvas.addEventListener('pointercancel', release);
  canvas.addEventListener('dblclick', () => { if (selected >= 0) openBody(selected); });
  canvas.addEventListener('wheel', e => {
    e.preventDefault();
    const unit = e.deltaMode === 1 ? 18 : e.deltaMode === 2 ? 400 : 1;
    if (e.shiftKey) moveBy(-(e.deltaX || e.deltaY) * unit, 0);
    else zoomAt(place(e).x, place(e).y, Math.exp(-clamp(e.deltaY * unit, -300, 300) * (e.ctrlKey ? 0.01 : 0.0016)));
  }, {passive: false});

  // ---- selection ----
  function edgesOf(i) {
    const d = drawing(), v = view(), found = new Set();
    for (let e of [...v.incoming[i], ...v.outgoing[i]])
      for (; e >= 0 && !found.has(e); e = d.edges[e][3]) found.add(e);
    return found;
  }
  let lit = [];
  function select(i, options) {
    for (const e of lit) e.classList.remove('on');
    lit = [];
    selected = i;
    if (i >= 0) {
      lit = [view().node[i], ...[...edgesOf(i)].map(e => view().edge[e])];
      for (const e of lit) e.classList.add('on');
      if (options && options.show) center(i, options.always);
    }
    showPanel();
    const hash = i >= 0 ? `#d${current}n${i}` : current ? `#d${current}` : '#';
    try { history.replaceState(null, '', hash); } catch (unused) { /* some viewers forbid it */ }
  }
  function open(index, node) {
    if (index !== current) {
      select(-1);
      current = index;
      if (!views[index]) views[index] = makeView(index);
      canvas.replaceChildren(view().world);
      if (!view().camera) start();
      drawMini();
      showCrumbs();
      markHits();
      refresh();
    }
    select(node === undefined ? -1 : node, {show: true, always: true});
  }
  function openBody(i) {
    const bodies = drawing().nodes[i].bodies;
    if (bodies) open(bodies[0][1]);
  }
  function openParent() {
    const d = drawing();
    if (d.parent >= 0) open(d.parent, d.parentNode);
  }

  function showCrumbs() {
    const path = [];
    for (let i = current; i >= 0; i = data.drawings[i].parent) path.unshift(i);
    crumbs.replaceChildren(...path.flatMap((i, k) => {
      const name = i ? data.drawings[i].title : data.model;
      const part = i === current ? h('span', {}, name) : h('button', {class: 'link', onclick: () => open(i)}, name);
      return k ? [h('span', {class: 'sep'}, '\u203a'), part] : [part];
    }));
  }

  // ---- panel ----
  const section = (title, ...items) => items.length ? [h('h3', {}, title), ...items] : [];
  const nodeName = n => n.name || n.title;
  const linkTo = (i, text) => h('button', {class: 'link', onclick: () => select(i, {show: true})}, text);

  function constItem(index) {
    const c = data.consts[index], rows = [['elements', count(c.n)]];
    if (c.bytes !== undefined) rows.push(['size', bytes(c.bytes)]);
    if (c.stats) {
      rows.push(['min', number(c.stats[0])], ['max', number(c.stats[1])], ['mean', number(c.stats[2])]);
      if (c.stats[3]) rows.push(['not finite', count(c.stats[3])]);
    }
    if (c.file) rows.push(['file', c.file]);
    const list = h('dl', {}, ...rows.flatMap(([k, v]) => [h('dt', {}, k), h('dd', {}, v)]));
    const out = [list];
    if (!c.readable) out.push(h('div', {class: 'doc'}, 'its data is not there to be read'));
    if (c.values.length) out.push(h('div', {class: 'values'}, c.values.join(', ') + (c.n > c.values.length ? ', \u2026' : '')));
    return out;
  }
  function inputItem([slot, name, type, from, constant]) {
    const label = name || (from >= 0 ? nodeName(drawing().nodes[from]) : constant >= 0 ? 'constant' : '');
    return h('div', {class: 'item'}, h('span', {class: 'slot'}, slot), from >= 0 ? linkTo(from, label) : label,
      h('span', {class: 'type'}, type), ...(constant >= 0 ? constItem(constant) : []));
  }

  function nodePanel(i) {
    const n = drawing().nodes[i], op = n.op >= 0 ? data.ops[n.op] : null;
    const docs = op ? op.attrs : {};
    const users = view().users[i].map(u => h('div', {class: 'item'}, chip(drawing().nodes[u].family), ' ',
      linkTo(u, drawing().nodes[u].title), ' ', h('span', {class: 'doc'}, drawing().nodes[u].kind === 'op' ? drawing().nodes[u].name || '' : '')));
    const attrs = n.attrs && n.attrs.length ? [h('dl', {}, ...n.attrs.flatMap(([k, v, dflt]) => {
      const c = dflt ? 'dflt' : '';
      return [h('dt', {title: docs[k] || '', class: c}, k), h('dd', {class: c}, v)];
    }))] : [];
    return [
      h('h2', {}, chip(n.family), n.title),
      n.kind === 'op' && op ? h('div', {class: 'doc'}, [op.onnx ? 'ONNX ' + op.onnx : '', op.doc].filter(Boolean).join(' \u2014 '))
        : h('div', {class: 'doc'}, n.kind),
      ...(n.kind === 'op' && n.name ? section('name', h('div', {}, n.name)) : []),
      ...(n.bodies ? section('sub-graphs', ...n.bodies.map(([attr, to]) =>
        h('button', {class: 'open', onclick: () => open(to)}, attr + ' \u25b8 ' + count(data.drawings[to].nodes.length) + ' nodes'))) : []),
      ...section('inputs', ...n.in.map(inputItem)),
      ...section('outputs', ...n.out.map(([slot, type]) =>
        h('div', {class: 'item'}, h('span', {class: 'slot'}, slot), h('span', {class: 'type'}, type)))),
      ...section('used by', ...users.slice(0, 50), ...(users.length > 50 ? [h('div', {class: 'doc'}, `and ${users.length - 50} more`)] : [])),
      ...section('attributes', ...attrs),
    ];
  }

  const HELP = [['drag, wheel', 'move, zoom'], ['/', 'search'], ['arrows', 'along the graph'], ['f', 'fit'], ['+ \u2212', 'zoom'],
    ['s', 'types of values'], ['Enter, Backspace', 'into a sub-graph, out of it'], ['Esc', 'back to this']];
  function overviewPanel() {
    const d = drawing(), ops = new Map();
    d.nodes.forEach(n => {
      if (n.kind !== 'op') return;
      const o = ops.get(n.title) || {title: n.title, family: n.family, n: 0};
      o.n++;
      ops.set(n.title, o);
    });
    const port = kind => d.nodes.map((n, i) => n.kind === kind ? h('div', {class: 'item'}, linkTo(i, n.title),
      h('span', {class: 'type'}, n.rows[0] ? n.rows[0][1] : '')) : null).filter(Boolean);
    const rows = [...ops.values()].sort((a, b) => b.n - a.n || (a.title < b.title ? -1 : 1)).map(o =>
      h('button', {class: 'bar', onclick: () => { input.value = o.title; search(); input.focus(); }}, chip(o.family), h('span', {}, o.title),
        h('span', {class: 'n'}, count(o.n))));
    const families = [...new Set(d.nodes.map(n => n.family))].sort((a, b) => a - b);
    const total = d.nodes.filter(n => n.kind === 'op').length;
    return [
      h('h2', {}, current ? d.title : data.model),
      h('div', {class: 'doc'}, `${count(total)} operations, ${count(d.edges.length)} edges` +
        (data.drawings.length > 1 ? `, ${count(data.drawings.length - 1)} sub-graphs in the model` : '')),
      ...section('inputs', ...port('input')), ...section('outputs', ...port('output')), ...section('operations', ...rows),
      ...section('colours', ...families.map(f => h('div', {}, chip(f), ' ', data.families[f]))),
      ...section('keys', h('dl', {}, ...HELP.flatMap(([k, v]) => [h('dt', {}, k), h('dd', {}, v)]))),
      h('div', {class: 'doc', style: 'margin-top:18px'}, 'made by tenon ' + data.version),
    ];
  }

  function showPanel() {
    panel.replaceChildren(...(selected >= 0 ? nodePanel(selected) : overviewPanel()).filter(Boolean));
    panel.scrollTop = 0;
  }

  // ---- search ----
  const index = data.drawings.flatMap((d, di) => d.nodes.map((n, i) => {
    const onnx = n.kind === 'op' ? data.ops[n.op].onnx || '' : n.kind;
    return {di, i, text: `${n.title} ${n.name || ''} ${onnx}`.toLowerCase()};
  }));
  let matches = [], at = -1;
  function search() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    matches = words.length ? index.filter(e => words.every(w => e.text.includes(w))) : [];
    at = -1;
    // Whole names first: what was typed is an op or a node more often than a part of one.
    const whole = words.join(' ');
    const rank = e => { const n = data.drawings[e.di].nodes[e.i]; return n.title.toLowerCase() === whole || (n.name || '').toLowerCase() === whole ? 0 : 1; };
    if (matches.length < 20000) matches.sort((a, b) => rank(a) - rank(b));
    showMatches(words.length > 0);
    markHits();
  }
  function showMatches(any) {
    if (!any) { matchList.replaceChildren(); return; }
    matchList.replaceChildren(h('div', {class: 'count'}, matches.length === 1 ? '1 match' : count(matches.length) + ' matches'),
      ...matches.slice(0, MATCHES_SHOWN).map((m, k) => {
        const n = data.drawings[m.di].nodes[m.i];
        return h('button', {onclick: () => jump(k), class: k === at ? 'on' : ''}, chip(n.family), h('span', {}, n.title),
          h('span', {class: 'of'}, (n.name && n.name !== n.title ? n.name : '') + (m.di ? ' in ' + data.drawings[m.di].title : '')));
      }));
  }
  function jump(k) {
    if (!matches.length) return;
    const old = matchList.children[at + 1];
    if (old) old.classList.remove('on');
    at = (k + matches.length) % matches.length;
    const now = matchList.children[at + 1];
    if (now) { now.classList.add('on'); now.scrollIntoView({block: 'nearest'}); }
    open(matches[at].di, matches[at].i);
  }
  function markHits() {
    for (const e of hits) e.classList.remove('hit');
    hits = new Set(matches.filter(m => m.di === current).map(m => view().node[m.i]));
    for (const e of hits) e.classList.add('hit');
  }
  const closeSearch = () => { input.value = ''; search(); input.blur(); };
  input.addEventListener('input', search);
  input.addEventListener('keydown', e => {
    if (e.key === 'Enter') jump(at + (e.shiftKey ? -1 : 1));
    else if (e.key === 'ArrowDown') jump(at + 1);
    else if (e.key === 'ArrowUp') jump(at < 0 ? matches.length - 1 : at - 1);
    else if (e.key === 'Escape') closeSearch();
    else return;
    e.preventDefault();
    e.stopPropagation();
  });
  canvas.addEventListener('pointerdown', () => { matchList.replaceChildren(); input.blur(); });
  input.addEventListener('focus', () => { if (input.value && !matchList.children.length) showMatches(true); });

  // ---- keyboard ----
  function toggleShapes() {
    const hidden = canvas.classList.toggle('noshapes');
    shapesButton.setAttribute('aria-pressed', String(!hidden));
  }
  // The neighbour of the selected node in a direction: along an edge, or beside it in its layer.
  function neighbour(key) {
    const d = drawing(), v = view(), [x, y, w, height] = d.nodes[selected].box;
    const middle = n => n.box[0] + n.box[2] / 2, mx = x + w / 2, my = y + height / 2;
    const nearest = list => list.sort((a, b) => Math.abs(middle(d.nodes[a]) - mx) - Math.abs(middle(d.nodes[b]) - mx))[0];
    if (key === 'ArrowUp') return nearest(v.incoming[selected].map(e => d.edges[e][0]));
    if (key === 'ArrowDown') return nearest(v.users[selected].slice());
    const side = key === 'ArrowLeft' ? -1 : 1;
    return nearest(d.nodes.map((_, i) => i).filter(i => {
      const n = d.nodes[i];
      return i !== selected && Math.abs(n.box[1] + n.box[3] / 2 - my) < 2 && (middle(n) - mx) * side > 0;
    }));
  }
  const PAN = {ArrowUp: [0, 80], ArrowDown: [0, -80], ArrowLeft: [80, 0], ArrowRight: [-80, 0]};
  function arrow(key) {
    if (selected < 0) { moveBy(...PAN[key]); return; }
    const to = neighbour(key);
    if (to !== undefined) select(to, {show: true});
  }
  const KEYS = {
    '/': () => { input.focus(); input.select(); }, 'f': fit, '+': () => zoomBy(1.25), '=': () => zoomBy(1.25), '-': () => zoomBy(0.8),
    's': toggleShapes, 'Escape': () => { closeSearch(); select(-1); }, 'Enter': () => { if (selected >= 0) openBody(selected); },
    'Backspace': openParent,
  };
  document.addEventListener('keydown', e => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target === input) return;
    if (e.target.tagName === 'BUTTON' && e.key === 'Enter') return;
    if (PAN[e.key]) arrow(e.key);
    else if (KEYS[e.key]) KEYS[e.key]();
    else return;
    e.preventDefault();
  });

  // ---- start ----
  new ResizeObserver(refresh).observe(canvas);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { drawMini(); refresh(); });
  function fromHash() {
    const m = /^#d(\d+)(?:n(\d+))?$/.exec(location.hash);
    const d = m ? Number(m[1]) : 0;
    if (d >= data.drawings.length) { open(0); return; }
    open(d, m && m[2] !== undefined && Number(m[2]) < data.drawings[d].nodes.length ? Number(m[2]) : undefined);
  }
  shapesButton.setAttribute('aria-pressed', 'true');
  const wanted = location.hash;
  current = 0;
  views[0] = makeView(0);
  canvas.replaceChildren(view().world);
  start();
  drawMini();
  showCrumbs();
  select(-1);
  if (wanted.length > 1) { try { history.replaceState(null, '', wanted); } catch (unused) { /* as above */ } fromHash(); }
  window.addEventListener('hashchange', fromHash);
})();
