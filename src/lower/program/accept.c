// accept.c -- decides which lowered loops become kernels of a program, and records the others.
//
// Loops are declined where loop_verify does not prove them, where they exceed
// LIMIT_KERNEL_STATEMENTS, or where an earlier lowering found that they have no code
// (KernelFaults).  Selection then takes the next schedule (lower/template.c).
//
// Needs:      accept_kernel is Lowering.accepts; LowerOptions.faults outlives all lowerings of the
//             graph.
// Guarantees: every kernel of the program is proven to stay inside its arguments, or was when its
//             cached code was made.  Each declined schedule is in the report with nodes and reason;
//             with `strict` it is an error.
#include "lower/program/builder.h"

#include "base/limits.h"
#include "loop/survey.h"
#include "lower/template.h"

// ---- kernels without code ----

void faults_init(KernelFaults *f, Arena *a) {
  *f = (KernelFaults){.arena = a};
  strmap_init(&f->declined, a);
  strmap_init(&f->proven, a);
}

// The same loops on another device are another kernel.
static Str text_key(Arena *a, Str text, int device) {
  return device ? str_of(str_printf(a, "%d\n%s", device, text.p)) : text;
}

void faults_add(KernelFaults *f, Str text, int device, DeclinedKind kind, const char *why) {
  DeclinedSchedule *d = arena_new(f->arena, DeclinedSchedule);
  *d = (DeclinedSchedule){.kind = kind, .why = str_copy(f->arena, str_of(why))};
  Str key = text_key(f->arena, str_of(str_copy(f->arena, text)), device);
  if (!strmap_get(&f->declined, key)) f->nfresh++;
  strmap_put(&f->declined, key, d);
}

// ---- one kernel ----

Str kernel_text(ProgBuilder *b, LoopKernel *k) {
  StrBuf text;
  strbuf_init(&text, b->a);
  k->name = "kernel";  // names do not make kernels different
  loop_print(k, &text);
  return str_of(strbuf_text(&text));
}

Str kernel_key(ProgBuilder *b, Str text, int device) { return text_key(b->a, text, device); }

static bool decline(ProgBuilder *b, const Lowered *lw, DeclinedKind kind, const char *why) {
  b->why = str_copy(b->a, str_of(why));
  lower_decline(&b->lowering, lw->kernel->schedule, kind, why);
  return false;
}

// A kernel that is not proven to stay inside its arguments never runs.  The same text is the same
// kernel.
static bool proven(ProgBuilder *b, const Lowered *lw, Str text, int device, const char **why) {
  static _Thread_local Diag d;
  KernelFaults *f = b->o->faults;
  if (f && strmap_get(&f->proven, text)) return true;
  if (!device && b->o->verified && b->o->verified(b->o->verified_ctx, text)) return true;
  diag_init(&d);
  if (!loop_verify(lw->kernel, &d)) {
    Str kept = f ? str_of(str_copy(f->arena, text)) : text;
    if (f) strmap_put(&f->proven, kept, (void *)(uintptr_t)kept.p);
    return true;
  }
  const char *reason = strstr(d.text, "`: ");
  *why = reason ? reason + 3 : d.text;  // without the statement
  return false;
}

bool accept_kernel(void *ctx, Lowered *lw) {
  ProgBuilder *b = ctx;
  const char *why;
  Str text = b->text = kernel_text(b, lw->kernel), key = kernel_key(b, text, b->device);
  if (strmap_get(&b->texts, key)) return true;
  const DeclinedSchedule *d = b->o->faults ? strmap_get(&b->o->faults->declined, key) : NULL;
  if (d) return decline(b, lw, d->kind, d->why);
  int64_t n = loop_statements(lw->kernel);
  if (n > LIMIT_KERNEL_STATEMENTS)
    return decline(b, lw, DECLINED_LIMIT,
                   str_printf(b->a, "it has %lld statements, and the limit is %d", (long long)n,
                              LIMIT_KERNEL_STATEMENTS));
  if (proven(b, lw, text, b->device, &why)) return true;
  // Templates of thread blocks leave sizes that do not fit them to the verifier.
  bool blocks = lw->schedule.t->needs & NEEDS_BLOCKS;
  return decline(b, lw, blocks ? DECLINED_BY_DESIGN : DECLINED_UNPROVEN, why);
}

// ---- the record ----

// "conv1 (conv), relu1 (relu)"; what has no name, by its op.
static const char *node_names(ProgBuilder *b, const Node *n) {
  enum { MOST = 8 };
  StrBuf s;
  NodeList all = body_order(b->g, ((const fused_attrs *)n->attrs)->body, b->a);
  int64_t count = 0;
  strbuf_init(&s, b->a);
  for (int64_t i = 0; i < all.n; i++) {
    const Node *x = all.v[i];
    if (x->op == OP_param || x->op == OP_const || x->op == OP_proj || x == b->g->none) continue;
    if (count++ >= MOST) continue;
    if (x->name)
      strbuf_printf(&s, "%s%s (%s)", s.n ? ", " : "", x->name, op_name(x));
    else
      strbuf_printf(&s, "%s%s", s.n ? ", " : "", op_name(x));
  }
  if (count > MOST) strbuf_printf(&s, " and %lld more", (long long)(count - MOST));
  return strbuf_text(&s);
}

// The first line is the reason, those below it are notes.
static tenon_status fail_strictly(ProgBuilder *b, const DeclinedKernel *k) {
  const DeclinedSchedule *first = &k->tried[0];
  tenon_status s = first->kind == DECLINED_LIMIT ? TENON_ENOMEM : TENON_EINTERNAL;
  const char *at = first->why;
  int n = (int)strcspn(at, "\n");
  s = fail(b->diag, s, NOWHERE, "kernel '%s' of %s cannot be made by '%s': %.*s", k->label,
           k->nodes, first->schedule, n, at);
  for (at += n; *at; at += n) {
    at += strspn(at, "\n ");
    n = (int)strcspn(at, "\n");
    if (n) diag_note(b->diag, "%.*s", n, at);
  }
  diag_note(b->diag, "without --strict the next schedule is tried");
  return s;
}

static bool worth_saying(const Lowering *lo) {
  for (int64_t i = 0; i < lo->tried.n; i++)
    if (lo->tried.v[i].kind != DECLINED_BY_DESIGN) return true;
  return false;
}

tenon_status note_declined(ProgBuilder *b, const Node *n, const char *instead, int64_t *out) {
  const Lowering *lo = &b->lowering;
  *out = -1;
  if (!worth_saying(lo)) return TENON_OK;
  DeclinedKernel k = {.label = b->label,
                      .nodes = node_names(b, n),
                      .tried = lo->tried.v,
                      .ntried = lo->tried.n,
                      .instead = instead};
  if (b->o->strict) return fail_strictly(b, &k);
  *out = b->declined.n;
  vec_push(b->a, &b->declined, k);
  return TENON_OK;
}
