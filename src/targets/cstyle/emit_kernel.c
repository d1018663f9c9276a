// emit_kernel.c -- the function around a kernel's loops: parameters, buffers, return value.
//
// A C function gets a range of work items and returns the number of a failed check.  A device
// kernel walks the items by its place in the launch and writes that number to a fault slot
// (cstyle.h has the order of its arguments).
//
// Needs:      a kernel that loop_verify accepts; the Spelling of the language.
// Guarantees: EUNSUPPORTED with the reason where the language or device has no such kernel.  Equal
//             kernels give equal text.  Integer division by zero is reported when the kernel ends.
#include "loop/thread_block.h"
#include "loop/tile.h"
#include "targets/cstyle/emit.h"

// ---- the function ----

static void name_buffers(CEmit *e) {
  const LoopKernel *k = e->k;
  e->buffer = arena_array(e->arena, const char *, MAX(k->nbuffers, 1));
  e->buffer_used = arena_array(e->arena, bool, MAX(k->nbuffers, 1));
  for (int32_t i = 0; i < k->nbuffers; i++) e->buffer[i] = cs_name(e, k->buffer[i].name);
  for (int32_t i = 0; i < k->ndims; i++) {
    const char *dim = cs_name(e, k->dim[i]->name);
    e->sym[k->dim[i]->slot] = (CSym){.kind = CSYM_TEXT, .text = dim};
    strmap_put(&e->names, str_of(str_printf(e->arena, "%s_", dim)), e);
  }
  e->base = arena_array(e->arena, const char *, MAX(2 * k->nargs, 1));
  for (int32_t i = 0; i < k->nargs && e->sp->offsets; i++) {
    e->base[i] = cs_name(e, str_printf(e->arena, "%s_base", e->buffer[i]));
    e->base[k->nargs + i] = cs_name(e, str_printf(e->arena, "%s_at", e->buffer[i]));
  }
}

static const char *element(DType t) {
  if (dtype_is_float(t) && t != DT_F32 && t != DT_F64) t = dtype_bits(t) == 16 ? DT_U16 : DT_U8;
  return t == DT_BOOL ? "u8" : dtype_name(t);
}

static void comment(CEmit *e) {
  const LoopKernel *k = e->k;
  StrBuf b;
  strbuf_init(&b, e->arena);
  for (int32_t i = 0; i < k->nargs; i++) {
    strbuf_printf(&b, "%s%s%s: %s[", i ? ", " : "", k->buffer[i].written ? "out " : "",
                  e->buffer[i], dtype_name(k->buffer[i].dtype));
    ie_print(&b, k->buffer[i].size);
    strbuf_puts(&b, "]");
  }
  cs_line(e, "// %s(%s)", k->name, strbuf_text(&b));
}

static void c_parameters(CEmit *e, StrBuf *b, bool scratch) {
  const LoopKernel *k = e->k;
  for (int32_t i = 0; i < k->nargs; i++)
    strbuf_printf(b, "%s%stn_%s *%s", i ? ", " : "", k->buffer[i].written ? "" : "const ",
                  element(k->buffer[i].dtype), e->buffer[i]);
  for (int32_t i = 0; i < k->ndims; i++)
    strbuf_printf(b, ", %s %s", e->sp->index, e->sym[k->dim[i]->slot].text);
  strbuf_printf(b, ", %s begin, %s end", e->sp->index, e->sp->index);
  if (scratch) strbuf_puts(b, ", unsigned char *scratch");
}

// Whether sizes, which are given as long integers, are short ones in the kernel: dividing by long
// ones takes long.
static bool is_narrowed(const CEmit *e) { return e->sp->is_device && e->index != e->sp->index; }

// As the drivers launch it: cstyle.h has the order.
static void device_parameters(CEmit *e, StrBuf *b) {
  const LoopKernel *k = e->k;
  const char *in = e->sp->global, *index = e->sp->index;
  for (int32_t i = 0; i < k->nargs; i++) {
    if (e->sp->offsets)
      strbuf_printf(b, "%suchar *%s, %s %s, ", in, e->base[i], index, e->base[k->nargs + i]);
    else
      strbuf_printf(b, "%s%stn_%s *%s%s, ", in, k->buffer[i].written ? "" : "const ",
                    element(k->buffer[i].dtype),
                    e->tile && !k->buffer[i].written ? "__restrict__ " : "", e->buffer[i]);
  }
  for (int32_t i = 0; i < k->ndims; i++)
    strbuf_printf(b, "%s %s%s, ", index, e->sym[k->dim[i]->slot].text, is_narrowed(e) ? "_" : "");
  strbuf_printf(b, "%s items, %s%s *scratch, %s scratch_each, %sint *fault", index, in,
                e->sp->type[DT_U8], index, in);
  if (e->sp->offsets) strbuf_printf(b, ", %s fault_at", index);
}

