// kernel_steps.c -- makes kernel steps: labels, schedules, row buckets, arguments, grain.
//
// Kernels with equal text are one.  On targets with MMA a kernel with a dynamic number of rows is
// lowered for several row buckets.  Those with different loops become steps of their own, each with
// a condition on the rows.  If the device declines a kernel, the host gets it.
//
// Needs:      a plan of the function; `read_schedules` has parsed the `--schedule` rules.
// Guarantees: EUNSUPPORTED where no template takes the kernel or a size is not known before it
//             runs.  A result stays over an operand only if lower_may_overwrite allows it.  A
//             number of rows always takes the same kernel.
#include "lower/program/builder.h"

#include "base/budget.h"
#include "lower/template.h"
#include "lower/tuned.h"
#include "lower/workload.h"

enum { SHARE_NS = 1500 };

// ---- writing over an operand ----

typedef struct Overwrite {
  const LoopKernel *k;
  int32_t operand, result;
  Dim stored;  // the index of the one store; NULL before it is seen
  bool bad;
} Overwrite;

static void look_at_expr(Overwrite *o, const LoopExpr *e, Dim stored) {
  if (!e || o->bad) return;
  if (e->kind == LX_LOAD && e->buffer == o->operand)
    o->bad = e->index != stored || e->dtype != o->k->buffer[e->buffer].dtype;
  for (int i = 0; i < 3; i++) look_at_expr(o, e->src[i], stored);
}

static void look_at_block(Overwrite *o, const LoopBlock *b) {
  for (int64_t i = 0; i < b->n && !o->bad; i++) {
    const LoopStmt *s = b->v[i];
    bool stores = s->kind == LS_STORE && s->buffer == o->result;
    if (stores && (o->stored || s->value->dtype != o->k->buffer[s->buffer].dtype)) o->bad = true;
    if (stores) o->stored = s->index;
    // An operand read by another statement may be read after the store of its element.
    look_at_expr(o, s->value, stores ? s->index : NULL);
    look_at_block(o, &s->body);
    look_at_block(o, &s->orelse);
  }
}

bool lower_may_overwrite(const LoopKernel *k, int32_t operand, int32_t result) {
  Overwrite o = {.k = k, .operand = operand, .result = result};
  look_at_block(&o, &k->body);
  return !o.bad;
}

// ---- reading an operand ----

static bool expr_reads(const LoopExpr *e, int32_t operand) {
  if (!e) return false;
  bool reads = e->kind == LX_LOAD && e->buffer == operand;
  for (int i = 0; i < 3 && !reads; i++) reads = expr_reads(e->src[i], operand);
  return reads;
}

static bool block_reads(const LoopBlock *b, int32_t operand) {
  bool reads = false;
  for (int64_t i = 0; i < b->n && !reads; i++) {
    const LoopStmt *s = b->v[i];
    reads = expr_reads(s->value, operand) || block_reads(&s->body, operand) ||
            block_reads(&s->orelse, operand);
  }
  return reads;
}

// Whether a kernel may write its result where an operand lies of which the result has most elements
// (node_in_place).
static bool may_write_in_place(const Lowered *lw, int32_t operand) {
  const LoopKernel *k = lw->kernel;
  for (int32_t i = 0; i < k->nargs; i++)
    for (int32_t r = 0; r < k->nargs; r++)
      if (lw->arg[i].kind == LOWER_OPERAND && lw->arg[i].index == operand &&
          lw->arg[r].kind == LOWER_RESULT && block_reads(&k->body, i) &&
          !lower_may_overwrite(k, i, r))
        return false;
  return true;
}

// ---- kernels ----

static int64_t kernels_on(const ProgBuilder *b, int device) {
  int64_t n = 0;
  for (int64_t i = 0; i < b->prog_kernel.n; i++) n += b->prog_kernel.v[i].device == device;
  return n;
}

