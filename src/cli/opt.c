// opt.c -- runs the optimiser for a command, and keeps what is needed to look into a pass that breaks.
//
// Passes put a new main body in the old one's place when they are done, and nodes never change.  So after a pass
// has failed, even by a signal, the graph still says what the pass was given.
#include "cli/opt.h"

#include "base/platform.h"
#include "rules/rules.h"

#include <signal.h>
#include <stdlib.h>

// ---- options ----
static void print_stderr(void *ctx, Str text) {
  (void)ctx;
  fwrite(text.p, 1, (size_t)text.n, stderr);
}

void opt_options(const Cli *c, const OptIds *id, OptOptions *out) {
  opt_defaults(out);
  out->level = (int)opt_int(c, id->level, out->level);
  if (!strcmp(opt_text(c, id->precision, "f32"), "bf16")) out->precision = DT_BF16;
  out->fast = opt_licences(out->level, opt_given(c, id->exact), opt_given(c, id->fast));
  if (!strcmp(opt_text(c, id->precision, "f32"), "tf32")) out->fast |= FAST_TF32;
  out->fold_limit = opt_int(c, id->fold_limit, out->fold_limit);
  out->unroll_limit = opt_int(c, id->unroll_limit, out->unroll_limit);
  out->disable = opt_text(c, id->disable, NULL);
  out->start_from = opt_text(c, id->start_from, NULL);
  out->stop_after = opt_text(c, id->stop_after, NULL);
  out->dump_after = opt_text(c, id->dump_after, NULL);
  out->dump_changed = opt_given(c, id->dump_changed);
  out->verify_each = opt_given(c, id->verify_each);
  out->trace_rules = opt_given(c, id->trace_rules);
  out->bisect = opt_int(c, id->bisect, -1);
  out->print = print_stderr;
}

// ---- broken passes ----
static sigjmp_buf broken_env;
static const int broken_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

static void on_broken(int sig) { siglongjmp(broken_env, sig); }

static const char *failed_pass(const OptReport *r) {
  const char *name = "the first pass";
  for (int64_t i = 0; i < r->npasses; i++)
    if (r->pass[i].ran) name = r->pass[i].pass->name;
  return name;
}

// Beside the model, where its weights are found; else where temporary files go.
static void write_reproducer(const OptCall *call, const char *pass, Graph *g, Arena *a, Diag *d) {
  StrBuf b;
  static Diag quiet;
  const char *folder = getenv("TMPDIR"), *slash = strrchr(call->label, '/');
  const char *base = slash ? slash + 1 : call->label;
  const char *try[] = {call->beside ? str_printf(a, "%s.%s.tir", call->beside, pass) : NULL,
                       str_printf(a, "%s/%s.%s.tir", folder ? folder : "/tmp", base, pass)};
  strbuf_init(&b, a);
  strbuf_printf(&b, "// pass %s broke on this graph: %.*s\n// %s\n", pass,
                (int)strcspn(d->text, "\n"), d->text, call->command);
  graph_print(g, &b);
  for (int64_t i = 0; i < ARRAY_LEN(try); i++) {
    diag_init(&quiet);
    if (!try[i] || file_write(try[i], b.p, b.n, &quiet)) continue;
    diag_note(d, "pass %s broke; the graph that it was given is in %s: run it with", pass, try[i]);
    diag_note(d, "tenon inspect --optimised --start-from %s %s", pass, try[i]);
    return;
  }
}

static tenon_status run_caught(const OptOptions *o, Graph *g, OptReport *report) {
  static char stack[1 << 16];  // for the handler: a pass may have used up its own
  stack_t aside = {.ss_sp = stack, .ss_size = sizeof stack}, was;
  sigaltstack(&aside, &was);
  struct sigaction act = {.sa_handler = on_broken, .sa_flags = SA_ONSTACK},
                   old[ARRAY_LEN(broken_signals)];
  sigemptyset(&act.sa_mask);
  for (int64_t i = 0; i < ARRAY_LEN(broken_signals); i++)
    sigaction(broken_signals[i], &act, &old[i]);
  volatile tenon_status s = TENON_EINTERNAL;
  int sig = sigsetjmp(broken_env, 1);
  if (!sig) s = graph_optimise(g, o, report);
  for (int64_t i = 0; i < ARRAY_LEN(broken_signals); i++)
    sigaction(broken_signals[i], &old[i], NULL);
  sigaltstack(&was, NULL);
  if (sig) fail(g->diag, TENON_EINTERNAL, NOWHERE, "%s while optimising", strsignal(sig));
  return s;
}

