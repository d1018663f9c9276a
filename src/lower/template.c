// template.c -- the table of templates, and the choice of one for a kernel.
//
// lower_kernel tries the rows of templates.def from the top.  A row is skipped where the target or
// the kind of kernel does not suit it, or where match, choose or build declines.  If
// Lowering.accepts refuses the loops, the template's cheaper schedules are tried, then the rows
// below.  A forced schedule (`--schedule`) gets its own template and no other.  A measured one
// (`--tuned`) replaces what was chosen where it still fits; without one the table of measured
// corrections is asked (residual.h).
//
// What a template refuses is in Lowering.refused, with the reason: the row's own words (`why not`),
// or closer ones that the template, the element builder or a dynamic size gave.
//
// Needs:      a `fused` node with inferred types; LowerTarget is filled for the target.
// Guarantees: a CHECK that fails inside a template declines that template alone.  Each refused
//             schedule is in Lowering.tried with its reason.  The choice depends on the kernel and
//             the target, never on the number of threads.
#include "lower/template.h"

#include "lower/residual.h"
#include "passes/fuse_kernels/kernels.h"

#define TEMPLATE(name, kinds, needs, doc, why) extern const TemplateCode template_##name;
#include "lower/templates.def"
#undef TEMPLATE

#define KIND(k)                                (1u << FUSED_##k)
#define ANY_KIND                               (~0u)
#define TEMPLATE(name, kinds, needs, doc, why) {#name, doc, why, kinds, needs, &template_##name},
const Template template_table[] = {
#include "lower/templates.def"
};
const int template_count = ARRAY_LEN(template_table);

const Template *template_find(const char *name) {
  for (int i = 0; i < template_count; i++)
    if (!strcmp(template_table[i].name, name)) return &template_table[i];
  return NULL;
}

bool template_suits(const Template *t, const LowerTarget *target, const char **why) {
  *why = t->needs & NEEDS_BLOCKS && target->block_threads < 2 ? "the target has no thread blocks"
         : t->needs & NEEDS_MMA && !target->traits.mma        ? "the target has no tensor cores"
         : t->needs & NEEDS_CORES && target->block_threads >= 2
             ? "the target works in thread blocks"
             : NULL;
  return !*why;
}

bool template_takes(const Template *t, const Node *fused) {
  return t->kinds >> ((const fused_attrs *)fused->attrs)->kind & 1;
}

// The kernel by a match and all fields of a schedule.
static bool build(const Template *t, Lowering *lo, void *match, const void *fields, Lowered *out) {
  if (!t->code->build(match, fields, out)) return false;
  out->schedule = (Schedule){t, fields};
  out->kernel->schedule = schedule_text(lo->arena, out->schedule);
  return true;
}

static void *new_fields(const Template *t, Lowering *lo) {
  int64_t bytes = MAX(t->code->bytes, 1);
  return memset(arena_alloc(lo->arena, bytes), 0, (size_t)bytes);
}

// Whether it becomes a kernel.
static bool accepted(const Template *t, Lowering *lo, Lowered *lw) {
  if (lo->tamper) lo->tamper(lo->tamper_ctx, t->name, lw->kernel);
  return !lo->accepts || lo->accepts(lo->accepts_ctx, lw);
}

void lower_decline(Lowering *lo, const char *schedule, DeclinedKind kind, const char *why) {
  DeclinedSchedule d = {
      .kind = kind, .schedule = schedule, .why = str_copy(lo->arena, str_of(why))};
  vec_push(lo->arena, &lo->tried, d);
}

// ---- refusals ----

bool lower_is_static(Lowering *lo, Dim d) {
  if (ie_is_const(d)) return true;
  lo->dynamic = d;
  return false;
}

static void begin_template(const Template *t, Lowering *lo) {
  lo->why = t->why_not;
  lo->stuck = NULL;
  lo->dynamic = NULL;
}

typedef struct Names {
  VEC(const char *) name;
} Names;

