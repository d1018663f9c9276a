// quantize.h -- from a float model and samples to a quantised model with a certificate: what the
// public interface and the command line share.
//
//   open -> samples -> statistics -> choices (one for all, or a search) -> rewrite -> export
//     -> read again -> certify -> write
//
// What is certified are the bytes that are written: they are read again and compiled like any
// model.  The model and its certificate are written at the end, or not at all.
#ifndef TENON_API_QUANTIZE_H
#define TENON_API_QUANTIZE_H

#include "api/model.h"
#include "compress/certificate.h"
#include "compress/evaluate.h"
#include "compress/migrate.h"
#include "compress/prune.h"
#include "compress/search.h"

// Samples one by one: fills arrays for the model's inputs in order, and the label.  Memory is the
// caller's until the next call.  1: a sample; 0: there are no more; else an error.
typedef int SampleFn(void *ctx, NdArray *inputs, int64_t ninputs, int64_t *label);

typedef struct QuantizeOptions {
  const char *model, *data, *labels;
  const Model *source;  // the model, open, in the place of a file; or NULL
  SampleFn *next;       // samples in the place of `data`; or NULL.  `labels` not NULL: with labels
  void *next_ctx;
  const char *to;  // a choice, or "auto"
  const char *budget, *metric;
  const char *output;       // the model; the certificate is `output`.certificate.json.  NULL: none
  const char *report;       // a page about it (quantize_report), written with it; NULL: none
  const char *stats;        // file of statistics; NULL: none
  const char *const *keep;  // patterns of names that stay in f32
  int64_t nkeep;
  const char *method;   // of ranges, or of 4-bit weights; NULL: the best for the choice
  int64_t block;        // of 4-bit weights; 0: 32
  const char *migrate;  // a row of migrations.def; NULL: auto
  const char *pattern;  // the zeros that `tenon prune` makes; NULL: it is not asked for
  int zeros;            // then: per cent of the weights; 0: half, with a budget each layer's own
  const Target *target;
  int threads;
  uint64_t seed;
  bool allow_slower, no_correction;
  const Watch *watch;
} QuantizeOptions;

typedef enum {
  QUANTIZE_WRITTEN,
  QUANTIZE_SLOWER,  // nothing is written: it would not be faster
  QUANTIZE_MISSED   // nothing is written: the limit is not met
} QuantizeVerdict;
typedef struct QuantizeResult {
  QuantizeVerdict verdict;
  QuantCertificate certificate;
  Budget budget;
  bool has_budget, certified;  // certified: there were samples to certify with
  bool searched;
  SearchResult search;
  const char *migration;  // what became of moving scale, for people; NULL: it was not asked for
  bool migrated;
  TimePair time;
  int64_t bytes[2];  // of the files
  int64_t groups, quantized, samples, duplicates;
  const char *certificate_path;
  Str model, certificate_text;  // what is written
} QuantizeResult;

// EINVAL and *misused: what was asked for cannot be, before anything was run.
MUST_USE tenon_status quantize_model(const QuantizeOptions *o, Arena *a, Diag *d, bool *misused,
                                     QuantizeResult *out);

// The model and its certificate: both or none.
MUST_USE tenon_status quantize_save(const QuantizeResult *r, const char *path, Arena *a, Diag *d);
// A page of HTML that needs no other file.
void quantize_report(const QuantizeOptions *o, const QuantizeResult *r, StrBuf *out);

MUST_USE tenon_status quantize_read_certificate(const char *path, Arena *a, Diag *d,
                                                QuantCertificate *out);

// `tenon verify --certificate`: computes everything again.
typedef struct ReplayOptions {
  const char *model, *certificate, *data;
  const char *from;  // the float model; NULL: where the certificate says it was
  const Target *target;
  int threads;
  const Watch *watch;
} ReplayOptions;
typedef struct ReplayResult {
  QuantCertificate certificate;
  double value, bound;
  const char *differs;  // what is not as certified; NULL: all is
} ReplayResult;
MUST_USE tenon_status quantize_replay(const ReplayOptions *o, Arena *a, Diag *d, ReplayResult *out);

#endif
