// help.c -- the option table as text: --help, manual pages, the reference page.
//
// A text of the table may hold backquoted words.  The terminal shows them as they are, without the
// quotes; roff sets them bold; Markdown keeps them.
#include "cli/cli.h"

#include <ctype.h>
#include <string.h>

enum { HELP_COLUMN = 26, BRIEF_EXAMPLES = 4 };

static const char *bold(FILE *f) { return term_color(f) ? "\033[1m" : ""; }
static const char *plain(FILE *f) { return term_color(f) ? "\033[0m" : ""; }

// Words of `text` from column `at`, wrapped at the terminal's width and indented; backquotes left
// out.
static void wrap(FILE *f, const char *text, int indent, int at) {
  int width = term_width();
  while (*text) {
    int len = (int)strcspn(text, " "), shown = 0;
    for (int i = 0; i < len; i++) shown += text[i] != '`';
    if (at > indent && at + 1 + shown > width) {
      fprintf(f, "\n%*s", indent, "");
      at = indent;
    } else if (at > indent) {
      fputc(' ', f);
      at++;
    }
    for (int i = 0; i < len; i++)
      if (text[i] != '`') fputc(text[i], f);
    at += shown;
    text += len;
    text += strspn(text, " ");
  }
  fputc('\n', f);
}

// "-o, --output F.npz"
static int spell(char *out, size_t cap, const OptionRow *o) {
  char letter[8] = "    ";
  if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
  return snprintf(out, cap, "%s--%s%s%s", letter, option_name(o), o->value ? " " : "",
                  o->value ? o->value : "");
}

static void row(FILE *f, const char *left, const char *right) {
  int n = fprintf(f, "  %s", left);
  if (n + 2 > HELP_COLUMN) {
    fprintf(f, "\n%*s", HELP_COLUMN, "");
  } else {
    fprintf(f, "%*s", HELP_COLUMN - n, "");
  }
  wrap(f, right, HELP_COLUMN, HELP_COLUMN);
}

static const char help_help[] = "print this; `--help-all` prints every option, in full";

// The first sentence of a text, and the words that the option takes, in `out`.
static const char *in_brief(const char *text, const char *words, char *out, size_t cap) {
  const char *end = strstr(text, ". ");
  int n = end ? (int)(end - text) + (isupper((unsigned char)text[0]) != 0) : (int)strlen(text);
  snprintf(out, cap, words ? "%.*s: %s" : "%.*s", n, text, words);
  return out;
}

// The words that a value may be, where there are few.
static const char *words_of(const OptionRow *o) {
  bool list = o->complete[0] && o->complete[0] != '<' && strchr(o->complete, ' ');
  return list ? o->complete : NULL;
}

void help_command(FILE *f, int command, HelpKind kind) {
  const CommandRow *c = &cli_command[command];
  fprintf(f, "%stenon %s%s -- %s\n\n", bold(f), command_name(c), plain(f), c->summary);
  int shown = 0;
  for (int i = 0; i < cli_nexamples; i++)
    if (cli_example[i].command == command && (kind == HELP_ALL || shown++ < BRIEF_EXAMPLES))
      fprintf(f, "  %s%s%s\n      %s\n", bold(f), cli_example[i].line, plain(f),
              cli_example[i].what);
  fprintf(f, "\nusage: tenon %s [options] %s\n\n", command_name(c), c->args);
  char brief[1024];
  wrap(f, kind == HELP_SHORT ? in_brief(c->text, NULL, brief, sizeof brief) : c->text, 0, 0);
  fprintf(f, "\noptions:\n");
  int hidden = 0;
  for (int i = 0; i < OPT_COUNT; i++) {
    char left[64];
    const OptionRow *o = &cli_option[i];
    if (o->command != command) continue;
    if (kind == HELP_SHORT && option_is_expert(o)) {
      hidden++;
      continue;
    }
    spell(left, sizeof left, o);
    row(f, left,
        kind == HELP_SHORT ? in_brief(o->help, words_of(o), brief, sizeof brief) : o->help);
  }
  row(f, "-h, --help", help_help);
  if (hidden)
    fprintf(f, "\n%d more, for work on the compiler: tenon %s --help-all\n", hidden,
            command_name(c));
}

// ---- the environment ----

static const struct {
  const char *name, *value, *help;
} environment[] = {
#define ENVIRONMENT(name, value, help) {name, value, help},
#include "cli/environment.def"
};

static void help_environment(FILE *f) {
  fprintf(f, "%sEnvironment variables%s that Tenon reads\n\n", bold(f), plain(f));
  for (int64_t i = 0; i < ARRAY_LEN(environment); i++) {
    char left[64];
    snprintf(left, sizeof left, "%s=%s", environment[i].name, environment[i].value);
    row(f, left, environment[i].help);
  }
}