// Symbols of the model that a size is made of, each once.
static void collect_symbols(Arena *a, Dim d, Names *out) {
  if (!d || ie_is_const(d) || ie_is_poison(d)) return;
  if (d->kind != IE_SYM) {
    for (int i = 0; i < d->nterms; i++)
      for (int k = 0; k < d->term[i].natoms; k++)
        if (d->term[i].atom[k] != d) collect_symbols(a, d->term[i].atom[k], out);
    collect_symbols(a, d->a, out);
    collect_symbols(a, d->b, out);
    return;
  }
  for (int64_t i = 0; i < out->name.n; i++)
    if (!strcmp(out->name.v[i], d->name)) return;
  vec_push(a, &out->name, d->name);
}

// "height and width are dynamic; --fix height=N --fix width=N avoids it".
static const char *dynamic_words(Lowering *lo) {
  Names all = {0};
  StrBuf b;
  collect_symbols(lo->arena, lo->dynamic, &all);
  int64_t n = all.name.n;
  if (!n || ie_has_fresh(lo->dynamic))
    return "a size is known only when the model runs: the data says it";
  strbuf_init(&b, lo->arena);
  for (int64_t i = 0; i < n; i++)
    strbuf_printf(&b, "%s%s", !i ? "" : i + 1 == n ? " and " : ", ", all.name.v[i]);
  strbuf_puts(&b, n > 1 ? " are dynamic;" : " is dynamic;");
  for (int64_t i = 0; i < n; i++) strbuf_printf(&b, " --fix %s=N", all.name.v[i]);
  strbuf_puts(&b, " avoids it");
  return strbuf_text(&b);
}

static const char *refusal_words(Lowering *lo) {
  if (lo->dynamic) return dynamic_words(lo);
  if (!lo->stuck) return lo->why;
  const Node *n = lo->stuck;
  return n->name ? str_printf(lo->arena, "kernels have no form for '%s' (%s) with these operands",
                              n->name, op_info(n->op)->name)
                 : str_printf(lo->arena, "kernels have no form for %s with these operands",
                              op_info(n->op)->name);
}

bool refusal_is_near(const Refusal *r) {
  return r->t->kinds != ANY_KIND || r->why != r->t->why_not;
}

// Once for each template: a kernel may be lowered for several numbers of rows.
static void note_refusal(const Template *t, Lowering *lo, const char *why, const char *detail) {
  for (int64_t i = 0; i < lo->refused.n; i++)
    if (lo->refused.v[i].t == t) return;
  Refusal r = {t, why, detail};
  vec_push(lo->arena, &lo->refused, r);
}

// ---- a schedule that is asked for ----

static tenon_status refuse(Lowering *lo, const char *why) {
  return fail(lo->diag, TENON_EINVAL, NOWHERE, "schedule '%s' is illegal for kernel '%s': %s",
              lo->forced->text, lo->label, why);
}

static tenon_status lower_forced(Lowering *lo, const Node *fused, Lowered *out) {
  const ScheduleGiven *g = &lo->forced->given;
  const Template *t = g->t;
  const char *why;
  if (!template_suits(t, &lo->target, &why)) return refuse(lo, why);
  begin_template(t, lo);
  const char *other = template_takes(t, fused)
                          ? NULL
                          : str_printf(lo->arena, "the kernel is of the kind %s",
                                       fused_kind_name[((const fused_attrs *)fused->attrs)->kind]);
  void *fields = new_fields(t, lo), *match = other ? NULL : t->code->match(lo, fused);
  if (!match)
    return refuse(lo, str_printf(lo->arena, "template %s does not match because %s", t->name,
                                 other ? other : refusal_words(lo)));
  if (t->code->choose && !t->code->choose(match, &lo->target, g, fields))
    return refuse(lo, str_printf(lo->arena, "template %s has no schedule for it", t->name));
  schedule_keep(g, fields);
  for (int i = 0; i < t->code->nfields; i++)
    if (!schedule_in_range(&t->code->field[i], fields))
      return refuse(lo, str_printf(lo->arena, "field %s has no legal value with those given",
                                   t->code->field[i].attr.name));
  if (t->code->legal && !t->code->legal(match, &lo->target, fields, &why)) return refuse(lo, why);
  *out = (Lowered){0};
  if (!build(t, lo, match, fields, out))
    return refuse(
        lo, str_printf(lo->arena,
                       "template %s cannot write loops for the operands of this kernel with %s",
                       t->name, schedule_name(lo->arena, (Schedule){t, fields})));
  return accepted(t, lo, out) ? TENON_OK : refuse(lo, lo->tried.v[lo->tried.n - 1].why);
}

