// cmd_tune.c -- `tenon tune`: becomes tenon-tune, which has the same command line
// (tune/cmd_tune.c).
#include "cli/become.h"

int cmd_tune(Cli *c) { return cli_become(c, "tenon-tune", "tune", false); }
