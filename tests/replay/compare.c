// compare.c -- a record beside the golden file of its machine (replay.h).
//
// Kernels of a model are matched in four turns: equal in both hashes, in the loops, in the text, by
// number.  So a kernel that is inserted does not make all later ones look changed.
#include "replay.h"

#include "base/platform.h"

#include <stdio.h>

#define HEAD                                                                                       \
  "# Kernels on %s: number, hash of loops, hash of text, name. "                                   \
  "Written by `tenon-replay --update`.\n"

typedef struct Line {
  Str number, loops, text, name;
  struct Line *other;  // the same kernel in the other record
} Line;
typedef struct Model {
  Str name, steps, counts;  // the hash of its steps, and how many there are
  Str all;                  // its lines, the first one too
  VEC(Line) kernel;
} Model;
typedef struct Record {
  VEC(Str) name;  // of its models, in order
  StrMap by_name;
} Record;

// ---- reading ----

static Str next_line(Str *s) {
  const char *end = s->n ? memchr(s->p, '\n', (size_t)s->n) : NULL;
  Str line = {s->p, end ? end - s->p : s->n};
  int64_t used = line.n + (end != NULL);
  *s = (Str){s->p + used, s->n - used};
  return line;
}

static Str next_word(Str *s) {
  const char *end = s->n ? memchr(s->p, ' ', (size_t)s->n) : NULL;
  Str word = {s->p, end ? end - s->p : s->n};
  int64_t used = word.n + (end != NULL);
  *s = (Str){s->p + used, s->n - used};
  return word;
}

// Adds the text's models to those that are there, in the place of one of the same name.
static void read_record(Str text, Arena *a, Record *io) {
  Model *m = NULL;
  while (text.n) {
    Str line = next_line(&text), whole = line;
    if (!line.n || line.p[0] == '#') continue;
    if (str_starts(line, "model ")) {
      next_word(&line);
      Model *one = arena_new(a, Model);
      one->name = next_word(&line);
      one->steps = next_word(&line);
      one->counts = line;
      one->all = (Str){whole.p, 0};
      m = one;
      if (!strmap_has(&io->by_name, m->name)) vec_push(a, &io->name, m->name);
      strmap_put(&io->by_name, m->name, m);
    } else if (m) {
      Line k = {.number = next_word(&line), .loops = next_word(&line), .text = next_word(&line)};
      k.name = line;
      vec_push(a, &m->kernel, k);
    }
    if (m) m->all.n = text.p - m->all.p;
  }
}

static void record_init(Record *r, Arena *a) {
  *r = (Record){0};
  strmap_init(&r->by_name, a);
}

static const char *golden_path(const ReplayGolden *g, const char *machine, Arena *a) {
  return str_printf(a, "%s/%s.txt", g->folder, machine);
}

// A file that is not there has no models.
static void read_golden(const ReplayGolden *g, const char *machine, Arena *a, Record *io) {
  Diag d;
  File f;
  diag_init(&d);
  if (file_open(golden_path(g, machine, a), &f, &d)) return;
  read_record((Str){arena_dup(a, f.bytes, f.size), f.size}, a, io);
  file_close(&f);
}

// ---- comparing ----

typedef enum { BY_BOTH, BY_LOOPS, BY_TEXT, BY_NUMBER, TURNS } Turn;

static bool fits(const Line *x, const Line *y, Turn turn) {
  switch (turn) {
  case BY_BOTH: return str_eq(x->loops, y->loops) && str_eq(x->text, y->text);
  case BY_LOOPS: return str_eq(x->loops, y->loops);
  case BY_TEXT: return str_eq(x->text, y->text);
  case BY_NUMBER: return str_eq(x->number, y->number);
  case TURNS: break;
  }
  return false;
}

static void match(Model *was, Model *is) {
  for (Turn turn = BY_BOTH; turn < TURNS; turn++)
    for (int64_t i = 0; i < is->kernel.n; i++)
      for (int64_t k = 0; k < was->kernel.n && !is->kernel.v[i].other; k++)
        if (!was->kernel.v[k].other && fits(&was->kernel.v[k], &is->kernel.v[i], turn)) {
          is->kernel.v[i].other = &was->kernel.v[k];
          was->kernel.v[k].other = &is->kernel.v[i];
        }
}

typedef struct Tally {
  const ReplayMachine *m;
  int64_t limit;
  int64_t models, kernels, loops, text, added, removed, steps;
  int64_t printed;
} Tally;

// A kernel whose schedule has another name now is named by both.
static void say(Tally *t, const Model *m, const Line *k, const char *what) {
  if (t->printed++ >= t->limit) return;
  printf("%-7s %-24.*s kernel %-6.*s %s  (%.*s", t->m->name, STR_ARG(m->name), STR_ARG(k->number),
         what, STR_ARG(k->name));
  if (k->other && !str_eq(k->name, k->other->name))
    printf("; it was %.*s", STR_ARG(k->other->name));
  printf(")\n");
}

