// engine.h -- serving a language model: requests in, tokens out, in memory that is fixed at the
// start.
//
// An Engine runs many sequences through one model.  Each step plans rows (tokens of any
// sequences), runs the model once, and samples.  The model is behind a small table (EngineModel),
// so that the engine knows neither a compiler nor a device, and tests put a fake model there.
//
//   engine_create(&model, &options, diag, &e);
//   engine_submit(e, &request, diag, &id);
//   while (engine_busy(e)) { engine_step(e, diag); engine_events(e, &n); ... }
//
// Memory.  engine_create makes one block; its size is engine_bytes, a formula of the limits.
// Nothing is allocated afterwards.  A request is admitted when its last token fits
// (prompt + max_tokens - 1 positions within `pages` pages); then it can always finish, since
// sequences behind it in the order give their pages up and are recomputed.
//
// Recurrent layers have a state instead of keys and values.  Each running sequence has a slot for
// it; further slots keep states of cached beginnings, from which other sequences go on.  A step
// reads one slot and writes another or the same, so keeping a state copies nothing.  A state cannot
// go back, so there is no speculation.
//
// Same tokens.  A sequence's tokens depend on its request and the model alone: never on other
// requests, chunks, cached pages, preemption or speculation.  The model's part of that promise is
// that a row's logits do not depend on the other rows of a run.
//
// Threads: one at a time uses an Engine.  Different engines share nothing.
#ifndef TENON_ENGINE_ENGINE_H
#define TENON_ENGINE_ENGINE_H

#include "engine/sampler.h"

enum {
  ENGINE_PAGE = 32,       // tokens of a page of the KV cache
  ENGINE_STOPS = 16,      // token ids that end a request
  ENGINE_FLOWS = 256,     // clients that are told apart for fairness
  ENGINE_DRAFT_MOST = 16  // draft tokens of a sequence in one step
};

// What a request wants of hidden states: nothing, so it generates; the mean of its rows, the first
// or the last one; or the scores of a classifier.
typedef enum EnginePool { POOL_NONE, POOL_MEAN, POOL_FIRST, POOL_LAST, POOL_SCORES } EnginePool;

// ---- the model ----

// What a step asks of the model.  Row t is token ids[t] at position pos[t] of sequence seq[t] of
// this step; its keys and values go to slot[t] = page * ENGINE_PAGE + offset.  Row s of `table`,
// `stride` numbers long, has the pages of sequence s in order of position; entries beyond its last
// row are not to be read.  out[r] is the row of the r-th line of logits.
typedef struct EngineBatch {
  int32_t rows, seqs, outs, stride;
  const int32_t *ids, *pos, *seq, *slot, *table, *out;
  // Of a model with states: sequence s reads the state in slot from[s] (-1: it begins with zeros),
  // and leaves that behind its last row of this step in slot to[s].  No two have one slot `to`.
  const int32_t *from, *to;
  float *logits;  // [outs, vocab], to be filled
  // Of a model that embeds: rows whose hidden states are wanted.
  int32_t picks;
  const int32_t *pick;
  float *hidden, *scores;  // [picks, hidden] and [picks, scores], to be filled
  const int32_t *adapter;  // of a model with adapters: that of each row, from 0; -1: none
  // Of an encoder: the last position of a row's sequence, and which half of a pair it is of.
  const int32_t *last, *type;
} EngineBatch;

typedef struct EngineModel {
  void *ctx;
  int32_t rows_max;  // T: rows of a step
  int32_t seqs_max;  // S: sequences of a step; S <= R <= T
  int32_t outs_max;  // R: rows of a step whose logits are wanted
  int32_t vocab;
  int32_t pages;    // of the KV cache
  int32_t context;  // positions of one sequence
  // Recurrent layers: slots of their states, at least one for each sequence; those beyond keep
  // states of cached beginnings, at multiples of `keep_every` positions.  0: the model has none.
  int32_t states, keep_every;
  int32_t hidden, scores;  // elements of a hidden state; of a classifier.  0: it gives none
  int32_t adapters;        // changes of the model that requests may ask for; 0: none
  bool no_logits;          // it only embeds
  bool whole;  // an encoder: all rows of a sequence are in one step, and nothing is generated
  MUST_USE tenon_status (*run)(void *ctx, const EngineBatch *b, Diag *d);
  // A page has become free: nobody reads what it holds.  NULL: nothing to do.
  void (*freed)(void *ctx, int32_t page);
} EngineModel;

