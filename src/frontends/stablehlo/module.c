// module.c -- the module of mlir.h: element types, types, access to attributes, functions out of
// operations.
#include "frontends/stablehlo/internal.h"

static const struct {
  const char *name;
  int bits;
  DType dtype;
} elem_info[] = {{"", 0, (DType)0},
#define X(e, text, bits, dtype) {text, bits, dtype},
                 MLIR_ELEMS(X)
#undef X
};

const char *mlir_elem_name(MlirElem e) {
  return e < ARRAY_LEN(elem_info) ? elem_info[e].name : e == ME_QUANT ? "quant" : "?";
}
int mlir_elem_bits(MlirElem e) { return e < ARRAY_LEN(elem_info) ? elem_info[e].bits : 0; }
DType mlir_elem_dtype(MlirElem e) {
  return e < ARRAY_LEN(elem_info) ? elem_info[e].dtype : (DType)0;
}

MlirElem mlir_elem_of(Str name) {
  for (int e = 1; e < ARRAY_LEN(elem_info); e++)
    if (str_is(name, elem_info[e].name)) return (MlirElem)e;
  // MLIR's other spellings of signed integers
  if (str_starts(name, "si")) return mlir_elem_of((Str){name.p + 1, name.n - 1});
  return ME_NONE;
}

bool mlir_elem_is_int(MlirElem e) { return (e >= ME_BOOL && e <= ME_U64) || e == ME_INDEX; }
bool mlir_elem_is_unsigned(MlirElem e) { return e >= ME_U2 && e <= ME_U64; }
bool mlir_elem_is_float(MlirElem e) { return e >= ME_F4E2M1 && e <= ME_F64; }
bool mlir_elem_is_complex(MlirElem e) { return e == ME_C64 || e == ME_C128; }

// ---- types ----

static bool ints_eq(const int64_t *a, const int64_t *b, int64_t n) {
  return n == 0 || !memcmp(a, b, (size_t)n * sizeof *a);
}

static bool quant_eq(const MlirQuant *a, const MlirQuant *b) {
  if (a == b) return true;
  return a && b && a->storage == b->storage && a->expressed == b->expressed && a->min == b->min &&
         a->max == b->max && a->axis == b->axis && a->naxes == b->naxes &&
         a->nscales == b->nscales && ints_eq(a->axes, b->axes, a->naxes) &&
         ints_eq(a->blocks, b->blocks, a->naxes) &&
         !memcmp(a->scales, b->scales, (size_t)a->nscales * sizeof *a->scales) &&
         ints_eq(a->zero_points, b->zero_points, a->nscales);
}

static bool bounds_eq(const MlirType *a, const MlirType *b) {
  for (int64_t i = 0; i < a->rank; i++)
    if ((a->bounds ? a->bounds[i] : MLIR_DYNAMIC) != (b->bounds ? b->bounds[i] : MLIR_DYNAMIC))
      return false;
  return true;
}

bool mlir_type_eq(const MlirType *a, const MlirType *b) {
  if (a == b) return true;
  if (!a || !b || a->kind != b->kind || a->elem != b->elem || a->unranked != b->unranked ||
      a->rank != b->rank || a->nparts != b->nparts || a->nresults != b->nresults)
    return false;
  if (!ints_eq(a->dims, b->dims, a->rank) || !bounds_eq(a, b) || !quant_eq(a->quant, b->quant))
    return false;
  for (int64_t i = 0; i < a->nparts; i++)
    if (!mlir_type_eq(a->parts[i], b->parts[i])) return false;
  return !a->text == !b->text && (!a->text || !strcmp(a->text, b->text));
}

static void put_type(StrBuf *b, const MlirType *t);

static void put_types(StrBuf *b, const MlirType *const *v, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    if (i) strbuf_puts(b, ", ");
    put_type(b, v[i]);
  }
}

static void put_quant(StrBuf *b, const MlirQuant *q) {
  strbuf_printf(b, "!quant.uniform<%s:%s", mlir_elem_name(q->storage),
                mlir_elem_name(q->expressed));
  if (q->axis >= 0) strbuf_printf(b, ":%lld", (long long)q->axis);
  strbuf_printf(b, ", %g:%lld%s>", q->nscales ? q->scales[0] : 0.0,
                (long long)(q->nscales ? q->zero_points[0] : 0), q->nscales > 1 ? ", ..." : "");
}

