// export.c -- programs of torch.export: the archive's JSON as a graph.
//
// The program is a list of calls of ATen operators over named values; parameters and buffers are
// inputs of it that the signature ties to weights by name.  A buffer that the program changes is a
// result, too, and can be given as an input: its stored value is the default.
#include "frontends/pytorch/export.h"

#include "base/json.h"

enum { OLDEST_SCHEMA = 4, NEWEST_SCHEMA = 8 };

static tenon_status bad(const ExportProgram *p, const char *fmt, ...) PRINTF(2, 3);
static tenon_status bad(const ExportProgram *p, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  tenon_status s = failv(p->diag, TENON_EFORMAT, NOWHERE, fmt, ap);
  va_end(ap);
  return s;
}

static Str text_of(const Json *j, const char *key) {
  const Json *v = json_get(j, key);
  return v && v->kind == JSON_STRING ? v->s : (Str){"", 0};
}

// ---- types ----

static Dim dim_of(ExportProgram *p, const Json *size) {
  IntPool *pool = &p->g->dims;
  const Json *i = json_get(size, "as_int"), *e = json_get(size, "as_expr");
  if (i && i->kind == JSON_INT && i->i >= 0) return ie_const(pool, i->i);
  Str s = text_of(e, "expr_str");
  Dim d = s.n ? export_dim(p, s) : NULL;
  return d ? d : ie_fresh(pool, "size");
}

const Type *export_type(ExportProgram *p, Str name) {
  const Json *meta = NULL;
  for (int64_t k = 0; p->tensors && k < p->tensors->n; k++)
    if (str_eq(p->tensors->key[k], name)) meta = &p->tensors->item[k];
  const Json *code = json_get(meta, "dtype"), *sizes = json_get(meta, "sizes");
  DType t;
  if (!code || code->kind != JSON_INT || !export_dtype(code->i, &t) || !sizes ||
      sizes->kind != JSON_ARRAY || sizes->n > MAX_RANK)
    return NULL;
  Dim dims[MAX_RANK];
  for (int64_t i = 0; i < sizes->n; i++) dims[i] = dim_of(p, &sizes->item[i]);
  return type_tensor(p->g, t, (int)sizes->n, dims);
}

// ---- values by name ----

static tenon_status define(ExportProgram *p, Str name, AtenValue v) {
  if (!name.n || strmap_has(&p->values, name))
    return bad(p, "the name '%.*s' is empty or defined twice", STR_ARG(name));
  AtenValue *slot = arena_new(&p->g->arena, AtenValue);
  *slot = v;
  strmap_put(&p->values, name, slot);
  return TENON_OK;
}

tenon_status export_find(ExportProgram *p, Str name, AtenValue *out) {
  const AtenValue *v = strmap_get(&p->values, name);
  if (!v) return bad(p, "nothing computes '%.*s'", STR_ARG(name));
  *out = *v;
  return TENON_OK;
}

// ---- inputs ----

static tenon_status define_weight(ExportProgram *p, Str name, Str full) {
  const Weight *w = weights_find(&p->in->weights, full);
  if (!w) w = p->in->attach ? weights_find(p->in->attach, full) : NULL;
  if (!w) return bad(p, "there is no tensor '%.*s'", STR_ARG(full));
  Where at = {.node = w->name};
  AtenValue v = aten_weight(&p->aten, w, full, at);
  TRY(graph_status(p->g));
  return define(p, name, v);
}

static bool is_given(const ExportProgram *p, Str name) {
  for (int64_t i = 0; i < p->in->given.n; i++)
    if (str_eq(p->in->given.v[i], name)) return true;
  return false;
}

static bool is_mutated(const ExportProgram *p, Str buffer) {
  for (int64_t i = 0; i < p->outputs->n; i++) {
    const Json *m = json_get(&p->outputs->item[i], "buffer_mutation");
    if (m && str_eq(text_of(m, "buffer_name"), buffer)) return true;
  }
  return false;
}

static tenon_status add_param(ExportProgram *p, Str name, Str shown, const Type *t) {
  if (!t) return bad(p, "the input '%.*s' has no type that is known", STR_ARG(name));
  Node *n = node_param(p->g, t, intern(&p->g->names, shown));
  vec_push(&p->g->arena, &p->params, n);
  return define(p, name, av_tensor(&p->g->arena, n));
}

