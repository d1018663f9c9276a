// cmd_run.c -- `tenon run`: runs a model, shows or saves what it computes, compares it.
#include "cli/inputs.h"
#include "cli/opt.h"
#include "cli/files.h"
#include "cli/run/outputs.h"
#include "cli/run/overrides.h"
#include "cli/run/per_node.h"
#include "cli/run/sensitivity.h"

#include "api/model.h"
#include "base/budget.h"
#include "compile/program_cache.h"
#include "runtime/artifact.h"
#include "runtime/session.h"

#include <math.h>
#include <signal.h>

enum { SHOWN_VALUES = 8, TOP = 5 };
static const int64_t DEFAULT_ITERATIONS = (int64_t)1 << 31;  // published limit

typedef struct RunCommand {
  Cli *cli;
  Model *model;
  Pool *pool;
  Run run;
  bool run_open;
  FileList files;
  Inputs in;
  Value **out;
  double seconds;
  CompileOptions compile;
  CompileReport made;
  ProgramKey key;  // of its program in the cache
  MemPlan *plan;   // --target plan, and those that compile
  Program *program;
  Session *session;
  Value **reference;   // --compare: what the interpreter gives
  PerNode *per_node;   // --per-node
  const char *target;  // its name; NULL: of a compiled model
  bool chosen;         // by us: the interpreter will do where compiling fails
  bool rest_checked;   // F.npz.json is known to be writable
  bool compared, matches;
  Comparison comparison;
  const char *worst_output;
} RunCommand;

// ---- what is shown of a tensor ----
typedef struct Summary {
  bool numeric;
  double min, max, mean;
  int64_t nnan, ninf;
  int64_t top[TOP];  // positions of the largest, best first
  int ntop;
} Summary;

// A vector of scores: one axis that is not 1, long enough to have a ranking.
static bool is_vector(const Value *v) {
  int64_t longest = 0;
  for (int i = 0; i < v->rank; i++) longest = MAX(longest, v->dims[i]);
  return v->rank >= 1 && longest == v->n && v->n > TOP && dtype_is_float(v->dtype);
}

static void rank_element(Summary *s, const Value *v, int64_t i) {
  double x = val_f64(v, i);
  if (isnan(x)) return;
  int at = s->ntop;
  while (at > 0 && x > val_f64(v, s->top[at - 1])) at--;
  if (at == TOP) return;
  if (s->ntop < TOP) s->ntop++;
  for (int k = s->ntop - 1; k > at; k--) s->top[k] = s->top[k - 1];
  s->top[at] = i;
}

static Summary summarize(const Value *v) {
  Summary s = {.min = INFINITY, .max = -INFINITY};
  DTypeClass k = dtype_class(v->dtype);
  s.numeric = k == DC_FLOAT || k == DC_INT || k == DC_UINT || k == DC_BOOL;
  double sum = 0;
  int64_t finite = 0;
  bool ranked = is_vector(v);
  for (int64_t i = 0; s.numeric && i < v->n; i++) {
    double x = k == DC_UINT && dtype_bits(v->dtype) == 64 ? (double)(uint64_t)val_i64(v, i)
                                                          : val_f64(v, i);
    s.nnan += isnan(x);
    s.ninf += isinf(x);
    if (isnan(x)) continue;
    s.min = fmin(s.min, x);
    s.max = fmax(s.max, x);
    if (isfinite(x)) {
      sum += x;
      finite++;
    }
    if (ranked) rank_element(&s, v, i);
  }
  s.mean = finite ? sum / (double)finite : 0;
  if (!v->n || s.nnan == v->n) s.numeric = false;
  return s;
}