static void put_elem(StrBuf *b, const MlirType *t) {
  if (t->quant)
    put_quant(b, t->quant);
  else
    strbuf_puts(b, t->elem == ME_OTHER && t->text ? t->text : mlir_elem_name(t->elem));
}

static void put_tensor(StrBuf *b, const MlirType *t) {
  strbuf_puts(b, t->unranked ? "tensor<*x" : "tensor<");
  for (int64_t i = 0; i < t->rank; i++)
    if (t->dims[i] == MLIR_DYNAMIC)
      strbuf_puts(b, "?x");
    else
      strbuf_printf(b, "%lldx", (long long)t->dims[i]);
  put_elem(b, t);
  if (t->bounds) {
    strbuf_puts(b, ", #stablehlo.bounds<");
    for (int64_t i = 0; i < t->rank; i++)
      if (t->bounds[i] == MLIR_DYNAMIC)
        strbuf_puts(b, i ? ", ?" : "?");
      else
        strbuf_printf(b, i ? ", %lld" : "%lld", (long long)t->bounds[i]);
    strbuf_putc(b, '>');
  }
  strbuf_putc(b, '>');
}

static void put_type(StrBuf *b, const MlirType *t) {
  switch (t->kind) {
  case MT_NONE: strbuf_puts(b, "none"); break;
  case MT_SCALAR: put_elem(b, t); break;
  case MT_TENSOR: put_tensor(b, t); break;
  case MT_TOKEN: strbuf_puts(b, "!stablehlo.token"); break;
  case MT_TUPLE:
    strbuf_puts(b, "tuple<");
    put_types(b, t->parts, t->nparts);
    strbuf_putc(b, '>');
    break;
  case MT_FUNCTION:
    strbuf_putc(b, '(');
    put_types(b, t->parts, t->nparts - t->nresults);
    strbuf_puts(b, ") -> (");
    put_types(b, t->parts + (t->nparts - t->nresults), t->nresults);
    strbuf_putc(b, ')');
    break;
  case MT_OTHER: strbuf_puts(b, t->text); break;
  }
}

const char *mlir_type_text(Arena *a, const MlirType *t) {
  StrBuf b;
  strbuf_init(&b, a);
  put_type(&b, t);
  return strbuf_text(&b);
}

bool mlir_type_count(const MlirType *t, int64_t *out) {
  int64_t n = 1;
  if (t->kind != MT_TENSOR || t->unranked) return false;
  for (int64_t i = 0; i < t->rank; i++)
    if (t->dims[i] == 0) n = 0;
  for (int64_t i = 0; i < t->rank; i++)
    if (t->dims[i] < 0 || (n && !ck_mul(n, t->dims[i], &n))) return false;
  *out = n;
  return true;
}

// ---- attributes ----

static const MlirAttr *find_field(const MlirField *f, int64_t n, const char *name) {
  for (int64_t i = 0; i < n; i++)
    if (!strcmp(f[i].name, name)) return f[i].value;
  return NULL;
}

const MlirAttr *mlir_attr(const MlirOp *op, const char *name) {
  return find_field(op->attrs, op->nattrs, name);
}

const MlirAttr *mlir_field(const MlirAttr *dict, const char *name) {
  return dict && dict->kind == MA_DICT ? find_field(dict->fields, dict->n, name) : NULL;
}

static bool is_int_dense(const MlirAttr *a) {
  return a->kind == MA_DENSE && a->type->kind == MT_TENSOR && mlir_elem_is_int(a->type->elem);
}

int64_t mlir_int(const MlirAttr *a, int64_t otherwise) {
  if (!a) return otherwise;
  if (a->kind == MA_INT || a->kind == MA_BOOL) return a->i;
  if (is_int_dense(a) && a->ndata) return get_i64(mlir_elem_dtype(a->type->elem), a->data, 0);
  return otherwise;
}

double mlir_float(const MlirAttr *a, double otherwise) {
  if (!a) return otherwise;
  if (a->kind == MA_FLOAT) return a->f;
  if (a->kind == MA_INT) return (double)a->i;
  DType t = a->kind == MA_DENSE && a->ndata ? mlir_elem_dtype(a->type->elem) : (DType)0;
  return t && dtype_class(t) != DC_COMPLEX ? get_f64(t, a->data, 0) : otherwise;
}

