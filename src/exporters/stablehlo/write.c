// write.c -- a graph as StableHLO text.
//
// Composites are decomposed until every op has a row; all shapes must be static.  Numpy's
// broadcasting becomes broadcast_in_dim.  Constants are written as bytes in hexadecimal digits, so
// that they are exact.
//
// Needs:      shape arithmetic folded, nothing laid out or fused.
// Guarantees: the text is a module of one public function, main, with the model's inputs and
//             outputs in order.
#include "exporters/stablehlo/write.h"

#include "base/platform.h"
#include "eval/control.h"
#include "ir/internal.h"

// ---- types ----

static const char *dtype_word(DType t) {
  static const struct {
    DType dtype;
    const char *word;
  } words[] = {{DT_F32, "f32"},
               {DT_F64, "f64"},
               {DT_F16, "f16"},
               {DT_BF16, "bf16"},
               {DT_BOOL, "i1"},
               {DT_I8, "i8"},
               {DT_I16, "i16"},
               {DT_I32, "i32"},
               {DT_I64, "i64"},
               {DT_U8, "ui8"},
               {DT_U16, "ui16"},
               {DT_U32, "ui32"},
               {DT_U64, "ui64"},
               {DT_F8E4M3, "f8E4M3FN"},
               {DT_F8E5M2, "f8E5M2"},
               {DT_F8E4M3Z, "f8E4M3FNUZ"},
               {DT_F8E5M2Z, "f8E5M2FNUZ"},
               {DT_C64, "complex<f32>"},
               {DT_C128, "complex<f64>"}};
  for (int64_t i = 0; i < ARRAY_LEN(words); i++)
    if (words[i].dtype == t) return words[i].word;
  return NULL;
}

bool hlo_out_has_dtype(DType t) { return dtype_word(t) != NULL; }

void hlo_out_type(StrBuf *b, const Type *t) {
  strbuf_puts(b, "tensor<");
  for (int i = 0; i < t->rank; i++) strbuf_printf(b, "%lldx", (long long)t->dims[i]->value);
  strbuf_printf(b, "%s>", dtype_word(t->dtype));
}

// ---- operations ----

static HloValue new_value(HloOut *o, const Type *t) {
  return (HloValue){str_printf(o->arena, "%%%lld", (long long)o->next++), t};
}

static void begin_line(HloOut *o) {
  for (int i = 0; i < o->indent; i++) strbuf_puts(&o->text, "  ");
}

static void put_signature(HloOut *o, int n, const HloValue *in, const Type *t) {
  strbuf_puts(&o->text, " : (");
  for (int i = 0; i < n; i++) {
    if (i) strbuf_puts(&o->text, ", ");
    hlo_out_type(&o->text, in[i].type);
  }
  strbuf_puts(&o->text, ") -> ");
  if (t)
    hlo_out_type(&o->text, t);
  else
    strbuf_puts(&o->text, "()");
  strbuf_putc(&o->text, '\n');
}

static void put_head(HloOut *o, const char *op, int n, const HloValue *in, const char *attrs) {
  strbuf_printf(&o->text, "\"%s\"(", op);
  for (int i = 0; i < n; i++) strbuf_printf(&o->text, "%s%s", i ? ", " : "", in[i].name);
  strbuf_putc(&o->text, ')');
  if (attrs) strbuf_printf(&o->text, " <{%s}>", attrs);
}

HloValue hlo_out_op(HloOut *o, const char *op, int n, const HloValue *in, const char *attrs,
                    const Type *t) {
  HloValue v = new_value(o, t);
  begin_line(o);
  strbuf_printf(&o->text, "%s = ", v.name);
  put_head(o, op, n, in, attrs);
  put_signature(o, n, in, t);
  return v;
}

static void put_return(HloOut *o, int n, const HloValue *v) {
  begin_line(o);
  put_head(o, "stablehlo.return", n, v, NULL);
  put_signature(o, n, v, NULL);
}