static const char exit_text[] =
    "0 success; 1 failure (a file, the model, the machine); 2 wrong usage; "
    "3 results differ; 4 valid, but not supported; 5 a defect of Tenon";

void help_overview(FILE *f) {
  fprintf(f, "%stenon%s -- an AI compiler: reads, checks, compiles and runs models\n\n", bold(f),
          plain(f));
  static const char *const lines[][2] = {
      {"tenon inspect model.onnx", "print what is in it and what it costs"},
      {"tenon run model.onnx --input x=x.npy", "compile it, run it and print its outputs"},
      {"tenon compile model.onnx -o model.tenon", "write a file that runs without the compiler"},
      {"tenon graph model.onnx -o model.html", "draw it"},
  };
  for (int64_t i = 0; i < ARRAY_LEN(lines); i++)
    fprintf(f, "  %s%s%s\n      %s\n", bold(f), lines[i][0], plain(f), lines[i][1]);
  fprintf(f, "\nusage: tenon COMMAND [options] ...\n\ncommands:\n");
  for (int i = 0; i < CMD_COUNT; i++) row(f, command_name(&cli_command[i]), cli_command[i].summary);
  fprintf(f, "\noptions:\n");
  row(f, "-h, --help", "print this; after a command, explain the command");
  row(f, "-V, --version", "print the version");
  fprintf(f, "\n");
  wrap(f,
       "Results go to standard output, progress and errors to standard error. `tenon help "
       "environment` lists environment variables.",
       0, 0);
  wrap(f, "exit status:", 0, 0);
  fprintf(f, "  ");
  wrap(f, exit_text, 2, 2);
}

// ---- manual pages ----
// Text with roff's own characters escaped and backquoted words in bold.
static void roff(FILE *f, const char *text) {
  bool code = false;
  for (const char *p = text; *p; p++) {
    if (*p == '`') {
      code = !code;
      fputs(code ? "\\fB" : "\\fR", f);
    } else if (*p == '\\') {
      fputs("\\e", f);
    } else if (*p == '-') {
      fputs("\\-", f);
    } else if ((*p == '.' || *p == '\'') && p == text) {
      fputs("\\&", f);
      fputc(*p, f);
    } else {
      fputc(*p, f);
    }
  }
  fputc('\n', f);
}

static void man_options(FILE *f, int command) {
  fputs(".SH OPTIONS\n", f);
  for (int i = 0; i < OPT_COUNT; i++) {
    const OptionRow *o = &cli_option[i];
    if (o->command != command) continue;
    fputs(".TP\n\\fB", f);
    if (o->letter) fprintf(f, "\\-%c\\fR, \\fB", o->letter);
    fprintf(f, "\\-\\-%s\\fR", option_name(o));
    if (o->value) fprintf(f, " \\fI%s\\fR", o->value);
    fputc('\n', f);
    roff(f, o->help);
  }
  fputs(".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nprint a summary of this page\n", f);
  fputs(".TP\n\\fB\\-\\-help\\-all\\fR\nprint every option, in full\n", f);
}

static void man_example(FILE *f, const char *what, const char *line) {
  fputs(".PP\n", f);
  roff(f, what);
  fputs(".PP\n.RS\n.nf\n", f);
  roff(f, line);
  fputs(".fi\n.RE\n", f);
}

static void man_program(FILE *f) {
  fprintf(f, ".TH TENON 1 \"\" \"tenon %s\" \"Tenon\"\n.SH NAME\ntenon \\- an AI compiler\n",
          TENON_VERSION);
  fputs(".SH SYNOPSIS\n\\fBtenon\\fR \\fICOMMAND\\fR [options] ...\n.SH DESCRIPTION\n", f);
  roff(f, "Reads models, checks them, says what they cost, draws and runs them.");
  fputs(".SH COMMANDS\n", f);
  for (int i = 0; i < CMD_COUNT; i++) {
    fprintf(f, ".TP\n\\fB%s\\fR\n", command_name(&cli_command[i]));
    roff(f, cli_command[i].summary);
    fprintf(f, "(\\fBtenon\\-%s\\fR(1))\n", command_name(&cli_command[i]));
  }
  fputs(".SH EXIT STATUS\n", f);
  roff(f, exit_text);
  fputs(".SH ENVIRONMENT\n", f);
  for (int64_t i = 0; i < ARRAY_LEN(environment); i++) {
    fprintf(f, ".TP\n\\fB%s\\fR=\\fI%s\\fR\n", environment[i].name, environment[i].value);
    roff(f, environment[i].help);
  }
}

