// cli.h -- the command line: its tables, what a command gets, and what commands share.
//
// Rules for every command: data on stdout, progress and errors on stderr; progress only on a
// terminal; colour only on a terminal and without NO_COLOR; the exit status is one of those below.
#ifndef TENON_CLI_CLI_H
#define TENON_CLI_CLI_H

#include "base/base.h"
#include "base/json.h"
#include "base/watch.h"

#include <stdio.h>

typedef enum {
  CLI_OK = 0,
  CLI_FAILED = 1,        // a file, the model or the machine
  CLI_USAGE = 2,         // the command line itself
  CLI_MISMATCH = 3,      // it ran, and the results differ
  CLI_UNSUPPORTED = 4,   // the model is sound, but beyond what Tenon does
  CLI_DEFECT = 5,        // a defect of Tenon's own
  CLI_INTERRUPTED = 130  // Ctrl-C, as shells count it
} CliExit;
int cli_exit_of(tenon_status s);
// A column of nodes' names is as wide as the longest, up to this.  Longer names are not cut.
enum { NAME_COLUMNS = 40 };

// ---- the tables ----
enum CommandId {
#define CMD(name, ...) CMD_##name,
#define EXAMPLE(...)
#define FLAG(...)
#define TEXT(...)
#define LIST(...)
#define INT(...)
#define REAL(...)
#define SIGNED(...)
#define LIMIT(...)
#define BYTES(...)
#include "cli/options.def"
  CMD_COUNT
};
enum OptionId {
#define CMD(...)
#define EXAMPLE(...)
#define FLAG(cmd, id, ...)   OPT_##cmd##_##id,
#define TEXT(cmd, id, ...)   OPT_##cmd##_##id,
#define LIST(cmd, id, ...)   OPT_##cmd##_##id,
#define INT(cmd, id, ...)    OPT_##cmd##_##id,
#define REAL(cmd, id, ...)   OPT_##cmd##_##id,
#define SIGNED(cmd, id, ...) OPT_##cmd##_##id,
#define LIMIT(cmd, id, ...)  OPT_##cmd##_##id,
#define BYTES(cmd, id, ...)  OPT_##cmd##_##id,
#include "cli/options.def"
  OPT_COUNT
};

typedef enum { OK_FLAG, OK_TEXT, OK_LIST, OK_INT, OK_REAL, OK_LIMIT } OptionKind;
typedef struct OptionRow {
  int command;
  OptionKind kind;
  const char *name;  // long option, _ for -: option_name gives the spelling
  char letter;       // 0: none
  const char *value, *complete;
  int64_t least,
      most;  // OK_LIMIT: what K stands for is `most`; OK_REAL: below 0, it may be negative
  const char *help;
  int level;  // 1: EXPERT; ask option_is_expert
} OptionRow;
// What a word completes to: one of these, else a list of words separated by spaces.
#define COMPLETE_NOTHING  ""
#define COMPLETE_READS    "<reads>"   // files: that the command reads,
#define COMPLETE_WRITES   "<writes>"  // that it writes
#define COMPLETE_COMMANDS "<commands>"

typedef struct Cli Cli;
typedef struct CommandRow {
  const char *name, *args, *complete;  // name: _ for -, command_name gives the spelling
  int least, most;                     // positionals; most -1: any number
  const char *summary, *text;
  int (*run)(Cli *c);
} CommandRow;
typedef struct ExampleRow {
  int command;
  const char *what, *line;
} ExampleRow;
extern const CommandRow cli_command[CMD_COUNT];
extern const OptionRow cli_option[OPT_COUNT];
const char *option_name(const OptionRow *o);    // "dump-after"
const char *command_name(const CommandRow *c);  // "bench-llm"
int option_find(int command, Str name);         // by that name; -1: none
bool option_is_expert(const OptionRow *o);      // for those who work on the compiler
bool completes_files(const char *complete);
extern const ExampleRow cli_example[];
extern const int cli_nexamples;

