// verify_certificate.c -- a quantised model's certificate, computed again (api/quantize.h).
#include "cli/verify/verify_certificate.h"

#include "api/quantize.h"
#include "cli/files.h"

static void print_json(Cli *c, const ReplayResult *r) {
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, &c->arena);
  json_init(&w, &b, false);
  json_begin_object(&w);
  json_key(&w, "model");
  json_cstr(&w, c->pos[0]);
  json_key(&w, "ok");
  json_bool(&w, !r->differs);
  json_key(&w, "differs");
  json_cstr(&w, r->differs);
  json_key(&w, "metric");
  json_cstr(&w, metric_row[r->certificate.metric].name);
  json_key_f64(&w, "value", r->value);
  json_key_f64(&w, "bound", r->bound);
  json_end_object(&w);
  cli_print(&b);
}

int verify_certificate(Cli *c) {
  ReplayOptions o = {.model = c->pos[0],
                     .certificate = opt_text(c, OPT_verify_certificate, NULL),
                     .data = opt_text(c, OPT_verify_data, NULL),
                     .from = opt_text(c, OPT_verify_from, NULL),
                     .threads = (int)opt_int(c, OPT_verify_threads, 0),
                     .target = target_auto()};
  if (c->npos != 1) return cli_usage(c, "verify: --certificate takes one model");
  if (!o.data) return cli_usage(c, "verify: --certificate needs the samples, --data D");
  ReplayResult *r = arena_new(&c->arena, ReplayResult);
  Progress bar;
  Watch watch = progress_watch(&bar);
  o.watch = &watch;
  tenon_status s = quantize_replay(&o, &c->arena, &c->diag, r);
  progress_end(&bar);
  if (s) return cli_exit_of(s);
  const QuantCertificate *k = &r->certificate;
  if (opt_given(c, OPT_verify_json))
    print_json(c, r);
  else if (!r->differs)
    say(c, "%s: as certified: %s %.6g, bound %.6g\n", o.model, metric_row[k->metric].name, r->value,
        r->bound);
  if (!r->differs) return CLI_OK;
  fail(&c->diag, TENON_EINVAL, (Where){.file = o.model}, "not as certified: %s", r->differs);
  return CLI_MISMATCH;
}