static int32_t add_kernel(ProgBuilder *b, const Lowered *lw, Str t, int device) {
  LoopKernel *k = lw->kernel;
  void *have = strmap_get(&b->texts, kernel_key(b, t, device));
  if (have) return (int32_t)((intptr_t)have - 1);
  Arena *pa = &b->p->arena;
  ProgKernel pk = {.scratch_bytes = loop_scratch_bytes(k),
                   .device = (uint8_t)device,
                   .entry = device ? kernels_on(b, device) : 0,
                   .group = (int32_t)MAX(loop_threads(k), 1),
                   .shared_bytes = loop_shared_bytes(k),
                   .nargs = k->nargs,
                   .ndims = k->ndims,
                   .nchecks = k->nchecks};
  const char *text = k->schedule, *fields = strchr(text, ' ');
  pk.name = keep_name(b, schedule_name(b->a, lw->schedule));
  pk.template_name = keep_name(b, lw->schedule.t->name);
  pk.schedule = keep_name(b, fields ? fields + 1 : "");
  pk.check = arena_array(pa, const char *, MAX(k->nchecks, 1));
  for (int32_t i = 0; i < k->nchecks; i++) pk.check[i] = keep_name(b, k->check[i]);
  Lowered *copy = arena_new(b->a, Lowered);
  *copy = *lw;
  vec_push(pa, &b->prog_kernel, pk);
  vec_push(b->a, &b->kernel, ((KernelText){.name = pk.name, .text = t, .lowered = copy}));
  strmap_put(&b->texts, kernel_key(b, t, device), (void *)(intptr_t)b->kernel.n);
  return (int32_t)(b->kernel.n - 1);
}

typedef struct ToGraph {
  const Lowered *lw;
  IntPool *pool;
} ToGraph;

// A dim of the kernel as the graph says it.
static Dim to_graph(void *ctx, Dim d) {
  const ToGraph *t = ctx;
  for (int32_t i = 0; i < t->lw->kernel->ndims; i++)
    if (t->lw->kernel->dim[i] == d) return t->lw->dim[i];
  return t->pool->poison;
}

static int32_t argument(FuncBuilder *f, const Node *n, const LowerArg *arg, const int32_t *out) {
  switch ((LowerArgKind)arg->kind) {
  case LOWER_OPERAND: return value_of(f, n->src[arg->index]);
  case LOWER_RESULT: return out[arg->index];
  case LOWER_CONST: return value_of(f, arg->node);
  case LOWER_PACKED: break;
  }
  return const_value(f, build_packed(f->b, arg->node, &arg->pack), arg->node->name);
}

// Arguments that are read or written, by their values.  Nothing is copied to a device that no
// statement there reads, such as sizes that are numbers of the loops by now: the first result
// stands in for it.
static int32_t *arguments(FuncBuilder *f, const Node *n, const Lowered *lw, int device,
                          const int32_t *out) {
  const LoopKernel *k = lw->kernel;
  int32_t *arg = arena_array(&f->b->p->arena, int32_t, MAX(k->nargs, 1));
  for (int32_t i = 0; i < k->nargs; i++) {
    bool unread = device && lw->arg[i].kind == LOWER_OPERAND && !block_reads(&k->body, i);
    arg[i] = unread ? out[0] : argument(f, n, &lw->arg[i], out);
  }
  return arg;
}

// Results that may not lie where the plan puts them leave the arena.
static void separate(FuncBuilder *f, const Lowered *lw, const int32_t *arg) {
  const LoopKernel *k = lw->kernel;
  for (int32_t r = 0; r < k->nargs; r++) {
    ProgValue *to = &f->value.v[arg[r]];
    if (lw->arg[r].kind != LOWER_RESULT || to->place != PLACE_ARENA) continue;
    for (int32_t o = 0; o < k->nargs; o++) {
      const ProgValue *from = &f->value.v[arg[o]];
      if (lw->arg[o].kind == LOWER_RESULT || from->place != PLACE_ARENA || from->slot != to->slot ||
          arg[o] == arg[r])
        continue;
      if (from->at >= 0 && to->at >= 0 && from->at != to->at) continue;  // two adjacent parts
      if (!lower_may_overwrite(k, o, r)) to->place = PLACE_HEAP;
    }
  }
}

bool size_bound(const FuncBuilder *f, Dim e) {
  uint64_t yes;
  if (e->kind == IE_CONST) return true;
  if (e->kind == IE_SYM) return intmap_get(&f->bound, (uint64_t)e->slot, &yes);
  if (e->kind == IE_POISON) return false;
  if (e->kind != IE_SUM) return size_bound(f, e->a) && size_bound(f, e->b);
  for (int i = 0; i < e->nterms; i++)
    for (int k = 0; k < e->term[i].natoms; k++)
      if (!size_bound(f, e->term[i].atom[k])) return false;
  return true;
}

