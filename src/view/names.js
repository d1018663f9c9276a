// names.js -- names of boxes that are too small for their own text: as many as have room, none over another one.
//
// They have the size of the screen's text at every zoom.  A map of cells says what is taken: by boxes first, so that names stand
// beside them.  Modules come first, then what costs most or is an input or output; types of values last.  Where no room is free
// beside the boxes the first few stand on them.

const CELL = 4, NAME_H = 14, NAMES_MOST = 140, ON_BOXES = 16, TRIED = 3000;
const widths = document.createElement('canvas').getContext('2d');
function textWidth(text, small) {
  widths.font = small ? '10px system-ui, sans-serif' : '600 11px system-ui, sans-serif';
  return widths.measureText(text).width;
}

// What could be named in a view, in order; found once for each view and metric.
function candidates(v) {
  if (v.names && v.names.metric === metric) return v.names.list;
  const rank = ({n, open}) => open ? 5 : isModule(n) ? 4 : isPort(n) ? 3 : metric !== 'family' && v.most[metric] > 0 ? 2 * Math.sqrt((valueOf(n, metric) || 0) / v.most[metric]) : n.family === 1 ? 1 : 0.5;
  const list = v.boxes.map((b, k) => ({item: b.item, text: b.n.title, rank: rank(b), k, open: b.open}));
  list.push(...moduleNames(v));
  list.sort((a, b) => b.rank - a.rank || a.k - b.k);
  list.push(...v.labels.map(l => ({item: {x0: l.x, x1: l.x, y0: l.y - 10, y1: l.y}, text: l.text, small: true})));
  v.names = {metric, list};
  return list;
}
// In a drawing that is not folded a module's name stands at its first node.
function moduleNames(v) {
  const f = data.folds.find(x => x.of === v.d && x.by === 'modules'), flat = v.parts.get(v.d), out = [];
  if (!f) return out;
  data.drawings.forEach((dr, d) => {
    if (dr.whole !== f.whole) return;
    dr.nodes.forEach((n, i) => {
      if (!isModule(n)) return;
      const leaves = leavesOf({d, i}), first = leaves[0];
      if (first && flat.node[first.i]) out.push({item: flat.node[first.i], text: n.title, rank: 3 + Math.min(leaves.length, 999) / 1000, k: first.i, module: true});
    });
  });
  return out;
}

// Names are elements that are used again; those that are left over are hidden.
function placeNames(p, near) {
  const v = view(p), c = v.camera, W = p.canvas.clientWidth, H = p.canvas.clientHeight, box = p.names;
  box.hidden = near;
  if (near) return;
  const columns = Math.ceil(W / CELL), rows = Math.ceil(H / CELL), boxes = new Uint8Array(columns * rows), taken = new Uint8Array(columns * rows);
  const cells = (map, x0, y0, x1, y1, change) => {
    const cx0 = Math.max(Math.floor(x0 / CELL), 0), cx1 = Math.min(Math.ceil(x1 / CELL), columns), cy1 = Math.min(Math.ceil(y1 / CELL), rows);
    for (let y = Math.max(Math.floor(y0 / CELL), 0); y < cy1; y++)
      for (let x = cx0; x < cx1; x++) { if (change) map[y * columns + x] = 1; else if (map[y * columns + x]) return true; }
    return false;
  };
  const at = it => [c.x + it.x0 * c.k, c.y + it.y0 * c.k, c.x + it.x1 * c.k, c.y + it.y1 * c.k];
  const inView = ([x0, y0, x1, y1]) => x1 >= 0 && x0 <= W && y1 >= 0 && y0 <= H;
  for (const {item, open} of v.boxes) { const r = at(item); if (!open && inView(r)) cells(boxes, ...r, true); }
  let used = 0, onBoxes = 0, tried = 0;
  for (const name of candidates(v)) {
    if (used >= NAMES_MOST || tried >= TRIED) break;
    if (name.small && v.noShapes) continue;
    const r = at(name.item);
    if (!inView(r)) continue;
    tried++;
    if (name.width === undefined) name.width = textWidth(name.text, name.small) + 6;
    const place = spot(name, r, name.width, (r[1] + r[3]) / 2);
    if (!place) continue;
    cells(taken, place.x, place.y, place.x + place.w, place.y + NAME_H, true);
    let e = box.children[used++];
    if (!e) box.append(e = h('span', {}));
    e.textContent = name.text;
    e.className = name.small ? 'small' : name.module || name.open || (name.rank >= 4) ? 'module' : '';
    e.style.transform = `translate(${Math.round(place.x)}px, ${Math.round(place.y)}px)`;
    e.style.maxWidth = place.w + 'px';
    e.hidden = false;
  }
  for (let i = used; i < box.children.length; i++) box.children[i].hidden = true;
  function spot(name, r, w, mid) {
    const free = (x, y, wide, over) => x >= 0 && y >= 0 && x + wide <= W && y + NAME_H <= H && !cells(taken, x, y, x + wide, y + NAME_H) &&
      (over || !cells(boxes, x, y, x + wide, y + NAME_H));
    const y = mid - NAME_H / 2, within = r[2] - r[0];
    if (name.open) return free(r[0], r[1] + 1, w, true) ? {x: r[0], y: r[1] + 1, w} : null;
    if (name.small) return free(r[0] - w / 2, y, w) ? {x: r[0] - w / 2, y, w} : null;
    for (const x of name.module ? [r[0] - w - 3, r[2] + 3] : [r[2] + 3, r[0] - w - 3]) if (free(x, y, w)) return {x, y, w};
    // On its own box, cut where that is not wide enough.
    if (within >= 30 && r[3] - r[1] >= NAME_H - 3) { const x = Math.max((r[0] + r[2] - w) / 2, r[0]); return free(x, y, Math.min(w, within), true) ? {x, y, w: Math.min(w, within)} : null; }
    const x = (r[0] + r[2] - w) / 2;
    if (onBoxes < ON_BOXES && free(x, y, w, true)) { onBoxes++; return {x, y, w}; }
    return null;
  }
}
