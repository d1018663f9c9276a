// optimised.js -- what optimising did: how the two panes are linked, kernels, rules, passes.
//
// A node of the graph as it was is followed by what the compiler says of it (opt.nodes); one within a kernel by its name.

const after = opt ? data.drawings[opt.drawing] : null;
const fates = [];               // by node of drawing 0
const kernelAt = new Map();     // node of the optimised drawing -> number of the kernel
const kernelBody = new Map();   // drawing -> number of the kernel whose body it is
const members = opt ? opt.kernels.map(() => ({whole: [], into: []})) : [];  // nodes of drawing 0
const removed = opt ? opt.rules.map(() => []) : [];                         // by rule, nodes of drawing 0
const beforeNames = new Map();  // name -> nodes of drawing 0
if (opt) {
  for (const n of opt.nodes) {
    fates[n.node] = n;
    for (const k of n.kernels) members[k].whole.push(n.node);
    if (n.into !== undefined) members[n.into].into.push(n.node);
    if (n.fate === 'removed') removed[n.rule].push(n.node);
  }
  opt.kernels.forEach((k, i) => {
    kernelAt.set(k.node, i);
    const bodies = after.nodes[k.node].bodies;
    if (bodies) kernelBody.set(bodies[0][1], i);
  });
  data.drawings[0].nodes.forEach((n, i) => {
    const name = n.name || n.title;
    if (!beforeNames.has(name)) beforeNames.set(name, []);
    beforeNames.get(name).push(i);
  });
}

// Sizes that something in the plan depends on; the others are the exporter's words for what is one of these.
function markUsed(e) {
  if (!Array.isArray(e)) return;
  if (e[0] === 'sym') { if (opt.dims[e[1]]) opt.dims[e[1]].used = true; } else e.slice(1).forEach(x => Array.isArray(x) && typeof x[0] === 'number' ? x.forEach(markUsed) : markUsed(x));
}
if (opt && opt.plan) opt.plan.buffers.forEach(b => markUsed(b.bytes));

const kernelOf = ref => opt && ref.d === opt.drawing && kernelAt.has(ref.i) ? opt.kernels[kernelAt.get(ref.i)] : null;
const before = i => ({d: 0, i});
const kernelRef = k => ({d: opt.drawing, i: opt.kernels[k].node});
const kernelText = k => `${k} ${opt.kernels[k].kind}`;
const rootText = p => p.root ? `${count(opt.launches)} kernels` : `${count(opt.before.nodes)} operations`;
const FATES = {kernel: 'in a kernel', host: 'run by the host', removed: 'taken away by a rule', folded: 'computed while compiling',
  unused: 'known while compiling, or not needed'};

// ---- links ----
// Where a node is on the other side: what it is there, and what went into it or it went into.
function partners(ref) {
  const n = node(ref), found = {whole: [], into: []};
  if (isModule(n)) {
    for (const leaf of leavesOf(ref).map(partners)) for (const kind of ['whole', 'into']) found[kind].push(...leaf[kind]);
    for (const kind of ['whole', 'into']) found[kind] = [...new Map(found[kind].map(r => [`${r.d} ${r.i}`, r])).values()];
  } else if (n.port !== undefined) {
    return found;
  } else if (ref.d === 0) {
    const f = fates[ref.i];
    if (!f) found.whole = namesake(n);
    else if (f.kernels.length) found.whole = f.kernels.flatMap(k => [kernelRef(k), ...innerByName(k, n.name)]);
    else if (f.fate === 'host') found.whole = namesake(n);
    else if (f.into !== undefined) found.into = [kernelRef(f.into)];
  } else if (kernelOf(ref)) {
    const m = members[kernelAt.get(ref.i)];
    found.whole = m.whole.map(before);
    found.into = m.into.map(before);
  } else if (rootOf(ref.d) === opt.drawing) {
    found.whole = (beforeNames.get(n.name || n.title) || []).map(before);
    const k = kernelBody.get(ref.d);
    if (!found.whole.length && k !== undefined) found.into = members[k].whole.map(before);
  }
  return found;
}
const namesake = n => after.nodes.map((x, i) => (x.name || x.title) === (n.name || n.title) && x.kind === n.kind ? {d: opt.drawing, i} : null).filter(Boolean);
function innerByName(k, name) {
  const bodies = after.nodes[opt.kernels[k].node].bodies;
  if (!bodies || !name) return [];
  return data.drawings[bodies[0][1]].nodes.map((n, i) => n.kind === 'op' && n.name === name ? {d: bodies[0][1], i} : null).filter(Boolean);
}
function markLinks(p, refs, kind) {
  const shown = refs.filter(r => placeOf(p, r));
  for (const r of shown) {
    const e = elementOf(p, r);
    e.classList.add(kind);
    p.linked.push(e);
  }
  return shown;
}
function showLinks(p, ref) {
  const q = otherPane(p);
  drawMemory();
  if (!ref) return;
  const found = partners(ref);
  if ((found.whole.length || found.into.length) && q.current !== baseOf(q) && p.current === baseOf(p)) show(q, baseOf(q));
  const shown = [...markLinks(q, found.whole, 'link'), ...markLinks(q, found.into, 'into')];
  q.canvas.classList.toggle('dim', shown.length > 0);
  if (shown.length) showAll(q, markLinksFirst(found, shown));
}
// Of many, those that matter most are brought into view.
const markLinksFirst = (found, shown) => { const whole = shown.filter(r => found.whole.includes(r)); return whole.length ? whole : shown; };
// All nodes that a rule took away, and the kernels where it fired.
function showRule(r) {
  select(panes[0], null);
  const gone = markLinks(panes[0], removed[r].map(before), 'into');
  const kernels = markLinks(panes[1], opt.kernels.map((k, i) => k.rules.includes(r) ? kernelRef(i) : null).filter(Boolean), 'link');
  panes[0].canvas.classList.toggle('dim', gone.length > 0);
  panes[1].canvas.classList.toggle('dim', kernels.length > 0);
  if (gone.length) showAll(panes[0], gone);
  if (kernels.length) showAll(panes[1], kernels);
}

