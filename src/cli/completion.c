// completion.c -- the option table as completion scripts for bash, zsh and fish.
#include "cli/cli.h"

// What stands in the table for "one of these words", or NULL for the marks.
static const char *words_of(const char *complete) {
  return *complete && *complete != '<' ? complete : NULL;
}

static void command_words(FILE *f) {
  for (int i = 0; i < CMD_COUNT; i++)
    fprintf(f, "%s%s", i ? " " : "", command_name(&cli_command[i]));
}

// ---- bash ----
static void bash_value(FILE *f, const OptionRow *o) {
  fputs("        ", f);
  if (o->letter) fprintf(f, "-%c|", o->letter);
  fprintf(f, "--%s) ", option_name(o));
  if (completes_files(o->complete))
    fputs("COMPREPLY=($(compgen -f -- \"${cur##*=}\")); compopt -o filenames 2>/dev/null; return "
          ";;\n",
          f);
  else if (words_of(o->complete))
    fprintf(f, "COMPREPLY=($(compgen -W '%s' -- \"$cur\")); return ;;\n", words_of(o->complete));
  else
    fputs("return ;;\n", f);
}

static void bash_command(FILE *f, int command) {
  const CommandRow *c = &cli_command[command];
  fprintf(f, "    %s)\n      case $prev in\n", command_name(c));
  for (int i = 0; i < OPT_COUNT; i++)
    if (cli_option[i].command == command && cli_option[i].value) bash_value(f, &cli_option[i]);
  fputs("      esac\n      opts='", f);
  for (int i = 0; i < OPT_COUNT; i++)
    if (cli_option[i].command == command) fprintf(f, "--%s ", option_name(&cli_option[i]));
  fputs("--help --help-all' words='", f);
  if (!strcmp(c->complete, COMPLETE_COMMANDS))
    command_words(f);
  else if (words_of(c->complete))
    fputs(words_of(c->complete), f);
  fprintf(f, "' files=%d ;;\n", completes_files(c->complete));
}

static void bash(FILE *f) {
  fputs("# bash completion for tenon, made by `tenon completion bash`\n_tenon() {\n"
        "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} opts='' words='' "
        "files=0\n"
        "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    COMPREPLY=($(compgen -W '",
        f);
  command_words(f);
  fputs(" --help --version' -- \"$cur\"))\n    return\n  fi\n  case ${COMP_WORDS[1]} in\n", f);
  for (int i = 0; i < CMD_COUNT; i++) bash_command(f, i);
  fputs("  esac\n"
        "  if [ \"${cur:0:1}\" = - ]; then\n"
        "    COMPREPLY=($(compgen -W \"$opts\" -- \"$cur\"))\n"
        "  elif [ \"$files\" = 1 ]; then\n"
        "    COMPREPLY=($(compgen -f -- \"$cur\"))\n    compopt -o filenames 2>/dev/null\n"
        "  else\n    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n  fi\n}\n"
        "complete -F _tenon tenon\n",
        f);
}

// ---- zsh ----
// Inside single quotes and brackets of _arguments: quotes doubled, brackets and colons escaped.
static void zsh_text(FILE *f, const char *s) {
  for (; *s; s++) {
    if (*s == '`') continue;
    if (*s == '\'')
      fputs("'\\''", f);
    else if (strchr("[]:", *s))
      fprintf(f, "\\%c", *s);
    else
      fputc(*s, f);
  }
}

static void zsh_action(FILE *f, const char *complete) {
  if (completes_files(complete))
    fputs("_files", f);
  else if (!strcmp(complete, COMPLETE_COMMANDS)) {
    fputs("(", f);
    command_words(f);
    fputs(")", f);
  } else if (words_of(complete))
    fprintf(f, "(%s)", words_of(complete));
  else
    fputs(" ", f);
}

static void zsh_option(FILE *f, const OptionRow *o) {
  const char *many = o->kind == OK_LIST ? "*" : "";
  for (int form = o->letter ? 0 : 1; form < 2; form++) {
    fputs(" \\\n        '", f);
    if (form == 0)
      fprintf(f, "%s-%c", many, o->letter);
    else
      fprintf(f, "%s--%s", many, option_name(o));
    fputs("[", f);
    zsh_text(f, o->help);
    fputs("]", f);
    if (o->value) {
      fputs(":", f);
      zsh_text(f, o->value);
      fputs(":", f);
      zsh_action(f, o->complete);
    }
    fputs("'", f);
  }
}

