// export_node.c -- one call of a torch.export program.
#include "frontends/pytorch/export.h"

static Str text_of(const Json *j, const char *key) {
  const Json *v = json_get(j, key);
  return v && v->kind == JSON_STRING ? v->s : (Str){"", 0};
}

bool export_dtype(int64_t code, DType *out) {
  static const int8_t more[] = {24, 23, 26, 25};  // from 29 on: the 8-bit floats
  if (code >= 1 && code <= 12) return torch_scalar_type(code - 1, out);
  if (code == 13) return torch_scalar_type(15, out);
  if (code == 28) return torch_scalar_type(27, out);
  return code >= 29 && code <= 32 && torch_scalar_type(more[code - 29], out);
}

enum { DEEPEST_GRAPH = 16 };

// ---- arguments: unions with one key ----

static tenon_status read_symbol(ExportProgram *p, const Json *v, AtenValue *out) {
  const Json *i = json_get(v, "as_int"), *f = json_get(v, "as_float"), *b = json_get(v, "as_bool");
  if (i) *out = av_int(i->i);
  if (f) *out = av_float(f->f);
  if (b) *out = av_bool(b->b);
  return i || f || b ? TENON_OK : export_find(p, text_of(v, "as_name"), out);
}

static tenon_status read_plain(ExportProgram *p, const Json *v, AtenValue *out) {
  switch (v->kind) {
  case JSON_INT: *out = av_int(v->i); return TENON_OK;
  case JSON_FLOAT: *out = av_float(v->f); return TENON_OK;
  case JSON_BOOL: *out = av_bool(v->b); return TENON_OK;
  case JSON_STRING: *out = av_str(v->s); return TENON_OK;
  case JSON_OBJECT:
    if (json_get(v, "name")) return export_find(p, text_of(v, "name"), out);
    return json_get(v, "as_name") || (json_get(v, "as_int") && v->n == 1) ? read_symbol(p, v, out)
                                                                          : export_arg(p, v, out);
  default: *out = (AtenValue){0}; return TENON_OK;
  }
}

static tenon_status read_list(ExportProgram *p, const Json *v, bool floats, AtenValue *out) {
  *out = av_list(&p->g->arena, AV_LIST);
  for (int64_t i = 0; i < v->n; i++) {
    AtenValue one;
    TRY(read_plain(p, &v->item[i], &one));
    if (floats && one.kind == AV_INT) one = av_float((double)one.i);
    av_push(&p->g->arena, out, one);
  }
  return TENON_OK;
}

tenon_status export_arg(ExportProgram *p, const Json *arg, AtenValue *out) {
  *out = (AtenValue){0};
  if (!arg || arg->kind != JSON_OBJECT || arg->n != 1)
    return fail(p->diag, TENON_EFORMAT, NOWHERE, "an argument that is no union");
  Str kind = arg->key[0];
  const Json *v = &arg->item[0];
  if (v->kind == JSON_ARRAY) return read_list(p, v, str_is(kind, "as_floats"), out);
  if (str_is(kind, "as_none") || str_is(kind, "as_device") || str_is(kind, "as_layout") ||
      str_is(kind, "as_memory_format"))
    return TENON_OK;
  if (str_is(kind, "as_tensor")) return export_find(p, text_of(v, "name"), out);
  if (str_is(kind, "as_optional_tensor")) return export_arg(p, v, out);
  if (str_starts(kind, "as_sym_")) return read_symbol(p, v, out);
  if (str_is(kind, "as_scalar_type")) {
    DType t;
    if (v->kind != JSON_INT || !export_dtype(v->i, &t))
      return fail(p->diag, TENON_EUNSUPPORTED, NOWHERE, "dtype %lld is not known", (long long)v->i);
    *out = av_int(torch_scalar_code(t));
    return TENON_OK;
  }
  if (str_is(kind, "as_float") && v->kind == JSON_INT) {
    *out = av_float((double)v->i);
    return TENON_OK;
  }
  // JSON has no infinities: the writer spells them.
  if (str_is(kind, "as_float") && v->kind == JSON_STRING) {
    *out = av_float(str_is(v->s, "NaN") ? __builtin_nan("")
                    : v->s.p[0] == '-'  ? -__builtin_inf()
                                        : __builtin_inf());
    return TENON_OK;
  }
  return read_plain(p, v, out);
}

// ---- calls ----

