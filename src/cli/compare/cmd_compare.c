// cmd_compare.c -- `tenon compare`: two models, or one model in two runtimes.
//
// The inputs are made once, from A's, and written to an archive that both read; B is the
// reference.  Each runs once for its outputs, then both are measured in turn, so that a machine
// that slows down slows both.  The ratio of each round is taken by itself: their median and range
// say how far it can be trusted.
#include "cli/compare/subject.h"
#include "cli/inputs.h"
#include "cli/open.h"
#include "cli/run/outputs.h"
#include "cli/run/overrides.h"

#include "base/platform.h"

#include <math.h>
#include <stdlib.h>

enum { A, B, SIDES };
enum { FILE_INPUTS = 1, FILE_RENAMED, FILE_OUTPUTS };  // names in the temporary folder

// One output of both sides.
typedef struct OutputRow {
  const char *name, *type;
  bool matches;
  double max_abs, scale, snr;  // scale: the reference's largest element; snr in dB
  const char *why;             // how it differs; NULL: it does not
} OutputRow;

typedef struct Compare {
  Cli *cli;
  Subject side[SIDES];
  Model *model;  // that the inputs are made for: A's, or B's where A is ONNX Runtime
  Inputs in;
  FileList files;
  Run held;
  bool held_open, folder_open;
  TempFolder folder;
  const char *inputs[SIDES], *outputs[SIDES];
  Figures figures[SIDES];  // of the last round
  double *median[SIDES];   // [rounds]
  int64_t rounds;
  double time[SIDES], ratio, least, most;
  VEC(OutputRow) output;
  const char *const *other;  // [nothers] outputs that were not compared
  int64_t nothers;
  bool matches;
} Compare;

// ---- the two sides ----

static int set_sides(Compare *k) {
  Cli *c = k->cli;
  const char *file[SIDES] = {NULL, NULL};
  bool peer[SIDES];
  for (int i = 0; i < SIDES; i++) {
    const char *text = i < c->npos ? c->pos[i] : c->pos[A];
    peer[i] = subject_is_onnxruntime(text, &file[i]);
    if (!peer[i]) file[i] = text;
    if (file[i] && !strcmp(file[i], "-"))
      return cli_usage(c, "compare: standard input cannot be read twice; give a file");
  }
  for (int i = 0; i < SIDES; i++) {
    if (!file[i]) file[i] = file[1 - i];
    if (!file[i]) return cli_usage(c, "compare: no model is named: onnxruntime:FILE names one");
    Subject *s = &k->side[i];
    *s = (Subject){.model = file[i],
                   .python = peer[i] ? opt_text(c, OPT_compare_python, "python3") : NULL,
                   .threads = opt_text(c, OPT_compare_threads, NULL)};
    s->label = str_printf(&c->arena, "%c (%s)", 'A' + i, peer[i] ? "onnxruntime" : s->model);
    const OptionValue *own = &c->opt[i == A ? OPT_compare_a : OPT_compare_b];
    const char *from = i == A ? "--a" : "--b";
    if (peer[i] && own->count)
      return cli_usage(c, "compare: %s is for Tenon, and %s runs in ONNX Runtime", from, s->label);
    if (peer[i]) continue;
    subject_share(c, s);
    int rc = subject_options(c, from, own, s);
    if (rc) return rc;
  }
  bool same = !strcmp(file[A], file[B]) && peer[A] == peer[B] && !c->opt[OPT_compare_a].count &&
              !c->opt[OPT_compare_b].count;
  if (same && c->npos < 2)
    return cli_usage(c, "compare: give a second model, onnxruntime, or an option of one side, as "
                        "--b precision=bf16");
  return CLI_OK;
}

