// record.c -- a model, or the samples of every op, as the text of a record (replay.h).
//
// A kernel stands once in a model.  The samples of an op are one model, `op/NAME`, and kernel `3.0`
// is the first one of its fourth sample: what an earlier sample has is not written again.
#include "replay.h"

#include "api/model.h"
#include "base/platform.h"
#include "sample.h"

#include <stdio.h>

enum { NAME_MAX_BYTES = 32 };  // of a schedule: it is for people

// The file's name without its ending; of `model.onnx`, the name of its folder.
static const char *base_name(Arena *a, const char *path) {
  const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
  const char *dot = strrchr(base, '.');
  Str name = {base, dot && dot > base ? dot - base : (int64_t)strlen(base)};
  if (slash && str_is(name, "model")) {
    const char *folder = slash;
    while (folder > path && folder[-1] != '/') folder--;
    name = (Str){folder, slash - folder};
  }
  return str_copy(a, name);
}

const char *replay_model_name(Arena *a, const ReplayTask *t) {
  const char *suffix = t->precision == REPLAY_BF16   ? "@bf16"
                       : t->precision == REPLAY_TF32 ? "@tf32"
                                                     : "";
  return t->path ? str_printf(a, "%s%s", base_name(a, t->path), suffix) : "op";
}

// ---- texts for people ----

static void print_text(const char *title, Str text) {
  printf("---- %s\n", title);
  fwrite(text.p, 1, (size_t)text.n, stdout);
}

static void dump_text(const char *folder, const char *file, Str text, Arena *a) {
  Diag d;
  diag_init(&d);
  if (file_write(str_printf(a, "%s/%s", folder, file), text.p, text.n, &d))
    fprintf(stderr, "%s\n", d.text);
}

static void give_texts(const ReplayTask *t, const ReplayOptions *o, const char *model,
                       const char *number, const ReplayKernel *k, Arena *a) {
  if (o->show && !strcmp(o->show, number)) {
    print_text(str_printf(a, "%s %s %s: loops", t->machine->name, model, number), k->loops);
    print_text(str_printf(a, "%s %s %s: %s", t->machine->name, model, number, t->machine->language),
               k->text);
  }
  if (!o->dump) return;
  char *flat = str_printf(a, "%s.%s.%s", t->machine->name, model, number);
  for (char *c = flat; *c; c++)
    if (*c == '/') *c = '_';
  dump_text(o->dump, str_printf(a, "%s.loop", flat), k->loops, a);
  dump_text(o->dump, str_printf(a, "%s.%s", flat, t->machine->language), k->text, a);
}

// ---- records ----

typedef struct Section {
  const ReplayTask *task;
  const ReplayOptions *o;
  const char *model;
  IntMap seen;  // kernels
  StrBuf kernels;
  uint64_t steps;
  int64_t nsteps, nhost;
} Section;

static void begin(Section *s, const ReplayTask *t, const ReplayOptions *o, const char *model,
                  Arena *a) {
  *s = (Section){.task = t, .o = o, .model = model};
  intmap_init(&s->seen, a);
  strbuf_init(&s->kernels, a);
}

static uint64_t hash_of(Str s) { return hash_bytes(s.p, s.n, 1); }

static void add_program(Section *s, const ReplayProgram *p, const char *prefix, Arena *a) {
  for (int64_t i = 0; i < p->nkernels; i++) {
    const ReplayKernel *k = &p->kernel[i];
    uint64_t loops = hash_of(k->loops), text = hash_of(k->text), both = hash_u64(loops) ^ text, yes;
    const char *number = str_printf(a, "%s%lld", prefix, (long long)i);
    if (intmap_get(&s->seen, both, &yes)) continue;
    intmap_put(&s->seen, both, 1);
    strbuf_printf(&s->kernels, "%s %08x %08x %.*s\n", number, (uint32_t)loops, (uint32_t)text,
                  NAME_MAX_BYTES, k->name);
    give_texts(s->task, s->o, s->model, number, k, a);
  }
  s->steps = hash_u64(s->steps ^ p->steps);
  s->nsteps += p->nsteps;
  s->nhost += p->nhost;
}

static void end(const Section *s, StrBuf *out) {
  strbuf_printf(out, "model %s %08x %lld steps", s->model, (uint32_t)s->steps,
                (long long)s->nsteps);
  if (s->nhost) strbuf_printf(out, ", %lld on the host", (long long)s->nhost);
  strbuf_putc(out, '\n');
  strbuf_put(out, strbuf_str(&s->kernels));
}

// The graph compiled; a failure is a part of the record, without its words.
static void add_graph(Section *s, Graph *g, const char *prefix, Arena *a) {
  static Diag d;
  ReplayProgram p;
  Trap t;
  diag_init(&d);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0)
    t.status = replay_compile(s->task->machine, s->task->precision, g, a, &d, &p);
  trap_leave(&t);
  if (t.status)
    strbuf_printf(&s->kernels, "%s %08x %08x %s\n", *prefix ? prefix : "-", 0, 0,
                  status_name(t.status));
  else
    add_program(s, &p, prefix, a);
}

static void record_samples(const ReplayTask *t, const ReplayOptions *o, const OpInfo *op, Arena *a,
                           StrBuf *out) {
  Section s;
  begin(&s, t, o, str_printf(a, "op/%s", op->name), a);
  for (int i = 0; op->samples[i]; i++) {
    static Diag d;
    Arena one;
    Graph *g = NULL;
    arena_init(&one);
    diag_init(&d);
    const char *text = sample_graph(&one, &(Sample){op, op->samples[i]});
    if (text && !graph_parse(str_of(text), NULL, &d, &g))
      add_graph(&s, g, str_printf(&one, "%d.", i), &one);
    else
      strbuf_printf(&s.kernels, "%d. %08x %08x cannot be read\n", i, 0, 0);
    graph_free(g);
    arena_deinit(&one);
  }
  end(&s, out);
}

static bool record_model(const ReplayTask *t, const ReplayOptions *o, Arena *a, StrBuf *out) {
  static Diag d;
  Section s;
  Model *m = NULL;
  diag_init(&d);
  begin(&s, t, o, replay_model_name(a, t), a);
  tenon_status status = model_open(t->path, &(ModelOptions){0}, &d, &m);
  if (!status) status = model_need_supported(m, &d);
  if (status) {
    fprintf(stderr, "%s\n", d.text);
  } else {
    add_graph(&s, m->graph, "", a);
    m->graph->diag = m->diag;
    end(&s, out);
  }
  model_free(m);
  return !status;
}

bool replay_record(const ReplayTask *t, const ReplayOptions *o, Arena *a, StrBuf *out) {
  if (t->path) return record_model(t, o, a, out);
  for (int i = 0; i < OP_COUNT; i++)
    if (op_table[i]->samples) record_samples(t, o, op_table[i], a, out);
  return true;
}
