// thread_loops.c -- loops that the thread block templates share (thread_loops.h).
//
// Needs:      an open work item; LowerTarget.block_threads is the number of threads.
// Guarantees: a thread loop covers all threads of the block.  thread_guard opens no condition where
//             the index is proven inside.  Every place of thread_rounds is below `size`.
#include "lower/gpu/thread_loops.h"

Dim thread_guard(ElementBuilder *e, Dim value, Dim extent, int *depth) {
  if (elem_inside(e, value, extent)) return value;
  ++*depth;
  return loop_where(&e->b, "in", value, extent);
}

Dim thread_apart(ElementBuilder *e, Dim value, Dim extent, int n, const Dim *shape, int64_t step,
                 int *depth) {
  int had = *depth;
  value = thread_guard(e, value, extent, depth);
  bool aligned = n < 2 || (ie_is_const(shape[n - 1]) && shape[n - 1]->value % step == 0);
  if (*depth > had || aligned || ie_is(extent, 1)) return value;
  ++*depth;
  return loop_where(&e->b, "in", value, extent);
}

void thread_close(ElementBuilder *e, int depth) {
  while (depth-- > 0) loop_end(&e->b);
}

Dim thread_loop(ElementBuilder *e) {
  elem_forget(e);
  return loop_for(&e->b, LOOP_THREAD, "t", ie_const(e->pool, e->lo->target.block_threads));
}

Dim thread_rounds(ElementBuilder *e, Dim size, Dim first, int64_t step) {
  IntPool *p = e->pool;
  if (step == 1) return size;
  if (ie_is_const(size) && size->value % step == 0) return ie_const(p, size->value / step);
  return ie_div(p, ie_addc(p, ie_sub(p, size, first), step - 1), ie_const(p, step));
}

int64_t power_of_two(int64_t n, int64_t most) {
  int64_t power = 1;
  while (power < n && power < most) power *= 2;
  return power;
}