// *changes: the call puts its result into its first operand.
static const AtenSchema *find_schema(ExportProgram *p, Str target, bool *changes) {
  static const char prefix[] = "torch.ops.aten.", decomposed[] = "torch.ops.quantized_decomposed.";
  *changes = false;
  bool quant = str_starts(target, decomposed);
  if (!quant && !str_starts(target, prefix)) return NULL;
  int64_t skip = quant ? (int64_t)sizeof decomposed - 1 : (int64_t)sizeof prefix - 1;
  Str name = {target.p + skip, target.n - skip};
  const char *dot = name.n ? memchr(name.p, '.', (size_t)name.n) : NULL;
  Str overload = dot ? (Str){dot + 1, name.p + name.n - dot - 1} : (Str){"", 0};
  if (dot) name.n = dot - name.p;
  if (quant) {  // rows have the library in their name
    const char *own = str_printf(&p->g->arena, "quantized_decomposed_%.*s", (int)name.n, name.p);
    return aten_find(&p->aten, str_of(own), overload);
  }
  const AtenSchema *s = aten_find(&p->aten, name, overload);
  if (s) return s;
  *changes = true;
  return aten_find_changing(&p->aten, name, overload);
}

bool export_changed(ExportProgram *p, Str value) {
  for (int64_t i = 0; i < p->nodes->n; i++) {
    const Json *inputs = json_get(&p->nodes->item[i], "inputs");
    bool changes;
    if (!inputs || inputs->kind != JSON_ARRAY || !inputs->n) continue;
    find_schema(p, text_of(&p->nodes->item[i], "target"), &changes);
    Str first = text_of(json_get(json_get(&inputs->item[0], "arg"), "as_tensor"), "name");
    if (changes && str_eq(first, value)) return true;
  }
  return false;
}

static const struct {
  const char *target;
  char op;
  const char *compare;
} number_ops[] = {{"_operator.add", '+', NULL},      {"_operator.sub", '-', NULL},
                  {"_operator.mul", '*', NULL},      {"_operator.truediv", '/', NULL},
                  {"_operator.floordiv", 'f', NULL}, {"_operator.mod", '%', NULL},
                  {"_operator.pow", 'p', NULL},      {"torch.sym_max", '>', NULL},
                  {"torch.sym_min", '<', NULL},      {"_operator.eq", 0, "eq"},
                  {"_operator.ne", 0, "ne"},         {"_operator.lt", 0, "lt"},
                  {"_operator.le", 0, "le"},         {"_operator.gt", 0, "gt"},
                  {"_operator.ge", 0, "ge"}};

static int number_op(Str target) {
  for (int i = 0; i < (int)ARRAY_LEN(number_ops); i++)
    if (str_is(target, number_ops[i].target)) return i;
  return -1;
}

// ---- graphs inside: parts that were traced under a setting that means nothing here ----

static const Json *inner_graph(const Json *node, int64_t *at) {
  const Json *inputs = json_get(node, "inputs");
  for (int64_t i = 0; inputs && inputs->kind == JSON_ARRAY && i < inputs->n; i++) {
    const Json *g = json_get(json_get(json_get(&inputs->item[i], "arg"), "as_graph"), "graph");
    if (g && at) *at = i;
    if (g) return g;
  }
  return NULL;
}

// Gradients or not; other types by themselves (autocast) only where that is off.
static bool is_inlined(const Json *node) {
  Str target = text_of(node, "target");
  const Json *inputs = json_get(node, "inputs");
  if (!inner_graph(node, NULL)) return false;
  if (str_is(target, "torch.ops.higher_order.wrap_with_set_grad_enabled")) return true;
  if (!str_is(target, "torch.ops.higher_order.wrap_with_autocast") || inputs->n < 3) return false;
  const Json *on = json_get(json_get(&inputs->item[2], "arg"), "as_bool");
  return on && on->kind == JSON_BOOL && !on->b;
}

static bool mentions(const Json *j, Str name) {
  if (!j) return false;
  if (j->kind == JSON_STRING) return str_eq(j->s, name);
  if (j->kind != JSON_ARRAY && j->kind != JSON_OBJECT) return false;
  for (int64_t i = 0; i < j->n; i++)
    if (mentions(&j->item[i], name)) return true;
  return false;
}

// An operator that changes its operand: its name, before the overload, ends in an underscore.
static bool is_in_place(Str target) {
  int64_t end = target.n;
  while (end > 0 && target.p[end - 1] != '.') end--;
  return end > 2 && target.p[end - 2] == '_' && target.p[end - 3] != '_';
}

