// certificate.c -- the memory that serving takes, as a formula.
//
//   total = copied + arena + device + pages * page + states * state + adapters + draft + logits
//           + tables + requests + code
//
// The mapped weights come on top: they are the model file's own pages, which every process shares.
// Each term is what is allocated, not an estimate: the engine's terms are those of the function
// that lays its block out, and the model's are given by whoever made it.
#include "engine/engine.h"

static bool add_all(const int64_t *term, int n, int64_t *out) {
  *out = 0;
  for (int i = 0; i < n; i++)
    if (term[i] < 0 || !ck_add(*out, term[i], out)) return false;
  return true;
}

tenon_status certificate_make(const EngineModel *m, const EngineOptions *o, const ModelBytes *b,
                              Diag *d, Certificate *out) {
  int64_t block = engine_bytes(m, o);
  *out = (Certificate){.model = *b, .pages = m->pages};
  if (!m->no_logits) out->logits = (int64_t)m->outs_max * m->vocab * (int64_t)sizeof(float);
  out->tables = (int64_t)m->seqs_max * engine_pages_for(m->context) * (int64_t)sizeof(int32_t);
  out->requests = block - out->logits - out->tables;
  out->states = m->states;
  bool ok = block >= 0 && ck_mul(m->pages, b->page, &out->page_bytes) &&
            ck_mul(m->states, b->state, &out->state_bytes);
  int64_t term[] = {b->copied,   b->arena, b->device, out->page_bytes, out->state_bytes,
                    b->adapters, b->draft, block,     b->code};
  if (!ok || !add_all(term, (int)ARRAY_LEN(term), &out->total))
    return fail(d, TENON_ENOMEM, NOWHERE,
                "%d pages of %lld bytes and %d states of %lld cannot be counted", m->pages,
                (long long)b->page, m->states, (long long)b->state);
  return TENON_OK;
}

int32_t certificate_pages(const EngineModel *m, const EngineOptions *o, const ModelBytes *b,
                          int64_t limit) {
  int32_t low = 0, high = INT32_MAX / ENGINE_PAGE;
  Diag d;
  while (low < high) {  // the total grows with the pages
    EngineModel with = *m;
    Certificate c;
    with.pages = low + (high - low + 1) / 2;
    diag_init(&d);
    if (!certificate_make(&with, o, b, &d, &c) && c.total <= limit)
      low = with.pages;
    else
      high = with.pages - 1;
  }
  return low;
}

void certificate_print(const Certificate *c, StrBuf *out) {
  enum { DEVICE = 2, KV, STATES, ADAPTERS, DRAFT };
  const double mib = 1048576;
  const struct {
    const char *what;
    int64_t bytes;
  } row[] = {
      {"constants, copied", c->model.copied},
      {"arena and scratch", c->model.arena},
      [DEVICE] = {"weights and arena, GPU", c->model.device},
      [KV] = {"KV cache", c->page_bytes},
      [STATES] = {"recurrent states", c->state_bytes},
      [ADAPTERS] = {"adapters", c->model.adapters},
      [DRAFT] = {"draft model", c->model.draft},
      {"logits", c->logits},
      {"page tables", c->tables},
      {"requests and sampling", c->requests},
      {"code", c->model.code},
  };
  strbuf_printf(out, "%-24s %12.2f MiB  mapped from the file\n", "weights",
                (double)c->model.weights / mib);
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    if ((i == DEVICE || (i >= STATES && i <= DRAFT)) && !row[i].bytes) continue;
    strbuf_printf(out, "%-24s %12.2f MiB", row[i].what, (double)row[i].bytes / mib);
    if (i == KV)
      strbuf_printf(out, "  %lld pages of %lld bytes", (long long)c->pages,
                    (long long)c->model.page);
    if (i == STATES)
      strbuf_printf(out, "  %lld states of %lld bytes", (long long)c->states,
                    (long long)c->model.state);
    strbuf_puts(out, "\n");
  }
  strbuf_printf(out, "%-24s %12.2f MiB  besides the mapped weights\n", "total",
                (double)c->total / mib);
}