// ---- text ----
static void print_tensor(RunCommand *r, const char *indent, const Value *v) {
  Arena *a = &r->cli->arena;
  ArenaMark m = arena_mark(a);
  StrBuf b;
  strbuf_init(&b, a);
  Summary s = summarize(v);
  if (s.numeric && v->n > 1)
    say(r->cli, "%smin %.6g  max %.6g  mean %.6g", indent, s.min, s.max, s.mean);
  if (s.numeric && v->n > 1 && s.nnan) say(r->cli, "  nan %lld", (long long)s.nnan);
  if (s.numeric && v->n > 1 && s.ninf) say(r->cli, "  inf %lld", (long long)s.ninf);
  if (s.numeric && v->n > 1) putchar('\n');
  for (int64_t i = 0; i < v->n && i < SHOWN_VALUES; i++) {
    if (i) strbuf_putc(&b, ' ');
    print_element(&b, v, i);
  }
  if (v->n > SHOWN_VALUES) strbuf_puts(&b, " ...");
  if (v->n) say(r->cli, "%s%s %s\n", indent, v->n > 1 ? "first" : "value", strbuf_text(&b));
  if (s.ntop) {
    strbuf_init(&b, a);
    for (int i = 0; i < s.ntop; i++) {
      strbuf_printf(&b, "%s%lld: ", i ? ", " : "", (long long)s.top[i]);
      print_element(&b, v, s.top[i]);
    }
    say(r->cli, "%stop %d %s\n", indent, s.ntop, strbuf_text(&b));
  }
  arena_reset(a, m);
}

// Keys and scalars of a map, on one line.
static void print_map(RunCommand *r, const char *indent, const Value *v) {
  const Value *keys = v->items[0], *values = v->items[1];
  Arena *a = &r->cli->arena;
  ArenaMark m = arena_mark(a);
  StrBuf b;
  strbuf_init(&b, a);
  for (int64_t i = 0; i < keys->n && i < SHOWN_VALUES; i++) {
    if (i) strbuf_puts(&b, ", ");
    print_element(&b, keys, i);
    strbuf_puts(&b, ": ");
    if (values->kind == VK_TENSOR)
      print_element(&b, values, i);
    else
      strbuf_puts(&b, values->items[i] ? value_text(a, values->items[i]) : "none");
  }
  if (keys->n > SHOWN_VALUES) strbuf_puts(&b, ", ...");
  say(r->cli, "%s{%s}\n", indent, strbuf_text(&b));
  arena_reset(a, m);
}

// What is in a value; of items in items, their types.
static void print_inside(RunCommand *r, const char *indent, const Value *v) {
  if (v->kind == VK_TENSOR) print_tensor(r, indent, v);
  if (v->kind == VK_MAP) print_map(r, indent, v);
}

static void print_value(RunCommand *r, const char *name, const Value *v) {
  say(r->cli, "%s  %s\n", name, v ? value_text(&r->cli->arena, v) : "none");
  v = outputs_held(v);  // an optional's
  if (!v) return;
  print_inside(r, "  ", v);
  for (int64_t i = 0; v->kind == VK_SEQUENCE && i < v->nitems && i < SHOWN_VALUES; i++) {
    if (!v->items[i]) continue;
    say(r->cli, "  item %lld  %s\n", (long long)i, value_text(&r->cli->arena, v->items[i]));
    print_inside(r, "    ", v->items[i]);
  }
}

static void print_text(RunCommand *r) {
  const Body *b = r->model->graph->main;
  for (int64_t i = 0; i < b->nparams; i++)
    if (r->in.random_inputs[i])
      say(r->cli, "input %s  %s  random, seed %llu\n", b->param[i]->name,
          value_text(&r->cli->arena, r->in.value[i]), (unsigned long long)r->in.seed);
  for (int64_t i = 0; i < b->nresults; i++)
    if (run_wants(&r->run, i)) print_value(r, b->result_name[i], r->out[i]);
  NumText peak;
  say(r->cli, "%.3f s, %s of memory at the peak\n", r->seconds,
      text_bytes(&peak, r->run.peak_bytes));
  if (r->per_node)
    say(r->cli, "%lld results of steps compared, the largest error %.3g\n",
        (long long)r->per_node->ncompared, r->per_node->max_abs);
  if (r->compared) say(r->cli, "%s\n", r->matches ? "all as expected" : "not as expected");
}

