// cmd_config.c -- `tenon config`: the options with which a C program is compiled and linked.
#include "cli/compile/installed.h"

static int missing(Cli *c, const char *what) {
  return cli_exit_of(fail(&c->diag, TENON_EUNSUPPORTED, NOWHERE,
                          "config: %s is not beside this program: build or install all of Tenon",
                          what));
}

int cmd_config(Cli *c) {
  Installed in = installed_find(c);
  bool flags = opt_given(c, OPT_config_cflags), libs = opt_given(c, OPT_config_libs);
  bool runtime = opt_given(c, OPT_config_runtime);
  if (!flags && !libs && !runtime) flags = libs = true;
  if (flags && !in.include) return missing(c, "the header tenon/tenon.h");
  if (libs && !in.lib_folder) return missing(c, "the library libtenon.so");
  if (runtime && !in.runtime) return missing(c, "the archive libtenon_runtime.a");
  const char *space = "";
  if (flags) {
    printf("-I%s", in.include);
    space = " ";
  }
  if (libs) {
    printf("%s-L%s -ltenon -Wl,-rpath,%s", space, in.lib_folder, in.lib_folder);
    space = " ";
  }
  if (runtime) printf("%s%s -lm -pthread", space, in.runtime);
  printf("\n");
  return CLI_OK;
}