// Whether every size of the kernel has its value when the step is done.
static bool sizes_known(FuncBuilder *f, const Lowered *lw, const int32_t *expr) {
  for (int32_t i = 0; i < lw->kernel->ndims; i++) {
    if (expr[i] >= 0 && size_bound(f, lw->dim[i])) continue;
    StrBuf b;
    strbuf_init(&b, f->b->a);
    strbuf_puts(&b, "the size ");
    ie_print(&b, lw->dim[i]);
    strbuf_puts(&b, " is not known before it runs");
    f->b->why = strbuf_text(&b);
    return false;
  }
  return true;
}

// How many items are worth a thread's while: as many as take it three times what it takes to hear
// of them.
static int64_t grain_of(const ProgBuilder *b, const ProgStep *st, Dim items) {
  int64_t n;
  double ns = cost_ns(st->flops, st->bytes);
  if (!ie_eval(items, b->sizes.value, b->sizes.known, b->sizes.n, &n) || n <= 0 || ns <= 0)
    return 1;
  double grain = SHARE_NS * (double)n / ns;
  return grain < 1 ? 1 : grain < 1e15 ? (int64_t)grain : (int64_t)1e15;
}

const char *host_kernel_ops(Arena *a, Graph *g, const HostKernel *k) {
  StrBuf b;
  NodeList all = body_order(g, ((const fused_attrs *)k->node->attrs)->body, a);
  strbuf_init(&b, a);
  for (int64_t i = 0; i < all.n; i++) {
    const Node *n = all.v[i];
    if (n->op == OP_param || n->op == OP_const || n->op == OP_proj || n == g->none) continue;
    strbuf_printf(&b, "%s%s", b.n ? ", " : "", op_name(n));
  }
  return strbuf_text(&b);
}

// Loops that are accepted, of n or of the same with one name for equal sizes; and their text.
static tenon_status lower_accepted(FuncBuilder *f, const Node *n, const Node *same, int device,
                                   Lowered *lw, Str *text) {
  ProgBuilder *b = f->b;
  int64_t before = b->lowering.tried.n;
  const char *nothing = "no template takes it";
  b->why = nothing;
  b->device = device;
  b->lowering.target = device ? b->o->device[device] : b->o->target;
  tenon_status s = lower_kernel(&b->lowering, same, lw);
  if (s == TENON_EUNSUPPORTED && same != n) {
    b->lowering.tried.n = before;  // said once
    s = lower_kernel(&b->lowering, n, lw);
  }
  // The last row takes whatever has loops at all, so what it lacked is the reason.
  if (s == TENON_EUNSUPPORTED && b->why == nothing && b->lowering.refused.n)
    b->why = b->lowering.refused.v[b->lowering.refused.n - 1].why;
  *text = b->text;
  return s;
}

void build_checks(FuncBuilder *f, const SameDims *all, ProgStep *st) {
  Arena *pa = &f->b->p->arena;
  int32_t n = (int32_t)all->v.n;
  int32_t *same = arena_array(pa, int32_t, MAX(n, 1)), *as = arena_array(pa, int32_t, MAX(n, 1));
  const char **what = arena_array(pa, const char *, MAX(n, 1));
  for (int32_t i = 0; i < n; i++) {
    same[i] = build_expr(f->b, all->v.v[i].a);
    as[i] = build_expr(f->b, all->v.v[i].b);
    what[i] = keep_name(f->b, all->v.v[i].what);
  }
  st->nsame = n;
  st->same = same;
  st->as = as;
  st->what = what;
}

// Whether the device has code for it: EUNSUPPORTED where it has none.
static tenon_status taken(ProgBuilder *b, const Lowered *lw, Str text, int device) {
  if (!device || !b->o->takes || strmap_get(&b->texts, kernel_key(b, text, device)))
    return TENON_OK;
  return b->o->takes(b->o->device_ctx, device, lw->kernel, &b->why);
}

// ---- kernels by size ----
//
// A schedule that is good for a few rows is not for many.  On machines with tiles a kernel with a
// dynamic number of rows is made for a few sizes, and each whose loops are others is a step of its
// own, left out where the number is not one of its own: a number always takes the same kernel.