bool mlir_bool(const MlirAttr *a, bool otherwise) {
  if (a && a->kind == MA_UNIT) return true;
  return mlir_int(a, otherwise) != 0;
}

static bool dense_ints(Arena *a, const MlirAttr *attr, const int64_t **out, int64_t *n) {
  enum { LIST_MAX = 1 << 20 };  // of an attribute that is a list; larger ones are data
  int64_t count;
  if (!mlir_type_count(attr->type, &count) || count > LIST_MAX) return false;
  int64_t *v = arena_array(a, int64_t, MAX(count, 1));
  for (int64_t i = 0; i < count; i++)
    v[i] = get_i64(mlir_elem_dtype(attr->type->elem), attr->data, attr->splat ? 0 : i);
  *out = v;
  *n = count;
  return true;
}

bool mlir_ints(Arena *a, const MlirAttr *attr, const int64_t **out, int64_t *n) {
  *out = NULL;
  *n = 0;
  if (!attr) return false;
  if (attr->kind == MA_INTS) {
    *out = attr->ints;
    *n = attr->n;
    return true;
  }
  if (is_int_dense(attr)) return dense_ints(a, attr, out, n);
  if (attr->kind != MA_ARRAY) return false;
  for (int64_t i = 0; i < attr->n; i++)
    if (attr->items[i]->kind != MA_INT && attr->items[i]->kind != MA_BOOL) return false;
  int64_t *v = arena_array(a, int64_t, MAX(attr->n, 1));
  for (int64_t i = 0; i < attr->n; i++) v[i] = attr->items[i]->i;
  *out = v;
  *n = attr->n;
  return true;
}

const char *mlir_word(const MlirAttr *a, const char *otherwise) {
  return a && (a->kind == MA_ENUM || a->kind == MA_STRING || a->kind == MA_SYMBOL) ? a->text
                                                                                   : otherwise;
}

Where mlir_where(const MlirOp *op) {
  if (op->line) return (Where){.op = op->name, .line = op->line, .column = op->column};
  return (Where){.op = op->name, .offset = op->offset, .has_offset = true};
}

// ---- functions ----

const MlirFunc *mlir_func(const MlirModule *m, Str name) {
  for (int64_t i = 0; i < m->nfuncs; i++)
    if (str_is(name, m->funcs[i]->name)) return m->funcs[i];
  return NULL;
}

const MlirFunc *mlir_main(const MlirModule *m) {
  const MlirFunc *only = NULL;
  int64_t open = 0;
  for (int64_t i = 0; i < m->nfuncs; i++) {
    if (!strcmp(m->funcs[i]->name, "main")) return m->funcs[i];
    if (m->funcs[i]->is_private || !m->funcs[i]->body) continue;
    only = m->funcs[i];
    open++;
  }
  if (open == 1) return only;
  return m->nfuncs ? m->funcs[0] : NULL;
}

// Attribute dictionaries of arguments or results: a list, one a value; a shorter one is not
// believed.
static tenon_status argument_attrs(Arena *a, const MlirOp *op, const char *name, int64_t n,
                                   const MlirAttr *const **out, Diag *d) {
  const MlirAttr **v = arena_array(a, const MlirAttr *, MAX(n, 1));
  const MlirAttr *list = mlir_attr(op, name);
  *out = v;
  if (!list || (list->kind == MA_ARRAY && list->n == 0)) return TENON_OK;
  if (list->kind != MA_ARRAY || list->n != n)
    return fail(d, TENON_EFORMAT, mlir_where(op), "%s is not a list of %lld dictionaries", name,
                (long long)n);
  for (int64_t i = 0; i < n; i++) v[i] = list->items[i]->kind == MA_DICT ? list->items[i] : NULL;
  return TENON_OK;
}

