// quantize_api.c -- the public interface of quantisation and pruning (api/quantize.h does the
// work).
#include "api/api.h"
#include "api/quantize.h"

struct tenon_quantized {
  Arena arena;
  QuantizeResult result;
  const char *report, *certificate;
};

// Options of pruning are put into the fields of the same names, and `pattern` is not NULL.
typedef struct QuantizeCall {
  tenon_quantize_options o;
  const char *pattern;
  int zeros;
  const tenon_dataset *data;
  Arena *arena;
  tenon_tensor *tensor;  // [inputs]
  size_t ninputs;
  Diag *d;
} QuantizeCall;

static bool tell(void *ctx, const char *stage, const char *what, int64_t done, int64_t total) {
  const QuantizeCall *c = ctx;
  tenon_progress p = {stage, what, done, total};
  return !c->o.progress || c->o.progress(&p, c->o.user) == 0;
}

// ---- samples ----

static bool take_tensor(const tenon_tensor *t, NdArray *out) {
  int64_t bytes;
  *out = (NdArray){.dtype = t->dtype, .rank = t->rank, .n = 1, .data = t->data};
  if (t->memory != TENON_MEMORY_HOST || t->rank < 0 || t->rank > TENON_MAX_RANK) return false;
  if (!dtype_valid(t->dtype) || t->dtype == DT_STRING) return false;
  for (int k = 0; k < t->rank; k++) {
    out->dims[k] = t->shape[k];
    if (t->shape[k] < 0 || !ck_mul(out->n, t->shape[k], &out->n)) return false;
  }
  if (!dtype_bytes(t->dtype, out->n, &bytes) || (bytes && !t->data)) return false;
  out->bytes = bytes;
  return t->bytes == 0 || t->bytes >= bytes;
}

static int next_sample(void *ctx, NdArray *inputs, int64_t ninputs, int64_t *label) {
  QuantizeCall *c = ctx;
  if (!c->tensor) c->tensor = arena_array(c->arena, tenon_tensor, MAX(ninputs, 1));
  for (int64_t i = 0; i < ninputs; i++) c->tensor[i] = (tenon_tensor){0};
  int got = c->data->next(c->tensor, (size_t)ninputs, label, c->data->user);
  if (got != 1) return got;
  for (int64_t i = 0; i < ninputs; i++)
    if (!take_tensor(&c->tensor[i], &inputs[i])) {
      fail(c->d, TENON_EINVAL, NOWHERE,
           "input %lld of a sample is no tensor of numbers on the host", (long long)i);
      return -1;
    }
  return 1;
}

// ---- the call ----

static tenon_status find_target(QuantizeCall *c, const Target **out) {
  const char *name = c->o.target, *why = "";
  *out = !name || !strcmp(name, "auto") ? target_auto() : target_find(name);
  if (!*out)
    return fail(c->d, TENON_EINVAL, NOWHERE, "there is no target '%s'%s", name,
                target_hint(name, c->arena));
  if (target_there(*out, &why)) return TENON_OK;
  return fail(c->d, TENON_EUNSUPPORTED, NOWHERE, "target %s is not available on this machine: %s",
              (*out)->name, why);
}

static tenon_status quantize(const tenon_model *m, QuantizeCall *c, tenon_quantized *out) {
  const tenon_quantize_options *from = &c->o;
  StrBuf page;
  bool misused = false;
  Watch watch = {.step = tell, .ctx = c};
  QuantizeOptions o = {.model = m->model->path ? m->model->path : "model",
                       .source = m->model,
                       .labels = from->labels ? "labels" : NULL,
                       .to = from->to ? from->to : "int8",
                       .pattern = c->pattern,
                       .zeros = c->zeros,
                       .budget = from->budget,
                       .metric = from->metric,
                       .method = from->method,
                       .block = from->block,
                       .migrate = from->migrate,
                       .keep = from->keep,
                       .nkeep = (int64_t)from->nkeep,
                       .threads = from->threads,
                       .seed = from->seed,
                       .allow_slower = from->allow_slower != 0,
                       .no_correction = from->no_correction != 0,
                       .watch = &watch};
  if (from->nkeep && !from->keep)
    return fail(c->d, TENON_EINVAL, NOWHERE, "%zu patterns to keep, but no list of them",
                from->nkeep);
  if (from->threads < 0) return fail(c->d, TENON_EINVAL, NOWHERE, "threads must not be negative");
  if (m->weights || m->tensors || m->custom)
    return fail(c->d, TENON_EUNSUPPORTED, NOWHERE,
                "models that are opened with weights or operators of the caller are not %s",
                c->pattern ? "pruned" : "quantised");
  TRY(find_target(c, &o.target));
  if (c->data && c->data->next) o.next = next_sample, o.next_ctx = c;
  TRY(quantize_model(&o, &out->arena, c->d, &misused, &out->result));
  strbuf_init(&page, &out->arena);
  quantize_report(&o, &out->result, &page);
  out->report = strbuf_text(&page);
  Str text = out->result.certificate_text;
  if (text.n) out->certificate = str_copy(&out->arena, text);
  return TENON_OK;
}

