// panel.js -- the header, the side panel and search.

// ---- the frame ----
const input = h('input', {type: 'search', placeholder: 'Search op or name   ( / )', 'aria-label': 'search', spellcheck: 'false', autocomplete: 'off'});
const matchList = h('div', {id: 'matches'});
const tool = (label, title, onclick) => h('button', {title, onclick, type: 'button'}, label);
const shapesButton = tool('shapes', 'show the types of values (s)', () => toggleShapes());
const foldButton = tool('modules', 'fold modules, by the paths in names (g)', () => toggleFold());
const panel = h('aside', {id: 'panel', 'aria-live': 'polite'});

function toggleShapes() {
  let hidden = false;
  for (const p of panes) {
    hidden = p.canvas.classList.toggle('noshapes');
    for (const v of p.views) if (v) v.noShapes = hidden;
    refresh(p);
  }
  shapesButton.setAttribute('aria-pressed', String(!hidden));
}
function setTheme(dark) {
  document.documentElement.classList.toggle('dark', dark);
  for (const p of panes) if (view(p)) { drawMini(p); refresh(p); }
  showLegend();
  if (opt) drawMemory();
}
const toggleTheme = () => setTheme(!document.documentElement.classList.contains('dark'));

// ---- panel ----
const section = (title, ...items) => items.length ? [h('h3', {}, title), ...items] : [];
const nodeName = n => n.name || n.title;
const linkTo = (ref, text) => h('button', {class: 'link', onclick: () => reveal(ref.d, ref.i)}, text);
const list = rows => h('dl', {}, ...rows.flatMap(([k, v]) => [h('dt', {}, k), h('dd', {}, v)]));

function constItem(index) {
  const c = data.consts[index], rows = [['elements', count(c.n)]];
  if (c.bytes !== undefined) rows.push(['size', bytes(c.bytes)]);
  if (c.stats) {
    rows.push(['min', number(c.stats[0])], ['max', number(c.stats[1])], ['mean', number(c.stats[2])]);
    if (c.stats[3]) rows.push(['not finite', count(c.stats[3])]);
  }
  if (c.file) rows.push(['file', c.file]);
  const out = [list(rows)];
  if (!c.readable) out.push(h('div', {class: 'doc'}, 'its data is not there to be read'));
  if (c.values.length) out.push(h('div', {class: 'values'}, c.values.join(', ') + (c.n > c.values.length ? ', \u2026' : '')));
  return out;
}
function inputItem(d, [slot, name, type, from, constant]) {
  const label = name || (from >= 0 ? nodeName(data.drawings[d].nodes[from]) : constant >= 0 ? 'constant' : '');
  return h('div', {class: 'item'}, h('span', {class: 'slot'}, slot), from >= 0 ? linkTo({d, i: from}, label) : label,
    h('span', {class: 'type'}, type), ...(constant >= 0 ? constItem(constant) : []));
}
// The first of many, and how many more there are.
const some = (items, most, make) => [...items.slice(0, most).map(make),
  ...(items.length > most ? [h('div', {class: 'doc'}, `and ${count(items.length - most)} more`)] : [])];

function nodePanel(ref) {
  const n = node(ref), d = ref.d, op = n.op >= 0 ? data.ops[n.op] : null, docs = op ? op.attrs : {};
  const kernel = kernelOf(ref);
  const users = some(adjacency(d).users[ref.i], 50, u => {
    const user = data.drawings[d].nodes[u];
    return h('div', {class: 'item'}, chip(user.family), ' ', linkTo({d, i: u}, user.title), ' ',
      h('span', {class: 'doc'}, user.kind === 'op' ? user.name || '' : ''));
  });
  const attrs = n.attrs && n.attrs.length && !kernel ? [h('dl', {}, ...n.attrs.flatMap(([k, v, dflt]) => {
    const c = dflt ? 'dflt' : '';
    return [h('dt', {title: docs[k] || '', class: c}, k), h('dd', {class: c}, v)];
  }))] : [];
  return [
    h('h2', {}, chip(n.family), n.title),
    kernel ? h('div', {class: 'doc'}, 'kernel') : n.kind === 'op' && op
      ? h('div', {class: 'doc'}, [op.onnx ? 'ONNX ' + op.onnx : '', op.doc].filter(Boolean).join(' \u2014 ')) : h('div', {class: 'doc'}, n.kind),
    ...(n.kind === 'op' && n.name ? section('name', h('div', {}, n.name)) : []),
    ...(kernel ? [] : costSection(n, rootOf(d))),
    ...(opt ? linkSections(ref) : []),
    ...(n.bodies && !kernel ? section('sub-graphs', ...n.bodies.map(([attr, to]) =>
      h('button', {class: 'open', onclick: () => openDrawing(paneOf(to), to)}, attr + ' \u25b8 ' + count(data.drawings[to].nodes.length) + ' nodes'))) : []),
    ...section('inputs', ...n.in.map(x => inputItem(d, x))),
    ...section('outputs', ...n.out.map(([slot, type]) =>
      h('div', {class: 'item'}, h('span', {class: 'slot'}, slot), h('span', {class: 'type'}, type)))),
    ...section('used by', ...users),
    ...section('attributes', ...attrs),
  ];
}

