// llm_model.c -- the engine's model over a session of the compiled graph.
//
// Inputs are the engine's arrays, read in place; logits are written into the engine's buffer; keys
// and values are states, bound once.  So a step copies nothing, and asks the allocator for nothing
// once the session's arena has the size of the largest step.
#include "api/llm.h"

#include "base/platform.h"

// Inputs of the graph, in order; states follow.
_Static_assert((int)ENGINE_PAGE == (int)LLM_PAGE, "the engine's pages are those of the graph");
enum { IN_IDS, IN_POS, IN_SEQ, IN_SLOT, IN_TABLE, IN_OUT, INPUTS };

static tenon_status borrow(Run *run, const int32_t *data, int rank, int64_t a, int64_t b,
                           Value **out) {
  int64_t dims[2] = {a, b};
  return value_borrow(run, DT_I32, rank, dims, data, out);
}

static tenon_status take_inputs(Llm *l, Run *run, const EngineBatch *b) {
  TRY(borrow(run, b->ids, 1, b->rows, 0, &l->in[IN_IDS]));
  TRY(borrow(run, b->pos, 1, b->rows, 0, &l->in[IN_POS]));
  TRY(borrow(run, b->seq, 1, b->rows, 0, &l->in[IN_SEQ]));
  TRY(borrow(run, b->slot, 1, b->rows, 0, &l->in[IN_SLOT]));
  TRY(borrow(run, b->table, 2, b->seqs, b->stride, &l->in[IN_TABLE]));
  TRY(borrow(run, b->out, 1, b->outs, 0, &l->in[IN_OUT]));
  for (int32_t i = 0; i < l->nstates; i++) l->in[INPUTS + i] = NULL;  // bound
  return TENON_OK;
}

static tenon_status run_rows(Llm *l, Run *run, const EngineBatch *b) {
  int64_t bytes = (int64_t)b->outs * l->model->spec.vocab * (int64_t)sizeof(float);
  TRY(take_inputs(l, run, b));
  l->room[0] = (ResultRoom){b->logits, bytes};
  TRY(session_run(l->session, run, l->in, l->room, l->out));
  const Value *logits = l->out[0];
  if (logits->data != b->logits) memcpy(b->logits, logits->data, (size_t)bytes);
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

// ---- the KV cache ----

static const char *symbol_of_pages(void) { return "N"; }

tenon_status llm_bind_states(Llm *l, int32_t pages, Diag *d) {
  SymbolValue sym = {symbol_of_pages(), pages};
  for (int32_t i = 0; i < l->nstates; i++) {
    StateInfo info = session_state(l->session, i);
    int64_t dims[MAX_RANK], n, bytes;
    TRY(session_state_dims(l->session, i, &sym, 1, dims, d));
    if (!shape_count(info.rank, dims, &n) || !ck_mul(n, elem_bytes(info.dtype), &bytes) ||
        !(l->state[i] = mem_alloc(bytes)))
      return fail(d, TENON_ENOMEM, (Where){.node = info.name},
                  "no memory for %d pages of the KV cache", pages);
    l->state_bytes[i] = bytes;
    TRY(session_bind_state(l->session, i, l->state[i], dims, d));
  }
  return TENON_OK;
}

void llm_drop_states(Llm *l) {
  for (int32_t i = 0; i < l->nstates; i++) mem_free(l->state[i], l->state_bytes[i]);
}