static void parameters(CEmit *e, const char *name, bool scratch) {
  StrBuf b;
  strbuf_init(&b, e->arena);
  if (e->sp->is_device)
    device_parameters(e, &b);
  else
    c_parameters(e, &b, scratch);
  if (e->sp->extension) e->sp->extension->parameters(e, &b);
  const char *bounds = e->sp->extension ? e->sp->extension->launch_bounds(e) : "";
  cs_open(e, "%s %s%s(%s) {", e->sp->function, bounds, name, strbuf_text(&b));
}

// Arguments that come as a base and a number of bytes.
static void place_arguments(CEmit *e) {
  for (int32_t i = 0; i < e->k->nargs && e->sp->offsets; i++) {
    const char *name = e->buffer[i], *type = str_printf(e->arena, "%s%stn_%s *", e->sp->global,
                                                        e->k->buffer[i].written ? "" : "const ",
                                                        element(e->k->buffer[i].dtype));
    if (e->buffer_used[i])
      cs_line(e, "%sconst %s = (%s)(%s + %s);", type, name, type, e->base[i],
              e->base[e->k->nargs + i]);
  }
}

static void place_buffers(CEmit *e) {
  int64_t at = 0, bytes;
  for (int32_t i = e->k->nargs; i < e->k->nbuffers; i++) {
    const LoopBuffer *b = &e->k->buffer[i];
    if (!ie_is_const(b->size) || !dtype_bytes(b->dtype, b->size->value, &bytes) ||
        bytes > INT32_MAX - 64) {
      cs_fail(e, "buffer '%s' has no size", b->name);
      return;
    }
    const char *t = element(b->dtype);
    if (b->space != LOOP_SCRATCH) {
      int64_t n = b->size->value;
      bool shuffled = e->shuffled && e->shuffled[i], shared = b->space == LOOP_SHARED && !shuffled;
      if (e->threads && !shared) n /= e->threads;
      if (e->buffer_used[i])
        cs_line(e, "%stn_%s %s[%lld]%s;", e->threads && shared ? e->sp->shared : e->sp->local, t,
                e->buffer[i], (long long)MAX(n, 1), shuffled ? " = {0}" : "");
      continue;
    }
    if (e->buffer_used[i])
      cs_line(e, "%stn_%s *const %s = (%stn_%s *)%s(scratch + %lld);", e->sp->global, t,
              e->buffer[i], e->sp->global, t, e->sp->is_device ? "" : "(void *)", (long long)at);
    at += (bytes + 63) / 64 * 64;
  }
}

static bool has_scratch(const LoopKernel *k) {
  for (int32_t i = k->nargs; i < k->nbuffers; i++)
    if (k->buffer[i].space == LOOP_SCRATCH) return true;
  return false;
}

// ---- checks ----

void cs_fault(CEmit *e, const char *when, int32_t check) {
  if (!e->sp->is_device) {
    cs_line(e, "if (%s) return %d;", when, 1 + check);
    return;
  }
  cs_open(e, "if (%s) {", when);
  cs_line(e, "%s", cs_replace(e, e->sp->fault, str_printf(e->arena, "%d", 1 + check)));
  if (e->threads) {  // cs_block closes it
    e->indent--;
    cs_open(e, "} else {");
    return;
  }
  cs_line(e, "return;");
  cs_close(e);
}

// Divisions by zero, which are told when all is done.
static void ending(CEmit *e) {
  int n = 1 + e->k->nchecks;
  if (!e->sp->is_device) {
    cs_line(e, e->faults ? "return fault ? %d : 0;" : "return 0;", n);
  } else if (e->faults) {
    cs_open(e, "if (faults) {");
    cs_line(e, "%s", cs_replace(e, e->sp->fault, str_printf(e->arena, "%d", n)));
    cs_close(e);
  }
}

// ---- variables that nothing asks for ----

static void note_vars(CEmit *e, IntMap *seen, const LoopExpr *x) {
  uint64_t known;
  if (!x || intmap_get(seen, (uint64_t)(uintptr_t)x, &known)) return;
  intmap_put(seen, (uint64_t)(uintptr_t)x, 1);
  if (x->kind == LX_VAR) e->var_used[x->var] = true;
  for (int i = 0; i < 3; i++) note_vars(e, seen, x->src[i]);
}