void help_man(FILE *f, int command) {
  if (command < 0) {
    man_program(f);
    return;
  }
  const CommandRow *c = &cli_command[command];
  fputs(".TH TENON\\-", f);
  for (const char *p = command_name(c); *p; p++) fputc(toupper((unsigned char)*p), f);
  fprintf(f, " 1 \"\" \"tenon %s\" \"Tenon\"\n.SH NAME\ntenon\\-%s \\- ", TENON_VERSION,
          command_name(c));
  roff(f, c->summary);
  fprintf(f, ".SH SYNOPSIS\n\\fBtenon %s\\fR [options] \\fI%s\\fR\n.SH EXAMPLES\n", command_name(c),
          c->args);
  for (int i = 0; i < cli_nexamples; i++)
    if (cli_example[i].command == command) man_example(f, cli_example[i].what, cli_example[i].line);
  fputs(".SH DESCRIPTION\n", f);
  roff(f, c->text);
  man_options(f, command);
  fputs(".SH EXIT STATUS\n", f);
  roff(f, exit_text);
  fputs(".SH SEE ALSO\n\\fBtenon\\fR(1)\n", f);
}

// ---- the reference page ----
// A cell of a table: the bar is escaped.
static void cell(FILE *f, const char *text) {
  for (const char *p = text; *p; p++) {
    if (*p == '|') fputc('\\', f);
    fputc(*p, f);
  }
}

static void markdown_command(FILE *f, int command) {
  const CommandRow *c = &cli_command[command];
  fprintf(f, "\n## tenon %s\n\n%c%s.\n\n```sh\n", command_name(c),
          toupper((unsigned char)c->summary[0]), c->summary + 1);
  for (int i = 0; i < cli_nexamples; i++)
    if (cli_example[i].command == command)
      fprintf(f, "%s  # %s\n", cli_example[i].line, cli_example[i].what);
  fprintf(f, "```\n\nUsage: `tenon %s [options]%s%s`\n\n%s\n\n| option | |\n|---|---|\n",
          command_name(c), *c->args ? " " : "", c->args, c->text);
  for (int i = 0; i < OPT_COUNT; i++) {
    const OptionRow *o = &cli_option[i];
    if (o->command != command) continue;
    fputs("| ", f);
    if (o->letter) fprintf(f, "`-%c`, ", o->letter);
    fprintf(f, "`--%s%s%s` | ", option_name(o), o->value ? " " : "", o->value ? o->value : "");
    cell(f, o->help);
    fputs(" |\n", f);
  }
  fprintf(f, "| `-h`, `--help` | %s |\n", help_help);
}

static const char arrays_text[] =
    "\n## Array files\n\n"
    "Tensors are read from and written to NumPy's `.npy` (one array) and `.npz` (a zip of them, "
    "stored or deflated), "
    "versions 1.0 to 3.0. Big-endian and Fortran-ordered arrays are turned; text (`<U`, `|S`) "
    "becomes strings. Object "
    "arrays (Python pickles) and structured arrays are refused: nothing in a file is ever "
    "executed. An archive may unpack to "
    "64 MiB, or to 200 times its own size where that is more. The members of an archive are found "
    "by name; members that "
    "`numpy.savez` named `arr_0`, `arr_1`, ... by position.\n\n"
    "| type | in the file |\n|---|---|\n"
    "| f16 f32 f64, i8 to i64, u8 to u64, bool, c64 c128 | NumPy's own |\n"
    "| string | `<U`, or `\\|S` where a string is not UTF-8; NumPy drops zeros at a string's end "
    "|\n"
    "| bf16 | `<V2`, as the Python package `ml_dtypes` writes it |\n"
    "| f8e4m3 f8e4m3z f8e5m2 f8e5m2z f8e8m0 | `\\|V1`, likewise |\n"
    "| i4 i2 | `\\|i1`, one element to a byte |\n"
    "| u4 u2 | `\\|u1`, one element to a byte |\n"
    "| f4e2m1 | `\\|V1`, one element to a byte, in its low bits |\n\n"
    "Read for an input or output of such a type, the carrier is turned back; a number that does "
    "not fit is an error.\n";

static const char files_text[] =
    "\n## Files that are written\n\n"
    "An output is never an input: every command compares them by device and inode, through links "
    "and redirections, before it writes anything. External data of a model and the files below a "
    "folder are inputs too. Exit status 2.\n\n"
    "An existing file is replaced only if Tenon wrote it, or with `--force`. An empty file, a pipe "
    "and a device may be written. Tenon recognises what it wrote by the file's content:\n\n"
    "| file | mark |\n|---|---|\n"
    "| compiled model | its first bytes |\n"
    "| ONNX | the producer `tenon` |\n"
    "| `.html`, `.svg`, `.dot`, `.json`, `.mlir`, `.c`, `.h`, `.ll`, `.s`, `.safetensors` | the "
    "words `made by Tenon` near the start |\n"
    "| `.npz`, objects, external data of ONNX | the same words at the end |\n"
    "| shared library, program | `linked and made by Tenon` among the constants |\n"
    "| `.npy` | a header with at least 128 spaces behind it |\n"
    "| raw weights (`--weights-out`) | none: replacing them takes `--force` |\n";