static void zsh(FILE *f) {
  fputs("#compdef tenon\n# zsh completion for tenon, made by `tenon completion zsh`\n"
        "_tenon() {\n  local -a commands\n  commands=(\n",
        f);
  for (int i = 0; i < CMD_COUNT; i++) {
    fprintf(f, "    '%s:", command_name(&cli_command[i]));
    zsh_text(f, cli_command[i].summary);
    fputs("'\n", f);
  }
  fputs("  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n"
        "  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n",
        f);
  for (int i = 0; i < CMD_COUNT; i++) {
    fprintf(f, "    %s)\n      _arguments '--help[print help]' '--help-all[print every option]'",
            command_name(&cli_command[i]));
    for (int k = 0; k < OPT_COUNT; k++)
      if (cli_option[k].command == i) zsh_option(f, &cli_option[k]);
    if (*cli_command[i].complete) {
      fprintf(f, " \\\n        '%s", cli_command[i].most == 1 ? "1" : "*");
      fputs(":argument:", f);
      zsh_action(f, cli_command[i].complete);
      fputs("'", f);
    }
    fputs(" ;;\n", f);
  }
  fputs("  esac\n}\nif [ \"$funcstack[1]\" = _tenon ]; then _tenon \"$@\"; else compdef _tenon "
        "tenon; fi\n",
        f);
}

// ---- fish ----
static void fish_text(FILE *f, const char *s) {
  fputc('\'', f);
  for (; *s; s++) {
    if (*s == '`') continue;
    if (*s == '\'' || *s == '\\') fputc('\\', f);
    fputc(*s, f);
  }
  fputc('\'', f);
}

static void fish_complete(FILE *f, const char *complete) {
  if (completes_files(complete)) {
    fputs(" -F", f);
  } else if (!strcmp(complete, COMPLETE_COMMANDS)) {
    fputs(" -f -a '", f);
    command_words(f);
    fputs("'", f);
  } else if (words_of(complete)) {
    fprintf(f, " -f -a '%s'", words_of(complete));
  } else {
    fputs(" -f", f);
  }
}

static void fish(FILE *f) {
  fputs("# fish completion for tenon, made by `tenon completion fish`\ncomplete -c tenon -f\n"
        "complete -c tenon -n __fish_use_subcommand -l version -d 'print the version'\n",
        f);
  for (int i = 0; i < CMD_COUNT; i++) {
    const CommandRow *c = &cli_command[i];
    fprintf(f, "complete -c tenon -n __fish_use_subcommand -a %s -d ", command_name(c));
    fish_text(f, c->summary);
    fprintf(f, "\ncomplete -c tenon -n '__fish_seen_subcommand_from %s'", command_name(c));
    fish_complete(f, c->complete);
    fputc('\n', f);
  }
  for (int i = 0; i < OPT_COUNT; i++) {
    const OptionRow *o = &cli_option[i];
    fprintf(f, "complete -c tenon -n '__fish_seen_subcommand_from %s' -l %s",
            command_name(&cli_command[o->command]), option_name(o));
    if (o->letter) fprintf(f, " -s %c", o->letter);
    if (o->value) {
      fputs(" -r", f);
      fish_complete(f, o->complete);
    }
    fputs(" -d ", f);
    fish_text(f, o->help);
    fputc('\n', f);
  }
}

bool completion_script(FILE *f, const char *shell) {
  static const struct {
    const char *name;
    void (*write)(FILE *f);
  } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
  for (int64_t i = 0; i < ARRAY_LEN(shells); i++)
    if (!strcmp(shell, shells[i].name)) {
      shells[i].write(f);
      return true;
    }
  return false;
}

int cmd_completion(Cli *c) {
  if (completion_script(stdout, c->pos[0])) return CLI_OK;
  return cli_usage(c, "completion: no script for '%s'; there are bash, zsh and fish", c->pos[0]);
}
