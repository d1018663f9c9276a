// memory.js -- the memory plan as a picture: steps from left to right, addresses of the arena from bottom to top, one rectangle
// for each buffer.
//
// Sizes are expressions in the model's symbols (optimised.c); offsets follow from them as at run time: a buffer begins where the
// highest one below it ends.  So the picture follows the sizes that are set here.

const dock = h('section', {id: 'dock', 'aria-label': 'memory plan'});
const plot = h('canvas', {id: 'plan', tabindex: '0', role: 'img', 'aria-label': 'memory plan: steps by addresses'});
const tip = h('div', {id: 'tip', role: 'tooltip'});
const figures = h('div', {class: 'figures'});
const memoryButton = h('button', {type: 'button', title: 'memory plan (m)', 'aria-pressed': 'true', onclick: () => toggleMemory()}, 'memory');
const MARGIN = {left: 74, right: 14, top: 10, bottom: 24};
const plan = opt ? opt.plan : null;
// What is shown: the window [x0, x1] x [y0, y1] of steps and bytes; null y1: all of the arena.
const look = {x0: 0, x1: 1, y0: 0, y1: 0, offset: [], size: [], total: 0, bound: 0, live: [], hover: -1, error: ''};

// ---- sizes ----
function evaluate(e) {
  if (typeof e === 'number') return e;
  if (e === null) throw new Error('a size is out of range');
  const [what, a, b] = e;
  if (what === 'sym') {
    if (!opt.dims[a]) throw new Error('a size depends on data');
    return opt.dims[a].now;
  }
  if (what === 'sum') return e.slice(1).reduce((sum, [c, ...factors]) => sum + factors.reduce((x, f) => x * evaluate(f), c), 0);
  const x = evaluate(a), y = evaluate(b);
  if ((what === 'div' || what === 'mod') && y === 0) throw new Error('a size divides by 0');
  if (what === 'div') return Math.floor(x / y);
  if (what === 'mod') return x - y * Math.floor(x / y);
  return what === 'min' ? Math.min(x, y) : what === 'max' ? Math.max(x, y) : x === 1 ? y : x;
}
function layPlan() {
  look.error = '';
  look.total = look.bound = 0;
  try {
    look.size = plan.buffers.map(b => {
      const n = evaluate(b.bytes);
      if (!(n >= 0 && n <= Number.MAX_SAFE_INTEGER)) throw new Error('a size is out of range');
      return n;
    });
  } catch (e) {
    look.error = e.message;
    return;
  }
  for (const b of plan.order) {
    look.offset[b] = plan.buffers[b].below.reduce((top, low) => Math.max(top, look.offset[low] + look.size[low]), 0);
    look.total = Math.max(look.total, look.offset[b] + look.size[b]);
  }
  for (let b = plan.buffers.length - 1; b >= 0; b--) {  // what is joined is made after its parts
    const x = plan.buffers[b];
    if (x.within !== undefined) look.offset[b] = look.offset[x.within] + evaluate(x.at);
  }
  look.live = new Array(plan.steps.length + 2).fill(0);
  for (const b of plan.order) {
    look.live[plan.buffers[b].firstShared] += look.size[b];
    look.live[plan.buffers[b].lastShared + 1] -= look.size[b];
  }
  for (let i = 1; i < look.live.length; i++) look.live[i] += look.live[i - 1];
  look.bound = Math.max(0, ...look.live);
}
const offsetOf = b => look.offset[plan.buffers[b].root];

// ---- figures and sizes to choose ----
function showFigures() {
  const n = plan.buffers.length, part = (k, v, title) => h('span', {class: 'fig', title: title || ''}, k + ' ', h('b', {}, v));
  figures.replaceChildren(...(look.error ? [h('span', {class: 'bad'}, look.error)] : [
    part('arena', bytes(look.total)), part('\u2504 most alive at once', bytes(look.bound), 'the dashed line; no arena can be smaller in this order'),
    part('all buffers apart', bytes(plan.order.reduce((sum, b) => sum + look.size[b], 0)), 'what they would take without sharing'),
    part('constants', bytes(opt.after.consts), 'weights; not in the arena'),
    part('', `${count(n)} buffers`, ''), part('', `${count(plan.views)} views`, 'the same bytes under another shape'),
    part('', `${count(plan.inplace)} in place`, 'written over an operand that dies'),
  ]));
}
function dimInputs() {
  return opt.dims.map(d => {
    if (!d) return null;
    d.now = d.value;
    if (!d.used) return null;
    const field = h('input', {type: 'number', min: d.least, ...(d.most !== undefined ? {max: d.most} : {}), value: d.value, step: 1});
    field.addEventListener('input', () => {
      const v = Math.floor(Number(field.value)), ok = field.value !== '' && v >= d.least && (d.most === undefined || v <= d.most);
      field.classList.toggle('bad', !ok);
      if (!ok) return;
      d.now = v;
      const whole = look.y1 === look.total && look.y0 === 0;
      layPlan();
      if (whole || look.y1 > look.total) { look.y0 = 0; look.y1 = look.total; }
      showFigures();
      drawMemory();
    });
    return h('label', {class: 'dim'}, d.name, field);
  }).filter(Boolean);
}