void help_markdown(FILE *f) {
  fputs("# Command line\n\nGenerated by `tenon help --markdown` from `src/cli/options.def`.\n\n",
        f);
  fputs("| command | |\n|---|---|\n", f);
  for (int i = 0; i < CMD_COUNT; i++)
    fprintf(f, "| [`%s`](#tenon-%s) | %s |\n", command_name(&cli_command[i]),
            command_name(&cli_command[i]), cli_command[i].summary);
  fprintf(
      f,
      "\nResults go to standard output, progress and errors to standard error; progress is drawn "
      "only on a terminal. `-` names standard input or output. `--help` prints the options that "
      "most "
      "people need, `--help-all` all of them. Both follow a command.\n\n"
      "Exit status: %s.\n",
      exit_text);
  for (int i = 0; i < CMD_COUNT; i++) markdown_command(f, i);
  fputs("\n## Environment\n\nEvery variable that Tenon reads, also as a library.\n\n| variable | "
        "|\n|---|---|\n",
        f);
  for (int64_t i = 0; i < ARRAY_LEN(environment); i++) {
    fprintf(f, "| `%s=%s` | ", environment[i].name, environment[i].value);
    cell(f, environment[i].help);
    fputs(" |\n", f);
  }
  fputs(files_text, f);
  fputs(arrays_text, f);
}

// ---- the tables as data ----
static void json_files(JsonWriter *w, const char *complete) {
  json_key(w, "files");
  if (completes_files(complete))
    json_cstr(w, !strcmp(complete, COMPLETE_WRITES) ? "writes" : "reads");
  else
    json_null(w);
}

static void json_option(JsonWriter *w, const OptionRow *o) {
  static const char *const kinds[] = {[OK_FLAG] = "flag", [OK_TEXT] = "text", [OK_LIST] = "list",
                                      [OK_INT] = "int",   [OK_REAL] = "real", [OK_LIMIT] = "limit"};
  json_begin_object(w);
  json_key(w, "name");
  json_cstr(w, option_name(o));
  json_key(w, "kind");
  json_cstr(w, kinds[o->kind]);
  json_key(w, "value");
  json_cstr(w, o->value);
  json_key(w, "expert");
  json_bool(w, option_is_expert(o));
  json_files(w, o->complete);
  json_end_object(w);
}

static int help_json(Cli *c) {
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, &c->arena);
  json_init(&w, &b, false);
  json_begin_object(&w);
  json_key(&w, "commands");
  json_begin_array(&w);
  for (int i = 0; i < CMD_COUNT; i++) {
    json_begin_object(&w);
    json_key(&w, "name");
    json_cstr(&w, command_name(&cli_command[i]));
    json_key(&w, "arguments");
    json_cstr(&w, cli_command[i].args);
    json_files(&w, cli_command[i].complete);
    json_key(&w, "options");
    json_begin_array(&w);
    for (int k = 0; k < OPT_COUNT; k++)
      if (cli_option[k].command == i) json_option(&w, &cli_option[k]);
    json_end_array(&w);
    json_end_object(&w);
  }
  json_end_array(&w);
  json_end_object(&w);
  return cli_print(&b);
}

static int command_named(Cli *c, const char *name) {
  for (int i = 0; i < CMD_COUNT; i++)
    if (!strcmp(command_name(&cli_command[i]), name)) return i;
  return -(cli_usage(c, "help: unknown command '%s'; `tenon help` lists the commands", name));
}

int cmd_help(Cli *c) {
  if (c->npos && !strcmp(c->pos[0], "environment")) {
    help_environment(stdout);
    return CLI_OK;
  }
  int command = c->npos ? command_named(c, c->pos[0]) : -1;
  if (c->npos && command < 0) return CLI_USAGE;
  if (opt_given(c, OPT_help_json)) return help_json(c);
  if (opt_given(c, OPT_help_markdown))
    help_markdown(stdout);
  else if (opt_given(c, OPT_help_man))
    help_man(stdout, command);
  else if (command >= 0)
    help_command(stdout, command, opt_given(c, OPT_help_all) ? HELP_ALL : HELP_SHORT);
  else
    help_overview(stdout);
  return CLI_OK;
}