static tenon_status user_input(ExportProgram *p, const Json *arg) {
  Str name = text_of(json_get(arg, "as_tensor"), "name");
  if (name.n) return add_param(p, name, name, export_type(p, name));
  const Json *sym = json_get(arg, "as_sym_int");
  Str number = text_of(sym, "as_name");
  if (!number.n)
    return fail(p->diag, TENON_EUNSUPPORTED, NOWHERE,
                "an input that is neither tensor nor integer");
  Node *n = node_param(p->g, type_scalar(p->g, DT_I64), intern(&p->g->names, number));
  vec_push(&p->g->arena, &p->params, n);
  return define(p, number, av_number(p->g, n, AV_INT));
}

static tenon_status buffer_input(ExportProgram *p, const Json *b) {
  Str name = text_of(json_get(b, "arg"), "name"), full = text_of(b, "buffer_name");
  bool in_place = export_changed(p, name);
  if (in_place) {
    ExportBuffer one = {name, full};
    vec_push(&p->g->arena, &p->buffers, one);
  }
  if (!in_place && !is_mutated(p, full)) return define_weight(p, name, full);
  if (is_given(p, full)) return add_param(p, name, full, export_type(p, name));
  vec_push(&p->g->arena, &p->in->defaults, intern(&p->g->names, full));
  return define_weight(p, name, full);
}

static tenon_status one_input(ExportProgram *p, const Json *spec) {
  const Json *v;
  if ((v = json_get(spec, "user_input"))) {
    const Json *arg = json_get(v, "arg");
    // A number that the program was exported for.
    bool fixed = json_get(arg, "as_int") || json_get(arg, "as_float") || json_get(arg, "as_bool") ||
                 json_get(arg, "as_none") || json_get(arg, "as_string");
    return fixed ? TENON_OK : user_input(p, arg);
  }
  if ((v = json_get(spec, "parameter")))
    return define_weight(p, text_of(json_get(v, "arg"), "name"), text_of(v, "parameter_name"));
  if ((v = json_get(spec, "buffer"))) return buffer_input(p, v);
  if ((v = json_get(spec, "tensor_constant")))
    return define_weight(p, text_of(json_get(v, "arg"), "name"),
                         text_of(v, "tensor_constant_name"));
  if (json_get(spec, "constant_input")) return TENON_OK;
  return fail(p->diag, TENON_EUNSUPPORTED, NOWHERE, "an input of kind '%.*s'",
              spec->n ? (int)spec->key[0].n : 0, spec->n ? spec->key[0].p : "");
}

// ---- results ----

static tenon_status add_result(ExportProgram *p, const AtenValue *v, Str name) {
  if (av_is_unknown(v))
    return fail(p->diag, TENON_EUNSUPPORTED, (Where){.node = str_copy(&p->g->arena, name)},
                "a result that is not computed");
  if (v->kind == AV_NONE) return TENON_OK;
  Node *n = av_node(p->g, v, 0);
  TRY(graph_status(p->g));
  const char *shown = intern(&p->g->names, name);
  for (int64_t i = 0; i < p->result_names.n; i++)
    if (p->result_names.v[i] == shown)
      shown = str_printf(&p->g->arena, "%s_%lld", shown, (long long)p->results.n);
  vec_push(&p->g->arena, &p->results, n);
  vec_push(&p->g->arena, &p->result_names, shown);
  return TENON_OK;
}

static tenon_status one_output(ExportProgram *p, const Json *spec) {
  AtenValue v;
  const Json *o = json_get(spec, "user_output"), *m = json_get(spec, "buffer_mutation");
  if (m) {
    TRY(export_find(p, text_of(json_get(m, "arg"), "name"), &v));
    return add_result(p, &v, text_of(m, "buffer_name"));
  }
  if (!o)
    return fail(p->diag, TENON_EUNSUPPORTED, NOWHERE, "an output of kind '%.*s'",
                spec->n ? (int)spec->key[0].n : 0, spec->n ? spec->key[0].p : "");
  const Json *arg = json_get(o, "arg");
  Str name = text_of(json_get(arg, "as_tensor"), "name");
  if (!name.n) name = text_of(json_get(arg, "as_sym_int"), "as_name");
  if (!name.n) return TENON_OK;  // None, or a number that is known
  TRY(export_find(p, name, &v));
  return add_result(p, &v, name);
}

static tenon_status finish(ExportProgram *p) {
  Graph *g = p->g;
  Body *b = body_new(g, "main", p->params.n, p->params.v, p->results.n, p->results.v);
  g->body.n--;  // main is not among the bodies of control flow
  for (int64_t i = 0; i < p->results.n; i++) b->result_name[i] = p->result_names.v[i];
  g->main = b;
  return graph_status(g);
}