// ---- JSON ----
static void json_element(JsonWriter *w, const Value *v, int64_t i) {
  switch (dtype_class(v->dtype)) {
  case DC_BOOL: json_bool(w, val_i64(v, i) != 0); return;
  case DC_INT: json_i64(w, val_i64(v, i)); return;
  case DC_UINT: json_u64(w, (uint64_t)val_i64(v, i)); return;
  case DC_STRING: json_str(w, val_str(v, i)); return;
  case DC_FLOAT:
    if (dtype_bits(v->dtype) <= 32)
      json_f32(w, (float)val_f64(v, i));
    else
      json_f64(w, val_f64(v, i));
    return;
  case DC_COMPLEX:
  case DC_NONE: json_null(w); return;
  }
}

static void json_tensor(JsonWriter *w, const Value *v) {
  Summary s = summarize(v);
  json_key(w, "dtype");
  json_cstr(w, dtype_name(v->dtype));
  json_key(w, "shape");
  json_begin_flat_array(w);
  for (int i = 0; i < v->rank; i++) json_i64(w, v->dims[i]);
  json_end_array(w);
  if (s.numeric) {
    json_key(w, "min");
    json_f64(w, s.min);
    json_key(w, "max");
    json_f64(w, s.max);
    json_key(w, "mean");
    json_f64(w, s.mean);
    json_key(w, "nan");
    json_i64(w, s.nnan);
  }
  json_key(w, "first");
  json_begin_flat_array(w);
  for (int64_t i = 0; i < v->n && i < SHOWN_VALUES; i++) json_element(w, v, i);
  json_end_array(w);
  if (!s.ntop) return;
  json_key(w, "top");
  json_begin_flat_array(w);
  for (int i = 0; i < s.ntop; i++) json_i64(w, s.top[i]);
  json_end_array(w);
}

static void json_value(JsonWriter *w, const char *name, const Value *v) {
  json_begin_object(w);
  if (name) {
    json_key(w, "name");
    json_cstr(w, name);
  }
  if (v && v->kind == VK_TENSOR) {
    json_tensor(w, v);
  } else if (v) {
    static const char *const kinds[] = {"tensor", "sequence", "optional", "map"};
    json_key(w, "kind");
    json_cstr(w, kinds[v->kind]);
    json_key(w, "items");
    json_begin_array(w);
    // Nested kinds go no deeper than types can.
    for (int64_t i = 0; i < v->nitems; i++) json_value(w, NULL, v->items[i]);
    json_end_array(w);
  }
  json_end_object(w);
}

static void json_comparison(JsonWriter *w, const RunCommand *r) {
  json_key(w, "expect");
  json_begin_object(w);
  json_key(w, "matches");
  json_bool(w, r->matches);
  json_key(w, "elements");
  json_i64(w, r->comparison.n);
  json_key(w, "wrong");
  json_i64(w, r->comparison.nwrong);
  json_key(w, "max_abs_error");
  json_f64(w, r->comparison.max_abs);
  json_key(w, "output");
  json_cstr(w, r->worst_output);
  json_key(w, "reason");
  json_cstr(w, r->comparison.why);
  json_end_object(w);
}

static void print_json(RunCommand *r) {
  const Body *b = r->model->graph->main;
  StrBuf text;
  JsonWriter w;
  strbuf_init(&text, &r->cli->arena);
  json_init(&w, &text, false);
  json_begin_object(&w);
  json_key(&w, "model");
  json_cstr(&w, r->cli->pos[0]);
  json_key(&w, "inputs");
  json_begin_array(&w);
  for (int64_t i = 0; i < b->nparams; i++) {
    json_begin_object(&w);
    json_key(&w, "name");
    json_cstr(&w, b->param[i]->name);
    json_key(&w, "type");
    json_cstr(&w, r->in.value[i] ? value_text(&r->cli->arena, r->in.value[i]) : NULL);
    json_key(&w, "random");
    json_bool(&w, r->in.random_inputs[i]);
    json_end_object(&w);
  }
  json_end_array(&w);
  json_key(&w, "outputs");
  json_begin_array(&w);
  for (int64_t i = 0; i < b->nresults; i++)
    if (run_wants(&r->run, i)) json_value(&w, b->result_name[i], r->out[i]);
  json_end_array(&w);
  json_key(&w, "seconds");
  json_f64(&w, r->seconds);
  json_key(&w, "peak_memory_bytes");
  json_i64(&w, r->run.peak_bytes);
  if (r->compared) json_comparison(&w, r);
  json_end_object(&w);
  cli_print(&text);
}