// Nobody reads what it gives: layers that training alone drops leave such calls behind.
static bool is_unused(const ExportProgram *p, const Json *nodes, const Json *node) {
  const Json *outputs = json_get(node, "outputs");
  if (is_in_place(text_of(node, "target"))) return false;
  if (!outputs || outputs->kind != JSON_ARRAY || nodes != p->nodes) return false;
  for (int64_t i = 0; i < outputs->n; i++) {
    Str name = text_of(json_get(&outputs->item[i], "as_tensor"), "name");
    if (!name.n || mentions(p->outputs, name)) return false;
    for (int64_t k = 0; k < nodes->n; k++)
      if (mentions(json_get(&nodes->item[k], "inputs"), name)) return false;
  }
  return true;
}

static void report(ExportProgram *p, const Json *nodes, int depth);

static void report_graphs(ExportProgram *p, const Json *node, int depth) {
  const Json *inputs = json_get(node, "inputs");
  for (int64_t i = 0; inputs && inputs->kind == JSON_ARRAY && i < inputs->n; i++) {
    const Json *g = json_get(json_get(json_get(&inputs->item[i], "arg"), "as_graph"), "graph");
    const Json *inside = json_get(g, "nodes");
    if (inside && inside->kind == JSON_ARRAY) report(p, inside, depth);
  }
}

static void report(ExportProgram *p, const Json *nodes, int depth) {
  for (int64_t i = 0; i < nodes->n; i++) {
    const Json *node = &nodes->item[i];
    Str target = text_of(node, "target"), name = text_of(node, "name");
    bool changes;
    const AtenSchema *s = find_schema(p, target, &changes);
    if (number_op(target) >= 0 || (s && s->row->fn)) continue;
    if (is_inlined(node) && depth < DEEPEST_GRAPH) {
      const Json *inside = json_get(inner_graph(node, NULL), "nodes");
      if (inside && inside->kind == JSON_ARRAY) report(p, inside, depth + 1);
      continue;
    }
    if (export_is_control(target) && depth < DEEPEST_GRAPH) {
      report_graphs(p, node, depth + 1);
      continue;
    }
    if (is_unused(p, nodes, node)) continue;
    bool other = str_starts(target, "torch.ops.higher_order.");
    frontend_unsupported(p->in, str_copy(&p->g->arena, target),
                         s       ? s->row->why
                         : other ? "a call of a graph inside of the program"
                                 : "no such row in the table of ATen operators; "
                                   "run_decompositions() before saving may decompose it",
                         str_copy(&p->g->arena, name));
  }
}

bool export_supported(ExportProgram *p, const Json *nodes) {
  report(p, nodes, 0);
  return !p->in->unsupported.n;
}

enum { MOST_KEYWORDS = 32 };

// Names inside are names of their own: those of the operands, and what is computed from them.
tenon_status export_run_inside(ExportProgram *p, const Json *g, const AtenValue *args, int64_t n,
                               AtenValue *out) {
  const Json *in = json_get(g, "inputs"), *nodes = json_get(g, "nodes");
  const Json *results = json_get(g, "outputs");
  StrMap outside = p->values;
  if (!in || in->kind != JSON_ARRAY || in->n != n || !nodes || nodes->kind != JSON_ARRAY ||
      !results || results->kind != JSON_ARRAY || p->depth >= DEEPEST_GRAPH)
    return fail(p->diag, TENON_EFORMAT, NOWHERE, "a graph inside that does not fit its call");
  strmap_init(&p->values, &p->g->arena);
  p->depth++;
  tenon_status s = TENON_OK;
  for (int64_t i = 0; i < n && !s; i++) {
    const Json *one = in->item[i].n == 1 ? &in->item[i].item[0] : NULL;
    Str name = text_of(one, "name");
    if (!name.n) name = text_of(one, "as_name");
    if (name.n) s = export_define(p, name, args[i]);
  }
  for (int64_t i = 0; i < nodes->n && !s; i++) s = export_node(p, &nodes->item[i]);
  *out = av_list(&p->g->arena, AV_TUPLE);
  for (int64_t i = 0; i < results->n && !s; i++) {
    AtenValue one;
    s = export_arg(p, &results->item[i], &one);
    if (!s) av_push(&p->g->arena, out, one);
  }
  p->depth--;
  p->values = outside;
  return s;
}