static void note_block(CEmit *e, IntMap *seen, const LoopBlock *b) {
  for (int64_t i = 0; i < b->n; i++) {
    note_vars(e, seen, b->v[i]->value);
    note_block(e, seen, &b->v[i]->body);
    note_block(e, seen, &b->v[i]->orelse);
  }
}

// What stands before the loops: places, and what the compiler would call unused.
static void beginning(CEmit *e, const char *body) {
  const LoopKernel *k = e->k;
  place_arguments(e);
  if (e->sp->offsets && (e->faults || k->nchecks)) cs_line(e, "fault += fault_at;");
  if (e->sp->is_device && has_scratch(k))
    cs_line(e, "%s", e->threads ? e->sp->block_scratch : e->sp->scratch);
  if (e->c->dependent_launch && !e->tile) {
    cs_line(e, "%s", e->sp->launch_dependents);
    strbuf_put(e->out, strbuf_str(&e->before_wait));
    if (!e->threads || !cs_only_prefetches(&k->body.v[0]->body))
      cs_line(e, "%s", e->sp->wait_previous);
  }
  for (int32_t i = 0; i < k->ndims && is_narrowed(e); i++) {
    const char *dim = e->sym[k->dim[i]->slot].text;
    cs_line(e, "const %s %s = (%s)%s_;", e->index, dim, e->index, dim);
  }
  place_buffers(e);
  if (e->faults) cs_line(e, "int fault%s = 0;", e->sp->is_device ? "s" : "");
  if (e->sp->is_device) return;
  for (int32_t i = 0; i < k->nargs; i++)
    if (!e->buffer_used[i]) cs_line(e, "(void)%s;", e->buffer[i]);
  for (int32_t i = 0; i < k->ndims; i++)
    if (!strstr(body, e->sym[k->dim[i]->slot].text))
      cs_line(e, "(void)%s;", e->sym[k->dim[i]->slot].text);
  if (has_scratch(k)) cs_line(e, "(void)scratch;");
}

static void note_f64(CEmit *e) {
  for (int32_t i = 0; i < e->k->nbuffers; i++) e->c->uses_f64 |= e->k->buffer[i].dtype == DT_F64;
  if (e->c->uses_f64 && e->c->no_f64) cs_refuse(e, "the device has no numbers of type f64");
}

tenon_status cstyle_kernel(CStyle *c, const LoopKernel *k, const char *name, bool vectors,
                           StrBuf *out, bool *out_differs) {
  CEmit e = {.c = c,
             .sp = c->spelling,
             .k = k,
             .arena = c->arena,
             .vectors = vectors && c->vector_bytes > 0};
  StrBuf body;
  strbuf_init(&body, c->arena);
  strbuf_init(&e.before_wait, c->arena);
  strmap_init(&e.names, c->arena);
  static const char *const ours[] = {"begin", "end",    "scratch",      "fault",
                                     "items", "faults", "scratch_each", "fault_at"};
  for (int64_t i = 0; i < ARRAY_LEN(ours); i++) strmap_put(&e.names, str_of(ours[i]), (void *)1);
  e.sym = arena_array(c->arena, CSym, MAX(k->pool->nsyms, 1));
  e.var = arena_array(c->arena, CVal, MAX(k->nvars, 1));
  e.var_used = arena_array(c->arena, bool, MAX(k->nvars, 1));
  IntMap seen;
  intmap_init(&seen, c->arena);
  note_block(&e, &seen, &k->body);
  intmap_init(&e.quotient, c->arena);
  name_buffers(&e);
  const char *why;
  if (e.sp->extension) e.sp->extension->begin(&e);
  if (e.tile && !loop_kernel_tile(k, &why)) cs_refuse(&e, "%s", why);
  e.index = c->spelling->index;
  if (c->spelling->small_index && cs_small(k)) e.index = c->spelling->small_index;
  if (c->spelling->is_device) e.threads = loop_threads(k);
  if (e.threads) e.vectors = false;  // the threads are the lanes
  if (e.threads && e.sp->shuffle) {
    e.shuffled = arena_array(c->arena, bool, MAX(k->nbuffers, 1));
    loop_shuffled(k, c->arena, e.sp->warp_size, e.shuffled);
  }
  if (e.threads) loop_barriers(k, c->arena, e.shuffled, &e.barrier);
  e.out = &body;
  e.indent = 1;
  cs_block(&e, &k->body);
  e.out = out;
  e.indent = 0;
  comment(&e);
  parameters(&e, name, has_scratch(k));
  beginning(&e, strbuf_text(&body));
  strbuf_put(out, strbuf_str(&body));
  ending(&e);
  cs_close(&e);
  note_f64(&e);
  *out_differs = e.chunked;
  return e.status;
}