static tenon_status import_program(ExportProgram *p, const Json *root) {
  const Json *module = json_get(root, "graph_module"), *graph = json_get(module, "graph");
  const Json *signature = json_get(module, "signature"), *nodes = json_get(graph, "nodes");
  const Json *inputs = json_get(signature, "input_specs");
  p->outputs = json_get(signature, "output_specs");
  p->tensors = json_get(graph, "tensor_values");
  p->ranges = json_get(root, "range_constraints");
  if (!nodes || nodes->kind != JSON_ARRAY || !inputs || inputs->kind != JSON_ARRAY || !p->outputs ||
      p->outputs->kind != JSON_ARRAY || (p->tensors && p->tensors->kind != JSON_OBJECT))
    return bad(p, "the program has no nodes or no signature");
  p->nodes = nodes;
  strmap_init(&p->values, &p->g->arena);
  aten_init(&p->aten, p->in);
  for (int64_t i = 0; i < inputs->n; i++) TRY(one_input(p, &inputs->item[i]));
  if (!export_supported(p, nodes)) return finish(p);
  for (int64_t i = 0; i < nodes->n; i++) TRY(export_node(p, &nodes->item[i]));
  for (int64_t i = 0; i < p->outputs->n; i++) TRY(one_output(p, &p->outputs->item[i]));
  for (int64_t i = 0; i < p->buffers.n; i++) {
    AtenValue v;
    TRY(export_find(p, p->buffers.v[i].name, &v));
    TRY(add_result(p, &v, p->buffers.v[i].full));
  }
  return finish(p);
}

tenon_status export_define(ExportProgram *p, Str name, AtenValue v) { return define(p, name, v); }

// ---- the archive ----

// models/NAME.json; the first where there are several.
static const char *model_name(TorchArchive *t) {
  for (int64_t i = 0; i < t->zip.n; i++) {
    Str name = {t->zip.entry[i].name.p + t->folder.n, t->zip.entry[i].name.n - t->folder.n};
    if (str_starts(name, "models/") && str_ends(name, ".json"))
      return str_copy(&t->in->graph->arena, (Str){name.p + 7, name.n - 12});
  }
  return NULL;
}

static tenon_status check_version(ExportProgram *p, const Json *root) {
  const Json *version = json_get(root, "schema_version"), *major = json_get(version, "major");
  if (version && version->kind == JSON_INT) major = version;  // of the first releases
  int64_t n = major && major->kind == JSON_INT ? major->i : 0;
  if (n < OLDEST_SCHEMA || n > NEWEST_SCHEMA)
    return fail(p->diag, TENON_EUNSUPPORTED, NOWHERE,
                "schema version %lld of torch.export; versions %d to %d are read", (long long)n,
                OLDEST_SCHEMA, NEWEST_SCHEMA);
  Str torch = text_of(root, "torch_version");
  p->in->about = str_printf(&p->g->arena, "PyTorch program (torch.export), schema %lld%s%.*s",
                            (long long)n, torch.n ? ", by PyTorch " : "", STR_ARG(torch));
  return TENON_OK;
}

static tenon_status read_program(ExportProgram *p, Str text, Json *root) {
  TRY(json_parse(&p->g->arena, text, p->diag, root));
  return check_version(p, root);
}

tenon_status torch_import_json(Imported *in, Diag *d) {
  ExportProgram *p = arena_new(&in->graph->arena, ExportProgram);
  *p = (ExportProgram){.in = in, .g = in->graph, .diag = d};
  Json root;
  TRY(read_program(p, in->bytes, &root));
  return import_program(p, &root);
}

tenon_status torch_import_export(TorchArchive *t) {
  ExportProgram *p = arena_new(&t->in->graph->arena, ExportProgram);
  *p = (ExportProgram){.t = t, .in = t->in, .g = t->in->graph, .diag = t->diag};
  const char *name = model_name(t);
  Str text;
  if (name) {
    TRY(torch_bytes(t, str_printf(&p->g->arena, "models/%s.json", name), &text));
  } else if (torch_find(t, "serialized_exported_program.json")) {
    TRY(torch_bytes(t, "serialized_exported_program.json", &text));
  } else {
    return fail(t->diag, TENON_EUNSUPPORTED, NOWHERE,
                "the archive holds no program: what AOTInductor packages is machine code; save the "
                "exported program itself, with torch.export.save");
  }
  Json root;
  TRY(read_program(p, text, &root));
  TRY(name ? export_weights(p, name) : export_old_weights(p));
  return import_program(p, &root);
}