static tenon_status run_call(const tenon_model *model, QuantizeCall *c, tenon_quantized **out,
                             tenon_error *error) {
  Trap t;
  tenon_quantized *q = mem_alloc((int64_t)sizeof *q);
  if (!q) return api_error(error, c->d, fail(c->d, TENON_ENOMEM, NOWHERE, "out of memory"));
  *q = (tenon_quantized){0};
  arena_init(&q->arena);
  c->arena = &q->arena;
  trap_enter(&t, c->d);
  if (setjmp(t.env) == 0) t.status = quantize(model, c, q);
  trap_leave(&t);
  if (t.status)
    tenon_quantized_free(q);
  else
    *out = q;
  return api_error(error, c->d, t.status);
}

tenon_status tenon_quantize(const tenon_model *model, const tenon_dataset *data,
                            const tenon_quantize_options *options, tenon_quantized **out,
                            tenon_error *error) {
  Diag d;
  diag_init(&d);
  QuantizeCall c = {.data = data, .d = &d};
  if (out) *out = NULL;
  if (!out || !model) return api_missing(out ? "model" : "place for the result", error);
  if (options && !api_take_options(&c.o, sizeof c.o, options, sizeof c.o))
    return api_error(error, &d, api_wrong_options(&d, options->struct_size, sizeof c.o));
  return run_call(model, &c, out, error);
}

tenon_status tenon_prune(const tenon_model *model, const tenon_dataset *data,
                         const tenon_prune_options *options, tenon_quantized **out,
                         tenon_error *error) {
  Diag d;
  tenon_prune_options o = {0};
  diag_init(&d);
  if (out) *out = NULL;
  if (!out || !model) return api_missing(out ? "model" : "place for the result", error);
  if (options && !api_take_options(&o, sizeof o, options, sizeof o))
    return api_error(error, &d, api_wrong_options(&d, options->struct_size, sizeof o));
  QuantizeCall c = {.data = data,
                    .d = &d,
                    .pattern = o.pattern ? o.pattern : "auto",
                    .zeros = o.zeros,
                    .o = {.budget = o.budget,
                          .metric = o.metric,
                          .keep = o.keep,
                          .nkeep = o.nkeep,
                          .target = o.target,
                          .threads = o.threads,
                          .labels = o.labels,
                          .seed = o.seed,
                          .allow_slower = o.allow_slower,
                          .progress = o.progress,
                          .user = o.user}};
  return run_call(model, &c, out, error);
}

// ---- the result ----

void tenon_quantized_describe(const tenon_quantized *q, tenon_quantized_info *out) {
  if (!out) return;
  *out = (tenon_quantized_info){0};
  if (!q) return;
  const QuantizeResult *r = &q->result;
  *out = (tenon_quantized_info){.verdict = (tenon_quantize_verdict)r->verdict,
                                .contractions = r->groups,
                                .quantized = r->quantized,
                                .bytes = {r->bytes[0], r->bytes[1]},
                                .ns = {r->time.ns[0], r->time.ns[1]},
                                .samples = r->samples,
                                .certificate = q->certificate,
                                .report = q->report,
                                .model = r->model.p,
                                .model_size = (size_t)r->model.n};
  if (!r->certified) return;
  out->metric = metric_row[r->certificate.metric].name;
  out->value = r->certificate.value;
  out->bound = r->certificate.bound;
  out->confidence = r->certificate.confidence;
}

tenon_status tenon_quantized_save(const tenon_quantized *q, const char *path, tenon_error *error) {
  Diag d;
  Arena a;
  diag_init(&d);
  if (!q || !path) return api_missing(q ? "path" : "quantised model", error);
  if (q->result.verdict != QUANTIZE_WRITTEN)
    return api_error(error, &d,
                     fail(&d, TENON_EINVAL, (Where){.file = path}, "nothing is written: %s",
                          q->result.verdict == QUANTIZE_SLOWER ? "the model is not faster"
                                                               : "the limit is not met"));
  Trap t;
  arena_init(&a);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = quantize_save(&q->result, path, &a, &d);
  trap_leave(&t);
  arena_deinit(&a);
  return api_error(error, &d, t.status);
}

void tenon_quantized_free(tenon_quantized *q) {
  if (!q) return;
  arena_deinit(&q->arena);
  mem_free(q, (int64_t)sizeof *q);
}