// ---- groups in the graph as it was ----
// Behind the nodes of each kernel lies a shape of one colour: their boxes, and the lines between them, both drawn wide.
function hulls(part, add, into, world) {
  const d = data.drawings[0], of = new Map(), holder = s('g', {});
  world.append(holder);
  members.forEach((m, k) => m.whole.forEach(i => of.set(i, of.has(i) ? -1 : k)));
  opt.kernels.forEach((kernel, k) => {
    const mine = members[k].whole.filter(i => of.get(i) === k);
    if (mine.length < 2) return;
    const boxes = mine.map(i => part.box[i]), make = () => {
      const g = s('g', {class: 'hull f' + after.nodes[kernel.node].family});
      mine.forEach((i, at) => {
        const [x, y, w, height] = boxes[at];
        g.append(s('rect', {x: x - 9, y: y - 9, width: w + 18, height: height + 18, rx: 10}));
        for (const e of adjacency(0).outgoing[i])
          if (of.get(d.edges[e][1]) === k) g.append(s('path', {d: d.edges[e][2].replace(/M[^M]*$/, '')}));
      });
      return into(holder, g);
    };
    add(make, Math.min(...boxes.map(b => b[0])) - 9, Math.min(...boxes.map(b => b[1])) - 9, Math.max(...boxes.map(b => b[0] + b[2])) + 9,
      Math.max(...boxes.map(b => b[1] + b[3])) + 9);
  });
}

// ---- panel ----
const OPT_HELP = [['E', 'open or close all kernels'], ['1, 2, Tab', 'before, after, the other one'],
  ['k, r', 'kernels, rules'], ['m', 'memory plan']];
const ruleLink = r => h('button', {class: 'link', onclick: () => openRule(r)}, opt.rules[r].name);
const kernelLink = k => h('span', {}, chip(after.nodes[opt.kernels[k].node].family), ' ', linkTo(kernelRef(k), kernelText(k)));
const beforeItem = i => {
  const n = data.drawings[0].nodes[i];
  return h('div', {class: 'item line'}, chip(n.family), linkTo(before(i), nodeName(n)), h('span', {class: 'doc'}, n.title));
};
// Two bars, the second what is left of the first.
function meter(was, is, text) {
  const most = Math.max(was, is, 1), bar = (v, c) => h('i', {class: c, style: `width:${(100 * v / most).toFixed(2)}%`});
  return h('div', {class: 'meter', title: text}, bar(was, 'was'), bar(is, 'is'));
}
const sizesText = () => opt.dims.filter(d => d && d.used).map(d => `${d.name} = ${d.value}`).join(', ');
const less = (was, is) => was > 0 && Math.round(100 * Math.abs(was - is) / was) > 0 ? ` (${is <= was ? '\u2212' : '+'}${Math.round(100 * Math.abs(was - is) / was)} %)` : '';

