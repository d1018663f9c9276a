// observe.h -- what calibration learns of tensors: a histogram, and moments by channel.
//
// The tensors become results of the graph, which is compiled and run on each sample.  Memory does
// not grow with the number of samples: 16 KiB a tensor, and three numbers a channel.  Tensors that
// would take too much memory together are observed in several passes over the samples.
#ifndef TENON_COMPRESS_OBSERVE_H
#define TENON_COMPRESS_OBSERVE_H

#include "compress/histogram.h"
#include "compress/runner.h"

typedef struct TensorStats {
  const Node *node;  // NULL: of a file
  const char *name;  // unique among those observed
  int axis;          // of channels; -1: no statistics by channel
  int64_t channels;
  Histogram *histogram;
  double *channel_max;     // [channels] largest magnitude
  double *channel_mean;    // [channels] of all values, summed in the order of the samples
  double *channel_square;  // [channels] the same of their squares
  int64_t seen;            // values of a channel, while they are summed
} TensorStats;
typedef VEC(TensorStats) StatsList;

// A tensor that has counted so many values, of so many samples at the least, is known well enough:
// where that holds of all, further samples are not run.
enum { OBSERVE_SAMPLES = 256, OBSERVE_VALUES = 1 << 18 };

typedef struct ObserveOptions {
  RunnerOptions run;
  Runner *runner;        // the caller's, to run in: it closes it
  int64_t most_bytes;    // of observed values at a time; 0: 48 MiB
  int64_t most_samples;  // 0: all
} ObserveOptions;

// Adds a tensor to observe; one that is there stays.  Its index.
int64_t observe_tensor(StatsList *l, const Node *n, int axis, Arena *a);
const TensorStats *stats_find(const StatsList *l, const Node *n);  // NULL when absent
// Fills the list from the samples of a part.  EINVAL names tensor and sample of what is not finite.
MUST_USE tenon_status observe_run(Graph *g, const Dataset *s, SplitPart part,
                                  const ObserveOptions *o, StatsList *l, Arena *a, Diag *d);

// ---- files (stats_file.c) ----
enum { STATS_MARK = 0x74656e6f6e, STATS_VERSION = 3, STATS_MOMENTS = 3 };  // of each channel
// The archive belongs to one model and one set of samples, whose hashes it has.
MUST_USE tenon_status stats_write(const char *path, const StatsList *l, const Hash *model,
                                  const Hash *data, Arena *a, Diag *d);
// Fills the tensors of `l` by name.  A file is as untrusted as a model: EFORMAT says what is wrong.
MUST_USE tenon_status stats_read(Str bytes, const Hash *model, const Hash *data, StatsList *l,
                                 Arena *a, Diag *d);
// The same of the arrays in it.
MUST_USE tenon_status stats_take(const NdArrayList *list, const Hash *model, const Hash *data,
                                 StatsList *l, Arena *a, Diag *d);

#endif
