// import_attr.c -- attributes of ONNX nodes: getters, references inside functions, and filling an
// op's struct.
#include "frontends/onnx/import.h"

static const OnnxAttr *find_attr(const OnnxAttr *a, int64_t n, Str name) {
  for (int64_t i = 0; i < n; i++)
    if (str_eq(a[i].name, name)) return &a[i];
  return NULL;
}

// An attribute inside a function may name one of the function's own: the caller's value or the
// default.
static const OnnxAttr *resolve(const Frame *f, const OnnxAttr *a) {
  for (int hops = 0; a && a->ref.n && hops < 64; hops++) {
    if (!f) return NULL;
    Str ref = a->ref;
    a = find_attr(f->call->attrs, f->call->nattrs, ref);
    if (!a) return find_attr(f->fn->attribute_protos.v, f->fn->attribute_protos.n, ref);
    f = f->call_frame;
  }
  return a;
}

const OnnxAttr *import_attr(const ImportNode *n, const char *name) {
  return resolve(n->im->frame, find_attr(n->node->attrs, n->node->nattrs, str_of(name)));
}

tenon_status import_fail(ImportNode *n, tenon_status code, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  tenon_status s = failv(n->g->diag, code, n->at, fmt, ap);
  va_end(ap);
  return s;
}

static const char *type_word(OnnxAttrType t) {
  static const char *const word[] = {"undefined", "float",  "int",     "string",  "tensor",
                                     "graph",     "floats", "ints",    "strings", "tensors",
                                     "graphs",    "sparse", "sparses", "type",    "types"};
  return t <= OA_TYPES ? word[t] : "unknown";
}

static const OnnxAttr *typed(ImportNode *n, const char *name, OnnxAttrType t) {
  const OnnxAttr *a = import_attr(n, name);
  if (!a || a->type == t) return a;
  if (!n->im->status)
    n->im->status = import_fail(n, TENON_EINVAL, "attribute '%s' is of kind %s, must be %s", name,
                                type_word(a->type), type_word(t));
  return NULL;
}

int64_t import_i64(ImportNode *n, const char *name, int64_t dflt) {
  const OnnxAttr *a = typed(n, name, OA_INT);
  return a ? a->i : dflt;
}
double import_f64(ImportNode *n, const char *name, double dflt) {
  const OnnxAttr *a = typed(n, name, OA_FLOAT);
  return a ? (double)a->f : dflt;
}
Str import_str(ImportNode *n, const char *name, const char *dflt) {
  const OnnxAttr *a = typed(n, name, OA_STRING);
  return a ? a->s : str_of(dflt);
}
// A file may leave the kind of an empty list open; any list kind without elements will do.
static bool empty_list(const OnnxAttr *a) {
  return (a->type == OA_FLOATS && !a->floats.n) || (a->type == OA_INTS && !a->ints.n) ||
         (a->type == OA_STRINGS && !a->strings.n) || a->type == OA_UNDEFINED;
}
bool import_ints(ImportNode *n, const char *name, Ints *out) {
  *out = (Ints){0};
  const OnnxAttr *a = import_attr(n, name);
  if (!a) return false;
  if (empty_list(a)) return true;
  a = typed(n, name, OA_INTS);
  if (a) *out = a->ints;
  return a != NULL;
}
bool import_floats(ImportNode *n, const char *name, Floats *out) {
  *out = (Floats){0};
  const OnnxAttr *a = import_attr(n, name);
  if (!a) return false;
  if (empty_list(a)) return true;
  a = typed(n, name, OA_FLOATS);
  if (!a) return false;
  double *v = arena_array(&n->g->arena, double, a->floats.n);
  for (int64_t i = 0; i < a->floats.n; i++) v[i] = (double)a->floats.v[i];
  *out = (Floats){a->floats.n, v};
  return true;
}
Node *import_tensor_attr(ImportNode *n, const char *name) {
  const OnnxAttr *a = typed(n, name, OA_TENSOR);
  if (!a || !a->t) return NULL;
  return import_tensor(n->im, a->t, a->t->name, n->at);
}

static tenon_status wrong_kind(ImportNode *n, const AttrDesc *d, const OnnxAttr *a) {
  return import_fail(n, TENON_EINVAL, "attribute '%s' is of kind %s", d->name, type_word(a->type));
}

static Strs copy_strs(Arena *arena, Strs s) {
  return (Strs){s.n, arena_dup(arena, s.v, s.n * (int64_t)sizeof(Str))};
}