// ---- files ----
// Ctrl-C waits until the file is in place, so that no half of one is left behind.
static tenon_status write_whole(RunCommand *r, const char *path) {
  sigset_t interrupt, before;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  sigprocmask(SIG_BLOCK, &interrupt, &before);
  const Body *b = r->model->graph->main;
  Outputs o = {b->nresults, b->result_name, r->out};
  tenon_status s =
      outputs_write(r->cli, &o, path, opt_given(r->cli, OPT_run_compress), r->rest_checked);
  sigprocmask(SIG_SETMASK, &before, NULL);
  return s;
}

// The output that an expected array is for: by name, or by position where it has none of its own.
// *item is the position in a sequence, else -1.
static int64_t find_output(const RunCommand *r, const NdArray *v, int64_t narrays, int64_t *item) {
  const Body *b = r->model->graph->main;
  int64_t i;
  Str sequence;
  *item = -1;
  for (i = 0; i < b->nresults; i++)
    if (str_is(v->name, b->result_name[i])) return i;
  if (!v->name.n && narrays == 1) return 0;
  if (str_starts(v->name, "arr_") && str_to_i64((Str){v->name.p + 4, v->name.n - 4}, &i) &&
      i >= 0 && i < b->nresults)
    return i;
  for (i = 0; item_name(v->name, &sequence, item) && i < b->nresults; i++)
    if (str_is(sequence, b->result_name[i]) && outputs_held(r->out[i]) &&
        outputs_held(r->out[i])->kind == VK_SEQUENCE)
      return i;
  return -1;
}

// A sequence of which the file has fewer items, or more, than there are.
static void compare_lengths(RunCommand *r, const int64_t *nitems) {
  const Body *b = r->model->graph->main;
  for (int64_t i = 0; i < b->nresults; i++) {
    if (!nitems[i] || nitems[i] == outputs_held(r->out[i])->nitems || r->comparison.why) continue;
    r->comparison.why =
        str_printf(&r->cli->arena, "got a sequence of %lld, expected %lld",
                   (long long)outputs_held(r->out[i])->nitems, (long long)nitems[i]);
    r->comparison.nwrong++;
    r->worst_output = b->result_name[i];
  }
}

static tenon_status compare_one(RunCommand *r, NdArray *v, int64_t narrays, const char *path,
                                int64_t *nitems) {
  const Body *b = r->model->graph->main;
  Diag *d = &r->cli->diag;
  int64_t item, i = find_output(r, v, narrays, &item);
  if (i < 0) {
    fail(d, TENON_EINVAL, (Where){.file = path}, "the model has no output '%.*s'",
         STR_ARG(v->name));
    for (int64_t k = 0; k < b->nresults && k < 20; k++)
      diag_note(d, "output %s", b->result_name[k]);
    return TENON_EINVAL;
  }
  if (!run_wants(&r->run, i)) return TENON_OK;
  const Value *got = outputs_held(r->out[i]);
  const char *name = b->result_name[i];
  Value *want;
  if (item >= 0) {
    nitems[i]++;
    name = str_copy(&r->cli->arena, v->name);
    got = item < got->nitems ? got->items[item] : NULL;
  }
  if (got && got->kind == VK_TENSOR && (!v->dtype || dtype_bits(got->dtype) < 8))
    TRY(nd_convert(&r->cli->arena, v, got->dtype, d));
  TRY(value_of_array(&r->run, v, &want));
  const char *before = r->comparison.why;
  if (!values_match(&r->comparison, got, want) && !before) r->worst_output = name;
  return TENON_OK;
}

static Comparison *new_comparison(RunCommand *r) {
  r->comparison = (Comparison){.arena = &r->cli->arena,
                               .given = tolerance_given(r->cli, OPT_run_rtol, OPT_run_atol)};
  return &r->comparison;
}

