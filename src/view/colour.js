// colour.js -- what the colours say: families of operators, or what a node costs: FLOPs, bytes, the measured time.
//
// A module costs what its nodes do.  Nodes that one kernel was made of are all shown with that kernel's time; in a module's sum
// each counts for its share, so that nothing is counted twice.

const milliseconds = x => x >= 1 ? x.toFixed(2) + ' ms' : scaled(x * 1e6, 1000, ['ns', '\u00b5s']);
const METRICS = {
  family: {name: 'operators'},
  flops: {name: 'FLOPs', of: c => c[0], part: c => c[0], text: flops},
  bytes: {name: 'bytes moved', of: c => c[1], part: c => c[1], text: bytes},
  time: {name: 'measured time', of: c => c[2], part: c => c[3], text: milliseconds},
};
const hasTimes = Boolean(data.profile);
let metric = hasTimes ? 'time' : 'family';
// From least to most, light and dark; the text on them must stay readable.
const RAMP = {light: [[222, 229, 237], [246, 205, 97], [226, 104, 48], [138, 17, 38]], dark: [[52, 61, 73], [122, 72, 34], [222, 112, 44], [255, 214, 92]]};
const isDark = () => document.documentElement.classList.contains('dark');
function rampColor(t) {
  const stops = RAMP[isDark() ? 'dark' : 'light'], x = clamp(t, 0, 1) * (stops.length - 1), i = Math.min(Math.floor(x), stops.length - 2);
  return stops[i].map((a, k) => Math.round(a + (stops[i + 1][k] - a) * (x - i)));
}
const css = ([r, g, b]) => `rgb(${r},${g},${b})`;
const isLight = ([r, g, b]) => 0.299 * r + 0.587 * g + 0.114 * b > 140;

// What a node costs by a metric; undefined: it was not measured.
function valueOf(n, m) {
  if (isModule(n)) {
    if (!n.sums) n.sums = {};
    if (!(m in n.sums)) {
      const inner = data.drawings[n.part].nodes.map(x => isModule(x) ? valueOf(x, m) : x.cost ? METRICS[m].part(x.cost) : undefined).filter(x => x >= 0);
      n.sums[m] = inner.length ? inner.reduce((a, b) => a + b, 0) : undefined;
    }
    return n.sums[m];
  }
  const v = n.cost ? METRICS[m].of(n.cost) : undefined;
  return v >= 0 ? v : undefined;
}
// Of a whole drawing.
const totals = new Map();
function totalOf(d, m) {
  const key = d + m;
  if (!totals.has(key)) totals.set(key, data.drawings[d].nodes.reduce((sum, n) => sum + (n.cost ? METRICS[m].part(n.cost) || 0 : 0), 0));
  return totals.get(key);
}

// The largest value of the boxes in a view is the end of the scale.  One scale serves all panes.
let most = 0;
function measureView(v) {
  v.most = {};
  for (const m of Object.keys(METRICS)) if (m !== 'family') v.most[m] = v.boxes.reduce((x, {n, open}) => open ? x : Math.max(x, valueOf(n, m) || 0), 0);
}
const scaleEnd = () => panes.reduce((x, p) => view(p) && view(p).most ? Math.max(x, view(p).most[metric] || 0) : x, 0);
function shadeRgb(n) {
  if (metric === 'family') return null;
  const v = valueOf(n, metric);
  return v === undefined || !(most > 0) ? rampColor(0) : rampColor(Math.sqrt(v / most));
}
const shadeOf = n => { const rgb = shadeRgb(n); return rgb && css(rgb); };
function paintNode(g, n) {
  const rgb = shadeRgb(n);
  if (rgb) {
    g.style.setProperty('--f', css(rgb));
    g.style.setProperty('--on-family', isLight(rgb) ? '#14181d' : '#fff');
  } else {
    g.style.removeProperty('--f');
    g.style.removeProperty('--on-family');
  }
}
function recolor() {
  most = metric === 'family' ? 0 : scaleEnd();
  for (const p of panes) {
    p.canvas.classList.toggle('heat', metric !== 'family');
    for (const v of p.views) if (v) for (const {n, item} of v.boxes) if (item.element) paintNode(item.element, n);
    if (view(p)) { drawMini(p); refresh(p); }
  }
}

// ---- choosing, legend ----
const colourSelect = h('select', {'aria-label': 'colours', title: 'what colours say (c)'},
  ...Object.entries(METRICS).filter(([id]) => id !== 'time' || hasTimes).map(([id, {name}]) => h('option', {value: id, ...(id === metric ? {selected: ''} : {})}, name)));