// ---- requests ----

// Why a sequence ended.
typedef enum EngineFinish {
  FINISH_NONE,
  FINISH_STOP,    // one of its stop tokens; the last event has it
  FINISH_LENGTH,  // max_tokens
  FINISH_CANCELLED,
  FINISH_NO_TOKEN  // the mask, or logits that are no numbers, left no token to choose
} EngineFinish;

typedef struct EngineRequest {
  const int32_t *tokens;  // the prompt; copied
  int32_t ntokens;        // at least 1
  int32_t max_tokens;     // to generate; 0: only read the prompt (with `score`)
  SamplerParams sampler;
  const SamplerBias *bias;  // copied
  int32_t nbias;
  TokenMask mask;       // `fn` may be NULL
  const int32_t *stop;  // copied
  int32_t nstop;
  int32_t logprobs;    // most probable tokens to report with each token: 0 to SAMPLER_TOP
  bool score;          // report log-probabilities of prompt tokens (EVENT_PROMPT)
  int32_t score_from;  // ... from this position on; 0 and 1: all but the first, which has none
  bool no_draft;       // no speculation for it
  int32_t priority;    // higher ones go first
  uint32_t flow;       // the client: those of one priority share the rows of prefill evenly
  uint64_t salt;       // only requests of the same salt share pages
  uint64_t user;       // given back in events
  EnginePool pool;     // not POOL_NONE: an EVENT_VECTOR instead of tokens
  int32_t second;      // where the second half of a pair begins; 0: there is none
  int32_t adapter;     // from 1 to model.adapters; 0: none.  The salt tells their pages apart
} EngineRequest;

typedef enum EngineEventKind {
  EVENT_TOKEN,   // a token was generated
  EVENT_PROMPT,  // a prompt token's log-probability, given those before it
  EVENT_END,     // the sequence ended without a token: cancelled, or nothing to generate
  EVENT_VECTOR   // the vector that was asked for: the last event
} EngineEventKind;

typedef struct EngineEvent {
  uint64_t id, user;
  EngineEventKind kind;
  EngineFinish finish;  // not FINISH_NONE: the last event of its sequence
  int32_t token, position;
  SamplerReport report;  // log-probability, and the most probable tokens that were asked for
  const float *vector;   // of EVENT_VECTOR; holds until the next step
  int32_t nvector;
} EngineEvent;

typedef struct EngineOptions {
  int32_t requests;      // held at once, running or waiting; 0: twice the model's sequences
  int32_t chunk;         // rows of prefill a step; 0: as many as the model takes
  int32_t draft;         // draft tokens of a sequence a step; 0: no speculation
  bool no_prefix;        // do not share pages between requests
  int64_t step_ns;       // beside running sequences prefill keeps steps near it; 0: no target
  int64_t (*now)(void);  // a clock in nanoseconds, for step_ns and speculation; NULL: none
  // A smaller model whose guesses are drafts; NULL: prompt lookup alone.  It has room for as many
  // sequences, and pages of a whole context for each.
  const EngineModel *drafter;
} EngineOptions;

typedef struct EngineStats {
  int64_t steps, rows, prompt_tokens, tokens;  // rows: that the model computed
  int64_t cached_tokens;                       // of prompts, found in cached pages
  int64_t submitted, finished, cancelled, preempted;
  int64_t drafted, accepted;  // draft tokens
  int64_t evicted;            // cached pages given to others
  int32_t running, waiting, pages, pages_free, pages_cached;
} EngineStats;