static tenon_status compare(RunCommand *r, const char *path) {
  Cli *c = r->cli;
  NdArrayList list;
  TRY(arrays_read(&c->arena, path, &r->files, &c->diag, &list));
  new_comparison(r);
  int64_t *nitems = arena_array(&c->arena, int64_t, r->model->graph->main->nresults + 1);
  for (int64_t i = 0; i < list.n; i++) TRY(compare_one(r, &list.v[i], list.n, path, nitems));
  compare_lengths(r, nitems);
  r->compared = true;
  r->matches = !r->comparison.why;
  if (!r->matches)
    fail(&c->diag, TENON_EINVAL, (Where){.file = path}, "output '%s': %s", r->worst_output,
         r->comparison.why);
  return TENON_OK;
}

// ---- --compare interp ----
// The factors of all outputs; where the interpreter cannot run once more, there are none.
static const double *explained(RunCommand *r) {
  const Body *b = r->model->graph->main;
  double *factor = arena_array(&r->cli->arena, double, b->nresults + 1);
  Diag *quiet = arena_new(&r->cli->arena, Diag);
  diag_init(quiet);
  Sensitivity s = {.interp = r->model->interp,
                   .inputs = r->in.value,
                   .reference = r->reference,
                   .nresults = b->nresults,
                   .seed = r->run.seed,
                   .max_bytes = r->run.max_bytes,
                   .pool = r->pool,
                   .arena = &r->cli->arena};
  if (!s.interp || r->comparison.given || sensitivity_factors(&s, quiet, factor)) return NULL;
  return factor;
}

static void compare_outputs(RunCommand *r, const double *factor) {
  const Body *b = r->model->graph->main;
  Comparison *cmp = new_comparison(r);
  cmp->scaled = true;
  for (int64_t i = 0; i < b->nresults; i++) {
    const char *before = cmp->why;
    cmp->factor = factor ? factor[i] : 0;
    if (!values_match(cmp, r->out[i], r->reference[i]) && !before)
      r->worst_output = b->result_name[i];
  }
}

static void compare_reference(RunCommand *r) {
  compare_outputs(r, NULL);
  // Beyond the bound of one layer: what do roundings explain?
  const double *factor = r->comparison.why ? explained(r) : NULL;
  if (factor) compare_outputs(r, factor);
  const Comparison *cmp = &r->comparison;
  r->compared = true;
  r->matches = !cmp->why && !(r->per_node && r->per_node->why);
  if (cmp->why)
    fail(&r->cli->diag, TENON_EINVAL, NOWHERE,
         "output '%s' differs from the interpreter's by more than roundings explain: %s",
         r->worst_output, cmp->why);
  if (cmp->why && r->compile.precision != PRECISION_F32)
    diag_note(&r->cli->diag,
              "the interpreter computes in the model's own types: with --precision "
              "they differ by more; `tenon verify --precision` prints the error of each layer");
  if (r->per_node && r->per_node->why)
    diag_note(&r->cli->diag, "first difference: %s", r->per_node->why);
}

// A chosen size that the model cannot take is no fault of its own: say which could be set.
static tenon_status note_dims(RunCommand *r, tenon_status s) {
  const DimBinding *b = &r->in.dims;
  StrBuf names;
  strbuf_init(&names, &r->cli->arena);
  for (int32_t i = 0; i < b->n; i++)
    if (r->in.defaulted[i])
      strbuf_printf(&names, "%s%s=%lld", names.n ? ", " : "", r->model->graph->dims.sym.v[i]->name,
                    (long long)b->value[i]);
  if (s && names.n)
    diag_note(&r->cli->diag, "sizes that were assumed: %s; set others with --dim NAME=N",
              strbuf_text(&names));
  return s;
}