// ---- drawing ----
const area = () => ({x: MARGIN.left, y: MARGIN.top, w: Math.max(plot.clientWidth - MARGIN.left - MARGIN.right, 1),
  h: Math.max(plot.clientHeight - MARGIN.top - MARGIN.bottom, 1)});
const toX = step => { const a = area(); return a.x + (step - look.x0) / (look.x1 - look.x0) * a.w; };
const toY = at => { const a = area(); return a.y + a.h - (at - look.y0) / Math.max(look.y1 - look.y0, 1) * a.h; };
const rect = b => {
  const buffer = plan.buffers[b], at = offsetOf(b), x = toX(buffer.first), y = toY(at + look.size[b]);
  return [x, y, toX(Math.min(buffer.last, plan.steps.length) + 1) - x, toY(at) - y];
};
function ticks(most, wish) {
  const raw = most / wish, step = 2 ** Math.ceil(Math.log2(Math.max(raw, 1)));
  return step;
}
function drawAxes(g, a, ink, line) {
  g.font = '10.5px system-ui, sans-serif';
  g.textBaseline = 'middle';
  const step = ticks(look.y1 - look.y0, Math.max(a.h / 34, 2));
  for (let v = Math.ceil(look.y0 / step) * step; v <= look.y1; v += step) {
    const y = Math.round(toY(v)) + 0.5;
    g.strokeStyle = line;
    g.globalAlpha = 0.45;
    g.beginPath(); g.moveTo(a.x, y); g.lineTo(a.x + a.w, y); g.stroke();
    g.globalAlpha = 1;
    g.fillStyle = ink;
    g.textAlign = 'right';
    g.fillText(bytes(v), a.x - 7, y);
  }
  const across = Math.max(ticks(look.x1 - look.x0, Math.max(a.w / 70, 2)), 1);
  g.textAlign = 'center';
  for (let v = Math.ceil(look.x0 / across) * across; v < look.x1; v += across)
    if (v < plan.steps.length) g.fillText(String(v), toX(v + 0.5), a.y + a.h + 11);
  g.textAlign = 'left';
  g.fillText('step', 8, a.y + a.h + 11);
}
function drawBuffers(g, a, css) {
  const marked = new Set(pane && pane.selected && pane.selected.d === opt.drawing ? buffersAt(pane.selected.i) : []);
  const reads = new Set(pane && pane.selected && pane.selected.d === opt.drawing ? readsAt(pane.selected.i) : []);
  const any = marked.size + reads.size > 0;
  plan.buffers.forEach((buffer, b) => {
    const [x, y, w, height] = rect(b), shared = buffer.root !== b || buffer.within !== undefined;
    if (x > a.x + a.w || x + w < a.x || y > a.y + a.h || y + height < a.y) return;
    const color = css.getPropertyValue('--f' + after.nodes[buffer.node].family), hot = b === look.hover || marked.has(b) || reads.has(b);
    const iw = Math.max(w - 1, 0.7), ih = Math.max(height - 1, 0.7);
    g.globalAlpha = (any && !hot ? 0.28 : 0.82) * (shared ? 0.75 : 1);
    g.fillStyle = color;
    g.fillRect(x, y, iw, ih);
    g.globalAlpha = 1;
    if (shared && iw > 3 && ih > 3) {  // a view, or written in place: marked at its left
      g.fillStyle = css.getPropertyValue('--card');
      g.fillRect(x, y, 1.5, ih);
    }
    if (hot) {
      g.strokeStyle = css.getPropertyValue(b === look.hover ? '--ink' : reads.has(b) ? '--hit' : '--accent');
      g.lineWidth = 2;
      g.strokeRect(x + 1, y + 1, Math.max(iw - 2, 1), Math.max(ih - 2, 1));
    }
    if (iw > 46 && ih > 13 && (hot || !any)) label(g, css, shortName(after.nodes[buffer.node]), x, y, iw, ih);
  });
}
// The number of the kernel and the end of its name, which says more than the beginning.
function shortName(n) {
  const m = /^\d+ /.exec(n.title);
  return (m ? m[0] : '') + nodeName(n).split('/').slice(-2).join('/');
}
function label(g, css, text, x, y, w, height) {
  g.save();
  g.beginPath();
  g.rect(x, y, w - 4, height);
  g.clip();
  g.fillStyle = css.getPropertyValue('--on-family');
  g.textAlign = 'left';
  g.fillText(text, x + 5, y + Math.min(height / 2, 12));
  g.restore();
}
function drawLive(g, a, css) {
  g.strokeStyle = css.getPropertyValue('--ink');
  g.lineWidth = 1.2;
  g.setLineDash([4, 3]);
  g.beginPath();
  for (let i = 0; i <= plan.steps.length; i++) {
    g.lineTo(toX(i), toY(look.live[i]));
    g.lineTo(toX(i + 1), toY(look.live[i]));
  }
  g.stroke();
  g.setLineDash([]);
}
let memoryPending = false;
function drawMemory() {
  if (memoryPending || !plan) return;
  memoryPending = true;
  requestAnimationFrame(paintMemory);
}
function paintMemory() {
  memoryPending = false;
  const dpr = devicePixelRatio || 1, w = plot.clientWidth, height = plot.clientHeight;
  if (!w || !height) return;
  if (plot.width !== Math.round(w * dpr) || plot.height !== Math.round(height * dpr)) { plot.width = Math.round(w * dpr); plot.height = Math.round(height * dpr); }
  const g = plot.getContext('2d'), css = getComputedStyle(document.documentElement), a = area();
  g.setTransform(dpr, 0, 0, dpr, 0, 0);
  g.clearRect(0, 0, w, height);
  if (look.error) return;
  drawAxes(g, a, css.getPropertyValue('--soft'), css.getPropertyValue('--line'));
  g.save();
  g.beginPath();
  g.rect(a.x, a.y, a.w, a.h);
  g.clip();
  const step = pane && pane.selected && pane.selected.d === opt.drawing ? plan.steps.indexOf(pane.selected.i) : -1;
  if (step >= 0) {
    g.fillStyle = css.getPropertyValue('--accent');
    g.globalAlpha = 0.16;
    g.fillRect(toX(step), a.y, Math.max(toX(step + 1) - toX(step), 2), a.h);
    g.globalAlpha = 1;
  }
  drawBuffers(g, a, css);
  drawLive(g, a, css);
  g.restore();
}