HloValue hlo_out_joining(HloOut *o, const char *op, int n, const HloValue *in, const char *attrs,
                         const char *join, const Type *t) {
  HloValue v = new_value(o, t);
  const Type *scalar = type_scalar(o->g, t->dtype);
  begin_line(o);
  strbuf_printf(&o->text, "%s = ", v.name);
  put_head(o, op, n, in, attrs);
  HloValue a = new_value(o, scalar), b = new_value(o, scalar);
  strbuf_printf(&o->text, " ({\n");
  begin_line(o);
  strbuf_printf(&o->text, "^bb0(%s: ", a.name);
  hlo_out_type(&o->text, scalar);
  strbuf_printf(&o->text, ", %s: ", b.name);
  hlo_out_type(&o->text, scalar);
  strbuf_puts(&o->text, "):\n");
  o->indent++;
  HloValue r = hlo_out_op(o, join, 2, (HloValue[]){a, b}, NULL, scalar);
  put_return(o, 1, &r);
  o->indent--;
  begin_line(o);
  strbuf_puts(&o->text, "})");
  put_signature(o, n, in, t);
  return v;
}

// ---- constants ----

static HloValue put_dense(HloOut *o, const Type *t, Str bytes) {
  static const char digit[] = "0123456789ABCDEF";
  StrBuf b;
  strbuf_init(&b, o->arena);
  strbuf_puts(&b, "value = dense<");
  if (bytes.n) {
    strbuf_puts(&b, "\"0x");
    for (int64_t i = 0; i < bytes.n; i++) {
      strbuf_putc(&b, digit[(uint8_t)bytes.p[i] >> 4]);
      strbuf_putc(&b, digit[(uint8_t)bytes.p[i] & 15]);
    }
    strbuf_putc(&b, '"');
  }
  strbuf_puts(&b, "> : ");
  hlo_out_type(&b, t);
  return hlo_out_op(o, "stablehlo.constant", 0, NULL, strbuf_text(&b), t);
}

// MLIR packs bools into bits; as bytes they have the form that ours have.
static HloValue put_elements(HloOut *o, const Type *t, int64_t n, const void *data) {
  int64_t bytes = 0;
  const Type *as = t->dtype == DT_BOOL ? type_with_dtype(o->g, t, DT_U8) : t;
  CHECK(dtype_bytes(as->dtype, n, &bytes), "a constant has a size");
  HloValue v = put_dense(o, as, (Str){data, bytes});
  return as == t ? v : hlo_out_op(o, "stablehlo.convert", 1, &v, NULL, t);
}

HloValue hlo_out_scalar(HloOut *o, DType t, double v) {
  _Alignas(16) uint8_t bytes[16] = {0};
  put_f64(t, bytes, 0, v);
  return put_elements(o, type_scalar(o->g, t), 1, bytes);
}

static tenon_status put_constant(HloOut *o, const Node *n) {
  const void *data;
  TRY(const_bytes(o->g, n, &data, o->diag));
  HloValue v = put_elements(o, type_of(n), n->data->n, data);
  intmap_put(&o->name, (uint64_t)(uintptr_t)n, (uint64_t)(uintptr_t)v.name);
  return TENON_OK;
}

// ---- shapes ----

const char *hlo_out_ints(HloOut *o, const char *name, int64_t n, const int64_t *v) {
  StrBuf b;
  strbuf_init(&b, o->arena);
  strbuf_printf(&b, "%s = array<i64%s", name, n ? ": " : "");
  for (int64_t i = 0; i < n; i++) strbuf_printf(&b, "%s%lld", i ? ", " : "", (long long)v[i]);
  strbuf_putc(&b, '>');
  return strbuf_text(&b);
}

HloValue hlo_out_reshape(HloOut *o, HloValue x, const Type *t) {
  return x.type == t ? x : hlo_out_op(o, "stablehlo.reshape", 1, &x, NULL, t);
}

HloValue hlo_out_spread(HloOut *o, HloValue x, const Type *t) {
  t = type_with_dtype(o->g, t, x.type->dtype);
  if (x.type == t) return x;
  int64_t at[MAX_RANK];
  for (int i = 0; i < x.type->rank; i++) at[i] = t->rank - x.type->rank + i;
  return hlo_out_op(o, "stablehlo.broadcast_in_dim", 1, &x,
                    hlo_out_ints(o, "broadcast_dimensions", x.type->rank, at), t);
}

// ---- bodies ----

HloValue hlo_out_source(HloOut *o, const Node *n, uint32_t i) {
  uint64_t name;
  CHECK(intmap_get(&o->name, (uint64_t)(uintptr_t)n->src[i], &name), "an operand of %s has no name",
        op_name(n));
  return (HloValue){(const char *)(uintptr_t)name, type_of(n->src[i])};
}