// ---- the command ----
static tenon_status compile(RunCommand *r, SessionOptions *so) {
  Cli *c = r->cli;
  Graph *g = r->model->graph;
  Progress bar;
  Watch watch = progress_watch(&bar);
  r->compile.watch = &watch;
  tenon_status s = compile_graph(g, &r->compile, COMPILE_BUILD, &c->arena, &c->diag, &r->made);
  if (!s) program_keep(&r->key, &r->compile, &r->made);
  r->compile.watch = NULL;
  progress_end(&bar);
  TRY(s);
  r->program = r->made.program;
  warn_declined(c, &r->made);
  if (!opt_given(c, OPT_run_per_node)) return TENON_OK;
  r->per_node = arena_new(&c->arena, PerNode);
  new_comparison(r);
  *r->per_node = (PerNode){.arena = &c->arena, .given = r->comparison.given, .run = &r->run};
  return per_node_start(r->per_node, g, r->plan, &r->made.compiled, r->in.value, so);
}

static tenon_status compile_or_not(RunCommand *r, SessionOptions *so) {
  Cli *c = r->cli;
  tenon_status s = compile(r, so);
  if (!s || !r->chosen || r->program || s == TENON_ENOMEM || s == TENON_EIO) return s;
  if (r->compile.strict || r->compile.schedule.n || r->compile.tuned.path)
    return s;      // asked for, and refused
  fprintf(stderr,  // the text is clean, and may have several lines
          "tenon: warning: run by the interpreter, which is slow, since %s cannot compile it: %s\n",
          r->target, c->diag.text);
  diag_init(&c->diag);
  r->plan = NULL;
  return TENON_OK;
}

// What is interpreted needs no program; what is compiled goes on from there, or is in the cache.
static tenon_status optimise_and_plan(RunCommand *r, bool plan) {
  Cli *c = r->cli;
  TRY(opt_compile(c, &r->compile));
  r->compile.target = r->target ? target_find(r->target) : NULL;
  // What is compared node by node needs the graph and the loops of its kernels.
  if (!opt_given(c, OPT_run_per_node))
    r->key = program_key(r->model->graph, &r->compile, r->model->path, &c->arena);
  if (program_find(&r->key, &c->arena, &r->made)) return TENON_OK;
  TRY(compile_graph(r->model->graph, &r->compile, plan ? COMPILE_PLAN : COMPILE_OPTIMISE, &c->arena,
                    &c->diag, &r->made));
  r->plan = r->made.plan;
  return TENON_OK;
}

// --only: the outputs that are computed.
static tenon_status take_wanted(RunCommand *r) {
  const Body *b = r->model->graph->main;
  const OptionValue *v = &r->cli->opt[OPT_run_only];
  if (!v->count) return TENON_OK;
  bool *wanted = arena_array(&r->cli->arena, bool, MAX(b->nresults, 1));
  for (int64_t k = 0; k < v->count; k++) {
    int64_t i = 0;
    while (i < b->nresults && strcmp(b->result_name[i], v->text[k])) i++;
    if (i == b->nresults) {
      r->cli->misused = true;
      fail(&r->cli->diag, TENON_EINVAL, NOWHERE, "the model has no output '%s'%s", v->text[k],
           did_you_mean(str_of(v->text[k]), b->result_name, b->nresults).s);
      for (i = 0; i < b->nresults && i < 20; i++)
        diag_note(&r->cli->diag, "output %s", b->result_name[i]);
      return TENON_EINVAL;
    }
    wanted[i] = true;
  }
  r->run.wanted = wanted;
  return TENON_OK;
}

// What --output needs besides its file is checked before the run.
static tenon_status declare_output(RunCommand *r) {
  Cli *c = r->cli;
  const char *path = opt_text(c, OPT_run_output, NULL);
  const Body *b = r->model->graph->main;
  if (!path || !strcmp(path, "-") || str_ends(str_of(path), ".npy") ||
      str_ends(str_of(path), ".json") || !outputs_need_json(b->nresults, b->result))
    return TENON_OK;
  r->rest_checked = true;
  if (!files_output(c, outputs_json_path(&c->arena, path), "the rest of --output")) return TENON_OK;
  c->misused = true;
  return TENON_EINVAL;
}

