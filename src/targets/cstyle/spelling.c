// spelling.c -- the spellings of C and OpenCL C, and names that are safe in the family.
//
// A Spelling holds the words in which the languages differ.  spelling_cuda is in targets/cuda.
//
// Needs:      C11 for `c`, OpenCL C 1.2 for `opencl`; f64 there only with cl_khr_fp64.
// Guarantees: pragmas switch floating-point contraction off in clang and OpenCL; GCC needs
//             -ffp-contract=off for the same bits.  cstyle_identifier gives no keyword, reserved
//             word or name of the emitter.
#include "targets/cstyle/emit.h"

#include <ctype.h>

static const char *const types_c[] = {
    [DT_F32] = "float",      [DT_F64] = "double",      [DT_I8] = "int8_t",
    [DT_I16] = "int16_t",    [DT_I32] = "int32_t",     [DT_I64] = "int64_t",
    [DT_U8] = "uint8_t",     [DT_U16] = "uint16_t",    [DT_U32] = "uint32_t",
    [DT_U64] = "uint64_t",   [DT_BOOL] = "int",        [DT_F16] = "uint16_t",
    [DT_BF16] = "uint16_t",  [DT_F8E4M3] = "uint8_t",  [DT_F8E4M3Z] = "uint8_t",
    [DT_F8E5M2] = "uint8_t", [DT_F8E5M2Z] = "uint8_t", [DT_F8E8M0] = "uint8_t",
    [DT_I2] = NULL};

static const char top_c[] =
    "#include <math.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n\n"
    "#if defined(__GNUC__)\n#define TN_FN static inline __attribute__((unused))\n"
    "#define TN_ALIAS __attribute__((may_alias))\n"
    "#define TN_PREFETCH(p) __builtin_prefetch(p)\n#else\n"
    "#define TN_FN static inline\n#define TN_ALIAS\n#define TN_PREFETCH(p) ((void)0)\n"
    "#endif\n"
    "#if defined(__clang__)\n#pragma STDC FP_CONTRACT OFF\n#endif\n"
    "#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__aarch64__)\n"
    "#define TN_FMA 1 /* one instruction, so that libm is not called for it */\n"
    "#else\n#define TN_FMA 0\n#endif\n";

const Spelling spelling_c = {.name = "c",
                             .function = "static int32_t",
                             .index = "ptrdiff_t",
                             .local = "_Alignas(64) ",
                             .items = "for (ptrdiff_t @ = begin; @ < end; @++) {",
                             .prefetch = "TN_PREFETCH",
                             .top = top_c,
                             .math_f32 = "f",
                             .type = types_c,
                             .lanes = LOOP_LANES,
                             .global = ""};

// ---- OpenCL C 1.2 ----

static const char *const types_opencl[] = {
    [DT_F32] = "float",     [DT_F64] = "double",   [DT_I8] = "char",       [DT_I16] = "short",
    [DT_I32] = "int",       [DT_I64] = "long",     [DT_U8] = "uchar",      [DT_U16] = "ushort",
    [DT_U32] = "uint",      [DT_U64] = "ulong",    [DT_BOOL] = "int",      [DT_F16] = "ushort",
    [DT_BF16] = "ushort",   [DT_F8E4M3] = "uchar", [DT_F8E4M3Z] = "uchar", [DT_F8E5M2] = "uchar",
    [DT_F8E5M2Z] = "uchar", [DT_F8E8M0] = "uchar", [DT_I2] = NULL};

// Names of C's, as macros: a driver may have types of these names already.
static const char top_opencl[] =
    "#pragma OPENCL FP_CONTRACT OFF\n"
    "#define int8_t char\n#define int16_t short\n#define int32_t int\n#define int64_t long\n"
    "#define uint8_t uchar\n#define uint16_t ushort\n#define uint32_t uint\n"
    "#define uint64_t ulong\n#define INT64_C(x) x##L\n#define UINT64_C(x) x##UL\n"
    "#define INT32_MIN INT_MIN\n#define INT64_MIN LONG_MIN\n#define INT64_MAX LONG_MAX\n"
    "#define UINT64_MAX ULONG_MAX\n"
    "#define TN_FN static inline\n#define TN_ALIAS\n#define TN_FMA 1\n"
    "#define TN_PREFETCH(p) prefetch(p, 1)\n";

