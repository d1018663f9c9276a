// print.c -- what the optimiser did, as text (print.h).
#include "compile/print.h"

#include "rules/rules.h"

void print_pass_times(const OptReport *r, Arena *a, PrintFn *print, void *ctx) {
  StrBuf b;
  int64_t total = 0;
  strbuf_init(&b, a);
  strbuf_printf(&b, "%-20s %10s %8s %8s %8s\n", "pass", "ms", "nodes", "after", "rules");
  for (int64_t i = 0; i < r->npasses; i++) {
    const PassStat *p = &r->pass[i];
    if (!p->ran) continue;
    total += p->ns;
    strbuf_printf(&b, "%-20s %10.3f %8lld %8lld %8lld\n", p->pass->name, (double)p->ns / 1e6,
                  (long long)p->nodes_before, (long long)p->nodes_after, (long long)p->rules);
  }
  strbuf_printf(&b, "%-20s %10.3f\n", "all", (double)total / 1e6);
  print(ctx, strbuf_str(&b));
}

void print_rule_counts(const OptReport *r, Arena *a, PrintFn *print, void *ctx) {
  StrBuf b;
  strbuf_init(&b, a);
  for (const RuleSet *const *s = rule_sets; *s; s++)
    for (int64_t i = 0; i < (*s)->n; i++) {
      uint64_t n = 0;
      intmap_get(&r->hits, (uint64_t)(uintptr_t) & (*s)->rule[i], &n);
      if (n)
        strbuf_printf(&b, "%8llu  %s  %s\n", (unsigned long long)n, (*s)->name, (*s)->rule[i].name);
    }
  print(ctx, strbuf_str(&b));
}
