// report.c -- which cases a report has, and their measurement (report.h).
//
// Every case runs in a process of its own, so that its peak of memory is its own and a case that
// fails costs its row alone.
#include "cli/bench/report.h"

#include "api/model.h"
#include "base/machine.h"
#include "base/platform.h"
#include "cli/run/overrides.h"

typedef VEC(const char *) Words;

// ---- axes ----

static Axis axis_of(Arena *a, const char *option, const char *values) {
  Words words = {0};
  while (*values) {
    int64_t n = (int64_t)strcspn(values, ",");
    if (n) vec_push(a, &words, str_copy(a, (Str){values, n}));
    values += n + (values[n] == ',');
  }
  return (Axis){.option = option, .value = words.v, .n = words.n};
}

static const Axis *find_axis(const Report *r, const char *option) {
  for (int i = 0; i < r->naxes; i++)
    if (!strcmp(r->axis[i].option, option)) return &r->axis[i];
  return NULL;
}

static void add_default(Report *r, Arena *a, const char *option, const char *values) {
  if (r->naxes < MAX_AXES && !find_axis(r, option))
    r->axis[r->naxes++] = axis_of(a, option, values);
}

// What --sweep says.  Without a word on threads, batch and precision these take their usual values.
static int set_axes(Cli *c, Report *r) {
  const OptionValue *sweep = &c->opt[OPT_bench_sweep];
  for (int64_t i = 0; i < sweep->count; i++) {
    const char *option, *values;
    if (!opt_split(c, sweep->text[i], &option, &values))
      return cli_usage(c, "bench: --sweep takes OPTION=VALUE,VALUE, not '%s'", sweep->text[i]);
    Axis axis = axis_of(&c->arena, option, values);
    if (!axis.n) return cli_usage(c, "bench: --sweep %s= has no values", option);
    if (find_axis(r, option)) return cli_usage(c, "bench: --sweep %s is given twice", option);
    if (r->naxes == MAX_AXES) return cli_usage(c, "bench: more than %d --sweep options", MAX_AXES);
    r->axis[r->naxes++] = axis;
  }
  int all = machine_threads();
  if (!opt_given(c, OPT_bench_threads))
    add_default(r, &c->arena, "threads", all > 1 ? str_printf(&c->arena, "1,%d", all) : "1");
  if (!opt_given(c, OPT_bench_batch)) add_default(r, &c->arena, "batch", "1,8");
  if (!opt_given(c, OPT_bench_precision))
    add_default(r, &c->arena, "precision",
                r->peak.ops[OPS_BF16] > r->peak.ops[OPS_F32] ? "f32,bf16" : "f32");
  return CLI_OK;
}

// Whether a model has a batch that can be set.
static tenon_status has_batch(Cli *c, const char *path, bool *out) {
  Model *m;
  ModelOptions o = {.target = opt_text(c, OPT_bench_target, NULL)};
  int rc = fixed_read(c, &c->opt[OPT_bench_fix], &o);
  if (!rc) rc = foreign_read(c, &c->opt[OPT_bench_type], &c->opt[OPT_bench_weights], &o);
  c->misused |= rc != CLI_OK;
  if (rc) return TENON_EINVAL;
  TRY(open_with_overrides(c, path, &c->opt[OPT_bench_input], opt_text(c, OPT_bench_inputs, NULL), o,
                          &m));
  const Body *b = m->graph->main;
  *out = false;
  for (int64_t i = 0; i < b->nparams; i++) {
    const Type *t = type_of(b->param[i]);
    *out |= t->kind == TK_TENSOR && t->rank > 0 && t->dims[0]->kind == IE_SYM;
  }
  model_free(m);
  return TENON_OK;
}

// ---- cases ----

typedef VEC(Case) CaseList;

static int add_cases(Cli *c, const Report *r, const char *model, CaseList *out) {
  bool batch;
  tenon_status s = has_batch(c, model, &batch);
  if (s) return cli_exit_of(s);
  int64_t at[MAX_AXES] = {0};
  for (int k = 0; k >= 0;) {
    Case one = {.model = model, .batch = opt_int(c, OPT_bench_batch, 1)};
    for (int i = 0; i < r->naxes; i++) {
      bool is_batch = !strcmp(r->axis[i].option, "batch");
      if (is_batch && !batch) continue;
      one.value[i] = r->axis[i].value[at[i]];
      if (is_batch && !str_to_i64(str_of(one.value[i]), &one.batch)) one.batch = 1;
    }
    if (out->n == MAX_CASES)
      return cli_usage(c, "bench: a report of more than %d cases", MAX_CASES);
    vec_push(&c->arena, out, one);
    // The next combination; a batch that cannot be set has one value.
    for (k = r->naxes - 1; k >= 0; k--) {
      bool fixed = !strcmp(r->axis[k].option, "batch") && !batch;
      if (!fixed && ++at[k] < r->axis[k].n) break;
      at[k] = 0;
    }
  }
  return CLI_OK;
}