HloValue hlo_out_refuse(HloOut *o, const Node *n, const char *why) {
  refuse_op(&o->refused, o->arena, n, op_name(n), why);
  return (HloValue){"%refused", type_of(n)};
}

static void set_name(HloOut *o, const Node *n, const char *name) {
  intmap_put(&o->name, (uint64_t)(uintptr_t)n, (uint64_t)(uintptr_t)name);
}

static bool is_sayable(const Type *t) {
  return t->kind == TK_TENSOR && t->rank >= 0 && type_is_static(t) && dtype_word(t->dtype);
}

static const char *why_not(const Node *n) {
  const Type *t = type_of(n);
  if (t->kind != TK_TENSOR) return "it is no tensor";
  if (t->rank < 0 || !type_is_static(t))
    return "its sizes are not all numbers; fix them with --fix NAME=N";
  return "StableHLO has no such element type";
}

static tenon_status put_nodes(HloOut *o, const Body *b);

// A branch sees the values around it by their names.
static tenon_status put_branch(HloOut *o, const Node *n, const Body *b, uint32_t first) {
  for (int64_t i = 0; i < b->nparams; i++)
    set_name(o, b->param[i], hlo_out_source(o, n, first + (uint32_t)i).name);
  strbuf_puts(&o->text, "{\n");
  o->indent++;
  TRY(put_nodes(o, b));
  HloValue *v = arena_array(o->arena, HloValue, b->nresults);
  for (int64_t i = 0; i < b->nresults; i++) {
    uint64_t name = 0;
    CHECK(intmap_get(&o->name, (uint64_t)(uintptr_t)b->result[i], &name), "a result has no name");
    v[i] = (HloValue){(const char *)(uintptr_t)name, type_of(b->result[i])};
  }
  put_return(o, (int)b->nresults, v);
  o->indent--;
  begin_line(o);
  strbuf_putc(&o->text, '}');
  return TENON_OK;
}

static tenon_status put_if(HloOut *o, const Node *n) {
  const if_attrs *at = n->attrs;
  HloValue flag = hlo_out_reshape(o, hlo_out_source(o, n, 0), type_scalar(o->g, DT_BOOL));
  const char *name = str_printf(o->arena, "%%%lld", (long long)o->next++);
  set_name(o, n, name);
  begin_line(o);
  if (n->nres == 1)
    strbuf_printf(&o->text, "%s = \"stablehlo.if\"(%s) (", name, flag.name);
  else
    strbuf_printf(&o->text, "%s:%d = \"stablehlo.if\"(%s) (", name, n->nres, flag.name);
  TRY(put_branch(o, n, at->then_branch, 1));
  strbuf_puts(&o->text, ", ");
  TRY(put_branch(o, n, at->else_branch, 1 + (uint32_t)at->then_captures));
  strbuf_puts(&o->text, ") : (tensor<i1>) -> (");
  for (int i = 0; i < n->nres; i++) {
    if (i) strbuf_puts(&o->text, ", ");
    hlo_out_type(&o->text, n->type[i]);
  }
  strbuf_puts(&o->text, ")\n");
  return TENON_OK;
}

// A part of split is a slice; a result of `if` is one of a row of values.
static HloValue put_result(HloOut *o, const Node *p) {
  const Node *n = p->src[0];
  int64_t index = ((const proj_attrs *)p->attrs)->index;
  if (n->op == OP_if)
    return (HloValue){
        str_printf(o->arena, "%s#%lld", hlo_out_source(o, p, 0).name, (long long)index),
        type_of(p)};
  const HloRow *row = hlo_out_row(n->op);
  if (row && n->op == OP_split) return row->fn(o, p, row->word);
  if (row && index == 0) return hlo_out_source(o, p, 0);
  return hlo_out_refuse(o, n, "only its first result can be written");
}

static tenon_status put_node(HloOut *o, const Node *n) {
  HloValue v;
  if (n->op == OP_const) return put_constant(o, n);
  if (n->op == OP_if) return put_if(o, n);
  const HloRow *row = hlo_out_row(n->op);
  if (n->op == OP_proj)
    v = put_result(o, n);
  else if (n->op == OP_split)
    return TENON_OK;
  else
    v = row ? row->fn(o, n, row->word)
            : hlo_out_refuse(o, n, "StableHLO has no such operation, and it is not made of others");
  set_name(o, n, v.name);
  return TENON_OK;
}