function linkSections(ref) {
  if (ref.d === 0) return fates[ref.i] ? fateSections(fates[ref.i]) : [];
  const kernel = kernelOf(ref), k = kernelAt.get(ref.i);
  if (kernel) return kernelSections(kernel, k, ref);
  const inside = kernelBody.get(ref.d), from = (beforeNames.get(node(ref).name) || []).filter(() => node(ref).kind === 'op');
  return [...(inside !== undefined ? section('kernel', kernelLink(inside)) : []), ...section('was', ...from.map(beforeItem)), ...memorySections(ref)];
}
function fateSections(f) {
  const items = [h('div', {class: 'fate ' + f.fate}, FATES[f.fate]), ...f.kernels.map(k => h('div', {class: 'item'}, kernelLink(k)))];
  if (f.into !== undefined) items.push(h('div', {class: 'item'}, 'what is left of it is in ', kernelLink(f.into)));
  if (f.rule !== undefined)
    items.push(h('div', {class: 'item'}, f.fate === 'removed' ? 'by rule ' : 'after rule ', ruleLink(f.rule), ` (${opt.rules[f.rule].pass})`,
      f.at ? h('span', {class: 'type'}, 'at ' + f.at) : null));
  return section('where it went', ...items);
}
function kernelSections(kernel, k, ref) {
  const m = members[k], opened = isOpen(panes[1], ref), timed = timeRows(node(ref));
  return [
    h('button', {class: 'open', onclick: () => toggleOpen(panes[1], ref)}, opened ? '\u25be close its body' : `\u25b8 open its body (${count(kernel.nodes)} nodes)`),
    ...section('cost' + (sizesText() ? ' at ' + sizesText() : ''),
      list([['moves', bytes(kernel.bytes)], ['its nodes alone', bytes(kernel.unfused) + less(kernel.unfused, kernel.bytes)]]),
      meter(kernel.unfused, kernel.bytes, 'bytes moved, before and after'),
      list([['computes', flops(kernel.flops)], ['FLOPs per byte', number(Number(kernel.intensity.toPrecision(3)))], ...timed])),
    ...section('rules that fired', ...(kernel.rules.length ? [h('div', {class: 'tags'}, ...kernel.rules.map(ruleLink))] : [])),
    ...section(`nodes in it (${count(m.whole.length)})`, ...some(m.whole, 40, beforeItem)),
    ...section(`taken in by rules (${count(m.into.length)})`, ...some(m.into, 40, beforeItem)),
    ...memorySections(ref),
  ];
}
function summarySections() {
  const fate = {};
  for (const n of opt.nodes) fate[n.fate] = (fate[n.fate] || 0) + 1;
  const pair = (name, was, is, text) => [h('div', {class: 'pair'}, h('span', {}, name), h('span', {class: 'n'}, `${text(was)} \u2192 ${text(is)}`)),
    meter(was, is, name)];
  return [
    ...section('optimised' + (sizesText() ? ', at ' + sizesText() : ''), ...pair('operations \u2192 kernels', opt.before.nodes, opt.launches, count),
      ...pair('bytes moved', opt.before.bytes, opt.after.bytes, bytes), ...pair('computed', opt.before.flops, opt.after.flops, flops),
      ...pair('constants', opt.before.consts, opt.after.consts, bytes)),
    ...section('where the operations went', ...Object.keys(FATES).filter(k => fate[k]).map(k =>
      h('div', {class: 'pair'}, h('span', {class: 'fate ' + k}, FATES[k]), h('span', {class: 'n'}, count(fate[k]))))),
  ];
}

// ---- tabs ----
const TABS = [['details', 'Details'], ['kernels', 'Kernels'], ['rules', 'Rules']];
function openTab(t) { tab = t; showPanel(); }
const tabs = () => h('div', {class: 'tabs', role: 'tablist'}, ...TABS.map(([id, text]) =>
  h('button', {role: 'tab', 'aria-selected': String(id === tab), onclick: () => openTab(id)}, text,
    id === 'kernels' ? h('span', {class: 'n'}, count(opt.kernels.length)) : id === 'rules' ? h('span', {class: 'n'}, count(opt.rules.length)) : null)));
const tabPanel = t => t === 'kernels' ? kernelsPanel() : rulesPanel();

const kernelTime = k => valueOf(after.nodes[k.node], 'time') || 0;
let kernelOrder = 'order';
const ORDERS = {order: ['in order', k => 0], bytes: ['bytes moved', k => k.bytes], saved: ['bytes saved', k => k.unfused - k.bytes],
  flops: ['FLOPs', k => k.flops], intensity: ['FLOPs per byte', k => k.intensity], ...(hasTimes ? {time: ['measured time', kernelTime]} : {})};
function kernelsPanel() {
  const sort = h('select', {'aria-label': 'order'}, ...Object.entries(ORDERS).map(([id, [text]]) => h('option', {value: id, ...(id === kernelOrder ? {selected: ''} : {})}, text)));
  sort.addEventListener('change', () => { kernelOrder = sort.value; showPanel(); });
  const by = ORDERS[kernelOrder][1], rows = opt.kernels.map((k, i) => [k, i]).sort((a, b) => by(b[0]) - by(a[0]) || a[1] - b[1]);
  return [h('div', {class: 'pair'}, h('span', {class: 'doc'}, sizesText() ? 'at ' + sizesText() : 'kernels'), sort),
    ...rows.map(([k, i]) => h('button', {class: 'row' + (same(pane.selected, kernelRef(i)) ? ' on' : ''), onclick: () => reveal(opt.drawing, k.node)},
      h('span', {class: 'top'}, chip(after.nodes[k.node].family), h('b', {}, kernelText(i)), h('span', {class: 'n'}, hasTimes ? milliseconds(kernelTime(k)) : `${flops(k.flops)} \u00b7 ${number(Number(k.intensity.toPrecision(3)))}/B`)),
      h('span', {class: 'doc cut'}, k.name || ''), meter(k.unfused, k.bytes, `${bytes(k.unfused)} before, ${bytes(k.bytes)} after`),
      h('span', {class: 'doc'}, `${bytes(k.bytes)} moved, ${bytes(k.unfused - k.bytes)} saved, ${count(k.nodes)} nodes`)))];
}

