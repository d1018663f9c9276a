// html.c -- a view as one page that needs nothing else: the graph as JSON, and a viewer
// (viewer.js).
//
// The page allows itself no connection of any kind and no script but its own (its content policy),
// so that a string of the model that got past the escapes could still do nothing.
#include "view/view.h"

#include "base/json.h"
#include "ir/internal.h"

enum { ATTR_ITEMS = 256, UNPLACED_MAX = 20 };

// Made from viewer.css and the scripts by the build (cmake/embed.cmake), those of one ending
// joined; NUL-terminated.
extern const char view_css[], view_js[];

// ---- tables ----

// By op code; null for those that the model does not use.
static void put_ops(JsonWriter *w, const View *v) {
  bool *used = arena_array(v->arena, bool, OP_COUNT);
  for (int64_t i = 0; i < v->drawing.n; i++)
    for (int64_t k = 0; k < v->drawing.v[i]->node.n; k++)
      used[v->drawing.v[i]->node.v[k].node->op] = true;
  json_key(w, "ops");
  json_begin_array(w);
  for (int i = 0; i < OP_COUNT; i++) {
    const OpInfo *op = op_info(i);
    if (!used[i]) {
      json_null(w);
      continue;
    }
    json_begin_object(w);
    json_key(w, "name");
    json_cstr(w, op->name);
    json_key(w, "onnx");
    json_cstr(w, op->onnx);
    json_key(w, "doc");
    json_cstr(w, op->doc);
    json_key(w, "attrs");
    json_begin_object(w);
    for (int k = 0; k < op->nattrs; k++) {
      json_key(w, op->attrs[k].name);
      json_cstr(w, op->attrs[k].doc);
    }
    json_end_object(w);
    json_end_object(w);
  }
  json_end_array(w);
}

// Where the model lay on this machine is nobody's business.
static const char *file_name(const char *path) {
  const char *slash = path ? strrchr(path, '/') : NULL;
  return slash ? slash + 1 : path;
}

static void put_constant(JsonWriter *w, const ConstView *c, Arena *a) {
  const ConstData *data = c->node->data;
  json_begin_object(w);
  json_key(w, "name");
  json_cstr(w, c->node->name);
  json_key(w, "type");
  json_cstr(w, view_type_text(type_of(c->node), a));
  json_key(w, "n");
  json_i64(w, data->n);
  int64_t bytes = 0;
  if (type_of(c->node)->dtype != DT_STRING &&
      dtype_bytes(type_of(c->node)->dtype, data->n, &bytes)) {
    json_key(w, "bytes");
    json_i64(w, bytes);
  }
  if (data->source) {
    json_key(w, "file");
    json_cstr(w, file_name(data->source->label));
  }
  json_key(w, "readable");
  json_bool(w, c->readable || data->n == 0);
  if (c->has_stats) {
    json_key(w, "stats");
    json_begin_array(w);
    json_f64(w, c->min);
    json_f64(w, c->max);
    json_f64(w, c->mean);
    json_i64(w, c->nonfinite);
    json_end_array(w);
  }
  json_key(w, "values");
  json_begin_array(w);
  for (int64_t i = 0; i < c->nvalues; i++) json_cstr(w, c->value[i]);
  json_end_array(w);
  json_end_object(w);
}

static void put_families(JsonWriter *w) {
  json_key(w, "families");
  json_begin_array(w);
  for (int i = 0; i < FAMILY_COUNT; i++) json_cstr(w, family_info[i].name);
  json_end_array(w);
}

// ---- nodes ----

static void put_attr(JsonWriter *w, const char *name, const char *value, bool is_default) {
  json_begin_array(w);
  json_cstr(w, name);
  json_cstr(w, value);
  if (is_default) json_bool(w, true);
  json_end_array(w);
}

static void put_attrs(JsonWriter *w, const Node *n, Arena *a) {
  const OpInfo *op = op_info(n->op);
  json_key(w, "attrs");
  json_begin_array(w);
  if (n->op == OP_foreign && n->attrs) {
    const foreign_attrs *at = n->attrs;
    for (int64_t i = 0; i < MIN(at->keys.n, at->values.n); i++)
      put_attr(w, str_copy(a, at->keys.v[i]), str_copy(a, at->values.v[i]), false);
  } else if (n->op != OP_param && n->attrs) {
    for (const AttrDesc *d = op->attrs; d < op->attrs + op->nattrs; d++)
      if (d->kind != ATTR_body)
        put_attr(w, d->name, view_attr_text(d, n->attrs, ATTR_ITEMS, a),
                 attr_is_default(d, n->attrs));
  }
  json_end_array(w);
}