// ---- the engine's own types ----

// A page is exactly one of: free (in the free list, ref 0); owned (ref 1, by one sequence, not in
// the tree); cached (in the prefix tree: full, immutable, ref = sequences that use it).  A cached
// page of ref 0 is in the list of least recent use, behind all its children.
typedef struct Page {
  int32_t ref;
  int32_t next, prev;  // of the free list (next alone) or the list of least recent use; -1: none
  // In the tree:
  bool cached;
  int32_t parent;       // the page of the 32 tokens before; -1: a prompt begins here
  int32_t children;     // cached pages whose parent this is
  int32_t chain;        // next page of the same hash bucket; -1: none
  int32_t state;        // slot with the state behind its last token; -1: it was not kept
  int64_t state_used;   // the step that kept it, or went on from it last
  uint64_t salt, hash;  // hash of its tokens, chained to the parent's, or to the salt
} Page;

typedef enum DraftSource { DRAFT_LOOKUP, DRAFT_MODEL, DRAFT_SOURCES } DraftSource;

typedef enum SeqState { SEQ_FREE, SEQ_WAITING, SEQ_RUNNING, SEQ_CANCELLED } SeqState;

// done <= len; a running sequence's pages cover [0, done), and its first `shared` pages are a path
// of the tree from the root, with its tokens; the others are owned.  A waiting one has no pages and
// done == 0.  Every full page below `done` is shared, unless the engine has no prefix tree.
typedef struct Seq {
  uint64_t id, user;  // id 0: the slot is free
  SeqState state;
  int32_t prompt, len, done;  // tokens of the prompt; known; whose keys and values are in pages
  int32_t limit;              // len at which it ends
  int32_t npages, shared, scored;
  int32_t *token, *page;
  // Of a model with states, while it runs: its own slot, and the one that the next step reads: its
  // own, or that of page `from_page`; -1: zeros.
  int32_t own, from, from_page;
  int32_t priority;
  uint32_t flow;
  uint64_t salt, arrival;
  SamplerParams sampler;
  SamplerBias *bias;
  int32_t nbias, nstop, stop[ENGINE_STOPS], logprobs;
  TokenMask mask;
  bool score, no_draft, probe;
  EnginePool pool;
  int32_t second, adapter;
  double *sum;    // of the hidden states so far
  float *vector;  // the result
  // Speculation: where this step's drafts are from; by source how often a draft token was right,
  // and when to try again.
  DraftSource source;
  float accept[DRAFT_SOURCES];
  int32_t pause[DRAFT_SOURCES];
  // The plan of this step: rows from `done` on, of which the last `drafts` are drafts.
  int32_t rows, drafts, out, pick;
} Seq;

// What steps of about so many rows take, measured.  Bucket b has 2^b to 2^(b+1) - 1 rows.
enum { COST_BUCKETS = 24 };
typedef struct StepCost {
  double ns[COST_BUCKETS];  // 0: not measured
  int64_t since[COST_BUCKETS];
} StepCost;

// ---- the draft model (draft_model.c) ----
typedef struct DraftLane {
  uint64_t id;  // of the sequence that had it last; 0: none
  int32_t n;    // tokens whose keys and values it has
  int32_t *token;
} DraftLane;
typedef struct DraftAsk {
  Seq *seq;
  int32_t want, row;  // row: of this run's logits; -1: none
} DraftAsk;
typedef struct Drafter {
  EngineModel model;  // run NULL: there is none
  int32_t stride;     // pages of a lane: those of lane i are i * stride and the next ones
  DraftLane *lane;    // [model's sequences]
  DraftAsk *asks;     // [model's sequences]
  EngineBatch batch;
  int32_t *ids, *pos, *seq, *slot, *out, *table;
  float *logits, *padded;  // padded: a row as long as the model's, where its own is shorter
  StepCost cost;
} Drafter;

