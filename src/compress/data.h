// data.h -- samples for calibration: arrays with a leading sample axis, or a folder of archives.
//
// Samples are known by the SHA-256 of all that a run gets of them, and of the label.  One that is
// there twice counts once.  The split into parts follows from hashes and a seed alone, so neither
// the order of the samples nor the form of the files matters.
//
// Invariants: `sample` is in the order of its keys; each has finite floats of the inputs' types.
#ifndef TENON_COMPRESS_DATA_H
#define TENON_COMPRESS_DATA_H

#include "base/npy.h"
#include "base/sha256.h"
#include "ir/ir.h"

typedef struct Hash {
  uint8_t b[SHA256_BYTES];
} Hash;
typedef struct HashText {
  char s[8 + 2 * SHA256_BYTES];
} HashText;
HashText hash_text(const Hash *h);  // "sha256:0123..."
Hash hash_of_bytes(Str s);

typedef enum { PART_CALIBRATE, PART_SEARCH, PART_CERTIFY, PARTS } SplitPart;
extern const char *const split_part_name[PARTS];
extern const int split_percent[PARTS];

typedef struct Sample {
  Hash hash;
  uint64_t key;      // its place in the split
  int64_t set, row;  // which arrays; which row of them, where they have a sample axis
  int64_t label;     // -1: none
} Sample;
typedef struct SampleSet {  // arrays by input; of one file
  const NdArray *input;     // [ninputs]
  bool *lead;               // [ninputs] a leading 1 stands for the sample
  int64_t n;                // samples; -1: one, without a sample axis
  const NdArray *label;     // NULL: none
  const char *path;
} SampleSet;
typedef struct Dataset {
  Arena *arena;
  const Graph *graph;
  int64_t ninputs;
  VEC(File) file;
  VEC(SampleSet) set;
  VEC(Sample) sample;
  int64_t *touched;  // bytes of files that were read since their pages were last let go
  int64_t duplicates, of[PARTS];  // samples by part, in this order
  bool labels;
  uint64_t seed;
} Dataset;

// `path` is an archive with a sample axis, or a folder of archives of one sample each.  `labels`
// names the array of labels; NULL: there is none.  EINVAL names file, sample, input and both types.
MUST_USE tenon_status dataset_read(const Graph *g, const char *path, const char *labels,
                                   uint64_t seed, Arena *a, Diag *d, Dataset *out);
// The same of arrays in memory, each with a sample axis; they outlive the data set.
MUST_USE tenon_status dataset_of_arrays(const Graph *g, const NdArrayList *arrays,
                                        const char *labels, uint64_t seed, Arena *a, Diag *d,
                                        Dataset *out);
// The same of samples in memory, which outlive the data set: arrays in the order of the inputs, of
// the inputs' own shapes.
typedef struct SampleArrays {
  VEC(NdArray *) sample;  // [ninputs] each
  VEC(int64_t) label;
  bool labels;
} SampleArrays;
MUST_USE tenon_status dataset_of_samples(const Graph *g, const SampleArrays *from, uint64_t seed,
                                         Arena *a, Diag *d, Dataset *out);
void dataset_close(Dataset *s);
// Samples [begin, begin + n) of a part.
int64_t dataset_begin(const Dataset *s, SplitPart part);
static inline int64_t dataset_count(const Dataset *s, SplitPart part) { return s->of[part]; }
// The values of a sample, borrowed from the data set.
MUST_USE tenon_status dataset_values(const Dataset *s, int64_t sample, Run *run, Value **in);
// A hash of the samples of a part; PARTS: of all.
Hash dataset_hash(const Dataset *s, SplitPart part);

#endif