static tenon_status make_func(Arena *a, MlirOp *op, MlirFunc **out, Diag *d) {
  MlirFunc *f = arena_new(a, MlirFunc);
  const MlirAttr *type = mlir_attr(op, "function_type");
  const MlirAttr *name = mlir_attr(op, "sym_name");
  if (!name || name->kind != MA_STRING)
    return fail(d, TENON_EFORMAT, mlir_where(op), "a function without a name");
  if (!type || type->kind != MA_TYPE || type->type->kind != MT_FUNCTION)
    return fail(d, TENON_EFORMAT, mlir_where(op), "function @%s has no function type", name->text);
  f->op = op;
  f->name = name->text;
  f->is_private = !strcmp(mlir_word(mlir_attr(op, "sym_visibility"), ""), "private");
  f->nresults = type->type->nresults;
  f->nargs = type->type->nparts - f->nresults;
  f->args = type->type->parts;
  f->results = type->type->parts + f->nargs;
  TRY(argument_attrs(a, op, "arg_attrs", f->nargs, &f->arg_attrs, d));
  TRY(argument_attrs(a, op, "res_attrs", f->nresults, &f->result_attrs, d));
  if (op->nregions == 1 && op->regions[0]->nblocks == 1) f->body = op->regions[0]->blocks[0];
  if (op->nregions == 1 && op->regions[0]->nblocks > 1)
    return fail(d, TENON_EUNSUPPORTED, mlir_where(op),
                "function @%s has several blocks: branches between blocks are not supported",
                f->name);
  *out = f;
  return TENON_OK;
}

static tenon_status fill_module(Arena *a, const MlirBlock *body, MlirModule *m, int depth, Diag *d);

static tenon_status nested_module(Arena *a, MlirOp *op, MlirModule **out, int depth, Diag *d) {
  MlirModule *m = arena_new(a, MlirModule);
  m->name = mlir_word(mlir_attr(op, "sym_name"), "");
  m->attrs = op->attrs;
  m->nattrs = op->nattrs;
  m->line = op->line;
  *out = m;
  if (depth > MLIR_DEPTH_MAX)
    return fail(d, TENON_EFORMAT, mlir_where(op), "modules are nested too deeply");
  if (op->nregions != 1 || op->regions[0]->nblocks > 1)
    return fail(d, TENON_EFORMAT, mlir_where(op), "a module has one region of one block");
  return op->regions[0]->nblocks ? fill_module(a, op->regions[0]->blocks[0], m, depth, d)
                                 : TENON_OK;
}

static tenon_status fill_module(Arena *a, const MlirBlock *body, MlirModule *m, int depth,
                                Diag *d) {
  VEC(MlirFunc *) funcs = {0};
  VEC(MlirOp *) others = {0};
  VEC(MlirModule *) modules = {0};
  StrMap seen;
  strmap_init(&seen, a);
  for (int64_t i = 0; i < body->nops; i++) {
    MlirOp *op = body->ops[i];
    if (!strcmp(op->name, "builtin.module")) {
      MlirModule *inner = NULL;
      TRY(nested_module(a, op, &inner, depth + 1, d));
      vec_push(a, &modules, inner);
    } else if (!strcmp(op->name, "func.func")) {
      MlirFunc *f = NULL;
      TRY(make_func(a, op, &f, d));
      if (strmap_has(&seen, str_of(f->name)))
        return fail(d, TENON_EFORMAT, mlir_where(op), "a second function @%s", f->name);
      strmap_put(&seen, str_of(f->name), f);
      vec_push(a, &funcs, f);
    } else {
      vec_push(a, &others, op);
    }
  }
  m->funcs = funcs.v;
  m->nfuncs = funcs.n;
  m->others = others.v;
  m->nothers = others.n;
  m->modules = modules.v;
  m->nmodules = modules.n;
  return TENON_OK;
}

tenon_status mlir_make_module(Arena *a, const MlirBlock *top, int64_t nvalues, MlirModule **out,
                              Diag *d) {
  if (top->nops == 1 && !strcmp(top->ops[0]->name, "builtin.module")) {
    TRY(nested_module(a, top->ops[0], out, 0, d));
  } else {
    *out = arena_new(a, MlirModule);
    (*out)->name = "";
    (*out)->line = top->nops ? top->ops[0]->line : 0;
    TRY(fill_module(a, top, *out, 0, d));
  }
  (*out)->nvalues = nvalues;
  mlir_inline_globals(a, *out);
  return TENON_OK;
}
