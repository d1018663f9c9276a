// declined.c -- kernels that were not made as they were chosen, in words (declined.h).
#include "compile/declined.h"

// The template of "winograd tile=4 ...".
static Str template_of(const char *schedule) {
  return (Str){schedule, (int64_t)strcspn(schedule, " ")};
}

// The notes below a message, as one line in parentheses.
static const char *notes_of(Arena *a, const char *text) {
  StrBuf b;
  strbuf_init(&b, a);
  for (const char *at = strchr(text, '\n'); at && *at;) {
    at += strspn(at, "\n ");
    int n = (int)strcspn(at, "\n");
    if (n) strbuf_printf(&b, "%s%.*s", b.n ? " " : " (", n, at);
    at += n;
  }
  if (b.n) strbuf_puts(&b, ")");
  return strbuf_text(&b);
}

static const char *sentence(Arena *a, const DeclinedKernel *k) {
  const DeclinedSchedule *first = &k->tried[0];
  Str by = template_of(first->schedule);
  const char *more = "";
  if (k->ntried > 1) more = str_printf(a, ", with %lld more schedules", (long long)(k->ntried - 1));
  return str_printf(a, "kernel '%s' of %s: %.*s is left%s: %.*s; %s computes it instead%s",
                    k->label, k->nodes, STR_ARG(by), more, (int)strcspn(first->why, "\n"),
                    first->why, k->instead ? k->instead : "nothing", notes_of(a, first->why));
}

static bool has_defect(const CompileReport *r) {
  for (int64_t i = 0; i < r->target.ndeclined; i++)
    for (int64_t j = 0; j < r->target.declined[i].ntried; j++)
      if (r->target.declined[i].tried[j].kind < DECLINED_LIMIT) return true;
  return false;
}

TextList compile_warnings(const CompileReport *r, Arena *a) {
  enum { MOST = 3 };
  const TargetReport *t = &r->target;
  VEC(const char *) all = {0};
  if (r->found) {
    for (int64_t i = 0; i < r->warning.n; i++)
      vec_push(a, &all, str_copy(a, str_of(r->warning.v[i])));
    return (TextList){.v = all.v, .n = all.n};
  }
  for (int64_t i = 0; i < MIN(t->ndeclined, MOST); i++)
    vec_push(a, &all, sentence(a, &t->declined[i]));
  if (t->ndeclined > MOST)
    vec_push(a, &all,
             str_printf(a, "%lld more such kernels; `tenon explain` lists them",
                        (long long)(t->ndeclined - MOST)));
  for (int64_t i = 0; i < MIN(t->nuntuned, MOST); i++)
    vec_push(a, &all,
             str_printf(a, "kernel '%s' has not its tuned schedule '%s': %s", t->untuned[i].label,
                        t->untuned[i].schedule, t->untuned[i].why));
  if (t->nuntuned > MOST)
    vec_push(a, &all,
             str_printf(a, "%lld more kernels have not their tuned schedule",
                        (long long)(t->nuntuned - MOST)));
  if (has_defect(r))
    vec_push(
        a, &all,
        "results are right, and take longer. This is a defect of Tenon: please report it with this "
        "text and with the model, or the kernel's file where one is named. With strict it is an "
        "error");
  return (TextList){.v = all.v, .n = all.n};
}
