// cliffs_judge.c -- counts of idle kernels beside the golden file of their machine (replay.h).
//
// A count that rises is a failure.  One that falls is a failure, too, until the golden file says so
// (`make cliffs-update`): what was gained is not lost again unnoticed.
#include "replay.h"

#include "base/platform.h"

#include <stdio.h>
#include <stdlib.h>

#define HEAD                                                                                       \
  "# Kernels of more than 4,096 elements that leave %s idle: kind, model, template or op, "        \
  "number. "                                                                                       \
  "Written by `tenon-replay --cliffs --update`.\n"

typedef struct Row {
  Str key;    // "lane op/cum_sum scan"
  Str model;  // "op/cum_sum"
  int64_t n;
} Row;
typedef struct Table {
  VEC(Row) row;
  StrMap models;  // that were counted
} Table;

static Str next_word(Str *s) {
  while (s->n && s->p[0] == ' ') s->p++, s->n--;
  Str w = {s->p, 0};
  while (w.n < s->n && w.p[w.n] != ' ') w.n++;
  *s = (Str){s->p + w.n, s->n - w.n};
  return w;
}

static void read_table(Str text, Arena *a, Table *out) {
  *out = (Table){0};
  strmap_init(&out->models, a);
  for (int64_t at = 0; at < text.n;) {
    const char *p = text.p + at, *end = memchr(p, '\n', (size_t)(text.n - at));
    Str line = {p, end ? end - p : text.n - at};
    at += line.n + 1;
    if (!line.n || line.p[0] == '#') continue;
    Row r = {0};
    Str kind = next_word(&line);
    r.model = next_word(&line);
    if (str_is(kind, "model")) strmap_put(&out->models, r.model, out);
    Str what = next_word(&line);
    if (!str_to_i64(next_word(&line), &r.n)) continue;
    r.key = str_of(
        str_printf(a, "%-6.*s %-32.*s %-20.*s", STR_ARG(kind), STR_ARG(r.model), STR_ARG(what)));
    vec_push(a, &out->row, r);
  }
}

static const char *path_of(const ReplayGolden *g, const ReplayMachine *m, Arena *a) {
  return str_printf(a, "%s/%s.txt", g->folder, m->name);
}

static void read_golden(const ReplayGolden *g, const ReplayMachine *m, Arena *a, Table *out) {
  static Diag d;
  File f;
  diag_init(&d);
  read_table(STR(""), a, out);
  if (file_open(path_of(g, m, a), &f, &d)) return;
  read_table(str_of(str_copy(a, (Str){(const char *)f.bytes, f.size})), a, out);
  file_close(&f);
}

static int64_t find(const Table *t, Str key) {
  for (int64_t i = 0; i < t->row.n; i++)
    if (str_eq(t->row.v[i].key, key)) return t->row.v[i].n;
  return 0;
}

static int64_t total(const Table *t) {
  int64_t n = 0;
  for (int64_t i = 0; i < t->row.n; i++) n += t->row.v[i].n;
  return n;
}

static void print_change(const char *machine, Str key, int64_t n, int64_t was) {
  printf("%-7s %s: %.*s %lld, and it was %lld\n", machine, n > was ? "MORE" : "less", STR_ARG(key),
         (long long)n, (long long)was);
}

// Whether the row is of a model that was counted.
static bool counted(const ReplayGolden *g, const Table *now, const Row *r) {
  return g->whole || strmap_get(&now->models, r->model);
}

bool cliffs_compare(const ReplayGolden *g, const ReplayMachine *m, Str record) {
  Arena a;
  Table now, was;
  int64_t changed = 0;
  arena_init(&a);
  read_table(record, &a, &now);
  read_golden(g, m, &a, &was);
  for (int64_t i = 0; i < now.row.n; i++) {
    const Row *r = &now.row.v[i];
    int64_t n = find(&was, r->key);
    if (n == r->n) continue;
    if (changed++ < g->limit) print_change(m->name, r->key, r->n, n);
  }
  for (int64_t i = 0; i < was.row.n; i++) {
    const Row *r = &was.row.v[i];
    if (find(&now, r->key) || !counted(g, &now, r)) continue;
    if (changed++ < g->limit) print_change(m->name, r->key, 0, r->n);
  }
  printf(
      "%-7s %lld kernels of more than 4,096 elements on the host, on one thread or on one lane%s\n",
      m->name, (long long)total(&now), changed ? "; `make cliffs-update` records them anew" : "");
  arena_deinit(&a);
  return !changed;
}

static int by_key(const void *x, const void *y) {
  const Row *a = x, *b = y;
  return strcmp(a->key.p, b->key.p);
}

tenon_status cliffs_update(const ReplayGolden *g, const ReplayMachine *m, Str record, Diag *d) {
  Arena a;
  Table now, was;
  StrBuf b;
  arena_init(&a);
  read_table(record, &a, &now);
  read_golden(g, m, &a, &was);
  for (int64_t i = 0; i < was.row.n; i++)
    if (!counted(g, &now, &was.row.v[i])) vec_push(&a, &now.row, was.row.v[i]);
  qsort(now.row.v, (size_t)now.row.n, sizeof *now.row.v, by_key);
  strbuf_init(&b, &a);
  strbuf_printf(&b, HEAD, m->name);
  for (int64_t i = 0; i < now.row.n; i++)
    strbuf_printf(&b, "%.*s %lld\n", STR_ARG(now.row.v[i].key), (long long)now.row.v[i].n);
  tenon_status s = file_write(path_of(g, m, &a), b.p, b.n, d);
  printf("%-7s written, %lld kernels\n", m->name, (long long)total(&now));
  arena_deinit(&a);
  return s;
}