typedef struct Variant {
  const char *label;
  ScheduleRule *rule;          // that it is made by; NULL: none
  const TunedSchedule *tuned;  // that was measured for it; NULL: none
  const char *tuned_why;       // it was not taken; NULL: it was
  Str workload;                // where somebody asks
  Lowered lw;
  Str text;
  int32_t *dim, items;  // expressions
  int32_t kernel, when;
  Dim item_count;
  int64_t first, last;  // rows that it is for
} Variant;

// Row buckets: the most rows of each, and the number that its schedule is tuned for.  The smallest
// is made where a template asks for it.
static const struct {
  int64_t bucket_max, tuned_for;
} row_sizes[] = {{8, 8}, {128, 128}, {256, 128}, {2048, 1024}, {16384, 4096}, {INT64_MAX, 32768}};
enum { ROW_SIZES = ARRAY_LEN(row_sizes), ITEM_ROWS = 16 };

// With the rows where they have buckets; empty where nobody asks.
static Str workload_of(ProgBuilder *b, const Node *n, const LowerTarget *t) {
  const Lowering *lo = &b->lowering;
  if (!b->o->tuned && !b->o->workloads) return (Str){0};
  Str text = workload_text(b->g, n, b->a);
  if (!lo->in_place && !lo->tuned_for && !t->batch_invariant) return text;
  return str_of(str_printf(b->a, "%s in_place=%d rows=%lld batch_invariant=%d", text.p,
                           lo->in_place, (long long)lo->tuned_for, t->batch_invariant));
}

// The measured schedule of the machine that the kernel is made for.
static void find_tuned(FuncBuilder *f, const Node *n, int device, Variant *v) {
  ProgBuilder *b = f->b;
  const TunedSchedules *all = b->o->tuned;
  const LowerTarget *t = device ? &b->o->device[device] : &b->o->target;
  v->workload = workload_of(b, n, t);
  v->tuned = NULL;
  if (all && !v->rule && !strcmp(all->machine, tuned_machine(t, b->a)))
    v->tuned = tuned_find(all, workload_key(v->workload, b->a));
  b->lowering.tuned = v->tuned;
  b->lowering.tuned_reorder = all && all->reorder;
}

// With tuned_strict no kernel is made otherwise.
static tenon_status check_tuned(FuncBuilder *f, const Variant *v) {
  ProgBuilder *b = f->b;
  if (!b->o->tuned || !b->o->tuned_strict || v->rule || (v->tuned && !v->tuned_why))
    return TENON_OK;
  if (!v->tuned)
    return fail(b->diag, TENON_EINVAL, NOWHERE,
                "kernel '%s': %s has no schedule for its workload %s on this machine", v->label,
                b->o->tuned->name, workload_key(v->workload, b->a));
  return fail(b->diag, TENON_EINVAL, NOWHERE,
              "kernel '%s': the schedule '%s' of %s is not legal: %s", v->label, v->tuned->schedule,
              b->o->tuned->name, v->tuned_why);
}

// Loops with the sizes that they need.
static tenon_status lower_variant(FuncBuilder *f, const Node *n, const Node *same, int device,
                                  Variant *v) {
  ProgBuilder *b = f->b;
  IntPool *dims = &b->g->dims;
  v->rule = find_schedule(b, n, v->label);
  b->lowering.label = v->label;
  b->lowering.forced = v->rule;
  find_tuned(f, n, device, v);
  TRY(lower_accepted(f, n, same, device, &v->lw, &v->text));
  v->tuned_why = b->lowering.tuned_why;
  TRY(check_tuned(f, v));
  const LoopKernel *k = v->lw.kernel;
  v->dim = arena_array(&b->p->arena, int32_t, MAX(k->ndims, 1));
  for (int32_t i = 0; i < k->ndims; i++) v->dim[i] = build_expr(b, v->lw.dim[i]);
  v->item_count = ie_map(dims, loop_items(k), to_graph, &(ToGraph){&v->lw, dims});
  v->items = build_expr(b, v->item_count);
  b->why = "its loops read the state that they write";
  if (b->lowering.in_place && !may_write_in_place(&v->lw, node_in_place(n)))
    return TENON_EUNSUPPORTED;
  b->why = "its number of work items is not known before it runs";
  return v->items < 0 || !sizes_known(f, &v->lw, v->dim) ? TENON_EUNSUPPORTED : TENON_OK;
}

