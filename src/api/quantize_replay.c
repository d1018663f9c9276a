// quantize_replay.c -- a certificate computed again, from the files that it names (quantize.h).
#include "api/quantize.h"

#include <math.h>

// All that is owned; in the caller's arena, since a trap may pass over the frames below.
typedef struct Replay {
  const ReplayOptions *o;
  Arena *arena;
  Diag *diag;
  Model *from, *made;
  Dataset data;
  Runner float_runner, runner;
} Replay;

static void close_all(Replay *q) {
  runner_close(&q->runner);
  runner_close(&q->float_runner);
  dataset_close(&q->data);
  model_free(q->made);
  model_free(q->from);
}

static tenon_status open_hashed(const char *path, Diag *d, Model **out, Hash *hash) {
  TRY(model_open(path, NULL, d, out));
  TRY(model_need_supported(*out, d));
  *hash = hash_of_bytes((Str){(const char *)(*out)->file.bytes, (*out)->file.size});
  return TENON_OK;
}

static bool hash_same(const Hash *a, const Hash *b) { return !memcmp(a, b, sizeof *a); }

// Numbers that were computed by another order of sums are the same to six digits.
static bool number_same(double a, double b) { return a == b || fabs(a - b) <= 1e-6 * fabs(b); }

static tenon_status replay(Replay *q, ReplayResult *r) {
  const ReplayOptions *o = q->o;
  const QuantCertificate *c = &r->certificate;
  Hash made, from;
  Evaluation e;
  RunnerOptions run = {.target = o->target, .threads = o->threads, .watch = o->watch};
  TRY(open_hashed(o->model, q->diag, &q->made, &made));
  if (!hash_same(&made, &c->model)) {
    r->differs = "the model is not the one that was certified: its SHA-256 is another";
    return TENON_OK;
  }
  TRY(open_hashed(o->from ? o->from : c->source, q->diag, &q->from, &from));
  if (!hash_same(&from, &c->from)) {
    r->differs = "the float model is not the one that was quantised: its SHA-256 is another";
    return TENON_OK;
  }
  TRY(dataset_read(q->from->graph, o->data, c->labels, c->seed, q->arena, q->diag, &q->data));
  Hash data = dataset_hash(&q->data, PART_CERTIFY);
  if (!hash_same(&data, &c->data)) {
    r->differs = "the samples are not those that certified it: their SHA-256 is another";
    return TENON_OK;
  }
  Hash samples = dataset_hash(&q->data, PARTS);
  if (c->has_samples && !hash_same(&samples, &c->samples)) {
    r->differs = "the samples are not those that it was made with: their SHA-256 is another";
    return TENON_OK;
  }
  TRY(runner_open(q->from->graph, &run, q->diag, &q->float_runner));
  TRY(runner_open(q->made->graph, &run, q->diag, &q->runner));
  TRY(evaluate(&q->float_runner, &q->runner, &q->data, PART_CERTIFY, c->metric,
               metric_scores(q->from->graph), c->confidence, o->watch, q->arena, q->diag, &e));
  r->value = e.value;
  r->bound = e.bound;
  if (!number_same(e.value, c->value))
    r->differs = "the value is another";
  else if (!number_same(e.bound, c->bound))
    r->differs = "the bound is another";
  return TENON_OK;
}

tenon_status quantize_read_certificate(const char *path, Arena *a, Diag *d, QuantCertificate *out) {
  File f;
  TRY(file_open(path, &f, d));
  Where base = d->base;
  d->base = (Where){.file = path};
  tenon_status s = quant_certificate_parse((Str){(const char *)f.bytes, f.size}, a, d, out);
  d->base = base;
  file_close(&f);
  return s;
}

tenon_status quantize_replay(const ReplayOptions *o, Arena *a, Diag *d, ReplayResult *out) {
  Replay *q = arena_new(a, Replay);
  Trap t;
  *q = (Replay){.o = o, .arena = a, .diag = d};
  *out = (ReplayResult){0};
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) {
    t.status = quantize_read_certificate(o->certificate, a, d, &out->certificate);
    if (!t.status) t.status = replay(q, out);
  }
  trap_leave(&t);
  close_all(q);
  return t.status;
}