tenon_status opt_quiet(const OptOptions *o, const OptCall *call, Graph *g, Arena *a,
                       OptReport *report, Diag *d) {
  Diag *was = g->diag;
  *report = (OptReport){.arena = a};
  g->diag = d;
  tenon_status s = run_caught(o, g, report);
  if (s == TENON_EINTERNAL) {
    g->status = TENON_OK;  // for printing
    write_reproducer(call, failed_pass(report), g, a, d);
    g->status = s;
  }
  g->diag = was;
  return s;
}

// ---- what was asked for ----
static void print_times(const OptReport *r) {
  int64_t total = 0;
  fprintf(stderr, "%-12s %10s %8s %8s %8s\n", "pass", "ms", "nodes", "after", "rules");
  for (int64_t i = 0; i < r->npasses; i++) {
    const PassStat *p = &r->pass[i];
    if (!p->ran) continue;
    total += p->ns;
    fprintf(stderr, "%-12s %10.3f %8lld %8lld %8lld\n", p->pass->name, (double)p->ns / 1e6,
            (long long)p->nodes_before, (long long)p->nodes_after, (long long)p->rules);
  }
  fprintf(stderr, "%-12s %10.3f\n", "all", (double)total / 1e6);
}

static void print_rules(const OptReport *r) {
  for (const RuleSet *const *s = rule_sets; *s; s++)
    for (int64_t i = 0; i < (*s)->n; i++) {
      uint64_t n = 0;
      intmap_get(&r->hits, (uint64_t)(uintptr_t) & (*s)->rule[i], &n);
      if (n)
        fprintf(stderr, "%8llu  %s  %s\n", (unsigned long long)n, (*s)->name, (*s)->rule[i].name);
    }
}

static const char *command_line(Cli *c) {
  StrBuf b;
  strbuf_init(&b, &c->arena);
  strbuf_printf(&b, "tenon %s", cli_command[c->command].name);
  for (int64_t i = 0; i < c->npos; i++) strbuf_printf(&b, " %s", c->pos[i]);
  for (int i = 0; i < OPT_COUNT; i++)
    for (int64_t k = 0; k < c->opt[i].count; k++)
      strbuf_printf(&b, " --%s%s%s", option_name(&cli_option[i]), c->opt[i].text ? "=" : "",
                    c->opt[i].text ? c->opt[i].text[k] : "");
  return clean_text(&c->arena, strbuf_text(&b));  // one line, whatever a file is called
}

tenon_status opt_run(Cli *c, const OptIds *id, Graph *g, Optimised *out) {
  if (opt_given(c, id->exact) && opt_given(c, id->fast))
    return fail(&c->diag, TENON_EINVAL, NOWHERE, "--exact and --fast exclude one another");
  const char *precision = opt_text(c, id->precision, "f32");
  if (strcmp(precision, "f32") && strcmp(precision, "tf32") && strcmp(precision, "bf16"))
    return fail(&c->diag, TENON_EINVAL, NOWHERE, "--precision %s: it is f32, tf32 or bf16",
                precision);
  if (opt_given(c, id->exact) && strcmp(precision, "f32"))
    return fail(&c->diag, TENON_EINVAL, NOWHERE, "--exact and --precision %s exclude one another",
                precision);
  OptOptions given = out->options;
  opt_options(c, id, &out->options);
  out->options.record = given.record;
  out->options.apart = given.apart;
  out->options.tiles = given.tiles;
  out->options.only_tf32 = given.only_tf32;
  out->options.batch_invariant = given.batch_invariant;
  const char *model = c->pos[0];
  bool file = strcmp(model, "-") != 0;
  OptCall call = {file ? model : NULL, file ? model : "stdin", command_line(c)};
  int64_t start = platform->now();
  tenon_status s = opt_quiet(&out->options, &call, g, &c->arena, &out->report, &c->diag);
  out->seconds = (double)(platform->now() - start) / 1e9;
  if (s) return s;
  if (opt_given(c, id->time_passes)) print_times(&out->report);
  if (opt_given(c, id->rule_stats)) print_rules(&out->report);
  return TENON_OK;
}

tenon_status opt_plan(Graph *g, Arena *a, Diag *d, MemPlan **out) {
  Diag *was = g->diag;
  g->diag = d;
  tenon_status s = plan_create(g, a, out);
  if (!s) s = plan_verify(*out, d);
  g->diag = was;
  return s;
}