// The size that stands for those from `first` on: where an item has many rows itself, as an image
// has pixels, the fewest items.
static int64_t size_for(Dim rows, int64_t first, int64_t about) {
  bool of_items = rows->nterms == 1 && rows->term->coef >= ITEM_ROWS;
  int64_t fewest = of_items ? MAX(rows->lo, rows->term->coef) : 0;
  return fewest > 0 && fewest >= first ? fewest : MIN(about, rows->hi);
}

// 0 where the rows are not the variant's.
static int32_t when_rows(ProgBuilder *b, Dim rows, const Variant *v) {
  IntPool *p = &b->g->dims;
  Dim at_most = NULL, at_least = NULL;
  if (v->last < INT64_MAX) at_most = ie_div(p, ie_const(p, v->last), ie_max(p, rows, p->one));
  if (v->first > 0) at_least = ie_div(p, rows, ie_const(p, v->first));
  return build_expr(b, !at_most ? at_least : !at_least ? at_most : ie_min(p, at_most, at_least));
}

// The kernel for some size alone where nothing was chosen by one, or the loops for another cannot
// be made.
static tenon_status lower_sizes(FuncBuilder *f, const Node *n, const Node *same, int device,
                                Variant *v, int *count) {
  Lowering *lo = &f->b->lowering;
  Variant all[ROW_SIZES] = {{.first = 0}};
  int made = 0;
  *count = 1;
  lo->tuned_for = lo->bucket_max = 0;
  lo->small_bucket = false;
  const char *name = f->b->label;
  v[0] = (Variant){.label = name, .when = -1, .last = INT64_MAX};
  TRY(lower_variant(f, n, same, device, &v[0]));
  Dim rows = lo->bucket_dim;
  int begin = lo->small_bucket ? 0 : 1;
  if (!lo->target.traits.mma || !rows || ie_is_poison(rows)) return TENON_OK;
  for (int i = begin; i < ROW_SIZES; i++) {
    int64_t first = i > begin ? row_sizes[i - 1].bucket_max + 1 : 0, last = row_sizes[i].bucket_max;
    if (rows->hi < first || rows->lo > last) continue;
    all[made] = (Variant){.first = first, .last = last};
    all[made].label = str_printf(f->b->a, "%s@%lld", name, (long long)(made ? first : 0));
    lo->tuned_for = size_for(rows, first, row_sizes[i].tuned_for);
    lo->bucket_max = last < INT64_MAX ? last : 0;
    tenon_status s = lower_variant(f, n, same, device, &all[made]);
    if (s) return s == TENON_EUNSUPPORTED ? TENON_OK : s;
    bool again = made && str_eq(all[made].text, all[made - 1].text);
    if (again) all[made - 1].last = last;
    if (again && all[made].rule) all[made].rule->used = true;
    made += !again;
  }
  all[0].first = 0;  // whatever the ranges of symbols say, one of them is done
  all[made - 1].last = INT64_MAX;
  for (int i = 0; i < made; i++) {
    all[i].when = made > 1 ? when_rows(f->b, rows, &all[i]) : -1;
    if (made > 1 && all[i].when < 0) return TENON_OK;
  }
  if (made == 1) all[0].label = name;
  *count = made;
  memcpy(v, all, sizeof all);
  return TENON_OK;
}

static void note_tuned(ProgBuilder *b, const Variant *v) {
  if (!v->tuned) return;
  if (v->tuned_why)
    vec_push(b->a, &b->untuned, ((UntunedKernel){v->label, v->tuned->schedule, v->tuned_why}));
  else
    b->ntuned++;
}

static const char *name_for_rows(ProgBuilder *b, const char *name, const Variant *v) {
  const char *said = v->last == INT64_MAX
                         ? str_printf(b->a, "%s, from %lld rows", name, (long long)v->first)
                         : str_printf(b->a, "%s, up to %lld rows", name, (long long)v->last);
  return keep_name(b, said);
}

