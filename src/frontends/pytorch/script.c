// script.c -- a TorchScript archive as a graph: code, attributes, inputs, `forward`, results.
//
// The text of a program does not say what its tensors are: the caller gives the types of inputs
// (--type), or the arrays themselves.  Attributes that `forward` changes are results, too, and may
// be given as inputs: so a program's state can be carried from call to call.
#include "frontends/pytorch/script.h"

static const int64_t MOST_STATEMENTS = 500000;

// ---- code ----

static tenon_status read_code(Script *s) {
  TorchArchive *t = s->t;
  PyModules *m = &s->modules;
  *m = (PyModules){.arena = s->arena, .diag = t->diag};
  strmap_init(&m->classes, s->arena);
  strmap_init(&m->functions, s->arena);
  for (int64_t i = 0; i < t->zip.n; i++) {
    Str full = t->zip.entry[i].name, name = {full.p + t->folder.n, full.n - t->folder.n};
    if (!str_starts(name, "code/") || !str_ends(name, ".py")) continue;
    const char *file = str_copy(s->arena, name);
    char *module = str_copy(s->arena, (Str){name.p + 5, name.n - 8});
    for (char *p = module; *p; p++)
      if (*p == '/') *p = '.';
    Str text;
    TRY(torch_bytes(t, file, &text));
    TRY(py_parse(m, text, str_of(module), file));
  }
  return TENON_OK;
}

static tenon_status read_constants(Script *s) {
  Str bytes;
  TRY(torch_bytes(s->t, "constants.pkl", &bytes));
  Pickle p = {.arena = s->arena, .diag = s->t->diag, .at = {.node = "constants.pkl"}, .code = true};
  TRY(pickle_read(&p, bytes, NULL, &s->constants));
  if (s->constants->kind != PK_TUPLE && s->constants->kind != PK_LIST)
    return fail(s->t->diag, TENON_EFORMAT, p.at, "the constants are no list");
  return torch_storages(s->t, "constants", s->constants);
}

// ---- inputs ----

typedef VEC(Node *) Nodes;

static bool type_is(const PyExpr *type, const char *name) {
  if (!type) return !strcmp(name, "Tensor");
  if (type->kind == PE_NAME) return str_is(type->s, name);
  if (type->kind == PE_INDEX && type->item.v[0]->kind == PE_NAME &&
      str_is(type->item.v[0]->s, "Optional"))
    return type_is(type->item.v[1], name);
  return false;
}

static bool is_optional(const PyExpr *type) {
  return type && type->kind == PE_INDEX && type->item.v[0]->kind == PE_NAME &&
         str_is(type->item.v[0]->s, "Optional");
}

static AtenValue number_input(Script *s, const PyParam *p, const InputType *t, Nodes *params) {
  Graph *g = s->g;
  bool flag = type_is(p->type, "bool"), real = type_is(p->type, "float");
  DType want = flag ? DT_BOOL : real ? DT_F64 : DT_I64;
  Node *n = node_param(g,
                       type_scalar(g, t      ? t->dtype
                                      : real ? DT_F32
                                             : want),
                       intern(&g->names, p->name));
  AvKind kind = flag ? AV_BOOL : real ? AV_FLOAT : AV_INT;
  if (!t || !t->fixed) vec_push(s->arena, params, n);
  if (t && t->known && (t->fixed || s->in->specialise)) {
    if (!t->fixed)
      vec_push(s->arena, &s->in->warnings,
               str_printf(s->arena, "the program is read for %s = %lld alone", n->name,
                          (long long)t->value));
    return flag ? av_bool(t->value != 0) : real ? av_float(t->value) : av_int((int64_t)t->value);
  }
  return (AtenValue){.kind = kind, .node = bt_cast(g, n, want)};
}

// A tensor, or a tuple or list of them: NAME.0, NAME.1, as many as have types.
static bool tensor_input(Script *s, Str name, int64_t position, Nodes *params, AtenValue *out) {
  const InputType *t = frontend_type(s->in, name, position);
  if (!t) return false;
  Node *n = node_param(s->g, frontend_type_of(s->g, t), intern(&s->g->names, name));
  vec_push(s->arena, params, n);
  *out = av_tensor(s->arena, n);
  return true;
}

static bool list_input(Script *s, const PyParam *p, Nodes *params, AtenValue *out) {
  const PyExpr *type = is_optional(p->type) ? p->type->item.v[1] : p->type;
  if (!type || type->kind != PE_INDEX || type->item.v[0]->kind != PE_NAME) return false;
  bool tuple = str_is(type->item.v[0]->s, "Tuple");
  if (!tuple && !str_is(type->item.v[0]->s, "List")) return false;
  *out = av_list(s->arena, tuple ? AV_TUPLE : AV_LIST);
  for (int64_t i = 0;; i++) {
    AtenValue one;
    Str name = str_of(str_printf(s->arena, "%.*s.%lld", STR_ARG(p->name), (long long)i));
    if (!tensor_input(s, name, -1, params, &one)) break;
    av_push(s->arena, out, one);
  }
  return out->list->v.n > 0;
}

