// explain_certificate.h -- what the certificate of `tenon quantize` or `tenon prune` says of the
// layers: precision, share of the error, time.
#ifndef TENON_CLI_EXPLAIN_EXPLAIN_CERTIFICATE_H
#define TENON_CLI_EXPLAIN_EXPLAIN_CERTIFICATE_H

#include "cli/cli.h"

#include "analyse/explain.h"
#include "api/quantize.h"

// CLI_OK; CLI_MISMATCH where it is another model's.
int explain_certificate(Cli *c, const char *path, const Model *m, QuantCertificate *out);
void print_certificate(Cli *c, const QuantCertificate *k, const Explain *x);
void json_certificate(JsonWriter *w, const QuantCertificate *k, const Explain *x);

#endif
