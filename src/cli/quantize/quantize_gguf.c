// quantize_gguf.c -- `tenon quantize` of GGUF files: options and what is printed
// (api/quantize_gguf.h).
#include "cli/quantize/quantize.h"

#include "api/quantize_gguf.h"
#include "eval/ggml.h"

static void say_result(Cli *c, const QuantizeGgufOptions *o, const QuantizeGgufResult *r) {
  NumText a, b;
  say(c, "%s: %lld of %lld matrices quantised, file %s of %s (%.2f)\n", o->output,
      (long long)r->quantized, (long long)r->matrices, text_bytes(&a, r->bytes[1]),
      text_bytes(&b, r->bytes[0]), (double)r->bytes[1] / (double)MAX(r->bytes[0], 1));
  for (int i = 0; i < GGML_NTYPES; i++)
    if (r->of[i]) say(c, "  %s: %lld\n", ggml_type[i].name, (long long)r->of[i]);
  if (r->already)
    say(c, "  %lld were in block types before and stay as they are\n", (long long)r->already);
}

static void print_json(const QuantizeGgufOptions *o, const QuantizeGgufResult *r, Arena *a) {
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, a);
  json_init(&w, &b, false);
  json_begin_object(&w);
  json_key(&w, "model");
  json_cstr(&w, o->output);
  json_key(&w, "matrices");
  json_i64(&w, r->matrices);
  json_key(&w, "quantized");
  json_i64(&w, r->quantized);
  json_key(&w, "bytes");
  json_begin_flat_array(&w);
  for (int k = 0; k < 2; k++) json_i64(&w, r->bytes[k]);
  json_end_array(&w);
  json_end_object(&w);
  cli_print(&b);
}

int quantize_gguf_file(Cli *c) {
  static const int only_onnx[] = {OPT_quantize_data,   OPT_quantize_labels, OPT_quantize_budget,
                                  OPT_quantize_metric, OPT_quantize_method, OPT_quantize_block,
                                  OPT_quantize_stats,  OPT_quantize_report, OPT_quantize_target};
  QuantizeGgufOptions o = {.model = c->pos[0],
                           .output = opt_text(c, OPT_quantize_output, NULL),
                           .to = opt_text(c, OPT_quantize_to, "q4_k"),
                           .keep = c->opt[OPT_quantize_keep].text,
                           .nkeep = c->opt[OPT_quantize_keep].count,
                           .threads = (int)opt_int(c, OPT_quantize_threads, 0)};
  QuantizeGgufResult r;
  Progress bar;
  for (int64_t i = 0; i < ARRAY_LEN(only_onnx); i++)
    if (opt_given(c, only_onnx[i]))
      return cli_usage(c, "quantize: GGUF files are rounded without samples: --to, --keep and "
                          "--threads are all they take");
  Watch watch = progress_watch(&bar);
  o.watch = &watch;
  tenon_status s = quantize_gguf(&o, &c->arena, &c->diag, &c->misused, &r);
  progress_end(&bar);
  if (s) return cli_exit_of(s);
  if (opt_given(c, OPT_quantize_json))
    print_json(&o, &r, &c->arena);
  else
    say_result(c, &o, &r);
  return CLI_OK;
}
