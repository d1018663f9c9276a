// fold.js -- modules that fold: the parts of data.folds become drawings beside the others.
//
// A part has leaves, which are nodes of the drawing that was folded, modules, which are boxes with a part of their own, and
// ports, where values come in and leave.  In a fold's view every module is closed or open; a node in a closed one is shown as
// that module.

const FOLD_FROM = 150, OPEN_MOST = 48, FEW = 8;  // nodes of a drawing that starts folded; boxes up to which modules start open
const homes = new Map();                // drawing of a fold's whole -> by node of the folded drawing, {d, i} of its leaf
for (const f of data.folds) {
  const first = data.drawings.length, flat = data.drawings[f.of].nodes, home = [];
  homes.set(first, home);
  f.parts.forEach((part, k) => {
    const nodes = part.nodes.map((n, i) => {
      if (n.leaf !== undefined) { home[n.leaf] = {d: first + k, i}; return {...flat[n.leaf], leaf: n.leaf, box: n.box}; }
      return {family: 0, op: -1, in: [], out: [], ...n, ...(n.part !== undefined ? {part: first + n.part} : {})};
    });
    data.drawings.push({...part, nodes, of: f.of, by: f.by, whole: first, parent: part.parent < 0 ? -1 : first + part.parent});
  });
  f.whole = first;
}

// What a pane of this drawing can show: `plain` with the host's steps folded, `modules` with all modules.
function foldsOf(root) {
  const of = by => { const f = data.folds.find(x => x.of === root && x.by === by); return f ? f.whole : undefined; };
  const plain = of('host'), modules = of('modules');
  return {plain: plain === undefined ? root : plain, modules};
}
const baseOf = p => p.folded && p.modules !== undefined ? p.modules : p.plain;

// Where a node of a folded drawing is a leaf.
function homeOf(v, ref) {
  const home = homes.get(data.drawings[v.d].whole);
  return home && ref.d === data.drawings[v.d].of && home[ref.i] ? home[ref.i] : ref;
}
// Modules that hold a node, the outermost first.
function holders(v, ref) {
  const list = [];
  for (let d = homeOf(v, ref).d; data.drawings[d].whole !== undefined && data.drawings[d].parent >= 0; d = data.drawings[d].parent)
    list.unshift({d: data.drawings[d].parent, i: data.drawings[d].parentNode});
  return list;
}
// The closed module in which a node is; null: it is in none.  A node of a kernel's body is where the kernel is.
function moduleOf(v, ref) {
  if (data.drawings[v.d].of === undefined) return null;
  const dr = data.drawings[ref.d], at = ref.d !== data.drawings[v.d].of && dr.of === undefined && dr.parent >= 0 ? {d: dr.parent, i: dr.parentNode} : ref;
  return holders(v, at).find(m => !(v.open.get(m.d) && v.open.get(m.d).has(m.i))) || null;
}
// Opens the modules that hold a node.
function openTo(p, ref) {
  const closed = holders(view(p), ref).filter(m => !isOpen(p, m));
  if (closed.length) setOpen(p, open => { for (const m of closed) flip(open, m); });
}

// What is open at first: level by level, as long as there are not too many boxes.
function startOpen(d) {
  const open = new Map(), dr = data.drawings[d];
  if (dr.by !== 'modules' || dr.parent >= 0) return open;
  let shown = dr.nodes.length, level = [d];
  for (;;) {
    const inner = level.flatMap(k => data.drawings[k].nodes.filter(isModule).map(n => n.part));
    const more = inner.reduce((sum, k) => sum + data.drawings[k].nodes.length - 1, 0);
    if (!inner.length || shown + more > (shown < FEW ? 4 * OPEN_MOST : OPEN_MOST)) return open;
    for (const k of level) open.set(k, new Set(data.drawings[k].nodes.map((n, i) => isModule(n) ? i : -1).filter(i => i >= 0)));
    shown += more;
    level = inner;
  }
}

// Nodes of the folded drawing in a module, at any depth.
function leavesOf(ref, out = []) {
  data.drawings[node(ref).part].nodes.forEach((n, i) => {
    if (n.leaf !== undefined) out.push({d: data.drawings[ref.d].of, i: n.leaf});
    else if (isModule(n)) leavesOf({d: node(ref).part, i}, out);
  });
  return out;
}

// ---- folding ----
const canFold = () => panes.some(p => p.modules !== undefined);
function setFolded(p, on) {
  if (p.modules === undefined || on === p.folded) return;
  const root = data.drawings[p.current].parent < 0, ref = p.selected && p.selected.d === p.root ? p.selected : null;
  p.folded = on;
  foldButton.setAttribute('aria-pressed', String(panes.some(q => q.folded)));
  if (!root) return;
  const active = pane === p;
  show(p, baseOf(p));
  if (ref) openTo(p, ref);
  if (active) select(p, ref, {show: true, always: true});
}
const toggleFold = () => { const on = !panes.some(p => p.folded); for (const p of panes) setFolded(p, on); };
// All modules of the pane, open or closed.
function toggleModules(p) {
  if (!p.folded) { setFolded(p, true); return; }
  const all = data.drawings.map((dr, d) => dr.whole === p.modules ? d : -1).filter(d => d >= 0);
  const shut = all.some(d => data.drawings[d].nodes.some((n, i) => isModule(n) && !isOpen(p, {d, i})));
  setOpen(p, open => {
    for (const d of all) open.set(d, new Set(shut ? data.drawings[d].nodes.map((n, i) => isModule(n) ? i : -1).filter(i => i >= 0) : []));
  });
}

function modulePanel(ref) {
  const n = node(ref), leaves = leavesOf(ref), inside = data.drawings[n.part].nodes, ops = new Map();
  for (const l of leaves) {
    const x = node(l), title = x.title.replace(/^\d+ /, ''), o = ops.get(title) || {title, family: x.family, n: 0};
    o.n++;
    ops.set(title, o);
  }
  const open = isOpen(pane, ref);
  return [
    h('h2', {}, n.title),
    h('div', {class: 'doc'}, `module, ${count(leaves.length)} nodes`),
    ...section('path', h('div', {}, n.name)),
    h('button', {class: 'open', onclick: () => toggleOpen(pane, ref)}, open ? '\u25be close it' : '\u25b8 open it'),
    ...costSection(n),
    ...section('modules in it', ...some(inside.map((x, i) => ({x, i})).filter(({x}) => isModule(x)), 40, ({x, i}) =>
      h('div', {class: 'item line'}, h('button', {class: 'link', onclick: () => showModule(n.part, i)}, x.title), h('span', {class: 'doc'}, x.rows[0][1])))),
    ...section('operations', ...[...ops.values()].sort((a, b) => b.n - a.n).map(o => h('div', {class: 'pair'}, h('span', {}, chip(o.family), ' ', o.title), h('span', {class: 'n'}, count(o.n))))),
  ];
}
function showModule(d, i) {
  const p = pane, up = {d: data.drawings[d].parent, i: data.drawings[d].parentNode};
  if (!isOpen(p, up)) setOpen(p, open => flip(open, up));
  select(p, {d, i}, {show: true, always: true});
}