// ---- selection ----

typedef enum { NOT_TAKEN, TAKEN, DECLINED } Outcome;

static Outcome try_schedule(const Template *t, Lowering *lo, const Node *fused,
                            const ScheduleGiven *given, Lowered *out) {
  const char *why;
  void *fields = new_fields(t, lo), *match = t->code->match(lo, fused);
  if (!match) return NOT_TAKEN;
  lo->stuck = NULL;
  lo->why = "for these sizes another template is faster";
  if (t->code->choose && !t->code->choose(match, &lo->target, given, fields)) return NOT_TAKEN;
  lo->why = "its tiles have no form for an operand, a prologue or an epilogue of this kernel";
  schedule_keep(given, fields);
  for (int i = 0; given->t && i < t->code->nfields; i++)
    if (!schedule_in_range(&t->code->field[i], fields)) return NOT_TAKEN;
  if (given->t && t->code->legal && !t->code->legal(match, &lo->target, fields, &why)) {
    lo->why = why;
    return NOT_TAKEN;
  }
  if (!build(t, lo, match, fields, out)) return NOT_TAKEN;
  return accepted(t, lo, out) ? TAKEN : DECLINED;
}

// A defect of the template is one more reason to leave it.  Whether there is memory is not its
// affair.
static Outcome try_guarded(const Template *t, Lowering *lo, const Node *fused,
                           const ScheduleGiven *given, Lowered *out) {
  static _Thread_local Diag said;
  volatile Outcome r = NOT_TAKEN;
  Trap trap;
  diag_init(&said);
  *out = (Lowered){0};
  lo->bucket_dim = NULL;
  trap_enter(&trap, &said);
  if (setjmp(trap.env) == 0) r = try_schedule(t, lo, fused, given, out);
  trap_leave(&trap);
  if (!trap.status) return r;
  if (trap.status != TENON_EINTERNAL) trap_again(trap.status, said.text);
  lower_decline(lo, t->name, DECLINED_DEFECT, said.text);
  return DECLINED;
}

// The same schedule once more, where its loops were not proven and sizes are quotients: with these
// named they may be.  What was declined before is then forgotten.
static bool proven_by_names(const Template *t, Lowering *lo, const Node *fused,
                            const ScheduleGiven *given, int64_t ntried, Lowered *out) {
  if (lo->tried.n == ntried || lo->tried.v[ntried].kind != DECLINED_UNPROVEN) return false;
  int64_t declined = lo->tried.n;
  lo->name_sizes = true;
  Outcome again = try_guarded(t, lo, fused, given, out);
  lo->name_sizes = false;
  lo->tried.n = again == TAKEN ? ntried : declined;
  return again == TAKEN;
}

static Outcome try_template(const Template *t, Lowering *lo, const Node *fused, Lowered *out) {
  static const ScheduleGiven nothing = {0};
  int64_t ntried = lo->tried.n;
  begin_template(t, lo);
  Outcome r = try_guarded(t, lo, fused, &nothing, out);
  if (r == NOT_TAKEN) note_refusal(t, lo, refusal_words(lo), NULL);
  if (r == DECLINED && proven_by_names(t, lo, fused, &nothing, ntried, out)) return TAKEN;
  for (const char *const *s = t->code->cheaper; r == DECLINED && s && *s; s++) {
    ScheduleGiven given;
    tenon_status known = schedule_parse(lo->arena, *s, lo->diag, &given);
    CHECK(!known, "template %s has no schedule '%s'", t->name, *s);
    Outcome again = try_guarded(t, lo, fused, &given, out);
    if (again == TAKEN) r = TAKEN;
  }
  if (r == DECLINED && lo->tried.n)
    note_refusal(t, lo, "the verifier does not accept its loops for these sizes",
                 lo->tried.v[lo->tried.n - 1].why);
  return r;
}