static tenon_status open_side(Compare *k, int i, Model **out) {
  Cli *c = k->cli;
  ModelOptions o = {.target = opt_text(c, OPT_compare_target, NULL)};
  int rc = fixed_read(c, &c->opt[OPT_compare_fix], &o);
  if (!rc) rc = foreign_read(c, &c->opt[OPT_compare_type], &c->opt[OPT_compare_weights], &o);
  c->misused |= rc != CLI_OK;
  if (rc) return TENON_EINVAL;
  return open_with_overrides(c, k->side[i].model, &c->opt[OPT_compare_input],
                             opt_text(c, OPT_compare_inputs, NULL), o, out);
}

// ---- inputs ----

static tenon_status write_archive(Compare *k, const char **names, const char *path) {
  const Body *b = k->model->graph->main;
  Value **value = arena_array(&k->cli->arena, Value *, b->nparams + 1);
  // An empty optional is one that is not given.
  for (int64_t i = 0; i < b->nparams; i++)
    if (outputs_held(k->in.value[i])) value[i] = k->in.value[i];
  return outputs_write(k->cli, &(Outputs){b->nparams, names, value}, path, false, true);
}

static tenon_status make_inputs(Compare *k) {
  Cli *c = k->cli;
  Body *b = k->model->graph->main;
  k->in = (Inputs){.graph = k->model->graph,
                   .program = k->model->program,
                   .arena = &c->arena,
                   .files = &k->files,
                   .seed = (uint64_t)opt_int(c, OPT_compare_seed, 0)};
  int rc = dims_read(c, k->model->graph, &c->opt[OPT_compare_dim], &k->in.dims);
  c->misused |= rc != CLI_OK;
  if (rc) return TENON_EINVAL;
  run_init(&k->held, NULL, &c->diag);
  k->held_open = true;
  k->held.max_bytes = machine_memory();
  tenon_status s = inputs_read(&k->in, c, &k->held, opt_text(c, OPT_compare_inputs, NULL),
                               &c->opt[OPT_compare_input]);
  c->misused |= k->in.misused;
  TRY(s);
  const char **names = arena_array(&c->arena, const char *, b->nparams + 1);
  for (int64_t i = 0; i < b->nparams; i++) names[i] = b->param[i]->name;
  k->inputs[A] = k->inputs[B] = temp_folder_file(&k->folder, FILE_INPUTS, &c->arena);
  return write_archive(k, names, k->inputs[A]);
}

static bool has_input(const Body *b, const char *name) {
  for (int64_t i = 0; i < b->nparams; i++)
    if (!strcmp(b->param[i]->name, name)) return true;
  return false;
}

// B's inputs have the names of A's, or their order.
static tenon_status name_inputs(Compare *k) {
  Cli *c = k->cli;
  const Subject *b = &k->side[B];
  if (k->side[A].python || b->python || !strcmp(b->model, k->side[A].model)) return TENON_OK;
  Model *other = NULL;
  TRY(open_side(k, B, &other));
  const Body *mine = k->model->graph->main, *theirs = other->graph->main;
  bool same = mine->nparams == theirs->nparams, named = same;
  for (int64_t i = 0; i < theirs->nparams; i++) named &= has_input(mine, theirs->param[i]->name);
  tenon_status s = TENON_OK;
  if (!same) {
    s = fail(&c->diag, TENON_EINVAL, NOWHERE, "%s has %lld inputs, %s has %lld", k->side[A].label,
             (long long)mine->nparams, b->label, (long long)theirs->nparams);
  } else if (!named) {
    const char **names = arena_array(&c->arena, const char *, theirs->nparams + 1);
    for (int64_t i = 0; i < theirs->nparams; i++)
      names[i] = str_copy(&c->arena, str_of(theirs->param[i]->name));
    k->inputs[B] = temp_folder_file(&k->folder, FILE_RENAMED, &c->arena);
    s = write_archive(k, names, k->inputs[B]);
  }
  model_free(other);
  return s;
}

// ---- outputs ----

static const NdArray *partner(const NdArrayList *got, const NdArrayList *want, int64_t i) {
  const NdArray *found = nd_find(got, want->v[i].name);
  for (int64_t k = 0; !found && k < got->n; k++)  // one name in common: names count
    if (nd_find(want, got->v[k].name)) return NULL;
  return found ? found : i < got->n ? &got->v[i] : NULL;
}

