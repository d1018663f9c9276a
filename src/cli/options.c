// options.c -- the tables made of options.def, and the parser that reads them.
//
// Spellings: --name value, --name=value, -x value, -xvalue, -abc for flags, -- ends options, `-`
// alone is a positional.  Options may stand before and after positionals.  Every mistake is
// answered with what was meant, where something is near.
#include "cli/cli.h"

#include "compile/options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define READS    COMPLETE_READS
#define WRITES   COMPLETE_WRITES
#define NOTHING  COMPLETE_NOTHING
#define COMMANDS COMPLETE_COMMANDS
#define WORDS(w) w
// Of a help: the level of its row follows.
#define EXPERT(he) he, .level = 1

const CommandRow cli_command[CMD_COUNT] = {
#define CMD(nm, ar, co, lo, hi, su, tx) {#nm, ar, co, lo, hi, su, tx, cmd_##nm},
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
};
const ExampleRow cli_example[] = {
#define CMD(...)
#define EXAMPLE(cmd, what, line) {CMD_##cmd, what, line},
#define FLAG(...)
#define TEXT(...)
#define LIST(...)
#define INT(...)
#define REAL(...)
#define SIGNED(...)
#define LIMIT(...)
#define BYTES(...)
#include "cli/options.def"
};
const int cli_nexamples = (int)ARRAY_LEN(cli_example);
const OptionRow cli_option[OPT_COUNT] = {
#define CMD(...)
#define EXAMPLE(...)
#define FLAG(cmd, id, ch, he)         {CMD_##cmd, OK_FLAG, #id, ch, NULL, NOTHING, 0, 0, .help = he},
#define TEXT(cmd, id, ch, va, co, he) {CMD_##cmd, OK_TEXT, #id, ch, va, co, 0, 0, .help = he},
#define LIST(cmd, id, ch, va, co, he) {CMD_##cmd, OK_LIST, #id, ch, va, co, 0, 0, .help = he},
#define INT(cmd, id, ch, va, lo, hi, he)                                                           \
  {CMD_##cmd, OK_INT, #id, ch, va, NOTHING, lo, hi, .help = he},
#define REAL(cmd, id, ch, va, he)     {CMD_##cmd, OK_REAL, #id, ch, va, NOTHING, 0, 0, .help = he},
#define SIGNED(cmd, id, ch, va, he)   {CMD_##cmd, OK_REAL, #id, ch, va, NOTHING, -1, 0, .help = he},
#define LIMIT(cmd, id, na, va, k, he) {CMD_##cmd, OK_LIMIT, na, 0, va, NOTHING, 1, k, .help = he},
#define BYTES(cmd, id, ch, va, lo, he)                                                             \
  {CMD_##cmd, OK_LIMIT, #id, ch, va, NOTHING, lo, 1024, .help = he},
#include "cli/options.def"
};

enum { NAME_CAP = 24 };
static const char *spell(const char *name, char *s) {
  for (int i = 0; i < NAME_CAP - 1 && name[i]; i++) s[i] = name[i] == '_' ? '-' : name[i];
  return s;
}

const char *option_name(const OptionRow *o) {
  static char spelt[OPT_COUNT][NAME_CAP];
  return spell(o->name, spelt[o - cli_option]);
}

const char *command_name(const CommandRow *c) {
  static char spelt[CMD_COUNT][NAME_CAP];
  return spell(c->name, spelt[c - cli_command]);
}

bool option_is_expert(const OptionRow *o) {
  if (o->level) return true;
  for (int i = 0; i < COMPILE_OPTIONS; i++)
    if (!strcmp(compile_option[i].name, o->name)) return compile_option[i].marks & OPTION_EXPERT;
  return false;
}

bool completes_files(const char *complete) {
  return !strcmp(complete, COMPLETE_READS) || !strcmp(complete, COMPLETE_WRITES);
}

int cli_usage(Cli *c, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  failv(&c->diag, TENON_EINVAL, NOWHERE, fmt, ap);
  va_end(ap);
  return CLI_USAGE;
}

// ---- looking up ----
static int find_command(const char *name) {
  if (!strcmp(name, "quantise")) name = "quantize";
  for (int i = 0; i < CMD_COUNT; i++)
    if (!strcmp(command_name(&cli_command[i]), name)) return i;
  return -1;
}

static int unknown_command(Cli *c, const char *name) {
  const char *words[CMD_COUNT];
  for (int i = 0; i < CMD_COUNT; i++) words[i] = command_name(&cli_command[i]);
  HintText hint = did_you_mean(str_of(name), words, CMD_COUNT);
  return cli_usage(c, "unknown command '%s'%s", name,
                   *hint.s ? hint.s : "; `tenon help` lists the commands");
}

int option_find(int command, Str name) {
  for (int i = 0; i < OPT_COUNT; i++)
    if (cli_option[i].command == command && str_eq(str_of(option_name(&cli_option[i])), name))
      return i;
  return -1;
}
static int find_letter(int command, char letter) {
  for (int i = 0; i < OPT_COUNT; i++)
    if (cli_option[i].command == command && cli_option[i].letter == letter) return i;
  return -1;
}

static int unknown_option(Cli *c, const char *text) {
  if (c->command < 0)
    return cli_usage(c, "unknown option '%s'; options of a command follow it: tenon COMMAND %s",
                     text, text);
  const char *command = command_name(&cli_command[c->command]);
  const char *words[OPT_COUNT + 2] = {"help", "help-all"};
  int64_t n = 2, len = (int64_t)strcspn(text, "=");
  for (int i = 0; i < OPT_COUNT; i++)
    if (cli_option[i].command == c->command) words[n++] = option_name(&cli_option[i]);
  int64_t dashes = (int64_t)strspn(text, "-");
  const char *bare = str_copy(&c->arena, (Str){text + dashes, MAX(len - dashes, 0)});
  const char *near = str_nearest(str_of(bare), words, n);
  if (near)
    return cli_usage(c, "%s: unknown option '%s'; did you mean '--%s'?", command, text, near);
  return cli_usage(c, "%s: unknown option '%s'; `tenon %s --help-all` lists them", command, text,
                   command);
}

// ---- values ----
static bool parse_real(const char *text, bool negative, double *out) {
  char *end;
  errno = 0;
  *out = strtod(text, &end);
  return end != text && !*end && isfinite(*out) && (negative || *out >= 0) && !strpbrk(text, "xX");
}

static int store(Cli *c, int id, const char *text) {
  const OptionRow *o = &cli_option[id];
  OptionValue *v = &c->opt[id];
  const char *command = command_name(&cli_command[c->command]);
  if (o->kind == OK_INT &&
      (!str_to_i64(str_of(text), &v->i) || v->i < o->least || v->i > o->most)) {
    if (o->most == INT64_MAX)
      return cli_usage(c, "%s: --%s takes a whole number from %lld up, not '%s'", command,
                       option_name(o), (long long)o->least, text);
    return cli_usage(c, "%s: --%s takes a whole number from %lld to %lld, not '%s'", command,
                     option_name(o), (long long)o->least, (long long)o->most, text);
  }
  if (o->kind == OK_REAL && !parse_real(text, o->least < 0, &v->f))
    return cli_usage(c, "%s: --%s takes a number%s, not '%s'", command, option_name(o),
                     o->least < 0 ? "" : " that is not negative", text);
  if (o->kind == OK_LIMIT && (!parse_scaled(text, o->most, &v->i) || v->i < o->least))
    return cli_usage(c, "%s: --%s takes a whole number from %lld up, as 500, 20M or 4G, not '%s'",
                     command, option_name(o), (long long)o->least, text);
  const char **all = arena_array(&c->arena, const char *, v->count + 1);
  if (v->count) memcpy(all, v->text, (size_t)v->count * sizeof *all);
  all[v->count++] = text;
  v->text = all;
  return CLI_OK;
}

// ---- parsing ----
typedef struct Words {
  char **v;
  int n, at;
} Words;

static int take_value(Cli *c, Words *w, int id, const char *attached) {
  const OptionRow *o = &cli_option[id];
  if (o->kind == OK_FLAG) {
    if (attached)
      return cli_usage(c, "%s: --%s takes no value", command_name(&cli_command[c->command]),
                       option_name(o));
    c->opt[id].count++;
    return CLI_OK;
  }
  if (attached) return store(c, id, attached);
  if (w->at == w->n)
    return cli_usage(c, "%s: --%s needs a value: --%s %s", command_name(&cli_command[c->command]),
                     option_name(o), option_name(o), o->value);
  return store(c, id, w->v[w->at++]);
}

static int parse_long(Cli *c, Words *w, const char *text) {
  const char *eq = strchr(text, '=');
  Str name = {text + 2, eq ? eq - text - 2 : (int64_t)strlen(text) - 2};
  int id = option_find(c->command, name);
  if (id < 0) return unknown_option(c, text);
  return take_value(c, w, id, eq ? eq + 1 : NULL);
}

static int parse_short(Cli *c, Words *w, const char *text) {
  for (const char *p = text + 1; *p; p++) {
    int id = find_letter(c->command, *p);
    if (id < 0) return unknown_option(c, text);
    if (cli_option[id].kind != OK_FLAG) return take_value(c, w, id, p[1] ? p + 1 : NULL);
    c->opt[id].count++;
  }
  return CLI_OK;
}

static int check_positionals(Cli *c) {
  const CommandRow *row = &cli_command[c->command];
  if (c->npos < row->least)
    return cli_usage(c, "%s: %s is missing; usage: tenon %s [options] %s", row->name, row->args,
                     row->name, row->args);
  if (row->most >= 0 && c->npos > row->most)
    return cli_usage(c, "%s: one argument too many: '%s'", row->name, c->pos[row->most]);
  return CLI_OK;
}

int cli_parse(Cli *c, int argc, char **argv, HelpKind *out_help, bool *out_version) {
  c->command = -1;
  *out_help = HELP_NONE;
  *out_version = false;
  Words w = {argv, argc, 1};
  VEC(const char *) pos = {0};
  bool plain = false;  // after "--"
  while (w.at < w.n) {
    const char *text = w.v[w.at++];
    bool option = !plain && text[0] == '-' && text[1];
    int rc = CLI_OK;
    if (option && (!strcmp(text, "--help") || !strcmp(text, "-h")))
      *out_help = MAX(*out_help, HELP_SHORT);
    else if (option && !strcmp(text, "--help-all"))
      *out_help = HELP_ALL;
    else if (option && c->command < 0 && (!strcmp(text, "--version") || !strcmp(text, "-V")))
      *out_version = true;
    else if (option && !strcmp(text, "--"))
      plain = true;
    else if (option && c->command < 0)
      rc = unknown_option(c, text);
    else if (option)
      rc = text[1] == '-' ? parse_long(c, &w, text) : parse_short(c, &w, text);
    else if (c->command >= 0)
      vec_push(&c->arena, &pos, text);
    else if ((c->command = find_command(text)) < 0)
      rc = unknown_command(c, text);
    if (rc) return rc;
  }
  c->npos = pos.n;
  c->pos = pos.v;
  return c->command < 0 || *out_help ? CLI_OK : check_positionals(c);
}

// ---- reading values ----
const char *opt_text(const Cli *c, int id, const char *dflt) {
  const OptionValue *v = &c->opt[id];
  return v->count ? v->text[v->count - 1] : dflt;
}
int64_t opt_int(const Cli *c, int id, int64_t dflt) {
  return c->opt[id].count ? c->opt[id].i : dflt;
}
double opt_real(const Cli *c, int id, double dflt) {
  return c->opt[id].count ? c->opt[id].f : dflt;
}

bool opt_split(Cli *c, const char *text, const char **out_name, const char **out_value) {
  const char *eq = strchr(text, '=');
  if (!eq || eq == text) return false;
  *out_name = str_copy(&c->arena, (Str){text, eq - text});
  *out_value = eq + 1;
  return true;
}
