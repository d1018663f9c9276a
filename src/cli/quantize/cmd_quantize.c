// cmd_quantize.c -- `tenon quantize`: options, progress and what is printed (api/quantize.h).
#include "cli/cli.h"
#include "cli/files.h"
#include "cli/quantize/quantize.h"

// ---- what is printed ----

static const char *percent(NumText *b, Metric m, double v) {
  bool share = metric_row[m].kind != METRIC_MEAN || m == METRIC_RMS;
  snprintf(b->s, sizeof b->s, share ? "%.2f %%" : "%.6g", share ? 100 * v : v);
  return b->s;
}

static void say_layers(Cli *c, const QuantizeOptions *o, const QuantizeResult *r) {
  const QuantCertificate *k = &r->certificate;
  for (int64_t i = 0; i < k->layer.n; i++)
    if (k->layer.v[i].kept)
      say(c, "  %s stays %s %s\n", k->layer.v[i].node, o->pattern ? "dense" : "in f32",
          k->layer.v[i].kept);
}

// Each choice that was judged on the search's samples, the most exact last.
static void say_search(Cli *c, const QuantizeOptions *o, const QuantizeResult *r) {
  const SearchResult *s = &r->search;
  NumText a, b;
  say(c, "search: %lld coded runs, %lld choices judged\n", (long long)s->runs,
      (long long)s->point.n);
  if (s->point.n)
    say(c, "  %10s %10s %12s %12s\n", o->pattern ? "pruned" : "quantised", "times",
        metric_row[r->budget.metric].name, "bound");
  for (int64_t i = 0; i < s->point.n; i++) {
    const SearchPoint *p = &s->point.v[i];
    say(c, "  %10lld %10.2f %12s %12s%s\n", (long long)p->quantized, 1 / p->time.ratio,
        percent(&a, r->budget.metric, p->value), percent(&b, r->budget.metric, p->bound),
        i == s->best ? "  taken" : "");
  }
}

static void say_result(Cli *c, const QuantizeOptions *o, const QuantizeResult *r) {
  const QuantCertificate *k = &r->certificate;
  NumText a, b;
  if (r->bytes[1])
    say(c, "%s: %lld of %lld contractions %s (%s), file %s of %s (%.2f)\n",
        r->verdict == QUANTIZE_WRITTEN ? o->output : "not written", (long long)r->quantized,
        (long long)r->groups, o->pattern ? "pruned" : "quantised", o->pattern ? o->pattern : o->to,
        text_bytes(&a, r->bytes[1]), text_bytes(&b, r->bytes[0]),
        (double)r->bytes[1] / (double)MAX(r->bytes[0], 1));
  if (r->migration && (r->migrated || o->migrate)) say(c, "%s\n", r->migration);
  if (r->searched) say_search(c, o, r);
  if (!r->certified && o->pattern) say_layers(c, o, r);
  if (!r->certified) return;
  say(c, "time: %.1f us, %.1f us before: %.2f times as fast\n", r->time.ns[1] / 1e3,
      r->time.ns[0] / 1e3, 1 / r->time.ratio);
  say(c, "samples: %lld calibrate, %lld search, %lld certify; %lld duplicates left out\n",
      (long long)k->split[0], (long long)k->split[1], (long long)k->split[2],
      (long long)r->duplicates);
  say(c, "%s: %s; with 95%% confidence at %s %s on other samples of this kind\n",
      metric_row[k->metric].name, percent(&a, k->metric, k->value),
      metric_row[k->metric].sign > 0 ? "least" : "most", percent(&b, k->metric, k->bound));
  if (k->looks > 1)
    say(c,
        "these samples have certified %lld models of this origin: the bound holds for the "
        "first\n",
        (long long)k->looks);
  say_layers(c, o, r);
  if (r->verdict == QUANTIZE_WRITTEN) say(c, "certificate: %s\n", r->certificate_path);
}

static void print_points(JsonWriter *w, const SearchResult *s) {
  json_key(w, "search");
  json_begin_array(w);
  for (int64_t i = 0; i < s->point.n; i++) {
    const SearchPoint *p = &s->point.v[i];
    json_begin_flat_object(w);
    json_key(w, "quantized");
    json_i64(w, p->quantized);
    json_key_f64(w, "time-ratio", p->time.ratio);
    json_key_f64(w, "value", p->value);
    json_key_f64(w, "bound", p->bound);
    json_key(w, "taken");
    json_bool(w, i == s->best);
    json_end_object(w);
  }
  json_end_array(w);
}

static void print_json(Cli *c, const QuantizeOptions *o, const QuantizeResult *r) {
  static const char *const verdicts[] = {"written", "slower", "missed"};
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, &c->arena);
  json_init(&w, &b, false);
  json_begin_object(&w);
  json_key(&w, "model");
  json_cstr(&w, o->output);
  json_key(&w, "verdict");
  json_cstr(&w, verdicts[r->verdict]);
  json_key(&w, "contractions");
  json_i64(&w, r->groups);
  json_key(&w, o->pattern ? "pruned" : "quantized");
  json_i64(&w, r->quantized);
  json_key(&w, "bytes");
  json_begin_flat_array(&w);
  for (int k = 0; k < 2; k++) json_i64(&w, r->bytes[k]);
  json_end_array(&w);
  if (r->migration) {
    json_key(&w, "migration");
    json_cstr(&w, r->migration);
  }
  if (r->searched) print_points(&w, &r->search);
  if (r->certified) {
    json_key(&w, "ns");
    json_begin_flat_array(&w);
    for (int k = 0; k < 2; k++) json_f64(&w, r->time.ns[k]);
    json_end_array(&w);
    json_key(&w, "metric");
    json_cstr(&w, metric_row[r->certificate.metric].name);
    json_key_f64(&w, "value", r->certificate.value);
    json_key_f64(&w, "bound", r->certificate.bound);
  }
  json_end_object(&w);
  cli_print(&b);
}