const Spelling spelling_opencl = {
    .name = "opencl",
    .function = "kernel void",
    .index = "long",
    .small_index = "int",
    .local = "__attribute__((aligned(64))) ",
    .items = "for (# @ = get_global_id(0); @ < items; @ += get_global_size(0)) {",
    .unroll = "#pragma unroll",
    .prefetch = "TN_PREFETCH",
    .top = top_opencl,
    .math_f32 = "",
    .type = types_opencl,
    .lanes = 16,
    .has_vload = true,
    .is_device = true,
    .offsets = true,
    .global = "global ",
    .scratch = "scratch += scratch_each * get_global_id(0);",
    .fault = "atomic_cmpxchg((volatile global int *)fault, 0, @);",
    .f64 = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n",
    .block_items = "for (# @ = get_group_id(0); @ < items; @ += get_num_groups(0)) {",
    .block_scratch = "scratch += scratch_each * get_group_id(0);",
    .thread = "get_local_id(0)",
    .shared = "local ",
    .barrier = {"barrier(CLK_LOCAL_MEM_FENCE);", "barrier(CLK_GLOBAL_MEM_FENCE);",
                "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"}};

void cstyle_init(CStyle *c, const Spelling *s, int vector_bytes, Arena *a, Diag *d) {
  *c = (CStyle){.spelling = s, .arena = a, .diag = d, .vector_bytes = vector_bytes};
}

// ---- names ----

static const char *const reserved[] = {
    "auto",      "break",   "case",     "char",      "const",   "continue",  "default",
    "do",        "double",  "else",     "enum",      "extern",  "float",     "for",
    "goto",      "if",      "inline",   "int",       "long",    "register",  "restrict",
    "return",    "short",   "signed",   "sizeof",    "static",  "struct",    "switch",
    "typedef",   "union",   "unsigned", "void",      "while",   "volatile",  "bool",
    "true",      "false",   "kernel",   "global",    "local",   "half",      "class",
    "this",      "new",     "delete",   "template",  "asm",     "in",        "out",
    "y0",        "y1",      "yn",       "j0",        "j1",      "jn",        "gamma",
    "index",     "exp",     "log",      "sin",       "cos",     "tan",       "pow",
    "floor",     "ceil",    "round",    "abs",       "div",     "remainder", "constant",
    "private",   "uchar",   "ushort",   "uint",      "ulong",   "size_t",    "event_t",
    "sampler_t", "pipe",    "and",      "or",        "not",     "xor",       "try",
    "catch",     "throw",   "public",   "protected", "friend",  "operator",  "namespace",
    "using",     "virtual", "typename", "explicit",  "mutable", "signbit",   "isfinite"};

const char *cstyle_identifier(Arena *a, Str text) {
  char *s = str_printf(a, "%s%.*s", text.n && isalpha((unsigned char)text.p[0]) ? "" : "_",
                       STR_ARG(text));
  for (char *p = s; *p; p++)
    if (!isalnum((unsigned char)*p)) *p = '_';
  for (int64_t i = 0; i < ARRAY_LEN(reserved); i++)
    if (!strcmp(s, reserved[i])) return str_printf(a, "%s_", s);
  return str_starts(str_of(s), "tn_") || str_starts(str_of(s), "TN_") ? str_printf(a, "x%s", s) : s;
}

const char *cs_name(CEmit *e, const char *base) {
  const char *first = cstyle_identifier(e->arena, str_of(base)), *name = first;
  uintptr_t next = (uintptr_t)strmap_get(&e->names, str_of(first));
  for (next = next ? next : 1; strmap_has(&e->names, str_of(name)); next++)
    name = str_printf(e->arena, "%s_%d", first, (int)next);
  if (name != first) strmap_put(&e->names, str_of(first), (void *)next);
  strmap_put(&e->names, str_of(name), (void *)1);
  return name;
}

