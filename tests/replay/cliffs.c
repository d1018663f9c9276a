// cliffs.c -- counts kernels that leave a machine idle: on the host, on one thread, on one lane
// (replay.h).
//
// No time is measured: the loops of a kernel say how often each statement is done, and by how many.
// A kernel counts where more than CLIFF_ELEMENTS elements are
//
//   host    evaluated by the host, node by node;
//   thread  one work item on a CPU, one thread on a GPU: nothing divides it;
//   lane    on a CPU done by statements that are in no vector loop and no sum of several lanes,
//           where those are a good part of the kernel; on a GPU by few threads, or by one of many:
//           an item is one thread, and there are no more items than this, or one has more elements.
//
// On a CPU one work item of vectors counts from where the optimiser divides sums among several
// (traits_split_elements): up to there a second core has nothing to gain.
//
// Op samples are tiny, so sizes of their operands are made large, where the op still takes them.
// Symbols of models stand for large sizes.
//
// What no machine could divide is not counted: of a recurrent layer one step, since steps follow
// one another, and on the host strings and lists.
#include "replay.h"

#include "api/model.h"
#include "compile/compile.h"
#include "ir/traits.h"
#include "loop/loop.h"
#include "lower/template.h"
#include "sample.h"

#include <stdio.h>
#include <stdlib.h>

enum { CLIFF_ELEMENTS = 4096, LARGE = 1 << 16, SYMBOL_SIZE = 8192, LANE_SHARE = 8 };

// Ops that stay on the host for good.
static const char *const host_only[] = {
#define HOST_ONLY(op, why) op,
#define HOST_YET(op, why)
#include "lower/host_only.def"
#undef HOST_ONLY
#undef HOST_YET
    NULL};

static bool stays_on_host(const char *op) {
  for (int i = 0; host_only[i]; i++)
    if (!strcmp(host_only[i], op)) return true;
  return false;
}

// ---- the work of a kernel ----

typedef struct Work {
  const LoopKernel *k;
  int64_t *value;  // of symbols, by slot; loop variables are 0
  bool *bound;
  double total, scalar;  // elements of statements, and of those in no vector
  bool tile;             // a thread block forms a tile
} Work;

static double size_of(const Work *w, Dim e) {
  int64_t n;
  if (!ie_eval(e, w->value, w->bound, w->k->pool->nsyms, &n)) n = e->hi;
  return n > 0 ? (double)n : 0;
}

static void add(Work *w, double times, bool vector) {
  w->total += times;
  if (!vector) w->scalar += times;
}

static void count_block(Work *w, const LoopBlock *b, double times, bool vector) {
  for (int64_t i = 0; i < b->n; i++) {
    const LoopStmt *s = b->v[i];
    double inner = times;
    bool tile = s->kind == LS_MMA || s->kind == LS_ATTENTION, lanes = vector || tile;
    w->tile |= tile;
    if (s->kind == LS_FOR && s->loop != LOOP_WHERE) {
      double n = size_of(w, s->extent);
      inner *= n;
      lanes |= s->loop == LOOP_VECTOR && n > 1;
    }
    if (s->kind == LS_REDUCE) {
      inner *= size_of(w, s->extent);
      lanes |= s->lanes > 1;
      add(w, inner, lanes);
    }
    if (s->kind == LS_STORE) add(w, times, vector);
    count_block(w, &s->body, inner, lanes);
    count_block(w, &s->orelse, inner, lanes);
  }
}

static Work work_of(const Program *p, const ProgStep *s, const LoopKernel *k, const int64_t *sym,
                    Arena *a) {
  int32_t n = k->pool->nsyms;
  Work w = {.k = k,
            .value = arena_array(a, int64_t, MAX(n, 1)),
            .bound = arena_array(a, bool, MAX(n, 1))};
  for (int32_t i = 0; i < n; i++) w.value[i] = 0, w.bound[i] = true;
  for (int32_t i = 0; i < k->ndims; i++)
    if (!prog_eval(p, s->dim[i], sym, &w.value[k->dim[i]->slot]))
      w.value[k->dim[i]->slot] = SYMBOL_SIZE;
  count_block(&w, &k->body, 1, false);
  return w;
}

// Rounds of the longest serial loop of a work item.
static double steps_of(const Work *w) {
  const LoopBlock *b = &w->k->body;
  double most = 1;
  if (b->n == 1 && b->v[0]->kind == LS_FOR && b->v[0]->loop == LOOP_PARALLEL) b = &b->v[0]->body;
  for (int64_t i = 0; i < b->n; i++)
    if (b->v[i]->kind == LS_FOR && b->v[i]->loop == LOOP_SERIAL)
      most = MAX(most, size_of(w, b->v[i]->extent));
  return most;
}