static tenon_status inline_call(ExportProgram *p, const Json *node, AtenValue *out) {
  int64_t at = 0;
  const Json *g = inner_graph(node, &at), *inputs = json_get(node, "inputs");
  int64_t n = inputs->n - at - 1;
  AtenValue *args = arena_array(&p->g->arena, AtenValue, n + 1);
  for (int64_t i = 0; i < n; i++)
    TRY(export_arg(p, json_get(&inputs->item[at + 1 + i], "arg"), &args[i]));
  return export_run_inside(p, g, args, n, out);
}

static tenon_status read_inputs(ExportProgram *p, const Json *node, AtenKeyword *kw, int *n) {
  const Json *inputs = json_get(node, "inputs");
  *n = 0;
  if (!inputs || inputs->kind != JSON_ARRAY || inputs->n > MOST_KEYWORDS)
    return fail(p->diag, TENON_EFORMAT, NOWHERE, "a node without inputs");
  for (int64_t i = 0; i < inputs->n; i++) {
    kw[*n].name = text_of(&inputs->item[i], "name");
    TRY(export_arg(p, json_get(&inputs->item[i], "arg"), &kw[*n].value));
    ++*n;
  }
  return TENON_OK;
}

static tenon_status define_outputs(ExportProgram *p, const Json *node, const AtenValue *v,
                                   Where at) {
  const Json *outputs = json_get(node, "outputs");
  if (!outputs || outputs->kind != JSON_ARRAY) return TENON_OK;
  bool many = v->kind == AV_TUPLE || v->kind == AV_LIST;
  int64_t next = 0, have = many ? v->list->v.n : 1;
  for (int64_t i = 0; i < outputs->n; i++) {
    const Json *o = &outputs->item[i], *list = json_get(o, "as_tensors");
    int64_t n = list ? list->n : 1;
    for (int64_t k = 0; k < n; k++, next++) {
      Str name = list ? text_of(&list->item[k], "name") : text_of(json_get(o, "as_tensor"), "name");
      const Json *sym = o->n == 1 && str_starts(o->key[0], "as_sym_") ? &o->item[0] : NULL;
      if (!name.n) name = text_of(sym, "as_name");
      if (!name.n) continue;  // None
      if (next >= have)
        return fail(p->diag, TENON_EFORMAT, at, "the call gives %lld values, not more",
                    (long long)have);
      const AtenValue *one = many ? &v->list->v.v[next] : v;
      if (one->kind != AV_NONE || av_is_unknown(one)) TRY(export_define(p, name, *one));
    }
  }
  return TENON_OK;
}

tenon_status export_node(ExportProgram *p, const Json *node) {
  Str target = text_of(node, "target");
  Where at = {.node = intern(&p->g->names, text_of(node, "name")),
              .op = intern(&p->g->names, target)};
  AtenKeyword kw[MOST_KEYWORDS];
  AtenValue args[MOST_KEYWORDS] = {{0}}, out;
  int n;
  if (is_inlined(node)) {
    TRY(inline_call(p, node, &out));
    return define_outputs(p, node, &out, at);
  }
  if (export_is_control(target)) {
    TRY(export_control(p, node, target, at, &out));
    return define_outputs(p, node, &out, at);
  }
  TRY(read_inputs(p, node, kw, &n));
  int op = number_op(target);
  if (op >= 0) {
    if (n != 2 || !av_is_number(&kw[0].value) || !av_is_number(&kw[1].value))
      return fail(p->diag, TENON_EFORMAT, at, "two numbers are needed");
    out = number_ops[op].op
              ? aten_number_op(&p->aten, number_ops[op].op, &kw[0].value, &kw[1].value, at)
              : aten_compare(&p->aten, number_ops[op].compare, &kw[0].value, &kw[1].value);
  } else {
    bool changes;
    const AtenSchema *s = find_schema(p, target, &changes);
    if (!s || !s->row->fn) return TENON_OK;  // nobody reads what it gives
    // What an operator in place calls `self`, the other may call `input`.
    if (changes && n && str_is(kw[0].name, "self")) kw[0].name = s->arg[0].name;
    if (!aten_bind(s, &p->g->arena, NULL, 0, kw, n, false, args))
      return fail(p->diag, TENON_EFORMAT, at, "the arguments do not fit %s", s->row->schema);
    aten_build(&p->aten, s, args, at, &out);
    if (changes) {
      aten_change(&p->aten, &args[0], &out, at);
      if (args[0].kind == AV_TENSOR) out = args[0];
    }
  }
  TRY(graph_status(p->g));
  return define_outputs(p, node, &out, at);
}
