// main.c -- the program: parse, run the command, turn its result into an exit status.
//
// A Trap around the command catches what an arena raises when memory runs out.  Output that could
// not be written (a full disk, a closed pipe) is a failure, too.
#include "base/budget.h"
#include "cli/confine.h"
#include "cli/files.h"

#include "base/notice.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

// Nothing of ours outlives the process but a file being written, and then the signal waits
// (cmd_run.c).
static void on_interrupt(int sig) {
  (void)sig;
  _exit(CLI_INTERRUPTED);
}

int cli_exit_of(tenon_status s) {
  return s == TENON_OK             ? CLI_OK
         : s == TENON_EUNSUPPORTED ? CLI_UNSUPPORTED
         : s == TENON_EINTERNAL    ? CLI_DEFECT
                                   : CLI_FAILED;
}

static void print_error(const Diag *d) {
  if (!d->len) return;
  const char *red = term_color(stderr) ? "\033[31m" : "", *plain = *red ? "\033[0m" : "";
  fprintf(stderr, "%stenon:%s %s", red, plain, d->text);
  if (d->text[d->len - 1] != '\n') fputc('\n', stderr);
}

// What the library has to say, once.
static void print_notices(void) {
  char text[1024];
  while (notice_take(text, sizeof text)) fprintf(stderr, "tenon: %s\n", text);
}

// --max-memory holds from here on, for whatever the command does.
static void limit_memory(const Cli *c) {
  for (int i = 0; i < OPT_COUNT; i++)
    if (cli_option[i].command == c->command && !strcmp(cli_option[i].name, "max_memory"))
      (void)mem_ceiling(opt_int(c, i, 0));
}

static int dispatch(Cli *c, int argc, char **argv) {
  HelpKind help;
  bool version;
  int rc = cli_parse(c, argc, argv, &help, &version);
  if (rc) return rc;
  if (version) {
    printf("tenon %s\n", TENON_VERSION);
    return CLI_OK;
  }
  if (c->command >= 0 && help) {
    help_command(stdout, c->command, help);
    return CLI_OK;
  }
  if (c->command < 0) {
    help_overview(help ? stdout : stderr);
    return help ? CLI_OK : CLI_USAGE;
  }
  rc = files_declare(c);
  if (rc) return rc;
  cli_confine(c);
  limit_memory(c);
  rc = cli_command[c->command].run(c);
  return rc && c->misused ? CLI_USAGE : rc;
}

int main(int argc, char **argv) {
  static Cli cli;
  signal(SIGPIPE, SIG_IGN);  // a reader that stops early ends us through the write's error
  if (signal(SIGINT, on_interrupt) == SIG_IGN) signal(SIGINT, SIG_IGN);  // a job in the background
  arena_init(&cli.arena);
  diag_init(&cli.diag);
  Trap t;
  int volatile rc = CLI_FAILED;
  trap_enter(&t, &cli.diag);
  if (setjmp(t.env) == 0) rc = dispatch(&cli, argc, argv);
  trap_leave(&t);
  errno = 0;
  if ((fflush(stdout) || ferror(stdout)) && errno != EPIPE && rc == CLI_OK) {
    fail(&cli.diag, TENON_EIO, NOWHERE, "cannot write to standard output: %s", strerror(errno));
    rc = CLI_FAILED;
  }
  print_notices();
  if (rc) print_error(&cli.diag);
  arena_deinit(&cli.arena);
  return rc;
}