const legend = h('span', {class: 'legend'});
function setMetric(m) {
  metric = m;
  colourSelect.value = m;
  showLegend();
  showPanel();
}
function nextMetric() {
  const all = [...colourSelect.options].map(o => o.value);
  setMetric(all[(all.indexOf(metric) + 1) % all.length]);
}
colourSelect.addEventListener('change', () => { setMetric(colourSelect.value); colourSelect.blur(); });
// Also when what is shown changed: the scale follows it.
function showLegend() {
  legend.hidden = metric === 'family';
  if (metric !== 'family') {
    const end = scaleEnd(), bar = h('i', {});
    bar.style.background = `linear-gradient(90deg, ${[0, 0.33, 0.67, 1].map(t => css(rampColor(t))).join(',')})`;
    legend.replaceChildren('0', bar, METRICS[metric].text(end));
  }
  if (metric !== 'family' || most) recolor();
}

// ---- panel ----
const shareText = (v, all) => all > 0 ? ` (${(100 * v / all).toFixed(100 * v / all < 10 ? 1 : 0)} %)` : '';
// Only names that a person gave; exporters also use formulas as names.
const sizes = (data.sizes || []).filter(([k]) => /^[\w.-]{1,24}$/.test(k));
const sizesNote = () => sizes.length ? ' at ' + sizes.slice(0, 6).map(([k, v]) => `${k} = ${v}`).join(', ') : '';
function timeRows(n) {
  const v = valueOf(n, 'time');
  if (!hasTimes || v === undefined) return [];
  const all = data.profile.ms, own = isModule(n) ? v : n.cost[2];
  return [['time', milliseconds(own) + shareText(own, all)]];
}
function timeNote(n) {
  if (!hasTimes || !n.cost || n.cost[2] === undefined || !(n.cost[4] > 1)) return [];
  return [h('div', {class: 'doc'}, `The time is that of one kernel, which ${count(n.cost[4])} nodes were fused into` + (n.cost[5] ? `: ${n.cost[5]}` : '') + '.')];
}
function costSection(n, d) {
  if (!n.cost && !isModule(n)) return [];
  const root = d === undefined ? pane.root : d;
  const row = (m, name) => { const v = valueOf(n, m); return v === undefined ? [] : [[name, METRICS[m].text(v) + shareText(v, totalOf(root, m))]]; };
  return section('cost' + sizesNote(), list([...row('flops', 'computes'), ...row('bytes', 'moves'), ...timeRows(n)]), ...timeNote(n));
}
// A kernel has the name of one of the nodes that it was made of.
const isAnchor = n => Number(n.name === n.cost[5]);
// The nodes that cost most, when colours say so.
function hottest(p) {
  if (metric === 'family') return [];
  const d = p.root, nodes = data.drawings[d].nodes, all = metric === 'time' ? data.profile.ms : totalOf(d, metric), chosen = new Map();
  nodes.forEach((n, i) => {
    if (!(valueOf(n, metric) > 0)) return;
    const key = metric === 'time' && n.cost[5] ? n.cost[5] : i, old = chosen.get(key);  // a kernel once
    if (!old || isAnchor(n) > isAnchor(old[0])) chosen.set(key, [n, i, valueOf(n, metric)]);
  });
  const rows = [...chosen.values()].sort((a, b) => b[2] - a[2]);
  const unplaced = metric === 'time' && data.profile.unplaced.length ? [h('div', {class: 'doc'},
    `${milliseconds(data.profile.ms - data.profile.placed)} of steps that no node here has: ` + data.profile.unplaced.slice(0, 3).map(x => x[0] || '(no name)').join(', ') +
    (data.profile.unplaced.length > 3 ? ', \u2026' : '') + '. The profile may be of another model, or made with other options.')] : [];
  const of = metric === 'time' ? `of ${milliseconds(all)} a run, from ${data.profile.file}` : `of ${METRICS[metric].text(all)}${sizesNote()}`;
  return section(`most ${METRICS[metric].name}`, h('div', {class: 'doc'}, of), ...rows.slice(0, 12).map(([n, i, v]) => h('button', {class: 'row', onclick: () => reveal(d, i)},
      h('span', {class: 'top'}, chip(n.family), h('b', {}, n.title), h('span', {class: 'n'}, METRICS[metric].text(v) + shareText(v, all))),
      h('span', {class: 'doc cut'}, metric === 'time' && n.cost[5] ? n.cost[5] : n.name || ''), meter(0, v / Math.max(all, 1e-12), ''))), ...unplaced);
}