// An operand: its slot, the value's name, type, drawn node (or -1), constant (or -1).
static void put_operand(JsonWriter *w, const View *v, const IntMap *at, const char *slot,
                        const Node *src) {
  const Node *def = src->op == OP_proj ? src->src[0] : src;
  uint64_t node, constant;
  json_begin_array(w);
  json_cstr(w, slot);
  json_cstr(w, src->name ? src->name : def->name);
  json_cstr(w, view_type_text(type_of(src), v->arena));
  json_i64(w, intmap_get(at, def->id, &node) ? (int64_t)node : -1);
  json_i64(w, intmap_get(&v->const_index, def->id, &constant) ? (int64_t)constant : -1);
  json_end_array(w);
}

static void put_operands(JsonWriter *w, const View *v, const IntMap *at, const DrawNode *d) {
  const Node *n = d->node;
  json_key(w, "in");
  json_begin_array(w);
  if (d->kind == DRAW_OUTPUT) {
    put_operand(w, v, at, "value", n);
  } else if (d->kind == DRAW_CONST) {
    put_operand(w, v, at, "contents", n);
  } else {
    for (uint32_t i = 0; i < n->nsrc; i++)
      if (!is_none(v->graph, n->src[i]))
        put_operand(w, v, at, view_operand_name(op_info(n->op), i, v->arena), n->src[i]);
  }
  json_end_array(w);
}

static void put_results(JsonWriter *w, const View *v, const DrawNode *d) {
  const Node *n = d->node;
  json_key(w, "out");
  json_begin_array(w);
  for (int i = 0; d->kind != DRAW_OUTPUT && i < n->nres; i++) {
    json_begin_array(w);
    json_cstr(w, d->kind == DRAW_OP ? view_result_name(op_info(n->op), i, v->arena) : "value");
    json_cstr(w, view_type_text(n->type[i], v->arena));
    json_end_array(w);
  }
  json_end_array(w);
}

static void put_rows(JsonWriter *w, const DrawNode *d) {
  json_key(w, "rows");
  json_begin_array(w);
  for (int64_t i = 0; i < d->row.n; i++) put_attr(w, d->row.v[i].key, d->row.v[i].value, false);
  json_end_array(w);
  if (!d->body.n) return;
  json_key(w, "bodies");
  json_begin_array(w);
  for (int64_t i = 0; i < d->body.n; i++) {
    json_begin_array(w);
    json_cstr(w, d->body.v[i].attr);
    json_i64(w, d->body.v[i].drawing);
    json_end_array(w);
  }
  json_end_array(w);
}

static void put_rounded(JsonWriter *w, double x) { json_i64(w, (int64_t)(x + 0.5)); }

// FLOPs, bytes, and where it was measured the milliseconds, its share of them, how
// many nodes share them, and the kernel whose they are.
static void put_cost(JsonWriter *w, const View *v, const DrawNode *d) {
  if (d->kind != DRAW_OP || !v->sizes) return;
  json_key(w, "cost");
  json_begin_flat_array(w);
  json_f64(w, d->flops);
  json_i64(w, d->bytes);
  if (d->ms >= 0) {
    json_f64(w, d->ms);
    json_f64(w, d->share_ms);
    json_i64(w, d->shared);
    json_cstr(w, d->timed);
  }
  json_end_array(w);
}

static void put_box(JsonWriter *w, const DrawNode *d) {
  json_key(w, "box");
  json_begin_flat_array(w);
  put_rounded(w, d->x);
  put_rounded(w, d->y);
  put_rounded(w, d->w);
  put_rounded(w, d->h);
  json_end_array(w);
}