static tenon_status execute(RunCommand *r) {
  Cli *c = r->cli;
  Graph *g = r->model->graph;
  TRY(model_need_supported(r->model, &c->diag));
  TRY(declare_output(r));
  r->pool = pool_create((int)opt_int(c, OPT_run_threads, 0));
  run_init(&r->run, r->pool, &c->diag);
  r->run_open = true;
  r->run.seed = r->in.seed;
  r->run.max_bytes = opt_int(c, OPT_run_max_memory, machine_memory());
  r->run.budget = opt_int(c, OPT_run_max_iterations, DEFAULT_ITERATIONS);
  r->run.ops_budget = opt_int(c, OPT_run_max_ops, -1);
  TRY(take_wanted(r));
  // Before the graph changes: random inputs follow from the model alone.
  TRY(inputs_read(&r->in, c, &r->run, opt_text(c, OPT_run_inputs, NULL), &c->opt[OPT_run_input]));
  SessionOptions so = {.threads = (int)opt_int(c, OPT_run_threads, 0)};
  bool plan = r->target && strcmp(r->target, "interp") != 0;
  if (opt_given(c, OPT_run_compare)) {
    r->reference = arena_array(&c->arena, Value *, g->main->nresults + 1);
    TRY(model_run(r->model, &r->run, r->in.value, r->reference));
  }
  bool optimise = plan || opt_given(c, OPT_run_level) || opt_given(c, OPT_run_precision);
  if (optimise) TRY(optimise_and_plan(r, plan));
  if (r->model->program) r->program = program_retain(r->model->program);
  if (r->target && target_find(r->target)) TRY(compile_or_not(r, &so));
  if (r->program) TRY(session_create(r->program, &so, &c->diag, &r->session));
  if (opt_given(c, OPT_run_expand))
    TRY(interp_create(g, &(InterpOptions){.expand = true}, &c->diag, &r->model->interp));
  r->out = arena_array(&c->arena, Value *, g->main->nresults + 1);
  int64_t start = platform->now();
  if (!r->run.max_bytes) r->run.max_bytes = machine_memory();
  TRY(note_dims(r, r->session ? session_run(r->session, &r->run, r->in.value, NULL, r->out)
                   : r->plan  ? plan_run(r->plan, &r->run, r->in.value, r->out)
                              : model_run(r->model, &r->run, r->in.value, r->out)));
  r->seconds = (double)(platform->now() - start) / 1e9;
  const char *output = opt_text(c, OPT_run_output, NULL),
             *expect = opt_text(c, OPT_run_expect, NULL);
  if (output) TRY(write_whole(r, output));
  if (r->reference) compare_reference(r);
  if (expect) TRY(compare(r, expect));
  return TENON_OK;
}

static const char no_codegen[] = "tenon-codegen was not found";

// Where nobody says: the fastest target, where it can be made and nothing is asked for that only
// the interpreter does.
static const char *choose_target(const Cli *c, const char **why) {
  static const int own[] = {OPT_run_expand, OPT_run_level, OPT_run_max_ops};
  *why = NULL;
  for (int i = 0; i < ARRAY_LEN(own); i++)
    if (opt_given(c, own[i])) *why = "only the interpreter does what is asked for";
  const Target *best = target_auto();
  if (!*why && best->host_only) *why = no_codegen;
  return *why ? "interp" : best->name;
}

static void say_what_runs(const RunCommand *r, const char *why) {
  const Program *p = r->model->program;
  if (!p) {
    fprintf(stderr, "tenon: run by %s%s%s\n", r->target, why ? ": " : "", why ? why : "");
    return;
  }
  ArtifactInfo info;
  artifact_info(p, &info);
  fprintf(stderr, "tenon: run by the code in the file, for %s\n", info.variant[info.chosen].target);
  for (int i = 0; i < info.nvariants; i++)
    if (info.variant[i].why_not)
      fprintf(stderr, "tenon: not that for %s: %s\n", info.variant[i].target,
              info.variant[i].why_not);
}

