// llm_model.c -- the engine's model over a session of the compiled graph.
//
// Inputs are the engine's arrays, read in place; logits are written into the engine's buffer; keys
// and values are states, bound once.  So a step copies nothing, and asks the allocator for nothing
// once the session's arena has the size of the largest step.
#include "api/llm.h"

#include "base/platform.h"

_Static_assert((int)ENGINE_PAGE == (int)LLM_PAGE, "the engine's pages are those of the graph");

// Inputs of the graph in order (models/llm.h); states follow.
typedef struct Inputs {
  Llm *llm;
  Run *run;
  int32_t n;
} Inputs;

static tenon_status add(Inputs *in, const int32_t *data, int rank, int64_t a, int64_t b) {
  int64_t dims[2] = {a, b};
  return value_borrow(in->run, DT_I32, rank, dims, data, &in->llm->in[in->n++]);
}

static tenon_status take_inputs(Llm *l, Run *run, const EngineBatch *b) {
  const EngineModel *m = &l->engine->model;
  Inputs in = {.llm = l, .run = run};
  TRY(add(&in, b->ids, 1, b->rows, 0));
  TRY(add(&in, b->pos, 1, b->rows, 0));
  TRY(add(&in, b->seq, 1, b->rows, 0));
  TRY(add(&in, b->slot, 1, b->rows, 0));
  TRY(add(&in, b->table, 2, b->seqs, b->stride));
  if (!m->no_logits) TRY(add(&in, b->out, 1, b->outs, 0));
  if (l->state_bytes_each) {
    TRY(add(&in, b->from, 1, b->seqs, 0));
    TRY(add(&in, b->to, 1, b->seqs, 0));
  }
  if (m->whole) {
    TRY(add(&in, b->last, 1, b->rows, 0));
    TRY(add(&in, b->type, 1, b->rows, 0));
  }
  if (m->hidden) TRY(add(&in, b->pick, 1, b->picks, 0));
  if (m->adapters) TRY(add(&in, b->adapter, 1, b->rows, 0));
  for (int32_t i = 0; i < l->nstates; i++) l->in[in.n + i] = NULL;  // bound
  return TENON_OK;
}

// Results in order: where they go, and how large they are.
static int32_t result_rooms(Llm *l, const EngineBatch *b) {
  const EngineModel *m = &l->engine->model;
  int64_t each = (int64_t)sizeof(float);
  int32_t n = 0;
  if (!m->no_logits) l->room[n++] = (ResultRoom){b->logits, b->outs * m->vocab * each};
  if (m->hidden) l->room[n++] = (ResultRoom){b->hidden, (int64_t)b->picks * m->hidden * each};
  if (m->scores) l->room[n++] = (ResultRoom){b->scores, (int64_t)b->picks * m->scores * each};
  return n;
}

static tenon_status run_rows(Llm *l, Run *run, const EngineBatch *b) {
  TRY(take_inputs(l, run, b));
  int32_t n = result_rooms(l, b);
  TRY(session_run(l->session, run, l->in, l->room, l->out));
  for (int32_t i = 0; i < n; i++)
    if (l->out[i]->data != l->room[i].data && l->room[i].bytes)
      memcpy(l->room[i].data, l->out[i]->data, (size_t)l->room[i].bytes);
  return TENON_OK;
}

tenon_status llm_run(void *llm, const EngineBatch *b, Diag *d) {
  Llm *l = llm;
  Run run;
  run_init_keeping(&run, &l->keep, d);
  Trap t;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) t.status = run_rows(l, &run, b);
  trap_leave(&t);
  run_deinit(&run);
  return t.status;
}

// ---- the KV cache and recurrent states ----

tenon_status llm_bind_states(Llm *l, int32_t pages, int32_t states, Diag *d) {
  const SymbolValue sym[] = {{"N", pages}, {"M", states}};
  for (int32_t i = 0; i < l->nstates; i++) {
    StateInfo info = session_state(l->session, i);
    int64_t dims[MAX_RANK], n, bytes;
    TRY(session_state_dims(l->session, i, sym, ARRAY_LEN(sym), dims, d));
    if (info.on_device) {
      TRY(session_bind_state(l->session, i, NULL, dims, d));
      continue;
    }
    if (!shape_count(info.rank, dims, &n) || !ck_mul(n, elem_bytes(info.dtype), &bytes) ||
        !(l->state[i] = mem_alloc(bytes)))
      return fail(d, TENON_ENOMEM, (Where){.node = info.name},
                  "no memory for %d pages of the KV cache and %d states", pages, states);
    l->state_bytes[i] = bytes;
    TRY(session_bind_state(l->session, i, l->state[i], dims, d));
  }
  return TENON_OK;
}

void llm_drop_states(Llm *l) {
  for (int32_t i = 0; i < l->nstates; i++)
    if (l->state[i]) mem_free(l->state[i], l->state_bytes[i]);
}