typedef struct Engine {
  EngineModel model;
  EngineOptions options;
  int32_t nslots, stride;  // slots of requests; pages that one sequence can have
  Seq *seq;
  Page *page;
  int32_t *page_tokens;  // [pages, ENGINE_PAGE] of cached pages
  int32_t *bucket, nbuckets;
  int32_t free_head, nfree;
  int32_t lru_head, lru_tail, ncached_free;  // cached pages that no sequence uses
  int32_t *state_next;                       // free list of slots of states
  int32_t state_head, nstates_free, nkept;   // kept: by pages
  int32_t ncached, nrunning, nwaiting;
  uint64_t serial;                // of the last request
  uint64_t served[ENGINE_FLOWS];  // rows of prefill that each flow had
  // The step's arrays.
  EngineBatch batch;
  int32_t *ids, *pos, *row_seq, *slot, *table, *out, *from, *to, *pick, *last, *type, *adapter;
  int32_t *batch_seq;  // slots by sequence
  float *logits, *hidden, *scores;
  EngineEvent *event;
  int32_t nevents, events_max;
  SamplerScratch scratch;
  StepCost cost;
  Drafter drafter;
  EngineStats stats;
  void *block;  // all of the above, and the Engine itself
  int64_t bytes;
} Engine;

// ---- engine.c: requests ----
// Limits that do not fit each other are TENON_EINVAL.
MUST_USE tenon_status engine_create(const EngineModel *m, const EngineOptions *o, Diag *d,
                                    Engine **out);
void engine_free(Engine *e);  // NULL is fine
// Bytes of engine_create's block; -1: not a number that fits.
int64_t engine_bytes(const EngineModel *m, const EngineOptions *o);
// TENON_EINVAL: the request is wrong in itself, or can never fit.  TENON_ENOMEM: all slots are
// taken now; try again after a step.
MUST_USE tenon_status engine_submit(Engine *e, const EngineRequest *r, Diag *d, uint64_t *out_id);
// Its pages are free on return; the next step has its last event.  False: no such request.
bool engine_cancel(Engine *e, uint64_t id);
bool engine_has_room(const Engine *e);               // for one more request
bool engine_busy(const Engine *e);                   // there are requests that have not ended
bool engine_uses(const Engine *e, int32_t adapter);  // ... of this adapter, from 1
EngineStats engine_stats(const Engine *e);
int32_t engine_pages_for(int32_t tokens);
void seq_release_pages(Engine *e, Seq *s);  // and its state
void seq_put_back(Engine *e, Seq *s);       // a running one waits, and is computed again
Seq *seq_of(Engine *e, uint64_t id);        // NULL: there is none
int32_t engine_slot(uint64_t id);           // below nslots, and of one request at a time

// ---- step.c ----
// Plans, runs the model once, samples.  After an error of the model nothing is lost: the next step
// plans the same rows again.
MUST_USE tenon_status engine_step(Engine *e, Diag *d);
// Those of the last step.
const EngineEvent *engine_events(const Engine *e, int32_t *out_n);

// ---- pages.c ----
void pages_init(Engine *e);
int32_t pages_available(const Engine *e);    // free, or cached and unused
int32_t page_take(Engine *e);                // now owned; -1: none is available
void page_retain(Engine *e, int32_t page);   // of a cached page
void page_release(Engine *e, int32_t page);  // one use less; an owned page becomes free

// ---- states.c: recurrent states; nothing happens where the model has none ----
void states_init(Engine *e);
void state_begin(Engine *e, Seq *s);                // it runs from now on, at position 0
void state_end(Engine *e, Seq *s);                  // it does not any more
void state_resume(Engine *e, Seq *s);               // it goes on from its last page's state
void state_advance(Engine *e, Seq *s);              // a step has left its state behind `done`
void state_drop(Engine *e, int32_t page);           // the page leaves the tree
int32_t state_rows(const Engine *e, const Seq *s);  // rows of a step, at most