static void compare_kernel(Tally *t, const Model *m, const Line *k) {
  const char *language = !strcmp(t->m->language, "c")    ? "C"
                         : !strcmp(t->m->language, "cl") ? "OpenCL"
                                                         : "CUDA";
  char what[64];
  if (!k->other) {
    t->added++;
    say(t, m, k, "added");
    return;
  }
  bool loops = !str_eq(k->loops, k->other->loops), text = !str_eq(k->text, k->other->text);
  t->loops += loops;
  t->text += text;
  if (!loops && !text) return;
  snprintf(what, sizeof what, "%s%s%s changed", loops ? "loops" : "", loops && text ? " and " : "",
           text ? language : "");
  say(t, m, k, what);
}

static void compare_model(Tally *t, Model *was, Model *is) {
  static Model nothing;
  t->models++;
  t->kernels += is->kernel.n;
  if (was && str_eq(was->all, is->all)) return;
  if (!was) {
    was = &nothing;
  } else if (!str_eq(was->steps, is->steps)) {
    t->steps++;
    if (t->printed++ < t->limit)
      printf("%-7s %-24.*s steps changed  (%.*s; it was %.*s)\n", t->m->name, STR_ARG(is->name),
             STR_ARG(is->counts), STR_ARG(was->counts));
  }
  match(was, is);
  for (int64_t i = 0; i < is->kernel.n; i++) compare_kernel(t, is, &is->kernel.v[i]);
  for (int64_t i = 0; i < was->kernel.n; i++)
    if (!was->kernel.v[i].other) {
      t->removed++;
      say(t, is, &was->kernel.v[i], "removed");
    }
}

static void compare_gone(Tally *t, const Model *m) {
  t->removed += m->kernel.n;
  if (t->printed++ < t->limit) printf("%-7s %-24.*s removed\n", t->m->name, STR_ARG(m->name));
}

bool replay_compare(const ReplayGolden *g, const ReplayMachine *m, Str record) {
  Arena a;
  Record was, is;
  Tally t = {.m = m, .limit = g->limit};
  arena_init(&a);
  record_init(&was, &a);
  record_init(&is, &a);
  if (m->like) read_golden(g, m->like, &a, &was);
  read_golden(g, m->name, &a, &was);
  read_record(record, &a, &is);
  for (int64_t i = 0; i < is.name.n; i++)
    compare_model(&t, strmap_get(&was.by_name, is.name.v[i]),
                  strmap_get(&is.by_name, is.name.v[i]));
  for (int64_t i = 0; g->whole && i < was.name.n; i++)
    if (!strmap_has(&is.by_name, was.name.v[i]))
      compare_gone(&t, strmap_get(&was.by_name, was.name.v[i]));
  if (t.printed > t.limit)
    printf("%-7s ... and %lld more; --limit N prints more\n", m->name,
           (long long)(t.printed - t.limit));
  printf("%-7s %lld kernels of %lld models: ", m->name, (long long)t.kernels, (long long)t.models);
  if (t.printed)
    printf("%lld changed in loops, %lld in text, %lld added, %lld removed; steps of %lld models "
           "changed\n",
           (long long)t.loops, (long long)t.text, (long long)t.added, (long long)t.removed,
           (long long)t.steps);
  else
    printf("as recorded\n");
  arena_deinit(&a);
  return !t.printed;
}

// ---- writing ----

// Models that are equal in `like` are left out.
static void put_model(StrBuf *b, const Record *like, const Model *m) {
  const Model *same = strmap_get(&like->by_name, m->name);
  if (!same || !str_eq(same->all, m->all)) strbuf_put(b, m->all);
}

tenon_status replay_update(const ReplayGolden *g, const ReplayMachine *m, Str record, Diag *d) {
  Arena a;
  Record like, all;
  StrBuf b;
  arena_init(&a);
  strbuf_init(&b, &a);
  record_init(&like, &a);
  record_init(&all, &a);
  if (m->like) read_golden(g, m->like, &a, &like);
  if (!g->whole) read_golden(g, m->name, &a, &all);
  read_record(record, &a, &all);
  strbuf_printf(&b, HEAD, m->name);
  if (m->like) strbuf_printf(&b, "# Models that are not here are as on %s.\n", m->like);
  for (int64_t i = 0; i < all.name.n; i++)
    put_model(&b, &like, strmap_get(&all.by_name, all.name.v[i]));
  tenon_status s = file_write(golden_path(g, m->name, &a), b.p, b.n, d);
  if (!s) printf("%-7s written\n", m->name);
  arena_deinit(&a);
  return s;
}
