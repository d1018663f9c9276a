// kv_append.c -- template kv_append_block: rows put into the pages of a KV cache, on thread blocks.
//
// A thread has one element of a head, and puts it there for all rows in order: of two rows with one
// slot the later one counts.
//
// Needs:      LowerTarget.block_threads; append_begin (lower/cpu/kv_append.h) takes the kernel.
// Guarantees: as template kv_append: in place the cache is not read, and every slot is checked.
#include "lower/gpu/thread_loops.h"
#include "lower/cpu/kv_append.h"

enum { WARP = 32 };

static void *append_block_match(Lowering *lo, const Node *fused) {
  lo->why = "it puts no rows into a KV cache";
  return append_begin(lo, fused);
}

static bool append_block_build(void *match, const void *fields, Lowered *out) {
  Append *a = match;
  ElementBuilder *e = &a->e;
  IntPool *p = e->pool;
  int64_t threads = MIN(e->lo->target.block_threads, WARP);
  Dim size[] = {a->shape[1], ie_ceildiv(p, a->shape[3], ie_const(p, threads))}, at[2];
  int depth = 2;
  (void)fields;
  loop_begin(&e->b, e->k);
  Dim items = ie_mul(p, size[0], size[1]), item = loop_for(&e->b, LOOP_PARALLEL, "item", items);
  elem_split(e, ie_is(items, 1) ? p->zero : item, 2, size, at);
  Dim t = loop_for(&e->b, LOOP_THREAD, "t", ie_const(p, threads));
  Dim d = thread_guard(e, ie_add(p, ie_mulc(p, at[1], threads), t), a->shape[3], &depth);
  if (!e->lo->in_place && !append_pages(a, at[0], d)) return false;
  if (!append_rows(a, at[0], d)) return false;
  thread_close(e, depth);
  elem_finish(e, out);
  return true;
}

const TemplateCode template_kv_append_block = {.match = append_block_match,
                                               .build = append_block_build};
