// cmd_targets.c -- `tenon targets`: what models can be compiled for, and whether that works here.
#include "cli/cli.h"

#include "targets/target.h"

typedef struct TargetRow {
  const Target *target;
  bool there;
  const char *why;  // not; or what it makes code for
} TargetRow;

static void print_text(Cli *c, const TargetRow *row, int n) {
  for (int i = 0; i < n; i++) {
    say(c, "%-6s %-9s %s\n", row[i].target->name, row[i].there ? "works" : "not here",
        row[i].target->doc);
    say(c, "                 %s\n", row[i].why);
  }
  for (const Target *const *t = target_shared; *t; t++)
    if (target_available(*t)) say(c, "%-10s works %s\n", (*t)->name, (*t)->doc);
  say(c, "%-6s %-9s %s\n", "auto", target_auto()->name,
      "the fastest of the above, on this machine");
  say(c, "%-6s %-9s %s\n", "interp", "works", "the reference interpreter, for `run` and `conform`");
  say(c, "%-6s %-9s %s\n", "plan", "works",
      "the same on the optimised graph, in the planned memory");
}

static void print_json(Cli *c, const TargetRow *row, int n) {
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, &c->arena);
  json_init(&w, &b, false);
  json_begin_object(&w);
  json_key(&w, "targets");
  json_begin_array(&w);
  for (int i = 0; i < n; i++) {
    json_begin_object(&w);
    json_key(&w, "name");
    json_cstr(&w, row[i].target->name);
    json_key(&w, "doc");
    json_cstr(&w, row[i].target->doc);
    json_key(&w, "works");
    json_bool(&w, row[i].there);
    json_key(&w, row[i].there ? "machine" : "reason");
    json_cstr(&w, row[i].why);
    json_end_object(&w);
  }
  json_end_array(&w);
  json_key(&w, "auto");
  json_cstr(&w, target_auto()->name);
  json_end_object(&w);
  cli_print(&b);
}

int cmd_targets(Cli *c) {
  int n = 0;
  while (target_table[n]) n++;
  TargetRow *row = arena_array(&c->arena, TargetRow, n);
  Machine *machine = arena_new(&c->arena, Machine);
  machine_host(machine);
  for (int i = 0; i < n; i++) {
    row[i].target = target_table[i];
    row[i].there = target_available(row[i].target);
    row[i].why = !row[i].there ? "the program tenon-codegen is not there: it is built with LLVM"
                 : row[i].target->available ? machine->name
                                            : "any machine";
  }
  if (opt_given(c, OPT_targets_json))
    print_json(c, row, n);
  else
    print_text(c, row, n);
  return CLI_OK;
}
