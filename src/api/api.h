// api.h -- what stands behind the handles of the public header.
#ifndef TENON_API_API_H
#define TENON_API_API_H

#include "api/model.h"

#include <pthread.h>

// Read-only once open but for the pool, which is started by the first run, under the lock.
struct tenon_model {
  Arena arena;  // all below but the model and the pool
  Model *model;
  CustomOp *custom;  // the user's operators; user points to their ApiOp
  tenon_value_info *input, *output;
  int32_t threads;
  int64_t memory_limit;
  pthread_mutex_t lock;
  Pool *pool;  // NULL until the first run
};

// Fills the caller's error, which may be NULL, and returns `status`.
tenon_status api_error(tenon_error *error, const Diag *d, tenon_status status);

// The first `size` bytes of an options struct of the caller's version: what it lacks stays as it is here.
// False when the size is none that any version had.
bool api_take_options(void *to, size_t size, const void *from, size_t least);

// The list for the importer.  EINVAL when an entry is incomplete.
MUST_USE tenon_status api_copy_ops(Arena *a, const tenon_op *ops, size_t n, Diag *d,
                                   CustomOp **out);

#endif