static const char *case_text(Arena *a, const Report *r, const Case *one) {
  StrBuf b;
  strbuf_init(&b, a);
  strbuf_puts(&b, one->model);
  for (int i = 0; i < r->naxes; i++)
    if (one->value[i]) strbuf_printf(&b, " %s=%s", r->axis[i].option, one->value[i]);
  return strbuf_text(&b);
}

static int measure_case(Cli *c, const Report *r, Case *one) {
  Subject s = {.label = case_text(&c->arena, r, one), .model = one->model, .measured_only = true};
  subject_share(c, &s);
  for (int i = 0; i < r->naxes; i++) {
    if (!one->value[i]) continue;
    const char *pair = str_printf(&c->arena, "%s=%s", r->axis[i].option, one->value[i]);
    int rc = subject_options(c, "--sweep", &(OptionValue){.count = 1, .text = &pair}, &s);
    if (rc) return rc;
  }
  tenon_status status = subject_bench(c, &s, opt_text(c, OPT_bench_inputs, NULL),
                                      opt_real(c, OPT_bench_seconds, 1), &one->figures);
  if (status) {  // its row says so, and the next one is measured
    one->why = str_copy(&c->arena, (Str){c->diag.text, c->diag.len});
    diag_init(&c->diag);
  }
  return CLI_OK;
}

static int measure_cases(Cli *c, Report *r) {
  Progress p;
  int rc = CLI_OK;
  progress_start(&p, r->n);
  for (int64_t i = 0; i < r->n && !rc; i++) {
    progress_step(&p, case_text(&c->arena, r, &r->item[i]));
    rc = measure_case(c, r, &r->item[i]);
  }
  progress_end(&p);
  return rc;
}

// ---- the command ----

static const char *command_text(Cli *c) {
  StrBuf b;
  strbuf_init(&b, &c->arena);
  strbuf_puts(&b, "tenon bench");
  for (int64_t i = 0; i < c->npos; i++) strbuf_printf(&b, " %s", c->pos[i]);
  for (int64_t i = 0; i < c->opt[OPT_bench_sweep].count; i++)
    strbuf_printf(&b, " --sweep %s", c->opt[OPT_bench_sweep].text[i]);
  strbuf_printf(&b, " --report %s", opt_text(c, OPT_bench_report, ""));
  return strbuf_text(&b);
}

int bench_report(Cli *c) {
  Report *r = arena_new(&c->arena, Report);
  CaseList cases = {0};
  Machine m;
  StrBuf page;
  NumText day;
  const char *path = opt_text(c, OPT_bench_report, NULL);
  int64_t failed = 0;
  machine_host(&m);
  r->machine = str_copy(&c->arena, str_of(m.name));
  r->when = str_copy(&c->arena, str_of(text_day(&day, platform->file_time())));
  r->command = command_text(c);
  tenon_status s = peak_get(machine_threads(), &c->diag, &r->peak);
  if (s) return cli_exit_of(s);
  int rc = set_axes(c, r);
  for (int64_t i = 0; i < c->npos && !rc; i++)
    if (!strcmp(c->pos[i], "-"))
      rc = cli_usage(c, "bench: standard input cannot be read for every case; give a file");
  for (int64_t i = 0; i < c->npos && !rc; i++) rc = add_cases(c, r, c->pos[i], &cases);
  if (rc) return rc;
  r->item = cases.v;
  r->n = cases.n;
  rc = measure_cases(c, r);
  if (rc) return rc;
  strbuf_init(&page, &c->arena);
  report_html(r, &c->arena, &page);
  s = file_write(path, page.p, page.n, &c->diag);
  if (s) return cli_exit_of(s);
  for (int64_t i = 0; i < r->n; i++) failed += r->item[i].why != NULL;
  if (strcmp(path, "-") != 0)
    say(c, "%s: %lld cases, %lld failed\n", path, (long long)r->n, (long long)failed);
  return failed ? CLI_FAILED : CLI_OK;
}
