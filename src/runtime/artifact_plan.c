// artifact_plan.c -- the plan section: the tables of a Program as bytes.
//
// The fields of every table are listed once, below, and one walk over them both writes and reads.
// Numbers are fixed in width and little-endian; a text is its length and its bytes; a list is as
// long as a field before it says.  The walk goes as deep as the lists of fields do, whatever the
// bytes say.
//
// Guarantees: reading never leaves the bytes, and allocates no more than a fixed multiple of them.
#include "runtime/artifact.h"

typedef enum {
  WIRE_u8,
  WIRE_i32,
  WIRE_i64,
  WIRE_f64,
  WIRE_dtype,
  WIRE_text,  // NULL is a value of its own
  WIRE_str,
  WIRE_i32s,  // the rest: lists
  WIRE_i64s,
  WIRE_texts,
  WIRE_table,      // of structs
  WIRE_functions,  // of pointers to structs, which know their index
  WIRE_attrs,      // a host step's, by the op's own description
} WireKind;

typedef struct WireTable WireTable;
typedef struct WireField {
  WireKind kind;
  uint16_t offset, count;  // `count`: where the list's length is, an int32_t
  const WireTable *of;
} WireField;
struct WireTable {
  int64_t size;
  int nfields;
  const WireField *field;
};

#define ONE(T, k, f)                                                                               \
  { .kind = WIRE_##k, .offset = offsetof(T, f) }
#define MANY(T, k, f, n)                                                                           \
  { .kind = WIRE_##k, .offset = offsetof(T, f), .count = offsetof(T, n) }
#define TABLE(T, f, n, table)                                                                      \
  { .kind = WIRE_table, .offset = offsetof(T, f), .count = offsetof(T, n), .of = &(table) }
#define WIRE_TABLE(T, fields)                                                                      \
  { .size = sizeof(T), .nfields = sizeof(fields) / sizeof((fields)[0]), .field = (fields) }

// clang-format off
static const WireField sym_fields[] = {
  ONE(ProgSym, text, name), ONE(ProgSym, i64, lo), ONE(ProgSym, i64, hi),
};
static const WireField expr_fields[] = {
  ONE(ProgExpr, i32, n), MANY(ProgExpr, i64s, code, n),
};
static const WireField const_fields[] = {
  ONE(ProgConst, dtype, dtype), ONE(ProgConst, i32, rank), MANY(ProgConst, i64s, dims, rank),
  ONE(ProgConst, i64, offset), ONE(ProgConst, i64, bytes),
};
static const WireField kernel_fields[] = {
  ONE(ProgKernel, text, name), ONE(ProgKernel, text, template_name), ONE(ProgKernel, text, schedule),
  ONE(ProgKernel, u8, device), ONE(ProgKernel, i64, entry),
  ONE(ProgKernel, i64, scratch_bytes), ONE(ProgKernel, i32, group), ONE(ProgKernel, i64, shared_bytes),
  ONE(ProgKernel, i32, nargs), ONE(ProgKernel, i32, ndims),
  ONE(ProgKernel, i32, nchecks), MANY(ProgKernel, texts, check, nchecks),
};
static const WireField device_fields[] = {
  ONE(ProgDevice, text, driver), ONE(ProgDevice, text, made_for), ONE(ProgDevice, str, code),
};
static const WireField value_fields[] = {
  ONE(ProgValue, u8, place), ONE(ProgValue, u8, kind), ONE(ProgValue, u8, item), ONE(ProgValue, u8, device),
  ONE(ProgValue, dtype, dtype),
  ONE(ProgValue, i32, slot), ONE(ProgValue, i32, at), ONE(ProgValue, i32, rank), MANY(ProgValue, i32s, dim, rank),
  ONE(ProgValue, text, name),
};
static const WireField root_fields[] = {
  ONE(ProgRoot, i32, bytes), ONE(ProgRoot, i32, nbelow), MANY(ProgRoot, i32s, below, nbelow),
};
static const WireField step_fields[] = {
  ONE(ProgStep, u8, kind), ONE(ProgStep, i32, kernel), ONE(ProgStep, text, op), ONE(ProgStep, text, node),
  ONE(ProgStep, attrs, attrs),
  ONE(ProgStep, i32, nin), MANY(ProgStep, i32s, in, nin),
  ONE(ProgStep, i32, nout), MANY(ProgStep, i32s, out, nout),
  ONE(ProgStep, i32, nargs), MANY(ProgStep, i32s, arg, nargs),
  ONE(ProgStep, i32, ndims), MANY(ProgStep, i32s, dim, ndims),
  ONE(ProgStep, i32, items), ONE(ProgStep, i32, when), ONE(ProgStep, i32, more), ONE(ProgStep, i64, grain),
  ONE(ProgStep, i32, nsame), MANY(ProgStep, i32s, same, nsame), MANY(ProgStep, i32s, as, nsame),
  MANY(ProgStep, texts, what, nsame),
  ONE(ProgStep, i32, nfree), MANY(ProgStep, i32s, free, nfree),
  ONE(ProgStep, f64, flops), ONE(ProgStep, f64, bytes),
};
static const WireTable sym_table = WIRE_TABLE(ProgSym, sym_fields);
static const WireTable expr_table = WIRE_TABLE(ProgExpr, expr_fields);
static const WireTable const_table = WIRE_TABLE(ProgConst, const_fields);
static const WireTable kernel_table = WIRE_TABLE(ProgKernel, kernel_fields);
static const WireTable device_table = WIRE_TABLE(ProgDevice, device_fields);
static const WireTable value_table = WIRE_TABLE(ProgValue, value_fields);
static const WireTable root_table = WIRE_TABLE(ProgRoot, root_fields);
static const WireTable step_table = WIRE_TABLE(ProgStep, step_fields);
static const WireField function_fields[] = {
  ONE(ProgFunction, text, name),
  ONE(ProgFunction, i32, nvalues), TABLE(ProgFunction, value, nvalues, value_table),
  ONE(ProgFunction, i32, nroots), TABLE(ProgFunction, root, nroots, root_table),
  ONE(ProgFunction, i32, nsteps), TABLE(ProgFunction, step, nsteps, step_table),
  ONE(ProgFunction, i32, nparams), MANY(ProgFunction, i32s, param, nparams),
  ONE(ProgFunction, i32, nranges), MANY(ProgFunction, i64s, range, nranges),
  ONE(ProgFunction, i32, nresults), MANY(ProgFunction, i32s, result, nresults),
  MANY(ProgFunction, texts, result_name, nresults),
};
static const WireTable function_table = WIRE_TABLE(ProgFunction, function_fields);
static const WireField program_fields[] = {
  ONE(Program, text, target),
  ONE(Program, i32, noptions), MANY(Program, texts, option, noptions),
  ONE(Program, i32, nsyms), TABLE(Program, sym, nsyms, sym_table),
  ONE(Program, i32, nexprs), TABLE(Program, expr, nexprs, expr_table),
  ONE(Program, i32, nconsts), TABLE(Program, constant, nconsts, const_table),
  ONE(Program, i32, nkernels), TABLE(Program, kernel, nkernels, kernel_table),
  ONE(Program, i32, ndevices), TABLE(Program, device, ndevices, device_table),
  ONE(Program, i32, nfunctions),
  {.kind = WIRE_functions, .offset = offsetof(Program, function), .count = offsetof(Program, nfunctions), .of = &function_table},
};
static const WireTable program_table = WIRE_TABLE(Program, program_fields);
// clang-format on

enum { STRUCT_MAX = 512 };  // bytes of a table's struct or an op's attributes

typedef struct Wire {
  StrBuf *out;  // writing; else reading
  Str in;       // what is left
  Program *p;
  EvalFind *find;
  Diag *diag;
  tenon_status status;
} Wire;

static void refuse(Wire *w, const char *what) {
  if (!w->status)
    w->status = fail(w->diag, TENON_EFORMAT, NOWHERE, "the plan is damaged: %s", what);
}

// ---- numbers and lists ----

static void code_bytes(Wire *w, void *p, int64_t n) {
  if (w->out) {
    strbuf_put(w->out, (Str){p, n});
    return;
  }
  if (n > w->in.n) refuse(w, "it ends early");
  if (w->status) {
    memset(p, 0, (size_t)n);
    return;
  }
  memcpy(p, w->in.p, (size_t)n);
  w->in = (Str){w->in.p + n, w->in.n - n};
}

static int64_t code_i64(Wire *w, int64_t x) {
  code_bytes(w, &x, 8);
  return x;
}

static int32_t code_i32(Wire *w, int32_t x) {
  code_bytes(w, &x, 4);
  return x;
}

// Memory for a list that is to be read, of which each item takes `least` bytes of the plan.
static void *make_list(Wire *w, int64_t n, int64_t each, int64_t least) {
  if (!w->status && (n < 0 || n > w->in.n / least)) refuse(w, "a list is longer than the plan");
  return w->status ? NULL : arena_alloc_array(&w->p->arena, MAX(n, 1), each);
}

// A list of plain numbers; NULL where reading failed.
static void *code_list(Wire *w, const void *list, int64_t n, int64_t each) {
  void *v = w->out ? (void *)(uintptr_t)list : make_list(w, n, each, each);
  if (v && n) code_bytes(w, v, n * each);
  return v;
}

static Str code_str(Wire *w, Str s) {
  int64_t n = code_i64(w, s.n);
  char *v = w->out ? (char *)(uintptr_t)s.p : make_list(w, n, 1, 1);
  if (!v || !n) return (Str){"", 0};
  code_bytes(w, v, n);
  return (Str){v, n};
}

static const char *code_text(Wire *w, const char *text) {
  int32_t n = code_i32(w, text ? (int32_t)strlen(text) : -1);
  if (n == -1) return NULL;
  if (w->out) {
    strbuf_put(w->out, (Str){text, n});
    return text;
  }
  if (!w->status && (n < 0 || n > w->in.n)) refuse(w, "a text is longer than the plan");
  if (w->status) return NULL;
  const char *copy = str_copy(&w->p->arena, (Str){w->in.p, n});
  w->in = (Str){w->in.p + n, w->in.n - n};
  return copy;
}

// ---- attributes ----

static int nchoices(const char *choices) {
  int n = 1;
  for (; *choices; choices++) n += *choices == '|';
  return n;
}

// What tells attributes of another version of the op.
static uint32_t describe(const EvalOp *op) {
  uint64_t h = op->nattrs;
  for (int i = 0; i < op->nattrs; i++) {
    const AttrDesc *a = &op->attrs[i];
    Str name = str_of(a->name), choices = str_of(a->choices ? a->choices : "");
    h = hash_bytes(choices.p, choices.n, hash_bytes(name.p, name.n, h * 31 + a->kind));
  }
  return (uint32_t)(h ^ h >> 32);
}

static const void *code_body(Wire *w, const void *body) {
  const ProgFunction *f = body;
  int32_t index = code_i32(w, f ? f->index : -1);
  if (w->out || index == -1) return body;
  if (index < 0 || index >= w->p->nfunctions) {
    refuse(w, "no such function");
    return NULL;
  }
  return w->p->function[index];
}

static void code_strs(Wire *w, Strs *s) {
  s->n = code_i64(w, s->n);
  Str *v = w->out ? (Str *)(uintptr_t)s->v : make_list(w, s->n, sizeof(Str), 8);
  for (int64_t i = 0; v && i < s->n; i++) {
    Str item = code_str(w, v[i]);
    if (!w->out) v[i] = item;
  }
  s->v = v;
}

static void code_attr(Wire *w, const AttrDesc *d, void *f) {
  switch (d->kind) {
  case ATTR_i64: code_bytes(w, f, 8); break;
  case ATTR_opt_i64: {
    OptInt *x = f;
    uint8_t given = x->given;
    code_bytes(w, &given, 1);
    if (given > 1) refuse(w, "neither given nor absent");
    x->given = given == 1;
    code_bytes(w, &x->v, 8);
    break;
  }
  case ATTR_f64: code_bytes(w, f, 8); break;
  case ATTR_bool: {
    uint8_t b = *(bool *)f;
    code_bytes(w, &b, 1);
    if (b > 1) refuse(w, "neither true nor false");
    *(bool *)f = b == 1;
    break;
  }
  case ATTR_dtype: {
    int32_t t = code_i32(w, *(DType *)f);
    if (t && !dtype_valid(t)) refuse(w, "no such element type");
    *(DType *)f = (DType)t;
    break;
  }
  case ATTR_choice: {
    int32_t i = code_i32(w, *(int *)f);
    if (i < 0 || i >= nchoices(d->choices)) refuse(w, "no such choice");
    *(int *)f = i;
    break;
  }
  case ATTR_str: *(Str *)f = code_str(w, *(Str *)f); break;
  case ATTR_strs: code_strs(w, f); break;
  case ATTR_body: *(const void **)f = code_body(w, *(const void **)f); break;
  case ATTR_i64s: {
    Ints *x = f;
    x->n = code_i64(w, x->n);
    x->v = code_list(w, x->v, x->n, 8);
    break;
  }
  case ATTR_f64s: {
    Floats *x = f;
    x->n = code_i64(w, x->n);
    x->v = code_list(w, x->v, x->n, 8);
    break;
  }
  }
}

static void code_attrs(Wire *w, ProgStep *s) {
  uint8_t present = s->attrs != NULL;
  if (s->kind != STEP_HOST) return;
  if (!w->out) s->eval = s->op ? w->find(s->op) : NULL;
  if (!s->eval) {
    if (!w->status)
      w->status = fail(w->diag, TENON_EUNSUPPORTED, (Where){.node = s->node},
                       "operator %s is not in this runtime", s->op ? s->op : "?");
    return;
  }
  code_bytes(w, &present, 1);
  if (present > 1) refuse(w, "neither there nor absent");
  if (!present) return;
  if (code_i32(w, (int32_t)describe(s->eval)) != (int32_t)describe(s->eval))
    refuse(w, "attributes of another version");
  if (w->status) return;
  _Alignas(16) char copy[STRUCT_MAX];
  void *attrs = w->out ? copy : arena_alloc(&w->p->arena, MAX(s->eval->attrs_size, 1));
  CHECK(s->eval->attrs_size <= STRUCT_MAX, "the attributes of %s", s->op);
  if (w->out) memcpy(copy, s->attrs, s->eval->attrs_size);
  for (int i = 0; i < s->eval->nattrs && !w->status; i++)
    code_attr(w, &s->eval->attrs[i], (char *)attrs + s->eval->attrs[i].offset);
  if (!w->out) s->attrs = attrs;
}

// ---- tables ----

static void code_struct(Wire *w, const WireTable *t, void *obj);

// The fewest bytes that a struct takes in the plan.
static int64_t least_bytes(const WireTable *t) {
  static const int64_t least[] = {
      [WIRE_u8] = 1,    [WIRE_i32] = 4,  [WIRE_i64] = 8, [WIRE_f64] = 8,
      [WIRE_dtype] = 4, [WIRE_text] = 4, [WIRE_str] = 8, [WIRE_attrs] = 0};
  int64_t n = 0;
  for (int i = 0; i < t->nfields; i++) n += least[t->field[i].kind];
  return n;
}

static void code_texts(Wire *w, const char ***list, int64_t n) {
  if (!w->out) *list = make_list(w, n, sizeof(char *), 4);
  for (int64_t i = 0; *list && i < n && !w->status; i++) {
    const char *text = code_text(w, (*list)[i]);
    if (!w->out) (*list)[i] = text;
  }
}

static void code_table(Wire *w, const WireTable *t, char **list, int64_t n) {
  if (!w->out) *list = make_list(w, n, t->size, least_bytes(t));
  for (int64_t i = 0; *list && i < n && !w->status; i++) code_struct(w, t, *list + i * t->size);
}

// All are there before the first is read, since bodies refer to one another.
static void code_functions(Wire *w, const WireTable *t, ProgFunction ***list, int64_t n) {
  if (!w->out) {
    *list = make_list(w, n, sizeof(ProgFunction *), least_bytes(t));
    for (int64_t i = 0; *list && i < n; i++) {
      (*list)[i] = arena_new(&w->p->arena, ProgFunction);
      (*list)[i]->index = (int32_t)i;
    }
  }
  for (int64_t i = 0; *list && i < n && !w->status; i++) code_struct(w, t, (*list)[i]);
}

static void code_field(Wire *w, const WireField *f, char *obj) {
  void *at = obj + f->offset;
  const void **list = at;
  int32_t count = 0;
  if (f->kind >= WIRE_i32s && f->kind != WIRE_attrs) memcpy(&count, obj + f->count, 4);
  // Only a rank may be unknown.
  if (count < 0 && !(count == -1 && f->kind == WIRE_i32s)) refuse(w, "a list of less than nothing");
  int64_t n = MAX(count, 0);
  switch (f->kind) {
  case WIRE_u8: code_bytes(w, at, 1); break;
  case WIRE_i32: code_bytes(w, at, 4); break;
  case WIRE_i64:
  case WIRE_f64: code_bytes(w, at, 8); break;
  case WIRE_dtype: *(DType *)at = (DType)code_i32(w, *(DType *)at); break;
  case WIRE_text: *list = code_text(w, *list); break;
  case WIRE_str: *(Str *)at = code_str(w, *(Str *)at); break;
  case WIRE_i32s: *list = code_list(w, *list, n, 4); break;
  case WIRE_i64s: *list = code_list(w, *list, n, 8); break;
  case WIRE_texts: code_texts(w, at, n); break;
  case WIRE_table: code_table(w, f->of, at, n); break;
  case WIRE_functions: code_functions(w, f->of, at, n); break;
  case WIRE_attrs: code_attrs(w, (ProgStep *)(void *)obj); break;
  }
}

// What is written is a copy: the walk puts back what it reads, and others may be using the program.
static void code_struct(Wire *w, const WireTable *t, void *obj) {
  _Alignas(16) char copy[STRUCT_MAX];
  CHECK(t->size <= STRUCT_MAX, "a struct of %lld bytes", (long long)t->size);
  if (w->out) obj = memcpy(copy, obj, (size_t)t->size);
  for (int i = 0; i < t->nfields && !w->status; i++) code_field(w, &t->field[i], obj);
}

tenon_status plan_encode(const Program *p, StrBuf *out, Diag *d) {
  Wire w = {.out = out, .p = (Program *)(uintptr_t)p, .diag = d};
  code_struct(&w, &program_table, w.p);
  return w.status;
}

tenon_status plan_decode(Program *p, Str bytes, EvalFind *find, Diag *d) {
  Wire w = {.in = bytes, .p = p, .find = find, .diag = d};
  code_struct(&w, &program_table, p);
  if (!w.status && w.in.n) refuse(&w, "bytes are left over");
  return w.status;
}