// ---- the command ----

int quantize_target(Cli *c, const char *command, const char *name, const Target **out) {
  const char *why;
  *out = name ? target_find(name) : target_auto();
  if (!*out)
    return cli_usage(c, "%s: unknown target '%s'%s", command, name, target_hint(name, &c->arena));
  if (target_there(*out, &why)) return CLI_OK;
  fail(&c->diag, TENON_EUNSUPPORTED, NOWHERE, "target %s is not available on this machine: %s",
       (*out)->name, why);
  return CLI_UNSUPPORTED;
}

static int read_options(Cli *c, QuantizeOptions *o) {
  *o = (QuantizeOptions){.model = c->pos[0],
                         .data = opt_text(c, OPT_quantize_data, NULL),
                         .labels = opt_text(c, OPT_quantize_labels, NULL),
                         .to = opt_text(c, OPT_quantize_to, "int8"),
                         .budget = opt_text(c, OPT_quantize_budget, NULL),
                         .metric = opt_text(c, OPT_quantize_metric, NULL),
                         .output = opt_text(c, OPT_quantize_output, NULL),
                         .report = opt_text(c, OPT_quantize_report, NULL),
                         .stats = opt_text(c, OPT_quantize_stats, NULL),
                         .method = opt_text(c, OPT_quantize_method, NULL),
                         .block = opt_int(c, OPT_quantize_block, 0),
                         .migrate = opt_text(c, OPT_quantize_migrate, NULL),
                         .keep = c->opt[OPT_quantize_keep].text,
                         .nkeep = c->opt[OPT_quantize_keep].count,
                         .threads = (int)opt_int(c, OPT_quantize_threads, 0),
                         .seed = (uint64_t)opt_int(c, OPT_quantize_seed, 0),
                         .allow_slower = opt_given(c, OPT_quantize_allow_slower),
                         .no_correction = opt_given(c, OPT_quantize_no_correction)};
  if (!o->output || !str_ends(str_of(o->output), ".onnx"))
    return cli_usage(c, "quantize needs -o F.onnx, or F.gguf");
  int rc =
      files_output(c, str_printf(&c->arena, "%s.certificate.json", o->output), "the certificate");
  return rc ? rc
            : quantize_target(c, "quantize", opt_text(c, OPT_quantize_target, NULL), &o->target);
}

static int say_verdict(Cli *c, const QuantizeOptions *o, const QuantizeResult *r) {
  bool none = (r->searched || o->pattern) && r->search.best < 0;
  if (r->verdict == QUANTIZE_SLOWER && none && o->allow_slower)
    fail(&c->diag, TENON_EINVAL, NOWHERE,
         "nothing is written: --keep, the pattern and the sizes leave no contraction of %s to "
         "change",
         o->model);
  else if (r->verdict == QUANTIZE_SLOWER && none)
    fail(&c->diag, TENON_EINVAL, NOWHERE,
         o->pattern ? "nothing is written: no contraction of %s would be faster with zeros; "
                      "--allow-slower prunes all the same"
                    : "nothing is written: no contraction of %s would be faster in 8 bits; "
                      "--allow-slower quantises for the size",
         o->model);
  else if (r->verdict == QUANTIZE_SLOWER)
    fail(&c->diag, TENON_EINVAL, NOWHERE,
         "nothing is written: the %s model is not faster than %s; --allow-slower writes it",
         o->pattern ? "pruned" : "quantised", o->model);
  if (r->verdict == QUANTIZE_SLOWER) return CLI_FAILED;
  fail(&c->diag, TENON_EINVAL, NOWHERE,
       none ? "nothing is written: no choice meets %s on the samples of the search"
            : "nothing is written: the bound does not meet %s",
       o->budget);
  return CLI_MISMATCH;
}

int quantize_run(Cli *c, QuantizeOptions *o, bool json) {
  QuantizeResult *r = arena_new(&c->arena, QuantizeResult);
  Progress bar;
  Watch watch = progress_watch(&bar);
  o->watch = &watch;
  tenon_status s = quantize_model(o, &c->arena, &c->diag, &c->misused, r);
  progress_end(&bar);
  if (s) return cli_exit_of(s);
  if (json)
    print_json(c, o, r);
  else
    say_result(c, o, r);
  return r->verdict == QUANTIZE_WRITTEN ? CLI_OK : say_verdict(c, o, r);
}

int cmd_quantize(Cli *c) {
  QuantizeOptions o;
  if (str_ends(str_of(opt_text(c, OPT_quantize_output, "")), ".gguf")) return quantize_gguf_file(c);
  int rc = read_options(c, &o);
  return rc ? rc : quantize_run(c, &o, opt_given(c, OPT_quantize_json));
}
