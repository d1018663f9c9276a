// profile.c -- the times of a profile, laid over the drawings.
//
// A profile names a step by the node whose kernel it is.  Passes keep names, so the step is found
// in the optimised graph, and explain.h says which nodes of the model went into its kernel.  Those
// share its time: each is given all of it, its share (all have the same), and how many they are.
//
// The file is untrusted input: what is not as expected is an error, a number out of range too.
#include "view/view.h"

#include <math.h>
#include <stdlib.h>

// ---- reading ----

static const char *text_of(const Json *j, Arena *a) {
  return j && j->kind == JSON_STRING ? str_copy(a, j->s) : NULL;
}

static bool is_number(const Json *j) {
  return j && (j->kind == JSON_INT || j->kind == JSON_FLOAT) && isfinite(j->f);
}

static int64_t int_of(const Json *j, int64_t other) {
  return j && j->kind == JSON_INT ? j->i : other;
}

// One of `steps`; the command writes milliseconds, the Python package nanoseconds.
static bool read_step(const Json *j, int64_t i, Arena *a, ViewStep *out) {
  const Json *ms = json_get(j, "ms"), *ns = json_get(j, "ns");
  if (!is_number(ms) && !is_number(ns)) return false;
  int64_t number = int_of(json_get(j, "step"), int_of(json_get(j, "index"), i));
  *out = (ViewStep){.node = text_of(json_get(j, "node"), a), .at = number};
  out->ms = is_number(ms) ? ms->f : ns->f / 1e6;
  out->inner = int_of(json_get(j, "function"), 0) > 0;
  return out->ms >= 0;
}

// One of `traceEvents`; others than of Tenon's steps are left out.
static bool read_event(const Json *j, int64_t i, Arena *a, ViewStep *out) {
  const Json *dur = json_get(j, "dur"), *args = json_get(j, "args");
  if (!is_number(dur) || dur->f < 0 || !args) return false;
  *out = (ViewStep){.node = text_of(json_get(args, "node"), a), .ms = dur->f / 1e3, .at = i};
  return true;
}

static int by_place(const void *a, const void *b) {
  const ViewStep *x = a, *y = b;
  if (x->inner != y->inner) return x->inner ? 1 : -1;
  return (x->at > y->at) - (x->at < y->at);
}

tenon_status view_read_profile(Str json, const char *file, Arena *a, Diag *d, ViewProfile *out) {
  Json root;
  *out = (ViewProfile){.file = file};
  Where base = d->base;
  d->base = (Where){.file = file};
  TRY(json_parse(a, json, d, &root));
  d->base = base;
  const Json *steps = json_get(&root, "steps"), *events = json_get(&root, "traceEvents");
  const Json *list = steps ? steps : events;
  if (!list || list->kind != JSON_ARRAY)
    return fail(d, TENON_EINVAL, (Where){.file = file},
                "not a profile: it has neither \"steps\" (tenon bench --profile --json) nor "
                "\"traceEvents\" (tenon bench --trace)");
  for (int64_t i = 0; i < list->n; i++) {
    ViewStep s;
    bool ok = steps ? read_step(&list->item[i], i, a, &s) : read_event(&list->item[i], i, a, &s);
    if (!ok && steps)
      return fail(d, TENON_EINVAL, (Where){.file = file}, "step %lld has no time", (long long)i);
    if (!ok) continue;
    if (!s.inner) out->total_ms += s.ms;
    vec_push(a, &out->step, s);
  }
  if (out->step.n > 1) qsort(out->step.v, (size_t)out->step.n, sizeof *out->step.v, by_place);
  return TENON_OK;
}

// ---- steps to nodes of the optimised graph ----

typedef struct Slot {  // a node of the optimised main body
  const Node *node;
  int32_t kernel;  // number in Explain, or -1
  int32_t next;    // slot of the same name, in order; -1: none
  double ms;       // < 0: not measured
} Slot;

typedef struct Times {
  View *v;
  ViewProfile *p;
  const Explain *x;
  VEC(Slot) slot;
  StrMap by_name;      // name -> next slot that no step has, plus 1
  int32_t *of_kernel;  // its slot
} Times;