static void put_step(FuncBuilder *f, const Node *n, const Variant *v, const SameDims *checks,
                     const int32_t *out) {
  ProgBuilder *b = f->b;
  Arena *pa = &b->p->arena;
  const LoopKernel *k = v->lw.kernel;
  ProgStep st = {.kind = STEP_KERNEL, .when = v->when, .nargs = k->nargs, .ndims = k->ndims};
  build_checks(f, checks, &st);
  st.kernel = v->kernel;
  if (v->rule) v->rule->used = true;
  note_tuned(b, v);
  vec_push(b->a, &b->use,
           ((KernelUse){.node = n,
                        .label = v->label,
                        .kernel = v->kernel,
                        .tuned = v->tuned_why ? NULL : v->tuned,
                        .workload = v->workload,
                        .refused = b->lowering.refused.v,
                        .nrefused = b->lowering.refused.n}));
  int device = b->prog_kernel.v[st.kernel].device;
  st.op = b->prog_kernel.v[st.kernel].name;
  if (v->when >= 0) st.op = name_for_rows(b, st.op, v);
  st.node = keep_name(b, b->label);
  st.nout = n->nres;
  int32_t *in = arena_array(pa, int32_t, MAX(st.nargs, 1));
  int32_t *arg = arguments(f, n, &v->lw, device, out);
  for (int32_t i = 0; i < st.nargs; i++)
    if (v->lw.arg[i].kind != LOWER_RESULT && arg[i] != out[0]) in[st.nin++] = arg[i];
  separate(f, &v->lw, arg);
  count_work(f, n, &st);
  st.grain = grain_of(b, &st, v->item_count);
  st.items = v->items;
  st.in = in;
  st.out = out;
  st.arg = arg;
  st.dim = v->dim;
  vec_push(b->a, &f->step, st);
}

// Kernels of the program.  False: the device has no code for one; then the next schedule of it may
// be taken.
static bool add_kernels(FuncBuilder *f, Variant *v, int count, int device) {
  ProgBuilder *b = f->b;
  for (int i = 0; i < count; i++) {
    tenon_status s = taken(b, &v[i].lw, v[i].text, device);
    if (s) {
      DeclinedKind kind = s == TENON_EUNSUPPORTED ? DECLINED_BY_DESIGN : DECLINED_DEFECT;
      if (b->o->faults && !v[i].rule) faults_add(b->o->faults, v[i].text, device, kind, b->why);
      return false;
    }
    v[i].kernel = add_kernel(b, &v[i].lw, v[i].text, device);
  }
  return true;
}

static tenon_status build_step_on(FuncBuilder *f, const Node *n, int device) {
  ProgBuilder *b = f->b;
  Variant v[ROW_SIZES];
  int count;
  SameDims checks = {.arena = b->a};
  const Node *same = same_sizes(f, n, &checks);
  const KernelFaults *faults = b->o->faults;
  for (int64_t before = -1;;) {
    int64_t known = faults ? faults->nfresh : 0;
    if (known == before) return TENON_EUNSUPPORTED;
    before = known;
    b->lowering.tried.n = 0;
    TRY(lower_sizes(f, n, same, device, v, &count));
    if (add_kernels(f, v, count, device)) break;
  }
  int32_t *out = arena_array(&b->p->arena, int32_t, n->nres);
  for (int32_t i = 0; i < n->nres; i++) out[i] = new_value(f, n, i, n->type[i]);
  for (int i = 0; i < count; i++) put_step(f, n, &v[i], &checks, out);
  return TENON_OK;
}

static tenon_status build_step(FuncBuilder *f, const Node *n) {
  const LowerOptions *o = f->b->o;
  at_work_node(f->b->label);
  budget_check();
  const Node *state = f->plan ? plan_state(f->plan, n) : NULL;
  f->b->lowering.in_place = state != NULL;
  if (!o->ndevices) return build_step_on(f, n, 0);
  int device = state          ? state_device(f, state)
               : o->device_of ? o->device_of(o->device_ctx, n)
                              : o->ndevices - 1;
  f->b->why = "the host has no kernels";
  tenon_status s = device || o->host_kernels ? build_step_on(f, n, device) : TENON_EUNSUPPORTED;
  if (s != TENON_EUNSUPPORTED || !device || !o->host_kernels || state) return s;
  return build_step_on(f, n, 0);
}

tenon_status build_kernel_step(FuncBuilder *f, const Node *n, int64_t *declined) {
  ProgBuilder *b = f->b;
  b->label = kernel_label(b, n);
  memset(&b->lowering.tried, 0, sizeof b->lowering.tried);
  memset(&b->lowering.refused, 0, sizeof b->lowering.refused);
  tenon_status s = build_step(f, n);
  *declined = -1;
  if (s && s != TENON_EUNSUPPORTED) return s;
  const char *instead = s ? NULL : b->kernel.v[f->step.v[f->step.n - 1].kernel].name;
  TRY(note_declined(b, n, instead, declined));
  return s;
}