// Why the machine could do better; NULL: it is used.
static const char *idle(const ReplayMachine *m, const Work *w, const char *template) {
  double items = size_of(w, loop_items(w->k));
  int64_t threads = loop_threads(w->k);
  double work = strcmp(template, "rnn") ? w->total : w->total / steps_of(w);
  if (work <= CLIFF_ELEMENTS) return NULL;
  if (m->cpu) {
    static const TargetTraits cpu = {0};
    bool vectors = w->scalar <= CLIFF_ELEMENTS || w->scalar * LANE_SHARE <= w->total;
    if (items <= 1 && !(vectors && work <= (double)traits_split_elements(&cpu))) return "thread";
    return vectors ? NULL : "lane";
  }
  if (threads > 1 || w->tile) return NULL;
  if (items <= 1) return "thread";
  return items <= CLIFF_ELEMENTS || work / items > CLIFF_ELEMENTS ? "lane" : NULL;
}

// ---- the work of the host ----

static double elements(const Program *p, const ProgValue *v, const int64_t *sym) {
  double n = 1;
  for (int i = 0; i < v->rank; i++) {
    int64_t size;
    if (v->dim[i] < 0 || !prog_eval(p, v->dim[i], sym, &size)) size = SYMBOL_SIZE;
    n *= (double)size;
  }
  return v->rank < 0 ? SYMBOL_SIZE : n;
}

// Of its largest operand or result; constants are read whole by nobody.  0 where nothing is made,
// and of strings and lists.
static double host_elements(const Program *p, const ProgFunction *f, const ProgStep *s,
                            const int64_t *sym) {
  double most = 0, made = 0;
  for (int32_t i = 0; i < s->nin + s->nout; i++) {
    int32_t v = i < s->nin ? s->in[i] : s->out[i - s->nin];
    if (v < 0) continue;
    const ProgValue *at = &f->value[v];
    if (at->kind != VK_TENSOR || at->dtype == DT_STRING) return 0;
    double n = elements(p, at, sym);
    if (i >= s->nin) made += n;
    if (at->place != PLACE_CONST) most = MAX(most, n);
  }
  return made > 0 ? most : 0;
}

// ---- one program ----

typedef struct Count {
  const char *kind, *what;
  int64_t n;
} Count;
typedef struct Counts {
  Arena *arena;
  VEC(Count) row;
  const char *sample;  // whose kernels are explained on the standard error; NULL: none
} Counts;

static void note(Counts *c, const char *kind, const char *what) {
  for (int64_t i = 0; i < c->row.n; i++)
    if (!strcmp(c->row.v[i].kind, kind) && !strcmp(c->row.v[i].what, what)) {
      c->row.v[i].n++;
      return;
    }
  Count row = {kind, str_copy(c->arena, str_of(what)), 1};
  vec_push(c->arena, &c->row, row);
}

// The kernels that had to be done node by node, one of them with this op.
static void explain_host(const Counts *c, const ReplayMachine *m, const Compiled *made,
                         const char *op) {
  if (!c->sample) return;
  fprintf(stderr, "%-7s host   %s: %s\n", m->name, c->sample, op);
  for (int64_t i = 0; i < made->nhost; i++)
    fprintf(stderr, "%-7s        %s\n", m->name,
            made->left[i].why ? made->left[i].why : "no reason was given");
}

static void count_program(const ReplayMachine *m, const Compiled *c, Counts *out, Arena *a) {
  const Program *p = c->program;
  int64_t *sym = arena_array(a, int64_t, MAX(p->nsyms, 1));
  for (int32_t i = 0; i < p->nsyms; i++) sym[i] = MIN(MAX(SYMBOL_SIZE, p->sym[i].lo), p->sym[i].hi);
  for (int32_t i = 0; i < p->nfunctions; i++)
    for (int32_t j = 0; j < p->function[i]->nsteps; j++) {
      const ProgStep *s = &p->function[i]->step[j];
      if (s->kind == STEP_HOST && !stays_on_host(s->op) &&
          host_elements(p, p->function[i], s, sym) > CLIFF_ELEMENTS) {
        note(out, "host", s->op);
        explain_host(out, m, c, s->op);
      }
      if (s->kind != STEP_KERNEL) continue;
      const Lowered *lw = c->kernel[s->kernel].lowered;
      Work w = work_of(p, s, lw->kernel, sym, a);
      const char *kind = idle(m, &w, lw->schedule.t->name);
      if (kind) note(out, kind, lw->schedule.t->name);
      if (kind && out->sample)
        fprintf(stderr, "%-7s %-6s %s: %s, %.0f elements, %.0f of them in no vector\n", m->name,
                kind, out->sample, lw->schedule.t->name, w.total, w.scalar);
    }
}

static void count_graph(const ReplayTask *t, Graph *g, Counts *out, Arena *a) {
  static Diag d;
  CompileReport made;
  Trap trap;
  diag_init(&d);
  trap_enter(&trap, &d);
  if (setjmp(trap.env) == 0) trap.status = replay_build(t->machine, t->precision, g, a, &d, &made);
  trap_leave(&trap);
  if (trap.status) {
    note(out, "fails", status_name(trap.status));
    if (out->sample) fprintf(stderr, "%-7s fails  %s: %s\n", t->machine->name, out->sample, d.text);
    return;
  }
  count_program(t->machine, &made.compiled, out, a);
  program_release(made.program);
}

