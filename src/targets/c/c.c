// c.c -- the target `c`: assembles prelude, kernels, functions, memory and weights (c.h).
//
// Parts are written to buffers first, because constants and helpers are known only when all
// functions are emitted.  A model without floats gets no float types and no <math.h>.
//
// Needs:      a lowered program whose loops are alive; CSourceOptions with the symbol.
// Guarantees: all unsupported steps are reported together, with EUNSUPPORTED.  Equal programs give
//             equal text.  arena_bytes and stack_bytes are upper bounds where sizes are constant.
#include "targets/c/c.h"

#include "targets/c/emit.h"

const char *const c_composites[] = {"attention", "softmax_cross_entropy_loss", NULL};

// Schedules are those of the machine that the source will be compiled on.
void c_describe(const Machine *m, LowerTarget *out) {
  *out = (LowerTarget){.vector_bytes = MAX(m->vector_bytes, 16),
                       .vector_registers = m->has & CPU_AVX512 ? 32 : 16,
                       .l1 = m->l1_bytes,
                       .l2 = m->l2_bytes,
                       .fma = m->has_fma};
  if (m->arch != ARCH_X86_64) out->vector_registers = 32;
}

// ---- kernels ----

// Partial results of sums, which are arrays in plain loops.
static int64_t block_stack(const LoopBlock *b) {
  int64_t bytes = 0;
  for (int64_t i = 0; i < b->n; i++) {
    const LoopStmt *s = b->v[i];
    if (s->kind == LS_REDUCE && s->lanes > 1)
      bytes += s->lanes * MAX(dtype_bits(s->value->dtype) / 8, 4);
    bytes += block_stack(&s->body) + block_stack(&s->orelse);
  }
  return bytes;
}

// What a kernel keeps in arrays; FRAMES is for all that lies in registers, or beside them.
enum { FRAMES = 1024 };
static int64_t kernel_stack(const LoopKernel *k) {
  int64_t all = block_stack(&k->body), bytes;
  for (int32_t i = k->nargs; i < k->nbuffers; i++)
    if (k->buffer[i].space != LOOP_SCRATCH && ie_is_const(k->buffer[i].size) &&
        dtype_bytes(k->buffer[i].dtype, k->buffer[i].size->value, &bytes))
      all += (bytes + 63) / 64 * 64 + 64;
  return all;
}

// A kernel takes scratch where its loops name some, be it of no bytes.
bool c_takes_scratch(const CModel *m, int32_t kernel) {
  const LoopKernel *k = m->c->kernel[kernel].lowered->kernel;
  for (int32_t i = k->nargs; i < k->nbuffers; i++)
    if (k->buffer[i].space == LOOP_SCRATCH) return true;
  return false;
}

static void name_kernels(CModel *m) {
  const Program *p = m->p;
  int32_t code = 2;
  m->kernel = arena_array(m->arena, const char *, MAX(p->nkernels, 1));
  m->kernel_base = arena_array(m->arena, int32_t, MAX(p->nkernels, 1));
  for (int32_t i = 0; i < p->nkernels; i++) {
    Str word = str_of(p->kernel[i].name ? p->kernel[i].name : "kernel");
    for (int64_t k = 0; k < word.n; k++)
      if (word.p[k] == ' ') word.n = k;
    m->kernel[i] = str_printf(m->arena, "kernel_%d_%s", i, cstyle_identifier(m->arena, word));
    m->kernel_base[i] = code;
    code += p->kernel[i].nchecks + 1;
    int64_t scratch = c_takes_scratch(m, i) ? MAX(p->kernel[i].scratch_bytes, 64) : 0;
    m->scratch_bytes = MAX(m->scratch_bytes, scratch);
    m->stack_bytes = MAX(m->stack_bytes, kernel_stack(m->c->kernel[i].lowered->kernel));
  }
  m->stack_bytes += FRAMES;
}

// What cannot be written goes to the next schedule of that kernel.
static void decline(CModel *m, int32_t i, tenon_status s) {
  const char *reason = strstr(m->d->text, "': ");
  faults_add(m->o->faults, m->c->kernel[i].text, 0,
             s == TENON_EUNSUPPORTED ? DECLINED_BY_DESIGN : DECLINED_DEFECT,
             reason ? reason + 3 : m->d->text);
  Where base = m->d->base;
  diag_init(m->d);
  m->d->base = base;
}