static tenon_status fill_choice(ImportNode *n, const AttrDesc *d, const OnnxAttr *a, int *out) {
  if (a->type != OA_STRING) return wrong_kind(n, d, a);
  *out = attr_choice_find(d->choices, a->s);
  if (*out < 0)
    return import_fail(n, TENON_EINVAL, "attribute '%s' is '%.*s', must be one of %s", d->name,
                       STR_ARG(a->s), d->choices);
  return TENON_OK;
}

static tenon_status fill(ImportNode *n, const AttrDesc *d, const OnnxAttr *a, void *field) {
  Arena *arena = &n->g->arena;
  switch (d->kind) {
  case ATTR_i64:
    if (a->type != OA_INT) return wrong_kind(n, d, a);
    *(int64_t *)field = a->i;
    return TENON_OK;
  case ATTR_opt_i64:
    if (a->type != OA_INT) return wrong_kind(n, d, a);
    *(OptInt *)field = (OptInt){true, a->i};
    return TENON_OK;
  case ATTR_bool:
    if (a->type != OA_INT) return wrong_kind(n, d, a);
    *(bool *)field = a->i != 0;
    return TENON_OK;
  case ATTR_f64:
    if (a->type != OA_FLOAT) return wrong_kind(n, d, a);
    *(double *)field = (double)a->f;
    return TENON_OK;
  case ATTR_dtype:
    if (a->type != OA_INT) return wrong_kind(n, d, a);
    if (a->i != 0 && !dtype_valid(a->i))
      return import_fail(n, TENON_EINVAL, "attribute '%s': %lld is not a data type", d->name,
                         (long long)a->i);
    *(DType *)field = (DType)a->i;
    return TENON_OK;
  case ATTR_str:
    if (a->type != OA_STRING) return wrong_kind(n, d, a);
    *(Str *)field = a->s;
    return TENON_OK;
  case ATTR_choice: return fill_choice(n, d, a, field);
  case ATTR_i64s:
    if (empty_list(a)) return TENON_OK;
    if (a->type != OA_INTS) return wrong_kind(n, d, a);
    *(Ints *)field = a->ints;
    return TENON_OK;
  case ATTR_f64s: {
    if (empty_list(a)) return TENON_OK;
    if (a->type != OA_FLOATS) return wrong_kind(n, d, a);
    double *v = arena_array(arena, double, a->floats.n);
    for (int64_t i = 0; i < a->floats.n; i++) v[i] = (double)a->floats.v[i];
    *(Floats *)field = (Floats){a->floats.n, v};
    return TENON_OK;
  }
  case ATTR_strs:
    if (empty_list(a)) return TENON_OK;
    if (a->type != OA_STRINGS) return wrong_kind(n, d, a);
    *(Strs *)field = copy_strs(arena, a->strings);
    return TENON_OK;
  case ATTR_body: break;
  }
  return import_fail(n, TENON_EUNSUPPORTED, "attribute '%s' is a sub-graph", d->name);
}

static bool word_in(const char *words, Str w) {
  for (const char *p = words; p && *p;) {
    const char *end = p + strcspn(p, " ");
    if (str_eq((Str){p, end - p}, w)) return true;
    p = *end ? end + 1 : end;
  }
  return false;
}

tenon_status import_attrs(ImportNode *n, const OpInfo *op, const char *ignore, void *out) {
  attrs_defaults(op->attrs, op->nattrs, out);
  for (int64_t i = 0; i < n->node->nattrs; i++) {
    const OnnxAttr *raw = &n->node->attrs[i];
    const AttrDesc *d = NULL;
    for (int k = 0; k < op->nattrs && !d; k++)
      if (str_is(raw->name, op->attrs[k].name)) d = &op->attrs[k];
    if (word_in(ignore, raw->name)) continue;
    if (word_in("channels_last into materialize", raw->name)) d = NULL;  // ours, not ONNX's
    if (!d)
      return import_fail(n, TENON_EUNSUPPORTED, "attribute '%.*s' is not known for opset %lld",
                         STR_ARG(raw->name), (long long)n->opset);
    for (int64_t k = 0; k < i; k++)
      if (str_eq(n->node->attrs[k].name, raw->name))
        return import_fail(n, TENON_EINVAL, "attribute '%.*s' is given twice", STR_ARG(raw->name));
    const OnnxAttr *a = resolve(n->im->frame, raw);
    if (a) TRY(fill(n, d, a, (char *)out + d->offset));
  }
  return TENON_OK;
}
