/* tenon/aot.h -- models compiled ahead of time into a program.
 *
 * `tenon compile model.onnx --emit=obj -o model.o` writes model.o, which holds the model, and
 * model.h, which declares a function for it.  Link the program with model.o and libtenon_runtime.a:
 * nothing of the compiler is in it.
 */
#ifndef TENON_AOT_H
#define TENON_AOT_H

#include "tenon/tenon.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What an object file holds.  The functions below fill `state`. */
typedef struct tenon_aot_model {
  const void *bytes;
  int64_t nbytes;
  const void *const *ops; /* evaluations that the model needs, NULL at the end */
  void *state;
  const char
      *weights;    /* the file that `tenon compile --weights-out` wrote; NULL: among the bytes */
  int64_t threads; /* of a run; 0: what affinity and cgroup allow */
} tenon_aot_model;

/* Runs the model.  `in` and `out` hold one pointer to dense, row-major elements for each input and
 * output; `dims` the values of the symbolic dimensions, in the order of the header's function.
 * Calls for one model wait for one another; different models run at the same time. */
tenon_status tenon_aot_run(tenon_aot_model *m, const void *const *in, const int64_t *dims,
                           void *const *out, tenon_error *error);
/* Threads of this model's runs that follow; 0: what affinity and cgroup allow. */
void tenon_aot_threads(tenon_aot_model *m, int threads);
/* Where the weights of a model lie that was compiled with --weights-out: a file that the next run
 * maps.  Without this call it is the name that was given then.  `path` must stay until
 * tenon_aot_close. */
void tenon_aot_weights(tenon_aot_model *m, const char *path);
/* Gives all memory back; the next run takes it again. */
void tenon_aot_close(tenon_aot_model *m);

#ifdef __cplusplus
}
#endif
#endif