static tenon_status put_kernels(CModel *m, CStyle *cs, StrBuf *out) {
  for (int32_t i = 0; i < m->p->nkernels; i++) {
    const LoopKernel *k = m->c->kernel[i].lowered->kernel;
    bool differs = false, again;
    StrBuf vectors, plain;
    strbuf_init(&vectors, m->arena);
    strbuf_init(&plain, m->arena);
    tenon_status s = TENON_OK;
    if (m->o->vector_bytes) s = cstyle_kernel(cs, k, m->kernel[i], true, &vectors, &differs);
    if (!s) s = cstyle_kernel(cs, k, m->kernel[i], false, &plain, &again);
    if (s && (s == TENON_ENOMEM || !m->o->faults)) return s;
    if (s) {
      decline(m, i, s);
      continue;
    }
    strbuf_printf(out, "\n/* %s */\n", m->p->kernel[i].name ? m->p->kernel[i].name : "");
    if (differs) strbuf_puts(out, "#if TN_VECTORS\n");
    strbuf_put(out, differs ? strbuf_str(&vectors) : strbuf_str(&plain));
    if (!differs) continue;
    strbuf_puts(out, "#else\n");
    strbuf_put(out, strbuf_str(&plain));
    strbuf_puts(out, "#endif\n");
  }
  return TENON_OK;
}

// ---- the rest of the file ----

static void put_memory(const CModel *m, StrBuf *out) {
  const char *attribute =
      m->o->arena_attribute ? str_printf(m->arena, "%s ", m->o->arena_attribute) : "";
  if (m->scratch_bytes)
    strbuf_printf(out, "static unsigned char _Alignas(64) %sscratch[%lld];\n", attribute,
                  (long long)m->scratch_bytes);
  if (!m->symbolic) {
    if (!strstr(strbuf_text(&m->out), "arena + ")) return;
    strbuf_printf(out, "static unsigned char _Alignas(64) %sarena[%lld];\n", attribute,
                  (long long)m->arena_bytes);
    return;
  }
  strbuf_puts(out, "\n/* The arena of the sizes of a call, kept for the next. */\n"
                   "static unsigned char *tn_block;\nstatic size_t tn_bytes_kept;\n\n"
                   "static unsigned char *tn_room(size_t bytes) {\n"
                   "  if (bytes > tn_bytes_kept) {\n    free(tn_block);\n    tn_bytes_kept = 0;\n"
                   "    tn_block = malloc(bytes + 64);\n    if (!tn_block) return NULL;\n"
                   "    tn_bytes_kept = bytes;\n  }\n"
                   "  return tn_block + (64 - (uintptr_t)tn_block % 64) % 64;\n}\n");
  strbuf_printf(out,
                "\nvoid %s_release(void) {\n  free(tn_block);\n  tn_block = NULL;\n"
                "  tn_bytes_kept = 0;\n}\n",
                m->o->symbol);
}

static void put_errors(const CModel *m, StrBuf *out) {
  strbuf_printf(out,
                "\nconst char *%s_error(int code) {\n  static const char *const text[] = {\n"
                "    \"ok\", \"the sizes do not fit\", \"out of memory\",\n",
                m->o->symbol);
  for (int32_t i = 0; i < m->p->nkernels; i++) {
    const ProgKernel *k = &m->p->kernel[i];
    for (int32_t c = 0; c <= k->nchecks; c++) {
      strbuf_puts(out, "    \"");
      for (const char *p = c < k->nchecks ? k->check[c] : "division by zero"; *p; p++)
        if (*p >= ' ' && *p != '"' && *p != '\\' && *p != '?') strbuf_putc(out, *p);
      strbuf_puts(out, "\",\n");
    }
  }
  strbuf_puts(out, "  };\n  const int n = (int)(sizeof text / sizeof *text);\n"
                   "  return code >= 0 && code < n ? text[code] : \"unknown\";\n}\n");
}

static void name_symbols(CModel *m) {
  m->sym = arena_array(m->arena, const char *, MAX(m->p->nsyms, 1));
  for (int32_t i = 0; i < m->p->nsyms; i++)
    m->sym[i] =
        str_printf(m->arena, "n%d_%s", i, cstyle_identifier(m->arena, str_of(m->p->sym[i].name)));
}

