// start.js -- keys, and the start.

// ---- keyboard ----
// The neighbour of the selected node in a direction: along an edge, or beside it in its layer.  In a part of a fold the
// neighbours are those of the part.
function neighbour(p, key) {
  const {d, i} = homeOf(view(p), p.selected), nodes = data.drawings[d].nodes, a = adjacency(d), [x, y, w, height] = nodes[i].box;
  const middle = n => n.box[0] + n.box[2] / 2, mx = x + w / 2, my = y + height / 2;
  const nearest = list => list.sort((b, c) => Math.abs(middle(nodes[b]) - mx) - Math.abs(middle(nodes[c]) - mx))[0];
  const beside = side => nodes.map((_, k) => k).filter(k => {
    const n = nodes[k];
    return k !== i && Math.abs(n.box[1] + n.box[3] / 2 - my) < 2 && (middle(n) - mx) * side > 0;
  });
  const to = nearest(key === 'ArrowUp' ? a.incoming[i].map(e => data.drawings[d].edges[e][0]) : key === 'ArrowDown' ? a.users[i].slice() : beside(key === 'ArrowLeft' ? -1 : 1));
  return to === undefined ? undefined : nodes[to].leaf !== undefined ? {d: data.drawings[d].of, i: nodes[to].leaf} : {d, i: to};
}
const PAN = {ArrowUp: [0, 80], ArrowDown: [0, -80], ArrowLeft: [80, 0], ArrowRight: [-80, 0]};
function arrow(p, key) {
  if (!p.selected) { moveBy(p, ...PAN[key]); return; }
  const to = neighbour(p, key);
  if (to !== undefined) select(p, to, {show: true});
}
const KEYS = {
  '/': () => { input.focus(); input.select(); }, 'f': () => fit(pane), '+': () => zoomBy(pane, 1.25), '=': () => zoomBy(pane, 1.25),
  '-': () => zoomBy(pane, 0.8), 's': toggleShapes, 'c': nextMetric, 'g': toggleFold, 'd': () => showDetails(document.body.classList.contains('closed')),
  'e': () => { if (pane.selected && canOpen(pane.selected)) toggleOpen(pane, pane.selected); }, 'E': () => toggleModules(pane), 't': toggleTheme, 'Enter': () => enter(pane), 'Backspace': () => leave(pane),
  'Escape': () => { closeSearch(); tab = 'details'; select(pane, null); if (inFrame) showDetails(false); }, ...(opt ? OPT_KEYS : {}),
};
document.addEventListener('keydown', e => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.tagName === 'INPUT' || e.target.tagName === 'SELECT') return;
  if (e.target.tagName === 'BUTTON' && e.key === 'Enter') return;
  if (PAN[e.key]) arrow(pane, e.key);
  else if (KEYS[e.key]) KEYS[e.key]();
  else return;
  e.preventDefault();
});

// ---- start ----
function fromHash() {
  const m = /^#d(\d+)(?:n(\d+))?$/.exec(location.hash);
  const d = m ? Number(m[1]) : 0;
  if (d >= REAL) { openDrawing(panes[0], 0); return; }
  reveal(d, m && m[2] !== undefined && Number(m[2]) < data.drawings[d].nodes.length ? Number(m[2]) : undefined);
}
// In a notebook's frame there is little room: the side panel is there when something is selected.
const inFrame = window.top !== window && innerWidth < 1000;
function showDetails(on) {
  document.body.classList.toggle('closed', !on);
  detailsButton.setAttribute('aria-pressed', String(on));
}
const detailsButton = tool('details', 'show or hide the side panel (d)', () => showDetails(document.body.classList.contains('closed')));
const dark = matchMedia('(prefers-color-scheme: dark)');
document.documentElement.classList.toggle('dark', dark.matches);
dark.addEventListener('change', () => setTheme(dark.matches));
shapesButton.setAttribute('aria-pressed', 'true');
panes.push(...(opt ? [makePane(0, 'before'), makePane(opt.drawing, 'after')] : [makePane(0, '')]));
pane = panes[0];
if (!opt && pane.modules !== undefined && data.drawings[0].nodes.length >= FOLD_FROM) pane.folded = true;
foldButton.setAttribute('aria-pressed', String(pane.folded));
const tools = [legend, colourSelect, ...(canFold() ? [foldButton] : []), shapesButton, detailsButton, tool('fit', 'fit the whole graph (f)', () => panes.forEach(fit)),
  tool('+', 'zoom in (+)', () => zoomBy(pane, 1.4)), tool('\u2212', 'zoom out (-)', () => zoomBy(pane, 1 / 1.4)), tool('\u25d0', 'dark or light (t)', toggleTheme)];
document.body.append(
  h('header', {}, h('div', {id: 'find'}, input, matchList), opt ? h('nav', {}, h('span', {}, data.model)) : pane.crumbs, ...(opt ? optTools() : []), ...tools),
  opt ? optFrame() : h('main', {}, pane.element), panel);
showDetails(!inFrame);
const wanted = location.hash;
for (const p of panes) show(p, baseOf(p));
select(pane, null);
showLegend();
if (opt) startMemory();
if (wanted.length > 1) { try { history.replaceState(null, '', wanted); } catch (unused) { /* as above */ } fromHash(); }
window.addEventListener('hashchange', fromHash);
// When the graph was painted first, for measurements of the page.
requestAnimationFrame(() => setTimeout(() => performance.mark('drawn')));