// ---- large samples ----

typedef enum { LAST_AXIS, FIRST_AXIS, ALL_AXES, WAYS } Way;

// Operand types of a sample with larger numbers: of the first operand or, of ALL_AXES, of all.
// Constants, whose elements are written out, stay as they are.
static const char *enlarge(Arena *a, const char *text, Way way, int64_t factor) {
  StrBuf b;
  int operand = 0;
  strbuf_init(&b, a);
  for (const char *p = text; *p; p++) {
    strbuf_putc(&b, *p);
    if (*p == ')') {
      strbuf_puts(&b, p + 1);
      break;
    }
    if (*p == '{') {  // the elements of a constant
      const char *end = strchr(p, '}');
      if (!end) return NULL;
      strbuf_put(&b, (Str){p + 1, end - p});
      p = end;
    }
    if (*p != '[') continue;
    const char *end = strchr(p, ']');
    if (!end) return NULL;
    bool constant = end[1] == '{' || (end[1] == ' ' && end[2] == '{');
    bool takes = !constant && (way == ALL_AXES || !operand);
    operand += !constant;
    for (p++; p < end;) {
      const char *comma = memchr(p, ',', (size_t)(end - p)), *stop = comma ? comma : end;
      int64_t n;
      bool axis = way == ALL_AXES || (way == LAST_AXIS ? !comma : p[-1] == '[');
      Str word = {p + strspn(p, " "), stop - p - (int64_t)strspn(p, " ")};
      if (takes && axis && str_to_i64(word, &n) && n > 1)
        strbuf_printf(&b, "%lld", (long long)(n * factor));
      else
        strbuf_put(&b, (Str){p, stop - p});
      if (comma) strbuf_putc(&b, ',');
      p = comma ? comma + 1 : end;
    }
    strbuf_putc(&b, ']');
  }
  return strbuf_text(&b);
}

// The sample as a graph whose first operand is large; NULL where the op takes none.  Samples begin
// with different ways.
static Graph *large_graph(const OpInfo *op, int number, Arena *a, const char **out_sample) {
  static Diag d;
  Graph *g = NULL;
  // A model of ai.onnx.ml has as many columns as its attributes say: it takes more rows.
  bool model = op->onnx && !strncmp(op->onnx, "ai.onnx.ml.", 11);
  int first = model ? FIRST_AXIS : number;
  for (int i = 0; i < WAYS; i++) {
    Way way = (Way)((first + i) % WAYS);
    const char *text = enlarge(a, op->samples[number], way, way == ALL_AXES ? 16 : LARGE / 8);
    const char *graph = text ? sample_graph(a, &(Sample){op, text}) : NULL;
    diag_init(&d);
    *out_sample = str_printf(a, "%s%s", op->name, text ? text : "");
    if (graph && !graph_parse(str_of(graph), NULL, &d, &g)) return g;
    graph_free(g);
    g = NULL;
  }
  return NULL;
}

// ---- records ----

static void print_counts(const Counts *c, const char *model, StrBuf *out) {
  strbuf_printf(out, "model  %s\n", model);
  for (int64_t i = 0; i < c->row.n; i++)
    strbuf_printf(out, "%-6s %-32s %-20s %lld\n", c->row.v[i].kind, model, c->row.v[i].what,
                  (long long)c->row.v[i].n);
}

static void count_samples(const ReplayTask *t, const OpInfo *op, bool why, Arena *a, StrBuf *out) {
  Counts c = {.arena = a};
  for (int i = 0; op->samples[i]; i++) {
    Arena one;
    arena_init(&one);
    const char *sample;
    Graph *g = large_graph(op, i, &one, &sample);
    c.sample = why ? sample : NULL;
    if (g) count_graph(t, g, &c, &one);
    graph_free(g);
    arena_deinit(&one);
  }
  print_counts(&c, str_printf(a, "op/%s", op->name), out);
}

static bool count_model(const ReplayTask *t, bool why, Arena *a, StrBuf *out) {
  static Diag d;
  Counts c = {.arena = a, .sample = why ? t->path : NULL};
  Model *m = NULL;
  diag_init(&d);
  tenon_status status = model_open(t->path, &(ModelOptions){0}, &d, &m);
  if (!status) status = model_need_supported(m, &d);
  if (status) {
    fprintf(stderr, "%s\n", d.text);
  } else {
    count_graph(t, m->graph, &c, a);
    m->graph->diag = m->diag;
    print_counts(&c, replay_model_name(a, t), out);
  }
  model_free(m);
  return !status;
}

bool cliffs_record(const ReplayTask *t, const ReplayOptions *o, Arena *a, StrBuf *out) {
  if (t->path) return count_model(t, o->why, a, out);
  for (int i = 0; i < OP_COUNT; i++)
    if (op_table[i]->samples) count_samples(t, op_table[i], o->why, a, out);
  return true;
}