const char *cs_replace(CEmit *e, const char *form, const char *name) {
  StrBuf b;
  strbuf_init(&b, e->arena);
  for (; *form; form++)
    if (*form == '@')
      strbuf_puts(&b, name);
    else if (*form == '#')
      strbuf_puts(&b, e->index);
    else
      strbuf_putc(&b, *form);
  return strbuf_text(&b);
}

// ---- types ----

int64_t cs_bytes(DType t) { return MAX(dtype_bits(t) / 8, 1); }

static DType held_in(DType t) {
  if (t == DT_BOOL) return DT_U8;
  if (!dtype_is_float(t) || t == DT_F32 || t == DT_F64) return t;
  return dtype_bits(t) == 16 ? DT_U16 : DT_U8;
}

const char *cs_type(CEmit *e, DType t, int lanes) {
  const char *type = dtype_valid(t) && t < DT_I2 ? e->sp->type[t] : NULL;
  if (!type) {
    cs_refuse(e, "elements of type %s are not for this target", dtype_name(t));
    return "int";
  }
  if (!lanes) return type;
  DType h = held_in(t);
  helper_need(e->c, "type", h, lanes);
  return str_printf(e->arena, "tn_%sx%d", dtype_name(h), lanes);
}

const char *cs_mask_type(CEmit *e, int bytes, int lanes) {
  DType t = bytes == 1 ? DT_I8 : bytes == 2 ? DT_I16 : bytes == 4 ? DT_I32 : DT_I64;
  return cs_type(e, t, lanes);
}

// ---- vectors: OpenCL has functions where compilers of C have operators ----

const char *cs_as(CEmit *e, const char *type, const char *text) {
  return str_printf(e->arena, e->sp->has_vload ? "as_%s(%s)" : "(%s)(%s)", type, text);
}

const char *cs_convert(CEmit *e, const char *type, const char *text) {
  if (e->sp->has_vload) return str_printf(e->arena, "convert_%s(%s)", type, text);
  return str_printf(e->arena, "__builtin_convertvector(%s, %s)", text, type);
}

const char *cs_list(CEmit *e, const char *type, const char *elements) {
  return str_printf(e->arena, e->sp->has_vload ? "(%s)(%s)" : "(%s){%s}", type, elements);
}

const char *cs_lane(CEmit *e, const char *text, int i) {
  if (e->sp->has_vload) return str_printf(e->arena, "%s.s%x", text, (unsigned)i);
  return str_printf(e->arena, "%s[%d]", text, i);
}

// ---- lines ----

static void stop(CEmit *e, tenon_status s, const char *fmt, va_list ap) {
  if (e->status || e->not_vector) return;  // what is thrown away may be in pieces
  const char *text = str_vprintf(e->arena, fmt, ap);
  e->status = fail(e->c->diag, s, NOWHERE, "kernel '%s': %s", e->k->name, text);
}

void cs_fail(CEmit *e, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  stop(e, TENON_EINTERNAL, fmt, ap);
  va_end(ap);
}

void cs_refuse(CEmit *e, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  stop(e, TENON_EUNSUPPORTED, fmt, ap);
  va_end(ap);
}

static void put_line(CEmit *e, const char *fmt, va_list ap) {
  const char *text = str_vprintf(e->arena, fmt, ap);
  for (int i = 0; i < e->indent; i++) strbuf_puts(e->out, "  ");
  strbuf_puts(e->out, text);
  strbuf_putc(e->out, '\n');
}

void cs_line(CEmit *e, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  put_line(e, fmt, ap);
  va_end(ap);
}

void cs_open(CEmit *e, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  put_line(e, fmt, ap);
  va_end(ap);
  e->indent++;
}

void cs_close(CEmit *e) {
  e->indent--;
  cs_line(e, "}");
}