// ---- one invocation ----
typedef struct OptionValue {
  int64_t count;            // times given
  const char *const *text;  // [count]
  int64_t i;
  double f;
} OptionValue;
// A file of the command line, or one that the command names by itself (files.h).
typedef struct CliFile {
  const char *path;  // `-`: standard input or output
  const char *what;  // for messages: "MODEL", "--output", "the header"
  bool written;      // else read
} CliFile;
typedef VEC(CliFile) CliFileList;
struct Cli {
  Arena arena;
  Diag diag;
  CliFileList files;
  bool misused;  // a command that fails was given what it cannot take: CLI_USAGE
  int command;
  int64_t npos;
  const char *const *pos;
  OptionValue opt[OPT_COUNT];
};
// Parses argv[1..].  CLI_OK, or CLI_USAGE with the message in c->diag.  c->command is -1 for the
// bare program, --help and --help-all set *out_help, --version *out_version.
typedef enum { HELP_NONE, HELP_SHORT, HELP_ALL } HelpKind;
int cli_parse(Cli *c, int argc, char **argv, HelpKind *out_help, bool *out_version);
static inline bool opt_given(const Cli *c, int id) { return c->opt[id].count > 0; }
const char *opt_text(const Cli *c, int id, const char *dflt);
int64_t opt_int(const Cli *c, int id, int64_t dflt);
double opt_real(const Cli *c, int id, double dflt);
// Splits NAME=VALUE at the first '='; false when there is none or NAME is empty.
bool opt_split(Cli *c, const char *text, const char **out_name, const char **out_value);

// ---- help.c, completion.c ----
void help_overview(FILE *f);
void help_command(FILE *f, int command, HelpKind kind);
void help_man(FILE *f, int command);  // -1: the program
void help_markdown(FILE *f);
bool completion_script(FILE *f, const char *shell);  // false: no such shell

// ---- output ----
bool term_color(FILE *f);  // a terminal, and NO_COLOR is not set
int term_width(void);      // columns of stdout's terminal; 80 elsewhere
// A bar on stderr, drawn only on a terminal.
typedef struct Progress {
  int64_t total, done;
  bool shown;
  int64_t began, drawn_at;  // platform times: of the first step, and of the last drawing
} Progress;
void progress_start(Progress *p, int64_t total);
void progress_step(Progress *p, const char *what);
void progress_end(Progress *p);
// A compilation that lasts longer than a second: its stage, how much of that is done, and the node
// at work, in one line that progress_end erases.  With TENON_PROGRESS=1 from the start, and off a
// terminal, too, a line for each step.  Begins anew with each call.
Watch progress_watch(Progress *p);
// "12,345", "3.2 G", "1.5 GiB": in the caller's buffer, which it returns.
typedef struct NumText {
  char s[40];
} NumText;
const char *text_count(NumText *b, int64_t n);
const char *text_si(NumText *b, double x);
const char *text_bytes(NumText *b, int64_t n);
const char *text_day(NumText *b, int64_t seconds);  // since 1970: "2026-01-31"; "" where it is none
// printf for people: names out of a model cannot drive the terminal (text_clean).  Only the
// newlines at the start and the end of `fmt` itself are line breaks.
void say(Cli *c, const char *fmt, ...) PRINTF(2, 3);
const char *clean_text(Arena *a, const char *text);  // a cleaned copy; NULL gives ""
// Prints the finished JSON text and a newline.
int cli_print(const StrBuf *b);
int cli_usage(Cli *c, const char *fmt, ...) PRINTF(2, 3);  // sets the message, returns CLI_USAGE

int cmd_run(Cli *c);
int cmd_compile(Cli *c);
int cmd_targets(Cli *c);
int cmd_config(Cli *c);
int cmd_cache(Cli *c);
int cmd_bench(Cli *c);
int cmd_compare(Cli *c);
int cmd_generate(Cli *c);
int cmd_chat(Cli *c);
int cmd_perplexity(Cli *c);
int cmd_embed(Cli *c);
int cmd_rerank(Cli *c);
int cmd_bench_llm(Cli *c);
int cmd_serve(Cli *c);
int cmd_inspect(Cli *c);
int cmd_verify(Cli *c);
int cmd_quantize(Cli *c);
int cmd_prune(Cli *c);
int cmd_tune(Cli *c);
int cmd_conform(Cli *c);
int cmd_ops(Cli *c);
int cmd_passes(Cli *c);
int cmd_templates(Cli *c);
int cmd_explain(Cli *c);
int cmd_graph(Cli *c);
int cmd_convert(Cli *c);
int cmd_tokenize(Cli *c);
int cmd_prompt(Cli *c);
int cmd_doctor(Cli *c);
int cmd_completion(Cli *c);
int cmd_help(Cli *c);

#endif