// ---- prefix.c ----
int32_t prefix_find(const Engine *e, int32_t parent, uint64_t salt, const int32_t *tokens);
void prefix_add(Engine *e, int32_t page, int32_t parent, uint64_t salt, const int32_t *tokens);
void prefix_remove(Engine *e, int32_t page);  // a page without children and uses; not yet free
// How many leading pages of the sequence's tokens are cached, and how many of those are unused.
int32_t prefix_match(const Engine *e, const Seq *s, int32_t *out_unused);
void prefix_take(Engine *e, Seq *s);   // goes on with cached pages where it stands at their border
void prefix_share(Engine *e, Seq *s);  // its pages that became full go into the tree
void prefix_clear(Engine *e);          // forgets all cached pages that no sequence uses

// ---- plan.c ----
void plan_step(Engine *e);
void plan_build(Engine *e);                      // fills the batch from the sequences' rows
bool seq_wants(const Seq *s, int32_t position);  // the logits of the row at this position
bool seq_picks(const Engine *e, const Seq *s, int32_t position);  // its hidden state

// ---- pool.c: vectors of hidden states ----
void pool_rows(Engine *e, Seq *s);  // takes those of this step
const float *pool_vector(Engine *e, Seq *s, int32_t *out_n);

// ---- draft.c ----
// Writes up to `most` draft tokens behind the sequence's own and returns how many.
int32_t draft_propose(const Engine *e, const Seq *s, int32_t most);
// How many of a source pay in a step that has `others` rows without them.
int32_t draft_most(const Engine *e, Seq *s, DraftSource from, int32_t others);
void draft_learn(Seq *s, int32_t drafted, int32_t accepted);
void cost_learn(StepCost *c, int32_t rows, int64_t ns, int64_t step);
double cost_of(const StepCost *c, int32_t rows);  // 0: nothing is known

// ---- draft_model.c ----
// Writes drafts behind the tokens of the first n sequences of drafter.asks, up to what each wants,
// and sets their numbers.
void draft_model_run(Engine *e, int32_t n);
bool draft_model_takes(const Engine *e, const Seq *s, int32_t most);  // it can draft for it
double draft_model_cost(const Engine *e);  // of a draft of one sequence; 0: not known

// ---- certificate.c ----
// What a model needs besides the engine's own block, in bytes.
typedef struct ModelBytes {
  int64_t weights;   // mapped from the model's file, and read in place
  int64_t copied;    // constants that are not in the file as they are used
  int64_t arena;     // values between kernels, and scratch, at the most rows
  int64_t device;    // the same of devices, with the weights there
  int64_t page;      // keys and values of one page, of all layers
  int64_t state;     // one sequence's state, of all recurrent layers
  int64_t draft;     // all of the draft model but its mapped weights
  int64_t adapters;  // factors of all adapters that may be there
  int64_t code;
} ModelBytes;
// All memory that serving takes: known, and reserved, before the first request.
typedef struct Certificate {
  ModelBytes model;
  int64_t pages, page_bytes;         // page_bytes = pages * model.page
  int64_t states, state_bytes;       // state_bytes = states * model.state
  int64_t logits, tables, requests;  // of the engine's block; `requests` is the rest of it
  int64_t total;                     // all but the mapped weights
} Certificate;
MUST_USE tenon_status certificate_make(const EngineModel *m, const EngineOptions *o,
                                       const ModelBytes *b, Diag *d, Certificate *out);
// The most pages with which the total stays within `limit`; 0: not even one.
int32_t certificate_pages(const EngineModel *m, const EngineOptions *o, const ModelBytes *b,
                          int64_t limit);
void certificate_print(const Certificate *c, StrBuf *out);

// ---- check.c ----
// The invariants of the types above, and of the batch; NULL, or the first that does not hold.
// Slow; for tests.
const char *engine_check(const Engine *e);
const char *plan_check(const Engine *e);

#endif