static void put_node(JsonWriter *w, const View *v, const IntMap *at, const DrawNode *d) {
  static const char *const kind[] = {"input", "op", "const", "output"};
  json_begin_object(w);
  json_key(w, "kind");
  json_cstr(w, kind[d->kind]);
  json_key(w, "op");
  json_i64(w, d->kind == DRAW_OUTPUT ? -1 : d->node->op);
  json_key(w, "title");
  json_cstr(w, d->title);
  json_key(w, "name");
  json_cstr(w, d->name);
  json_key(w, "family");
  json_i64(w, d->family);
  put_box(w, d);
  put_cost(w, v, d);
  put_rows(w, d);
  put_operands(w, v, at, d);
  put_results(w, v, d);
  if (d->kind != DRAW_OUTPUT) put_attrs(w, d->node, v->arena);
  json_end_object(w);
}

// ---- drawings ----

static void put_edge(JsonWriter *w, const DrawEdge *e) {
  json_begin_array(w);
  json_i64(w, e->from);
  json_i64(w, e->to);
  json_cstr(w, e->path);
  json_i64(w, e->parent);
  if (e->label) {
    json_cstr(w, e->label);
    put_rounded(w, e->label_x);
    put_rounded(w, e->label_y);
  }
  json_end_array(w);
}

static void put_outline(JsonWriter *w, const Drawing *d) {
  json_key(w, "title");
  json_cstr(w, d->title);
  json_key(w, "parent");
  json_i64(w, d->parent);
  json_key(w, "parentNode");
  json_i64(w, d->parent_node);
  json_key(w, "w");
  put_rounded(w, d->w);
  json_key(w, "h");
  put_rounded(w, d->h);
}

static void put_edges(JsonWriter *w, const Drawing *d) {
  json_key(w, "edges");
  json_begin_array(w);
  for (int64_t i = 0; i < d->edge.n; i++) put_edge(w, &d->edge.v[i]);
  json_end_array(w);
}

static void put_drawing(JsonWriter *w, const View *v, const Drawing *d) {
  IntMap at;
  intmap_init(&at, v->arena);
  for (int64_t i = 0; i < d->node.n; i++)
    if (d->node.v[i].kind != DRAW_OUTPUT) intmap_put(&at, d->node.v[i].node->id, (uint64_t)i);
  json_begin_object(w);
  put_outline(w, d);
  json_key(w, "nodes");
  json_begin_array(w);
  for (int64_t i = 0; i < d->node.n; i++) put_node(w, v, &at, &d->node.v[i]);
  json_end_array(w);
  put_edges(w, d);
  json_end_object(w);
}

// ---- folds ----

// A leaf is a node of the drawing that was folded; `port` is one, too, at the other end.
static void put_folded(JsonWriter *w, const DrawNode *d) {
  static const char *const kind[] = {
      [DRAW_MODULE] = "module", [DRAW_PORT_IN] = "in", [DRAW_PORT_OUT] = "out"};
  json_begin_object(w);
  if (d->kind < DRAW_MODULE) {
    json_key(w, "leaf");
    json_i64(w, d->leaf);
  } else {
    json_key(w, "kind");
    json_cstr(w, kind[d->kind]);
    json_key(w, "title");
    json_cstr(w, d->title);
    json_key(w, "name");
    json_cstr(w, d->name);
    put_rows(w, d);
    json_key(w, d->kind == DRAW_MODULE ? "part" : "port");
    json_i64(w, d->kind == DRAW_MODULE ? d->part : d->leaf);
  }
  put_box(w, d);
  json_end_object(w);
}

static void put_fold(JsonWriter *w, const Fold *f) {
  json_begin_object(w);
  json_key(w, "of");
  json_i64(w, f->of);
  json_key(w, "by");
  json_cstr(w, f->by & FOLD_MODULES ? "modules" : "host");
  json_key(w, "parts");
  json_begin_array(w);
  for (int64_t i = 0; i < f->part.n; i++) {
    const Drawing *d = f->part.v[i];
    json_begin_object(w);
    put_outline(w, d);
    json_key(w, "nodes");
    json_begin_array(w);
    for (int64_t k = 0; k < d->node.n; k++) put_folded(w, &d->node.v[k]);
    json_end_array(w);
    put_edges(w, d);
    json_end_object(w);
  }
  json_end_array(w);
  json_end_object(w);
}

// Sizes at which costs were counted: name and value of each.
static void put_sizes(JsonWriter *w, const View *v) {
  if (!v->sizes) return;
  json_key(w, "sizes");
  json_begin_array(w);
  for (int32_t i = 0; i < v->sizes->n; i++) {
    Dim s = v->graph->dims.sym.v[i];
    if (s->fresh || !v->sizes->known[i]) continue;
    json_begin_flat_array(w);
    json_str(w, (Str){s->name, s->value});
    json_i64(w, v->sizes->value[i]);
    json_end_array(w);
  }
  json_end_array(w);
}