const HELP = [['drag, wheel', 'move, zoom'], ['/', 'search'], ['arrows', 'along the graph'], ['f', 'fit'], ['+ \u2212', 'zoom'],
  ['s', 'types of values'], ['c', 'colours: operators, FLOPs, bytes' + (hasTimes ? ', time' : '')], ...(data.folds.length ? [['g', 'fold modules, or show all nodes']] : []),
  ['click twice, e', 'open a module or kernel, close it'], ['Enter, Backspace', 'into a sub-graph, out of it'], ['d', 'details: this side'], ['t', 'dark or light'], ['Esc', 'back to this']];
function overviewPanel(p) {
  const whole = data.drawings[p.current].of !== undefined ? p.root : p.current, d = data.drawings[whole], ops = new Map();
  d.nodes.forEach(n => {
    if (n.kind !== 'op') return;
    const title = n.title.replace(/^\d+ /, ''), o = ops.get(title) || {title, family: n.family, n: 0};
    o.n++;
    ops.set(title, o);
  });
  const port = kind => d.nodes.map((n, i) => n.kind === kind ? h('div', {class: 'item'}, linkTo({d: whole, i}, n.title),
    h('span', {class: 'type'}, n.rows[0] ? n.rows[0][1] : '')) : null).filter(Boolean);
  const rows = [...ops.values()].sort((a, b) => b.n - a.n || (a.title < b.title ? -1 : 1)).map(o =>
    h('button', {class: 'bar', onclick: () => { input.value = o.title; search(); input.focus(); }}, chip(o.family), h('span', {}, o.title),
      h('span', {class: 'n'}, count(o.n))));
  const families = [...new Set(d.nodes.map(n => n.family))].sort((a, b) => a - b);
  const total = d.nodes.filter(n => n.kind === 'op').length;
  return [
    h('h2', {}, whole !== p.root ? d.title : data.model),
    h('div', {class: 'doc'}, `${count(total)} operations, ${count(d.edges.length)} edges` +
      (!opt && REAL > 1 ? `, ${count(REAL - 1)} sub-graphs in the model` : '')),
    ...hottest(p),
    ...(opt ? summarySections() : []),
    ...section('inputs', ...port('input')), ...section('outputs', ...port('output')), ...section('operations', ...rows),
    ...section('colours', ...(p.root || metric !== 'family' ? [] : families).map(f => h('div', {}, chip(f), ' ', data.families[f]))),
    ...section('keys', list(opt ? [...HELP.slice(0, -1), ...OPT_HELP, HELP[HELP.length - 1]] : HELP)),
    h('div', {class: 'doc', style: 'margin-top:18px'}, 'made by tenon ' + data.version),
  ];
}

let tab = 'details';
function showPanel() {
  const what = opt && tab !== 'details' ? tabPanel(tab) : pane.selected ? (isModule(node(pane.selected)) ? modulePanel : nodePanel)(pane.selected) : overviewPanel(pane);
  panel.replaceChildren(...[...(opt ? [tabs()] : []), ...what].filter(Boolean));
  if (tab === 'details') panel.scrollTop = 0;
}

// ---- search ----
const REAL = data.drawings.findIndex(d => d.of !== undefined) < 0 ? data.drawings.length : data.drawings.findIndex(d => d.of !== undefined);
const index = data.drawings.slice(0, REAL).flatMap((d, di) => d.nodes.map((n, i) => {
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
  panes.forEach(markHits);
}
function whereText(di) {
  const side = opt ? paneOf(di).label : '', d = data.drawings[di];
  return [side, d.parent >= 0 ? 'in ' + d.title : ''].filter(Boolean).join(', ');
}
function showMatches(any) {
  if (!any) { matchList.replaceChildren(); return; }
  matchList.replaceChildren(h('div', {class: 'count'}, matches.length === 1 ? '1 match' : count(matches.length) + ' matches'),
    ...matches.slice(0, MATCHES_SHOWN).map((m, k) => {
      const n = data.drawings[m.di].nodes[m.i];
      return h('button', {onclick: () => jump(k), class: k === at ? 'on' : ''}, chip(n.family), h('span', {}, n.title),
        h('span', {class: 'of'}, [n.name && n.name !== n.title ? n.name : '', whereText(m.di)].filter(Boolean).join(' \u00b7 ')));
    }));
}
function jump(k) {
  if (!matches.length) return;
  const old = matchList.children[at + 1];
  if (old) old.classList.remove('on');
  at = (k + matches.length) % matches.length;
  const now = matchList.children[at + 1];
  if (now) { now.classList.add('on'); now.scrollIntoView({block: 'nearest'}); }
  reveal(matches[at].di, matches[at].i);
}
function markHits(p) {
  for (const e of p.hits) e.classList.remove('hit');
  p.hits = matches.map(m => elementOf(p, {d: m.di, i: m.i})).filter(Boolean);
  for (const e of p.hits) e.classList.add('hit');
}
const closeMatches = () => { matchList.replaceChildren(); input.blur(); };
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
input.addEventListener('focus', () => { if (input.value && !matchList.children.length) showMatches(true); });
