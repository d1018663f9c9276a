// certificate.h -- what a quantised model lost, in a form that anybody can compute again.
//
// JSON beside the model.  It names the model, the model that it was made of and the samples by
// their SHA-256, the metric with its value and bound, and each contraction's choice.
// A certificate that is read is as untrusted as a model.
#ifndef TENON_COMPRESS_CERTIFICATE_H
#define TENON_COMPRESS_CERTIFICATE_H

#include "compress/groups.h"
#include "compress/metrics.h"

typedef struct CertifiedLayer {
  const char *node, *choice,
      *kept;             // kept: why it stays in f32; NULL: by the search, or it does not
  const char *migrated;  // what moved scale into its weights; NULL: nothing
  double share, ns[2];
} CertifiedLayer;
typedef struct QuantCertificate {
  Hash model, from, data;
  Hash samples;  // all that it was made with; those that certify are `data`
  bool has_samples;
  const char *source;  // the float model's file, as it was given
  int64_t split[PARTS];
  uint64_t seed;
  const char *labels;  // the array of labels; NULL: none
  Metric metric;
  double value, bound, confidence;
  const char *budget;          // NULL: none was given
  int64_t looks;               // how often these samples have certified a model made of this one
  VEC(const char *) exact_on;  // targets that gave the same bits on samples
  const char *target, *options;
  VEC(CertifiedLayer) layer;
} QuantCertificate;

void quant_certificate_print(const QuantCertificate *c, StrBuf *out);
MUST_USE tenon_status quant_certificate_parse(Str text, Arena *a, Diag *d, QuantCertificate *out);
// The layers, from the groups.
void quant_certificate_layers(QuantCertificate *c, const GroupList *l, Arena *a);

#endif