// ---- buffers and nodes ----
const buffersAt = i => plan.buffers.map((b, k) => b.node === i ? k : -1).filter(k => k >= 0);
function readsAt(i) {
  const from = new Set(after.nodes[i].in.map(x => x[3]).filter(k => k >= 0));
  return plan.buffers.map((b, k) => from.has(b.node) ? k : -1).filter(k => k >= 0);
}
const holderName = b => nodeName(after.nodes[plan.buffers[b].node]);
const kindOf = b => { const x = plan.buffers[b]; return x.within !== undefined ? `a part of ${holderName(x.within)}` : x.root === b ? '' : `shares the memory of ${holderName(x.root)}`; };
const lifeText = b => { const x = plan.buffers[b]; return x.last >= plan.steps.length ? `step ${x.first} to the end` : x.first === x.last ? `step ${x.first}` : `steps ${x.first} to ${x.last}`; };
function bufferRows(b) {
  const at = offsetOf(b);
  return [['type', plan.buffers[b].type], ['size', `${bytes(look.size[b])} (${count(look.size[b])})`], ['at', `${count(at)} to ${count(at + look.size[b])}`],
    ['alive', lifeText(b)], ['made by', after.nodes[plan.buffers[b].node].title], ...(kindOf(b) ? [['memory', kindOf(b)]] : [])];
}
function memorySections(ref) {
  if (!plan || look.error || ref.d !== opt.drawing || !look.size.length) return [];
  return section('in memory', ...buffersAt(ref.i).map(b => h('div', {class: 'item'}, list(bufferRows(b)))));
}