static tenon_status lower_chosen(Lowering *lo, const Node *fused, Lowered *out) {
  const char *why;
  for (int i = 0; i < template_count; i++) {
    const Template *t = &template_table[i];
    if (!template_suits(t, &lo->target, &why) || !template_takes(t, fused)) continue;
    if (try_template(t, lo, fused, out) == TAKEN) return TENON_OK;
  }
  return TENON_EUNSUPPORTED;
}

// ---- a schedule that was measured ----

// Whether `to` forms every sum as `from` does: the same template and values of ORDER fields.
static bool same_order(const ScheduleGiven *to, const Schedule *from) {
  if (to->t != from->t) return false;
  for (int i = 0; i < to->t->code->nfields; i++) {
    const ScheduleField *f = &to->t->code->field[i];
    if (f->effect == EFFECT_ORDER && !attrs_equal(&f->attr, 1, to->fields, from->fields))
      return false;
  }
  return true;
}

// Why it cannot be taken in place of what was chosen; NULL: *out has it.
static const char *try_measured(Lowering *lo, const Node *fused, const char *schedule, bool reorder,
                                const Schedule *chosen, Lowered *out) {
  static _Thread_local Diag quiet;
  ScheduleGiven given;
  const char *why;
  diag_init(&quiet);
  if (schedule_parse(lo->arena, schedule, &quiet, &given))
    return str_copy(lo->arena, str_of(quiet.text));
  if (given.set != (uint32_t)((1ull << given.t->code->nfields) - 1))
    return "it does not give every field of its template";
  if (!reorder && !same_order(&given, chosen))
    return str_printf(lo->arena, "it would change the order of sums, for which %s was chosen",
                      schedule_name(lo->arena, *chosen));
  if (!template_suits(given.t, &lo->target, &why)) return why;
  if (!template_takes(given.t, fused)) return "its template does not take kernels of this kind";
  int64_t ntried = lo->tried.n;
  begin_template(given.t, lo);
  Outcome r = try_guarded(given.t, lo, fused, &given, out);
  if (r == TAKEN) return NULL;
  why = r == DECLINED ? lo->tried.v[lo->tried.n - 1].why : refusal_words(lo);
  lo->tried.n = ntried;
  return why;
}

// NULL: *out has the schedule now.
static const char *replace(Lowering *lo, const Node *fused, const char *schedule, bool reorder,
                           Lowered *out) {
  Lowered other;
  Dim bucket = lo->bucket_dim;
  const char *why = try_measured(lo, fused, schedule, reorder, &out->schedule, &other);
  if (!why) {
    *out = other;
    return NULL;
  }
  lo->bucket_dim = bucket;
  accepted(out->schedule.t, lo, out);  // who accepts has seen these loops last
  return why;
}

// The choice of the templates is made first, since the order of its sums is the one that counts.
static void replace_by_tuned(Lowering *lo, const Node *fused, Lowered *out) {
  if (strcmp(lo->tuned->schedule, out->kernel->schedule))
    lo->tuned_why = replace(lo, fused, lo->tuned->schedule, lo->tuned_reorder, out);
}

// What is not legal there is left as it was chosen.
static void correct_by_residual(Lowering *lo, const Node *fused, Lowered *out) {
  const char *better =
      residual_schedule(lo->residual, lo->nresiduals, &lo->target, out->schedule, lo->arena);
  if (better) (void)replace(lo, fused, better, false, out);
}

tenon_status lower_kernel(Lowering *lo, const Node *fused, Lowered *out) {
  lo->bucket_dim = NULL;
  lo->tuned_why = NULL;
  if (lo->forced) return lower_forced(lo, fused, out);
  TRY(lower_chosen(lo, fused, out));
  if (lo->tuned) replace_by_tuned(lo, fused, out);
  if (!lo->tuned || lo->tuned_why) correct_by_residual(lo, fused, out);
  return TENON_OK;
}
