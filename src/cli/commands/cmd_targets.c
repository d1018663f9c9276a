// cmd_targets.c -- `tenon targets`: what models can be compiled for, and whether that works here.
#include "cli/cli.h"

#include "targets/target.h"

typedef struct TargetRow {
  const Target *target;
  bool there;
  const char *why;                  // not; or what it makes code for
  const DeviceInfo *const *device;  // of a target on devices
  int ndevices, chosen;
} TargetRow;

// ---- devices ----

// Opened for a moment, which tells whether they can be.
static void find_devices(Cli *c, TargetRow *r) {
  const DeviceDriver *v = device_driver(r->target->driver);
  const DeviceInfo **info = arena_array(&c->arena, const DeviceInfo *, 64);
  static Diag quiet;
  int n = v ? v->count(&r->why) : 0;
  for (int i = 0; i < MIN(n, 64); i++) {
    Device *d;
    diag_init(&quiet);
    if (v->open(i, &quiet, &d)) {
      r->why = str_copy(&c->arena, str_of(quiet.text));
      continue;
    }
    DeviceInfo *copy = arena_new(&c->arena, DeviceInfo);
    *copy = *v->info(d);
    copy->name = str_copy(&c->arena, str_of(copy->name));
    copy->version = str_copy(&c->arena, str_of(copy->version));
    copy->pick = str_copy(&c->arena, str_of(copy->pick));
    info[r->ndevices++] = copy;
    v->close(d);
  }
  r->device = info;
  r->there = r->ndevices > 0;
  diag_init(&quiet);
  if (r->there && v->find(NULL, &quiet, &r->chosen)) {
    r->chosen = -1;
    r->why = str_copy(&c->arena, str_of(quiet.text));
    r->there = false;
  }
}

static void print_device(Cli *c, const DeviceInfo *d, bool chosen) {
  NumText memory;
  say(c, "                 %s %s%s: %s, %d unit%s, %s%s; %s\n", d->pick, d->name,
      chosen ? " (chosen)" : "", d->is_cpu ? "CPU" : "GPU", d->compute_units,
      d->compute_units == 1 ? "" : "s", text_bytes(&memory, d->memory_bytes),
      d->f64 ? "" : ", no f64", d->version);
}

static void json_device(JsonWriter *w, const DeviceInfo *d, bool chosen) {
  json_begin_object(w);
  json_key(w, "device");
  json_cstr(w, d->pick);
  json_key(w, "name");
  json_cstr(w, d->name);
  json_key(w, "version");
  json_cstr(w, d->version);
  json_key(w, "chosen");
  json_bool(w, chosen);
  json_key(w, "cpu");
  json_bool(w, d->is_cpu);
  json_key(w, "units");
  json_i64(w, d->compute_units);
  json_key(w, "memory_bytes");
  json_i64(w, d->memory_bytes);
  json_key(w, "most_bytes_at_once");
  json_i64(w, d->max_buffer);
  json_key(w, "shared_bytes");
  json_i64(w, d->shared_bytes);
  json_key(w, "f64");
  json_bool(w, d->f64);
  json_key(w, "f16");
  json_bool(w, d->f16);
  json_end_object(w);
}

// ---- targets ----

static void print_text(Cli *c, const TargetRow *row, int n) {
  for (int i = 0; i < n; i++) {
    say(c, "%-6s %-9s %s\n", row[i].target->name, row[i].there ? "works" : "not here",
        row[i].target->doc);
    if (row[i].why) say(c, "                 %s\n", row[i].why);
    for (int k = 0; k < row[i].ndevices; k++) print_device(c, row[i].device[k], k == row[i].chosen);
  }
  for (const Target *const *t = target_shared; *t; t++)
    if (target_available(*t)) say(c, "%-10s works %s\n", (*t)->name, (*t)->doc);
  say(c, "%-6s %-9s %s\n", "auto", target_auto()->name,
      "the fastest of the above, on this machine");
  say(c, "%-6s %-9s %s\n", "interp", "works", "the reference interpreter, for `run` and `conform`");
  say(c, "%-6s %-9s %s\n", "plan", "works",
      "the same on the optimised graph, in the planned memory");
}

static void json_row(JsonWriter *w, const TargetRow *row) {
  json_begin_object(w);
  json_key(w, "name");
  json_cstr(w, row->target->name);
  json_key(w, "doc");
  json_cstr(w, row->target->doc);
  json_key(w, "works");
  json_bool(w, row->there);
  if (row->why) {
    json_key(w, row->there ? "machine" : "reason");
    json_cstr(w, row->why);
  }
  if (row->target->driver) {
    json_key(w, "devices");
    json_begin_array(w);
    for (int k = 0; k < row->ndevices; k++) json_device(w, row->device[k], k == row->chosen);
    json_end_array(w);
  }
  json_end_object(w);
}

static void print_json(Cli *c, const TargetRow *row, int n) {
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, &c->arena);
  json_init(&w, &b, false);
  json_begin_object(&w);
  json_key(&w, "targets");
  json_begin_array(&w);
  for (int i = 0; i < n; i++) json_row(&w, &row[i]);
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
    const Target *t = row[i].target = target_table[i];
    if (t->driver) {
      find_devices(c, &row[i]);
      continue;
    }
    row[i].there = target_there(t, &row[i].why);
    if (row[i].there) row[i].why = t->available ? machine->name : "any machine";
  }
  if (opt_given(c, OPT_targets_json))
    print_json(c, row, n);
  else
    print_text(c, row, n);
  return CLI_OK;
}