// What is asked for must go together; 0, or the exit code of what was said.
static int check_usage(Cli *c, const char *target, bool chosen) {
  if (strcmp(target, "interp") && strcmp(target, "plan") && !target_find(target))
    return cli_usage(c, "run: unknown target '%s'%s", target, target_hint(target, &c->arena));
  if ((opt_given(c, OPT_run_device) || opt_given(c, OPT_run_place)) &&
      (chosen || !target_find(target)))
    return cli_usage(c, "run: --device and --place go with a --target that compiles for devices");
  if (opt_given(c, OPT_run_compare) && strcmp(opt_text(c, OPT_run_compare, ""), "interp"))
    return cli_usage(c, "run: --compare takes 'interp', not '%s'",
                     opt_text(c, OPT_run_compare, ""));
  if (opt_given(c, OPT_run_per_node) && (!opt_given(c, OPT_run_compare) || !target_find(target)))
    return cli_usage(c, "run: --per-node needs --compare interp and a target that compiles");
  if (opt_given(c, OPT_run_schedule) && !target_find(target))
    return cli_usage(c, "run: --schedule goes with a target that compiles, and %s does not",
                     target);
  return 0;
}

int cmd_run(Cli *c) {
  const char *target = opt_text(c, OPT_run_target, "auto"), *why = NULL;
  bool chosen = !strcmp(target, "auto");
  if (chosen) target = choose_target(c, &why);
  int rc = check_usage(c, target, chosen);
  if (rc) return rc;
  // In the arena, since a trap may pass over this frame.
  RunCommand *r = arena_new(&c->arena, RunCommand);
  r->cli = c;
  ModelOptions o = {.target = opt_text(c, OPT_run_target, NULL)};
  rc = fixed_read(c, &c->opt[OPT_run_fix], &o);
  if (!rc) rc = foreign_read(c, &c->opt[OPT_run_type], &c->opt[OPT_run_weights], &o);
  if (!rc)
    rc = cli_exit_of(open_with_overrides(c, c->pos[0], &c->opt[OPT_run_input],
                                         opt_text(c, OPT_run_inputs, NULL), o, &r->model));
  if (rc) return rc;
  if (r->model->program && (opt_given(c, OPT_run_level) || opt_given(c, OPT_run_expand) ||
                            opt_given(c, OPT_run_compare) || opt_given(c, OPT_run_device) ||
                            opt_given(c, OPT_run_place) || opt_given(c, OPT_run_schedule) ||
                            opt_given(c, OPT_run_tuned))) {
    model_free(r->model);
    return cli_usage(c,
                     "run: %s is compiled already: -O, --expand, --device, --place, --schedule "
                     "and --tuned are for `compile`, --compare is for a model",
                     c->pos[0]);
  }
  if (!r->model->program) r->target = target;
  r->chosen = chosen;
  // What is interpreted for want of a code generator is slow, and is never so in silence.
  bool lost = r->chosen && why == no_codegen && !r->model->program;
  if (lost || opt_given(c, OPT_run_verbose)) say_what_runs(r, why);
  r->in = (Inputs){.graph = r->model->graph,
                   .program = r->model->program,
                   .arena = &c->arena,
                   .files = &r->files,
                   .seed = (uint64_t)opt_int(c, OPT_run_seed, 0)};
  rc = dims_read(c, r->model->graph, &c->opt[OPT_run_dim], &r->in.dims);
  if (!rc) rc = cli_exit_of(execute(r));
  if (rc && r->in.misused) rc = CLI_USAGE;
  // Results on standard output are data: nothing else may stand there.
  bool quiet = !strcmp(opt_text(c, OPT_run_output, ""), "-");
  if (!rc && !quiet) {
    if (opt_given(c, OPT_run_json))
      print_json(r);
    else
      print_text(r);
  }
  if (!rc && r->compared && !r->matches) rc = CLI_MISMATCH;
  if (r->run_open) run_deinit(&r->run);
  if (r->per_node) per_node_end(r->per_node);
  session_free(r->session);
  program_release(r->program);
  pool_release(r->pool);
  for (int64_t i = 0; i < r->files.n; i++) file_close(&r->files.v[i]);
  model_free(r->model);
  return rc;
}