static void put_profile(JsonWriter *w, const ViewProfile *p) {
  json_key(w, "profile");
  json_begin_object(w);
  json_key(w, "file");
  json_cstr(w, file_name(p->file));
  json_key(w, "ms");
  json_f64(w, p->total_ms);
  json_key(w, "placed");
  json_f64(w, p->placed_ms);
  json_key(w, "steps");
  json_i64(w, p->step.n);
  json_key(w, "unplaced");
  json_begin_array(w);
  for (int64_t i = 0, n = 0; i < p->step.n && n < UNPLACED_MAX; i++)
    if (!p->step.v[i].inner && !p->step.v[i].placed && p->step.v[i].ms > 0) {
      put_attr(w, p->step.v[i].node, str_printf(w->out->arena, "%.4f", p->step.v[i].ms), false);
      n++;
    }
  json_end_array(w);
  json_end_object(w);
}

static void put_json(const View *v, StrBuf *out) {
  JsonWriter w;
  json_init(&w, out, true);
  json_begin_object(&w);
  json_key(&w, "model");
  json_cstr(&w, v->model);
  json_key(&w, "generator");
  json_cstr(&w, FILE_MARK " " TENON_VERSION);
  json_key(&w, "version");
  json_cstr(&w, TENON_VERSION);
  put_families(&w);
  put_ops(&w, v);
  json_key(&w, "drawings");
  json_begin_array(&w);
  for (int64_t i = 0; i < v->drawing.n; i++) put_drawing(&w, v, v->drawing.v[i]);
  json_end_array(&w);
  json_key(&w, "folds");
  json_begin_array(&w);
  for (int64_t i = 0; i < v->fold.n; i++) put_fold(&w, v->fold.v[i]);
  json_end_array(&w);
  put_sizes(&w, v);
  if (v->profile) put_profile(&w, v->profile);
  json_key(&w, "consts");
  json_begin_array(&w);
  for (int64_t i = 0; i < v->constant.n; i++) put_constant(&w, &v->constant.v[i], v->arena);
  json_end_array(&w);
  if (v->opt) {
    json_key(&w, "opt");
    view_put_optimised(&w, v);
  }
  json_end_object(&w);
}

static void put_color_set(StrBuf *out, const char *where, bool dark) {
  strbuf_printf(out, "%s{", where);
  for (int i = 0; i < FAMILY_COUNT; i++)
    strbuf_printf(out, "--f%d:%s;", i, dark ? family_info[i].dark : family_info[i].light);
  strbuf_puts(out, "}\n");
}

// As viewer.css does it: what the system says, unless the page was told otherwise.
static void put_colors(StrBuf *out) {
  put_color_set(out, ":root", false);
  put_color_set(out, ":root.dark", true);
  for (int i = 0; i < FAMILY_COUNT; i++) strbuf_printf(out, ".f%d{--f:var(--f%d)}\n", i, i);
}

void view_write_json(const View *v, StrBuf *out) {
  put_json(v, out);
  strbuf_putc(out, '\n');
}

void view_write_html(const View *v, StrBuf *out) {
  StrBuf json;
  strbuf_init(&json, v->arena);
  put_json(v, &json);
  strbuf_puts(
      out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
           "<meta name=\"generator\" content=\"" FILE_MARK " " TENON_VERSION "\">\n"
           "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
           "style-src 'unsafe-inline'; script-src 'nonce-tenon'; img-src data:; base-uri 'none'; "
           "form-action 'none'\">\n"
           "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>");
  escape_xml(out, str_of(v->model));
  strbuf_puts(out, "</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n");
  put_colors(out);
  strbuf_puts(out, view_css);
  strbuf_puts(out, "</style>\n</head>\n<body>\n<script type=\"application/json\" id=\"data\">");
  escape_script(out, strbuf_str(&json));
  strbuf_puts(out, "</script>\n<script nonce=\"tenon\">\n'use strict';\n(() => {\n");
  strbuf_puts(out, view_js);
  strbuf_puts(out, "})();\n</script>\n</body>\n</html>\n");
}