let openedRule = -1;
function openRule(r) {
  openedRule = openedRule === r && tab === 'rules' ? -1 : r;
  tab = 'rules';
  if (openedRule >= 0) showRule(r); else select(panes[0], null);
  const row = panel.querySelector('.row.on');
  if (row) row.scrollIntoView({block: 'nearest'});
}
function rulesPanel() {
  const order = opt.rules.map((r, i) => i).sort((a, b) => removed[b].length - removed[a].length || opt.rules[b].fired - opt.rules[a].fired);
  const shrunk = opt.passes.filter(p => p.before !== p.after || p.rules);
  return [
    h('div', {class: 'doc'}, 'Rules that fired, with the operations that each took away.'),
    ...order.map(i => h('div', {class: 'rule'},
      h('button', {class: 'row' + (i === openedRule ? ' on' : ''), onclick: () => openRule(i)},
        h('span', {class: 'top'}, h('b', {}, opt.rules[i].name), h('span', {class: 'n'}, `fired ${count(opt.rules[i].fired)}\u00d7`)),
        h('span', {class: 'doc'}, `${opt.rules[i].pass} \u00b7 ${removed[i].length ? count(removed[i].length) + ' taken away' : 'replaced in place'}` +
          (opt.rules[i].exact ? ' \u00b7 bit-exact' : ' \u00b7 within rounding'))),
      ...(i === openedRule ? [h('pre', {class: 'values'}, opt.rules[i].example || ''), ...some(removed[i], 100, beforeItem)] : []))),
    ...section('passes: nodes before and after', ...shrunk.map(p => h('div', {class: 'pair', title: p.doc}, h('span', {}, p.name),
      h('span', {class: 'n'}, `${count(p.before)} \u2192 ${count(p.after)}`)))),
  ];
}

// ---- the frame ----
function optTools() {
  return [tool('open all', 'open or close all kernels (E)', () => toggleAll()), memoryButton];
}
function toggleAll() {
  const p = panes[1];
  if (p.folded) setFolded(p, false);
  if (p.current !== baseOf(p)) openDrawing(p, opt.drawing);
  const all = [...kernelAt.keys()].filter(i => canOpen({d: opt.drawing, i})), close = view(p).open.get(opt.drawing) && view(p).open.get(opt.drawing).size > 0;
  setOpen(p, open => open.set(opt.drawing, new Set(close ? [] : all)));
}
const activate = p => select(p, p.selected);
const OPT_KEYS = {
  '1': () => activate(panes[0]), '2': () => activate(panes[1]), 'Tab': () => activate(otherPane(pane)),
  'E': () => toggleAll(),
  'k': () => openTab('kernels'), 'r': () => openTab('rules'), 'm': () => toggleMemory(),
};
// A bar between two parts that can be dragged; at(part) of the whole's size goes to the first one.
function divider(vertical, whole, at) {
  const bar = h('div', {class: 'divider ' + (vertical ? 'v' : 'h'), role: 'separator'});
  bar.addEventListener('pointerdown', e => bar.setPointerCapture(e.pointerId));
  bar.addEventListener('pointermove', e => {
    if (!(e.buttons & 1)) return;
    const box = whole.getBoundingClientRect();
    at(clamp(vertical ? (e.clientX - box.left) / box.width : (e.clientY - box.top) / box.height, 0.1, 0.9));
  });
  bar.addEventListener('dblclick', () => at(vertical ? 0.5 : 0.62));
  return bar;
}
function optFrame() {
  const pair = h('div', {class: 'panes'}), frame = h('main', {class: 'two'});
  pair.append(panes[0].element, divider(true, pair, x => { panes[0].element.style.flexGrow = x; panes[1].element.style.flexGrow = 1 - x; }), panes[1].element);
  panes.forEach(p => { p.element.style.flexGrow = 0.5; });
  frame.append(pair, divider(false, frame, y => { pair.style.flexGrow = y; dock.style.flexGrow = 1 - y; }), dock);
  pair.style.flexGrow = 0.62;
  dock.style.flexGrow = 0.38;
  return frame;
}