// The arguments of `forward`; *missing lists the inputs whose types are needed.
static tenon_status make_inputs(Script *s, const PyFunction *f, AtenValue *args, Nodes *params,
                                StrBuf *missing) {
  args[0] = (AtenValue){.kind = AV_OBJECT, .object = s->root};
  for (int64_t i = 1; i < f->params.n; i++) {
    const PyParam *p = &f->params.v[i];
    const InputType *t = frontend_type(s->in, p->name, i - 1);
    bool number = type_is(p->type, "int") || type_is(p->type, "float") || type_is(p->type, "bool");
    if (number && (t || (!p->dflt && !is_optional(p->type)))) {
      args[i] = number_input(s, p, t, params);
    } else if (type_is(p->type, "Tensor") && tensor_input(s, p->name, i - 1, params, &args[i])) {
      continue;
    } else if (list_input(s, p, params, &args[i])) {
      continue;
    } else if (p->dflt) {
      TRY(script_eval(s, p->dflt, &args[i]));
    } else if (is_optional(p->type)) {
      args[i] = (AtenValue){0};
    } else {
      strbuf_printf(missing, "%s%.*s", missing->n ? ", " : "", STR_ARG(p->name));
    }
  }
  return graph_status(s->g);
}

// Attributes that are given types by their path are inputs: the program's state.
static tenon_status state_inputs(Script *s, const PyFunction *f, Nodes *params) {
  for (int64_t i = 0; i < s->in->ntypes; i++) {
    const InputType *t = &s->in->types[i];
    Str rest = t->name;
    int64_t number;
    bool argument = str_to_i64(rest, &number);
    for (int64_t k = 1; k < f->params.n; k++)
      argument = argument || str_eq(f->params.v[k].name, rest) ||
                 (rest.n > f->params.v[k].name.n && rest.p[f->params.v[k].name.n] == '.' &&
                  !memcmp(rest.p, f->params.v[k].name.p, (size_t)f->params.v[k].name.n));
    if (argument) continue;
    AtenValue o = {.kind = AV_OBJECT, .object = s->root};
    for (;;) {
      const char *dot = memchr(rest.p, '.', (size_t)rest.n);
      if (!dot) break;
      TRY(script_attr(s, o.object, (Str){rest.p, dot - rest.p}, &o));
      if (o.kind != AV_OBJECT)
        return script_fail(s, "there is no attribute '%.*s'", STR_ARG(t->name));
      rest = (Str){dot + 1, rest.p + rest.n - dot - 1};
    }
    AtenValue old;
    TRY(script_attr(s, o.object, rest, &old));
    if (old.kind != AV_TENSOR) return script_fail(s, "'%.*s' is no tensor", STR_ARG(t->name));
    Node *n = node_param(s->g, frontend_type_of(s->g, t), intern(&s->g->names, t->name));
    vec_push(s->arena, params, n);
    TRY(script_set_attr(s, o.object, rest, av_tensor(s->arena, n)));
    s->attrs.v[s->attrs.n - 1].assigned = false;
  }
  return TENON_OK;
}

// ---- results ----

typedef struct Results {
  Nodes node;
  VEC(const char *) name;
} Results;

static tenon_status add_result(Script *s, Results *r, const AtenValue *v, const char *name) {
  if (av_is_unknown(v)) return script_fail(s, "a result that is not computed");
  if (v->kind == AV_NONE) return TENON_OK;
  if (v->kind == AV_DICT) {
    for (int64_t i = 0; i + 1 < v->list->v.n; i += 2)
      TRY(add_result(s, r, &v->list->v.v[i + 1],
                     v->list->v.v[i].kind == AV_STR ? str_copy(s->arena, v->list->v.v[i].s)
                                                    : name));
    return TENON_OK;
  }
  if (v->list) {
    for (int64_t i = 0; i < v->list->v.n; i++) TRY(add_result(s, r, &v->list->v.v[i], NULL));
    return TENON_OK;
  }
  if (v->kind != AV_TENSOR && !av_is_number(v)) return TENON_OK;
  Node *n = av_node(s->g, v, 0);
  if (!name) name = str_printf(s->arena, "output_%lld", (long long)r->node.n);
  vec_push(s->arena, &r->node, n);
  vec_push(s->arena, &r->name, name);
  return graph_status(s->g);
}