static void put_header(CModel *m, const StrBuf *declarations, StrBuf *out) {
  const char *s = m->o->symbol;
  strbuf_printf(out,
                "/* %s -- a model as C, " FILE_MARK " %s. */\n#ifndef TENON_C_%s_H\n"
                "#define TENON_C_%s_H\n\n#include <stdint.h>\n\n#ifdef __cplusplus\n"
                "extern \"C\" {\n#endif\n",
                s, TENON_VERSION, s, s);
  strbuf_put(out, strbuf_str(declarations));
  strbuf_puts(out, "#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
}

static bool names_float(const char *text) {
  return strstr(text, "tn_f32") || strstr(text, "tn_f64") || strstr(text, "float") ||
         strstr(text, "double");
}

static bool names_floats(const StrBuf *const *b, int n) {
  for (int i = 0; i < n; i++)
    if (names_float(strbuf_text((StrBuf *)(uintptr_t)b[i]))) return true;
  return false;
}

// A model of whole numbers: no type and no header for others.
static void drop_floats(const CModel *m, StrBuf *prelude) {
  StrBuf kept;
  strbuf_init(&kept, m->arena);
  for (const char *at = strbuf_text(prelude); *at;) {
    int64_t n = (int64_t)strcspn(at, "\n");
    const char *line = str_copy(m->arena, (Str){at, n});
    if (!names_float(line) && !strstr(line, "<math.h>")) strbuf_printf(&kept, "%s\n", line);
    at += n + (at[n] == '\n');
  }
  *prelude = kept;
}

static tenon_status write_all(CModel *m, CStyle *cs, CSource *out) {
  StrBuf kernels, head, declarations, wrapper, weights, external, all, prelude;
  StrBuf *every[] = {&kernels, &head, &declarations, &wrapper, &weights, &external, &all, &prelude};
  for (int i = 0; i < ARRAY_LEN(every); i++) strbuf_init(every[i], m->arena);
  c_whole(m);
  name_symbols(m);
  name_kernels(m);
  c_functions(m);
  bool open = false;
  for (int32_t i = 0; i < m->p->nsyms; i++) open |= prog_sym_is_input(m->p, i);
  if (open && m->o->embedded)
    c_refuse(m, NULL, "without allocation every size must be a number: give them with --fix");
  TRY(c_header(m, &declarations, &wrapper));
  if (m->nrefused) return TENON_EUNSUPPORTED;
  TRY(put_kernels(m, cs, &kernels));
  if (m->o->faults && m->o->faults->nfresh) return TENON_OK;
  c_weights(m, &weights, &external);
  cstyle_prelude(cs, &prelude);
  const StrBuf *rest[] = {&kernels, &m->out, &wrapper, &declarations, &weights};
  if (m->o->embedded && !names_floats(rest, ARRAY_LEN(rest))) drop_floats(m, &prelude);
  put_header(m, &declarations, &head);
  strbuf_printf(&all, "/* %s -- a model as C, " FILE_MARK " %s.\n * %s\n */\n", m->o->symbol,
                TENON_VERSION,
                "Build with -O3 -march=native; -ffp-contract=off gives the same bits everywhere.");
  if (m->o->header)
    strbuf_printf(&all, "#include \"%s\"\n\n", m->o->header);
  else
    strbuf_put(&all, strbuf_str(&head));
  if (m->symbolic) strbuf_puts(&all, "#include <stdlib.h>\n");
  strbuf_put(&all, strbuf_str(&prelude));
  strbuf_puts(&all, "\n");
  if (m->o->external_weights)
    strbuf_printf(&all,
                  "static const unsigned char *tn_weights;\n"
                  "void %s_weights(const void *bytes) { tn_weights = bytes; }\n",
                  m->o->symbol);
  strbuf_put(&all, strbuf_str(&weights));
  put_memory(m, &all);
  strbuf_put(&all, strbuf_str(&kernels));
  if (m->elements) strbuf_puts(&all, m->elements);
  strbuf_put(&all, strbuf_str(&m->out));
  strbuf_put(&all, strbuf_str(&wrapper));
  put_errors(m, &all);
  *out = (CSource){.source = strbuf_str(&all),
                   .weights = strbuf_str(&external),
                   .weights_bytes = m->weights_bytes,
                   .stack_bytes = m->stack_bytes,
                   .arena_bytes = m->symbolic ? -1 : m->arena_bytes + m->scratch_bytes};
  if (m->o->header) out->header = strbuf_str(&head);
  return TENON_OK;
}

tenon_status c_source(const Compiled *c, const CSourceOptions *o, Arena *a, Diag *d, CSource *out) {
  CModel m = {.c = c, .p = c->program, .o = o, .arena = a, .d = d};
  CStyle cs;
  strmap_init(&m.refused, a);
  strbuf_init(&m.out, a);
  m.const_used = arena_array(a, bool, MAX(c->program->nconsts, 1));
  cstyle_init(&cs, &spelling_c, o->vector_bytes, a, d);
  // Sizes of steps and arenas use the helpers of indices.
  if (c->program->nsyms) cstyle_need_sizes(&cs);
  return write_all(&m, &cs, out);
}
