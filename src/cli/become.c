// become.c -- a command becomes a program of its own (become.h).
//
// The options were checked here; they go on as --name=value, then the positionals.
#include "cli/become.h"

#include "base/platform.h"
#include "base/process.h"

#include <errno.h>
#include <unistd.h>

typedef VEC(const char *) Args;

static void add_value(Cli *c, int id, const char *value, Args *args) {
  vec_push(&c->arena, args, str_printf(&c->arena, "--%s=%s", option_name(&cli_option[id]), value));
}

static void add_option(Cli *c, int id, bool flag_value, Args *args) {
  const OptionValue *v = &c->opt[id];
  OptionKind kind = cli_option[id].kind;
  if (kind == OK_FLAG && !flag_value)
    vec_push(&c->arena, args, str_printf(&c->arena, "--%s", option_name(&cli_option[id])));
  else if (kind == OK_FLAG)
    add_value(c, id, "1", args);
  else if (kind == OK_REAL)
    add_value(c, id, str_printf(&c->arena, "%.17g", v->f), args);
  else if (kind == OK_TEXT)
    add_value(c, id, v->text[v->count - 1], args);
  else if (kind == OK_LIST)
    for (int64_t i = 0; i < v->count; i++) add_value(c, id, v->text[i], args);
  else
    add_value(c, id, str_printf(&c->arena, "%lld", (long long)v->i), args);
}

int cli_become(Cli *c, const char *program, const char *word, bool flag_value) {
  char *path = arena_alloc(&c->arena, TEMP_PATH);
  Args args = {0};
  if (!process_find(program, path, TEMP_PATH))
    return cli_exit_of(fail(&c->diag, TENON_EUNSUPPORTED, NOWHERE,
                            "%s: the program %s is neither beside this one nor on the "
                            "path: build or install all of Tenon",
                            command_name(&cli_command[c->command]), program));
  vec_push(&c->arena, &args, path);
  if (word) vec_push(&c->arena, &args, word);
  for (int id = 0; id < OPT_COUNT; id++)
    if (cli_option[id].command == c->command && c->opt[id].count)
      add_option(c, id, flag_value, &args);
  for (int64_t i = 0; i < c->npos; i++) vec_push(&c->arena, &args, c->pos[i]);
  vec_push(&c->arena, &args, NULL);
  execv(path, (char *const *)(uintptr_t)args.v);
  return cli_exit_of(
      fail(&c->diag, TENON_EIO, NOWHERE, "cannot start %s: %s", path, error_text(errno).s));
}