// ---- pointer ----
function bufferUnder(px, py) {
  const a = area();
  if (px < a.x || px > a.x + a.w || py < a.y || py > a.y + a.h || look.error) return -1;
  for (let b = plan.buffers.length - 1; b >= 0; b--) {
    const [x, y, w, height] = rect(b);
    if (px >= x && px <= x + Math.max(w, 2) && py >= y - 1 && py <= y + Math.max(height, 2)) return b;
  }
  return -1;
}
function showTip(b, e) {
  if (b !== look.hover) { look.hover = b; drawMemory(); }
  tip.hidden = b < 0;
  if (b < 0) return;
  const buffer = plan.buffers[b], n = after.nodes[buffer.node];
  tip.replaceChildren(h('b', {}, nodeName(n) + (n.out.length > 1 ? ` \u00b7 ${n.out[buffer.result][0]}` : '')), list(bufferRows(b)));
  const box = tip.getBoundingClientRect();
  tip.style.left = clamp(e.clientX + 14, 4, innerWidth - box.width - 6) + 'px';
  tip.style.top = clamp(e.clientY - box.height - 12 < 4 ? e.clientY + 16 : e.clientY - box.height - 12, 4, innerHeight - box.height - 4) + 'px';
}
function limitLook() {
  const n = plan.steps.length + 1, w = clamp(look.x1 - look.x0, Math.min(4, n), n), tall = clamp(look.y1 - look.y0, Math.min(1024, look.total), look.total);
  look.x0 = clamp(look.x0, 0, n - w);
  look.x1 = look.x0 + w;
  look.y0 = clamp(look.y0, 0, look.total - tall);
  look.y1 = look.y0 + tall;
  drawMemory();
}
function fitMemory() {
  Object.assign(look, {x0: 0, x1: plan.steps.length + 1, y0: 0, y1: look.total});
  drawMemory();
}
function zoomMemory(px, py, fx, fy) {
  const a = area(), x = look.x0 + (px - a.x) / a.w * (look.x1 - look.x0), y = look.y0 + (a.y + a.h - py) / a.h * (look.y1 - look.y0);
  Object.assign(look, {x0: x - (x - look.x0) / fx, x1: x + (look.x1 - x) / fx, y0: y - (y - look.y0) / fy, y1: y + (look.y1 - y) / fy});
  limitLook();
}
function listenMemory() {
  let drag = null;
  const place = e => { const box = plot.getBoundingClientRect(); return {x: e.clientX - box.left, y: e.clientY - box.top}; };
  plot.addEventListener('pointerdown', e => { plot.setPointerCapture(e.pointerId); drag = {...place(e), far: 0}; });
  plot.addEventListener('pointermove', e => {
    const p = place(e);
    if (!drag) { showTip(bufferUnder(p.x, p.y), e); return; }
    const a = area(), dx = (p.x - drag.x) / a.w * (look.x1 - look.x0), dy = (p.y - drag.y) / a.h * (look.y1 - look.y0);
    drag = {...p, far: drag.far + Math.abs(p.x - drag.x) + Math.abs(p.y - drag.y)};
    Object.assign(look, {x0: look.x0 - dx, x1: look.x1 - dx, y0: look.y0 + dy, y1: look.y1 + dy});
    limitLook();
  });
  plot.addEventListener('pointerup', e => {
    const p = place(e), b = bufferUnder(p.x, p.y);
    if (drag && drag.far < 5 && b >= 0) reveal(opt.drawing, plan.buffers[b].node);
    drag = null;
  });
  plot.addEventListener('pointercancel', () => { drag = null; });
  plot.addEventListener('pointerleave', e => showTip(-1, e));
  plot.addEventListener('dblclick', fitMemory);
  plot.addEventListener('wheel', e => {
    e.preventDefault();
    const f = Math.exp(-clamp(e.deltaY * (e.deltaMode === 1 ? 18 : 1), -300, 300) * 0.0016), p = place(e);
    zoomMemory(p.x, p.y, f, e.shiftKey ? f : 1);
  }, {passive: false});
  new ResizeObserver(drawMemory).observe(plot);
}

function toggleMemory() {
  const hidden = dock.classList.toggle('closed');
  dock.previousElementSibling.hidden = hidden;
  memoryButton.setAttribute('aria-pressed', String(!hidden));
  drawMemory();
}
function startMemory() {
  document.body.append(tip);
  tip.hidden = true;
  if (!plan) {
    dock.append(h('div', {class: 'bar'}, h('b', {}, 'memory plan'), h('span', {class: 'doc'}, opt.noPlan || 'none')));
    return;
  }
  dock.append(h('div', {class: 'bar'}, h('b', {}, 'memory plan'),
    tool('fit', 'show the whole plan; wheel: zoom in steps, with Shift in addresses, too', fitMemory), ...dimInputs(), figures), plot);
  layPlan();
  showFigures();
  listenMemory();
  fitMemory();
}