static tenon_status state_results(Script *s, Results *r) {
  for (int64_t i = 0; i < s->attrs.n; i++) {
    const Attribute *a = &s->attrs.v[i];
    if (!a->assigned || a->value.kind != AV_TENSOR) continue;
    Str path = a->object->path;
    TRY(add_result(
        s, r, &a->value,
        str_printf(s->arena, "%.*s%s%.*s", STR_ARG(path), path.n ? "." : "", STR_ARG(a->name))));
  }
  return TENON_OK;
}

static tenon_status finish(Script *s, const Nodes *params, const Results *r) {
  Graph *g = s->g;
  Body *b = body_new(g, "main", params->n, params->v, r->node.n, r->node.v);
  g->body.n--;  // main is not among the bodies of control flow
  for (int64_t i = 0; i < r->node.n; i++) b->result_name[i] = r->name.v[i];
  g->main = b;
  return graph_status(g);
}

// ---- everything that cannot be built ----

static void scan_expr(Script *s, const PyFunction *f, const PyExpr *e) {
  if (!e) return;
  if (e->kind == PE_CALL && e->item.v[0]->kind == PE_ATTR) {
    const PyExpr *fn = e->item.v[0];
    bool torch = fn->item.v[0]->kind == PE_NAME && str_is(fn->item.v[0]->s, "torch");
    if (torch && !script_knows(s, fn->s))
      frontend_unsupported(s->in, str_printf(s->arena, "torch.%.*s", STR_ARG(fn->s)),
                           "no such row in the table of ATen operators",
                           script_where(s, (Where){.file = f->file, .line = e->line}));
  }
  for (int64_t i = 0; i < e->item.n; i++) scan_expr(s, f, e->item.v[i]);
  for (int64_t i = 0; i < e->kw.n; i++) scan_expr(s, f, e->kw.v[i]);
}

static void scan_block(Script *s, const PyFunction *f, const PyBlock *b) {
  for (int64_t i = 0; i < b->n; i++) {
    scan_expr(s, f, b->v[i]->value);
    scan_block(s, f, &b->v[i]->body);
    scan_block(s, f, &b->v[i]->other);
  }
}

// The program stopped at an operator that has no row: the report has all of them, and the graph is
// empty.
static tenon_status report_unsupported(Script *s) {
  Diag *d = s->t->diag;
  s->in->unsupported.n = 0;
  for (int64_t i = 0; i < s->modules.all.n; i++)
    scan_block(s, s->modules.all.v[i], &s->modules.all.v[i]->body);
  Where base = d->base;
  diag_init(d);
  d->base = base;
  s->g->status = TENON_OK;
  frontend_no_graph(s->in, NULL);
  return TENON_OK;
}

// ---- the archive ----

static tenon_status run_program(Script *s) {
  const PyClass *c = strmap_get(&s->modules.classes, s->root->s);
  const PyFunction *f = c ? strmap_get(&c->methods, STR("forward")) : NULL;
  if (!f)
    return fail(s->t->diag, TENON_EUNSUPPORTED, NOWHERE, "the module '%.*s' has no forward",
                STR_ARG(s->root->s));
  AtenValue *args = arena_array(s->arena, AtenValue, f->params.n + 1), out;
  Nodes params = {0};
  Results r = {0};
  StrBuf missing;
  strbuf_init(&missing, s->arena);
  Frame frame = {.fn = f};
  s->frame = &frame;
  TRY(make_inputs(s, f, args, &params, &missing));
  if (missing.n) {
    frontend_no_graph(s->in, str_printf(s->arena,
                                        "TorchScript does not say what its inputs are: give the "
                                        "types of %s, as in --type x=f32[1,3,224,224]",
                                        strbuf_text(&missing)));
    s->in->wants_types = true;
    return TENON_OK;
  }
  TRY(state_inputs(s, f, &params));
  tenon_status status = script_call(s, f, args, (int)f->params.n, &out);
  if (status && s->in->unsupported.n) return report_unsupported(s);
  const char *origin = status ? script_origin(s, s->failed) : NULL;
  if (origin) diag_note(s->t->diag, "written in %s", origin);
  TRY(status);
  TRY(add_result(s, &r, &out, NULL));
  TRY(state_results(s, &r));
  return finish(s, &params, &r);
}

tenon_status torch_import_script(TorchArchive *t) {
  Arena *a = &t->in->graph->arena;
  Script *s = arena_new(a, Script);
  *s = (Script){.t = t, .in = t->in, .g = t->in->graph, .arena = a, .budget = MOST_STATEMENTS};
  t->in->about = "TorchScript";
  aten_init(&s->aten, t->in);
  intmap_init(&s->attr_index, a);
  intmap_init(&s->nodes, a);
  TRY(torch_read_object(t, true, &s->root));
  if (s->root->kind != PK_OBJECT)
    return fail(t->diag, TENON_EFORMAT, NOWHERE, "the archive holds no module");
  TRY(torch_collect(t->in, s->root, t->diag));
  TRY(read_constants(s));
  TRY(read_code(s));
  return run_program(s);
}