static void measure_error(OutputRow *r, const Value *got, const Value *want) {
  double signal = 0, noise = 0;
  if (dtype_class(want->dtype) != DC_FLOAT || dtype_class(got->dtype) != DC_FLOAT ||
      got->n != want->n)
    return;
  for (int64_t i = 0; i < want->n; i++) {
    double x = val_f64(got, i), y = val_f64(want, i);
    if (!isfinite(x) || !isfinite(y)) continue;
    r->scale = fmax(r->scale, fabs(y));
    signal += y * y;
    noise += (x - y) * (x - y);
  }
  r->snr = noise > 0 ? 10 * log10(signal / noise) : INFINITY;
}

static tenon_status compare_array(Compare *k, const NdArray *got, const NdArray *want) {
  Arena *a = &k->cli->arena;
  OutputRow r = {.name = str_copy(a, want->name)};
  Value *x = NULL, *y = NULL;
  Comparison cmp = {.arena = a,
                    .scaled = true,
                    .given = tolerance_given(k->cli, OPT_compare_rtol, OPT_compare_atol)};
  if (!got) {
    r.why = "A has no such output";
  } else if (!got->dtype || !want->dtype) {  // opaque: equal or not
    bool same = got->n == want->n && got->void_bytes == want->void_bytes &&
                !memcmp(got->data, want->data, (size_t)(want->n * want->void_bytes));
    if (!same) r.why = "bytes differ";
  } else {
    TRY(value_of_array(&k->held, got, &x));
    TRY(value_of_array(&k->held, want, &y));
    r.type = value_text(a, y);
    measure_error(&r, x, y);
    if (!values_match(&cmp, x, y)) r.why = cmp.why;
  }
  r.max_abs = cmp.max_abs;
  r.matches = !r.why;
  k->matches &= r.matches;
  vec_push(a, &k->output, r);
  return TENON_OK;
}

static tenon_status compare_outputs(Compare *k) {
  Cli *c = k->cli;
  NdArrayList got, want;
  TRY(arrays_read(&c->arena, k->outputs[A], &k->files, &c->diag, &got));
  TRY(arrays_read(&c->arena, k->outputs[B], &k->files, &c->diag, &want));
  k->matches = true;
  for (int64_t i = 0; i < want.n; i++) TRY(compare_array(k, partner(&got, &want, i), &want.v[i]));
  for (int64_t i = want.n; i < got.n; i++) {
    OutputRow r = {.name = str_copy(&c->arena, got.v[i].name), .why = "B has no such output"};
    vec_push(&c->arena, &k->output, r);
    k->matches = false;
  }
  return TENON_OK;
}

// `tenon run` puts what arrays cannot hold beside the archive.
static void drop_rest(Compare *k, const char *archive) {
  (void)platform->unlink(outputs_json_path(&k->cli->arena, archive));
}

static tenon_status run_both(Compare *k) {
  for (int i = 0; i < SIDES; i++) {
    k->outputs[i] = temp_folder_file(&k->folder, FILE_OUTPUTS + i, &k->cli->arena);
    tenon_status s = subject_run(k->cli, &k->side[i], k->inputs[i], k->outputs[i], &k->figures[i]);
    drop_rest(k, k->outputs[i]);
    TRY(s);
    if (k->figures[i].nothers > k->nothers) {
      k->other = k->figures[i].other;
      k->nothers = k->figures[i].nothers;
    }
  }
  return compare_outputs(k);
}

// ---- speed ----

static int by_size(const void *x, const void *y) {
  double a = *(const double *)x, b = *(const double *)y;
  return (a > b) - (a < b);
}

static double median(double *v, int64_t n) {
  qsort(v, (size_t)n, sizeof *v, by_size);
  return (v[(n - 1) / 2] + v[n / 2]) / 2;
}