static void list_slots(Times *t) {
  Arena *a = t->v->arena;
  IntMap kernel;
  intmap_init(&kernel, a);
  strmap_init(&t->by_name, a);
  t->of_kernel = arena_array(a, int32_t, t->x->kernel.n + 1);
  for (int64_t i = 0; i < t->x->kernel.n; i++)
    intmap_put(&kernel, t->x->kernel.v[i].node->id, (uint64_t)i);
  NodeList order = body_order(t->x->g, t->x->g->main, a);
  for (int64_t i = order.n - 1; i >= 0; i--) {
    uint64_t k;
    Slot s = {.node = order.v[i], .kernel = -1, .next = -1, .ms = -1};
    // No step: weights that were packed have the name of the node that reads them.
    if (s.node->op == OP_const || s.node->op == OP_param) continue;
    if (intmap_get(&kernel, s.node->id, &k)) {
      s.kernel = (int32_t)k;
      t->of_kernel[k] = (int32_t)t->slot.n;
    }
    if (s.node->name) {
      Str name = str_of(s.node->name);
      s.next = (int32_t)(intptr_t)strmap_get(&t->by_name, name) - 1;
      strmap_put(&t->by_name, name, (void *)(intptr_t)(t->slot.n + 1));
    }
    vec_push(a, &t->slot, s);
  }
}

static void give(Times *t, ViewStep *s, Slot *slot) {
  slot->ms = MAX(slot->ms, 0) + s->ms;
  s->placed = true;
  t->p->placed_ms += s->ms;
  t->p->nplaced++;
}

// The step's own node; steps of one name go to the nodes of that name in order.  Else the kernel
// that the node of that name was fused into.
static void place_step(Times *t, ViewStep *s) {
  if (!s->node) return;
  Str name = str_of(s->node);
  int32_t at = (int32_t)(intptr_t)strmap_get(&t->by_name, name) - 1;
  if (at >= 0) {
    int32_t next = t->slot.v[at].next;
    if (next >= 0) strmap_put(&t->by_name, name, (void *)(intptr_t)(next + 1));
    give(t, s, &t->slot.v[at]);
    return;
  }
  const ExplainPlace *place = strmap_get(&t->x->places, name);
  if (place && place->kernel >= 0) give(t, s, &t->slot.v[t->of_kernel[place->kernel]]);
}

// ---- times of drawn nodes ----

static IntMap index_nodes(const View *v, int64_t drawing) {
  IntMap at;
  intmap_init(&at, v->arena);
  const Drawing *d = v->drawing.v[drawing];
  for (int64_t i = 0; i < d->node.n; i++)
    if (d->node.v[i].kind == DRAW_OP) intmap_put(&at, d->node.v[i].node->id, (uint64_t)i);
  return at;
}

// Slots by name, the first of each.
static StrMap index_slots(const Times *t) {
  StrMap at;
  strmap_init(&at, t->v->arena);
  for (int64_t i = 0; i < t->slot.n; i++)  // from the last node to the first
    if (t->slot.v[i].node->name) strmap_put(&at, str_of(t->slot.v[i].node->name), &t->slot.v[i]);
  return at;
}

// Slots whose time a node of the model has a part in: the kernels that it was fused into, the one
// that a rule took it into, or the step of its own name.  Calls `each` with every one of them.
typedef void SlotFn(void *to, const Slot *s, int64_t members);
static void each_slot(const Times *t, const StrMap *by_name, const ExplainNode *n, SlotFn *each,
                      void *to, const int64_t *members) {
  bool any = false;
  for (const ExplainPlace *p = n->place; p; p = p->next) {
    if (p->kernel < 0) continue;
    each(to, &t->slot.v[t->of_kernel[p->kernel]], members ? members[t->of_kernel[p->kernel]] : 0);
    any = true;
  }
  const Slot *s = NULL;
  if (!any && !n->place && n->into >= 0) s = &t->slot.v[t->of_kernel[n->into]];
  if (!any && !s && n->node->name) s = strmap_get(by_name, str_of(n->node->name));
  if (s) each(to, s, members ? members[s - t->slot.v] : 0);
}

