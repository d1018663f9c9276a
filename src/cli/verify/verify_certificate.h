// verify_certificate.h -- `tenon verify --certificate`.
#ifndef TENON_CLI_VERIFY_VERIFY_CERTIFICATE_H
#define TENON_CLI_VERIFY_VERIFY_CERTIFICATE_H

#include "cli/cli.h"

// CLI_MISMATCH where something is not as certified.
int verify_certificate(Cli *c);

#endif