static tenon_status measure(Compare *k) {
  Cli *c = k->cli;
  Progress p;
  double seconds = opt_real(c, OPT_compare_seconds, 1);
  k->rounds = seconds > 0 ? opt_int(c, OPT_compare_rounds, 5) : 0;
  if (!k->rounds) return TENON_OK;
  double *ratio = arena_array(&c->arena, double, k->rounds);
  for (int i = 0; i < SIDES; i++) k->median[i] = arena_array(&c->arena, double, k->rounds);
  progress_start(&p, SIDES * k->rounds);
  for (int64_t r = 0; r < k->rounds; r++) {
    for (int i = 0; i < SIDES; i++) {
      progress_step(&p, k->side[i].label);
      tenon_status s = subject_bench(c, &k->side[i], k->inputs[i], seconds, &k->figures[i]);
      if (s) progress_end(&p);
      TRY(s);
      k->median[i][r] = k->figures[i].median_ms;
    }
    ratio[r] = k->median[A][r] / k->median[B][r];
  }
  progress_end(&p);
  k->ratio = median(ratio, k->rounds);
  k->least = ratio[0];  // sorted by now
  k->most = ratio[k->rounds - 1];
  for (int i = 0; i < SIDES; i++) k->time[i] = median(k->median[i], k->rounds);
  return TENON_OK;
}

// ---- what is printed ----

static void print_output(Compare *k, const OutputRow *r, int width) {
  say(k->cli, "  %-*s  %s", width, r->name, r->type ? r->type : "");
  if (r->max_abs > 0 && r->scale > 0)
    say(k->cli, "  max error %.3g, %.2g of the largest element, SNR %.1f dB", r->max_abs,
        r->max_abs / r->scale, r->snr);
  else if (r->matches)
    say(k->cli, "  equal");
  say(k->cli, "%s%s\n", r->matches ? "" : "  DIFFERS: ", r->matches ? "" : r->why);
}

static void print_side(Compare *k, int i) {
  const Subject *s = &k->side[i];
  const Figures *f = &k->figures[i];
  NumText memory;
  say(k->cli, "%c  %s", 'A' + i, s->model);
  if (s->python) say(k->cli, " in onnxruntime %s", f->version ? f->version : "");
  for (int64_t n = 0; n < s->noptions; n++) say(k->cli, " %s", s->option[n]);
  say(k->cli, "\n");
  if (!k->rounds) return;
  say(k->cli, "   median %.4f ms a run, start %.0f ms, %s of memory at the peak\n", k->time[i],
      f->load_ms + f->compile_ms, text_bytes(&memory, f->peak_rss_bytes));
}

static void print_text(Compare *k) {
  int width = 0;
  for (int i = 0; i < SIDES; i++) print_side(k, i);
  for (int64_t i = 0; i < k->output.n; i++)
    width = MAX(width, MIN(40, (int)strlen(k->output.v[i].name)));
  say(k->cli, "outputs, B as the reference: %s\n",
      k->matches ? "all within the tolerance" : "some differ");
  for (int64_t i = 0; i < k->output.n; i++) print_output(k, &k->output.v[i], width);
  for (int64_t i = 0; i < k->nothers; i++)
    say(k->cli, "  %-*s  not compared: no array\n", width, k->other[i]);
  if (k->rounds)
    say(k->cli, "A takes %.3f of B's time (%.3f to %.3f in %lld rounds)\n", k->ratio, k->least,
        k->most, (long long)k->rounds);
}

static void json_side(Compare *k, JsonWriter *w, int i) {
  const Figures *f = &k->figures[i];
  json_key(w, i == A ? "a" : "b");
  json_begin_object(w);
  json_key(w, "model");
  json_cstr(w, k->side[i].model);
  json_key(w, "runtime");
  json_cstr(w, k->side[i].python ? "onnxruntime" : "tenon");
  json_key(w, "version");
  json_cstr(w, k->side[i].python ? f->version : TENON_VERSION);
  if (k->rounds) {
    json_key_f64(w, "median_ms", k->time[i]);
    json_key_f64(w, "load_ms", f->load_ms);
    json_key_f64(w, "compile_ms", f->compile_ms);
    json_key(w, "peak_rss_bytes");
    json_i64(w, f->peak_rss_bytes);
  }
  json_end_object(w);
}