typedef struct Members {
  const Times *t;
  int64_t *n;  // by slot
} Members;

static void count_member(void *to, const Slot *s, int64_t members) {
  (void)members;
  Members *m = to;
  m->n[s - m->t->slot.v]++;
}

static void add_time(void *to, const Slot *s, int64_t members) {
  DrawNode *d = to;
  if (s->ms < 0) return;
  d->ms = MAX(d->ms, 0) + s->ms;
  d->share_ms += s->ms / (double)MAX(members, 1);
  d->shared = MAX(d->shared, members);
  d->timed = s->node->name;
}

static void set_before(Times *t) {
  const Explain *x = t->x;
  IntMap at = index_nodes(t->v, 0);
  StrMap by_name = index_slots(t);
  Members m = {t, arena_array(t->v->arena, int64_t, t->slot.n + 1)};
  for (int64_t i = 0; i < x->node.n; i++)
    each_slot(t, &by_name, &x->node.v[i], count_member, &m, NULL);
  for (int64_t i = 0; i < x->node.n; i++) {
    uint64_t k;
    if (!intmap_get(&at, x->node.v[i].node->id, &k)) continue;
    each_slot(t, &by_name, &x->node.v[i], add_time, &t->v->drawing.v[0]->node.v[k], m.n);
  }
}

// A kernel's body is drawn, too: its nodes share the kernel's time.
static void set_body(View *v, const DrawNode *kernel) {
  for (int64_t b = 0; b < kernel->body.n; b++) {
    Drawing *d = v->drawing.v[kernel->body.v[b].drawing];
    int64_t n = 0;
    for (int64_t i = 0; i < d->node.n; i++) n += d->node.v[i].kind == DRAW_OP;
    for (int64_t i = 0; i < d->node.n; i++) {
      if (d->node.v[i].kind != DRAW_OP) continue;
      d->node.v[i].ms = kernel->ms;
      d->node.v[i].share_ms = kernel->ms / (double)n;
      d->node.v[i].shared = n;
      d->node.v[i].timed = kernel->name;
    }
  }
}

static void set_after(Times *t, int64_t drawing) {
  IntMap at = index_nodes(t->v, drawing);
  for (int64_t i = 0; i < t->slot.n; i++) {
    const Slot *s = &t->slot.v[i];
    uint64_t k;
    if (s->ms < 0 || !intmap_get(&at, s->node->id, &k)) continue;
    DrawNode *d = &t->v->drawing.v[drawing]->node.v[k];
    d->ms = d->share_ms = s->ms;
    d->shared = 1;
    d->timed = s->node->name;
    if (s->kernel >= 0) set_body(t->v, d);
  }
}

// Steps in the bodies of branches and loops: by their own name.
static void set_inner(Times *t) {
  StrMap by_name;
  strmap_init(&by_name, t->v->arena);
  for (int64_t i = 0; i < t->p->step.n; i++) {
    ViewStep *s = &t->p->step.v[i];
    if (s->inner && s->node) strmap_put(&by_name, str_of(s->node), s);
  }
  for (int64_t i = 0; by_name.n && i < t->v->drawing.n; i++) {
    Drawing *d = t->v->drawing.v[i];
    for (int64_t k = 0; !d->main && k < d->node.n; k++) {
      DrawNode *n = &d->node.v[k];
      const ViewStep *s =
          n->kind == DRAW_OP && n->name && n->ms < 0 ? strmap_get(&by_name, str_of(n->name)) : NULL;
      if (!s) continue;
      n->ms = n->share_ms = s->ms;
      n->shared = 1;
      n->timed = s->node;
    }
  }
}

void view_set_times(View *v, ViewProfile *p, const Explain *x, int64_t after) {
  Times t = {.v = v, .p = p, .x = x};
  list_slots(&t);
  for (int64_t i = 0; i < p->step.n; i++)
    if (!p->step.v[i].inner) place_step(&t, &p->step.v[i]);
  set_before(&t);
  if (after >= 0) set_after(&t, after);
  set_inner(&t);
  v->profile = p;
}