static tenon_status put_nodes(HloOut *o, const Body *b) {
  NodeList order = body_order(o->g, b, o->arena);
  for (int64_t i = 0; i < order.n; i++) {
    const Node *n = order.v[i];
    uint64_t known;
    if (n->op == OP_none || n->op == OP_param) continue;
    if (n->op == OP_const && intmap_get(&o->name, (uint64_t)(uintptr_t)n, &known)) continue;
    bool sayable = true;
    for (int k = 0; k < n->nres; k++) sayable &= is_sayable(n->type[k]);
    for (uint32_t k = 0; k < n->nsrc; k++)
      sayable &= n->src[k]->op == OP_none || n->src[k]->nres != 1 || is_sayable(type_of(n->src[k]));
    if (sayable) {
      TRY(put_node(o, n));
    } else {
      (void)hlo_out_refuse(o, n,
                           is_sayable(type_of(n)) ? "an operand cannot be written" : why_not(n));
      set_name(o, n, "%refused");
    }
  }
  return TENON_OK;
}

// ---- the module ----

static void put_parameters(HloOut *o, const Body *b) {
  for (int64_t i = 0; i < b->nparams; i++) {
    const Node *p = b->param[i];
    set_name(o, p, str_printf(o->arena, "%%arg%lld", (long long)i));
    strbuf_printf(&o->text, "%s%%arg%lld: ", i ? ", " : "", (long long)i);
    if (is_sayable(type_of(p)))
      hlo_out_type(&o->text, type_of(p));
    else
      (void)hlo_out_refuse(o, p, why_not(p));
  }
}

// A constant that several bodies use is written where all of them see it.
static tenon_status shared_constants(HloOut *o) {
  for (int64_t i = 0; i < o->g->body.n; i++) {
    NodeList order = body_order(o->g, o->g->body.v[i], o->arena);
    for (int64_t k = 0; k < order.n; k++) {
      uint64_t known;
      const Node *n = order.v[k];
      if (n->op != OP_const || intmap_get(&o->name, (uint64_t)(uintptr_t)n, &known)) continue;
      if (is_sayable(type_of(n))) TRY(put_constant(o, n));
    }
  }
  return TENON_OK;
}

static bool has_row(const void *ctx, const Node *n) {
  (void)ctx;
  return hlo_out_row(n->op) != NULL || n->op == OP_if;
}

static tenon_status put_main(HloOut *o) {
  const Body *b = o->g->main;
  strbuf_puts(&o->text, "module @main {\n  func.func public @main(");
  put_parameters(o, b);
  strbuf_puts(&o->text, ") -> (");
  for (int64_t i = 0; i < b->nresults; i++) {
    if (i) strbuf_puts(&o->text, ", ");
    if (!is_sayable(type_of(b->result[i]))) continue;  // reported where it is computed
    hlo_out_type(&o->text, type_of(b->result[i]));
  }
  strbuf_puts(&o->text, ") {\n");
  o->indent = 2;
  TRY(shared_constants(o));
  TRY(put_nodes(o, b));
  TRY(refused_report(&o->refused, "StableHLO", o->diag));
  HloValue *v = arena_array(o->arena, HloValue, b->nresults);
  for (int64_t i = 0; i < b->nresults; i++) {
    uint64_t name = 0;
    CHECK(intmap_get(&o->name, (uint64_t)(uintptr_t)b->result[i], &name), "an output has no name");
    v[i] = (HloValue){(const char *)(uintptr_t)name, type_of(b->result[i])};
  }
  begin_line(o);
  put_head(o, "func.return", (int)b->nresults, v, NULL);
  put_signature(o, (int)b->nresults, v, NULL);
  strbuf_puts(&o->text, "  }\n}\n");
  return TENON_OK;
}

tenon_status export_stablehlo(Graph *g, const char *path, Diag *d) {
  g->diag = d;
  TRY(export_prepare(g, hlo_out_rewrites, hlo_out_nrewrites, has_row, NULL));
  HloOut o = {.g = g, .arena = &g->arena, .diag = d};
  strbuf_init(&o.text, o.arena);
  intmap_init(&o.name, o.arena);
  strbuf_puts(&o.text, "// " FILE_MARK " " TENON_VERSION "\n");
  TRY(put_main(&o));
  Str text = strbuf_str(&o.text);
  return file_write_parts(path, &text, 1, d);
}