static void json_output(JsonWriter *w, const OutputRow *r) {
  json_begin_object(w);
  json_key(w, "name");
  json_cstr(w, r->name);
  json_key(w, "type");
  json_cstr(w, r->type);
  json_key(w, "matches");
  json_bool(w, r->matches);
  json_key_f64(w, "max_abs_error", r->max_abs);
  if (r->scale > 0) {
    json_key_f64(w, "relative_error", r->max_abs / r->scale);
    json_key_f64(w, "snr_db", r->snr);
  }
  json_key(w, "reason");
  json_cstr(w, r->why);
  json_end_object(w);
}

static void print_json(Compare *k) {
  StrBuf text;
  JsonWriter w;
  strbuf_init(&text, &k->cli->arena);
  json_init(&w, &text, false);
  json_begin_object(&w);
  for (int i = 0; i < SIDES; i++) json_side(k, &w, i);
  json_key(&w, "matches");
  json_bool(&w, k->matches);
  json_key(&w, "outputs");
  json_begin_array(&w);
  for (int64_t i = 0; i < k->output.n; i++) json_output(&w, &k->output.v[i]);
  json_end_array(&w);
  json_key(&w, "not_compared");
  json_begin_flat_array(&w);
  for (int64_t i = 0; i < k->nothers; i++) json_cstr(&w, k->other[i]);
  json_end_array(&w);
  if (k->rounds) {
    json_key(&w, "rounds");
    json_i64(&w, k->rounds);
    json_key_f64(&w, "ratio", k->ratio);
    json_key_f64(&w, "ratio_least", k->least);
    json_key_f64(&w, "ratio_most", k->most);
  }
  json_end_object(&w);
  cli_print(&text);
}

// ---- the command ----

// The outputs of Tenon's own side that no array can hold.
static void list_others(Compare *k) {
  Body *b = k->model->graph->main;
  const char **name = arena_array(&k->cli->arena, const char *, b->nresults + 1);
  for (int64_t i = 0; i < b->nresults; i++)
    if (outputs_need_json(1, &b->result[i])) name[k->nothers++] = b->result_name[i];
  k->other = name;
}

static tenon_status execute(Compare *k) {
  TRY(temp_folder_make(&k->folder, &k->cli->diag));
  k->folder_open = true;
  TRY(open_side(k, k->side[A].python ? B : A, &k->model));
  TRY(model_need_supported(k->model, &k->cli->diag));
  list_others(k);
  TRY(make_inputs(k));
  TRY(name_inputs(k));
  TRY(run_both(k));
  return measure(k);
}

static void close_compare(Compare *k) {
  if (k->held_open) run_deinit(&k->held);
  for (int64_t i = 0; i < k->files.n; i++) file_close(&k->files.v[i]);
  if (k->folder_open) temp_folder_free(&k->folder);
  model_free(k->model);
}

int cmd_compare(Cli *c) {
  // In the arena, since a trap may pass over this frame.
  Compare *k = arena_new(&c->arena, Compare);
  Trap t;
  k->cli = c;
  int rc = set_sides(k);
  if (rc) return rc;
  trap_enter(&t, &c->diag);
  if (setjmp(t.env) == 0) t.status = execute(k);
  trap_leave(&t);
  if (!t.status && opt_given(c, OPT_compare_json)) print_json(k);
  if (!t.status && !opt_given(c, OPT_compare_json)) print_text(k);
  close_compare(k);
  return t.status ? cli_exit_of(t.status) : k->matches ? CLI_OK : CLI_MISMATCH;
}
