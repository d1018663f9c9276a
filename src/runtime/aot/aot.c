// aot.c -- runs a model that is linked into the program (tenon/aot.h).
//
// Not part of the library but of the runtime archive.  The model is loaded by the first call and
// kept, with its session.
#include "tenon/aot.h"

#include "runtime/artifact.h"
#include "runtime/session.h"

#include <pthread.h>

// Made by a model's first call and kept until the program ends, since other threads may be waiting
// for its lock.
typedef struct AotState {
  pthread_mutex_t lock;  // held while the model loads or runs
  Program *program;      // NULL: not loaded
  Session *session;
  RunKeep keep;
  bool kept;
  Diag diag;
} AotState;

// One lock for all models: it is held while a state is made, and while a model loads.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const void *const *ops_now;  // of the model that loads, under the lock

static const EvalOp *find_here(const char *name) {
  for (const void *const *op = ops_now; op && *op; op++)
    if (!strcmp(((const EvalOp *)*op)->name, name)) return *op;
  return NULL;
}

// The model's state, locked; NULL: out of memory.
static AotState *enter(tenon_aot_model *m) {
  pthread_mutex_lock(&lock);
  if (!m->state) {
    AotState *made = mem_alloc((int64_t)sizeof *made);
    if (made) pthread_mutex_init(&made->lock, NULL);
    m->state = made;
  }
  AotState *s = m->state;
  pthread_mutex_unlock(&lock);
  if (s) pthread_mutex_lock(&s->lock);
  return s;
}

static void leave(AotState *s) { pthread_mutex_unlock(&s->lock); }

static void unload(AotState *s) {
  session_free(s->session);
  program_release(s->program);
  if (s->kept) run_keep_deinit(&s->keep);
  s->kept = false;
  s->session = NULL;
  s->program = NULL;
}

static tenon_status load(const tenon_aot_model *m, AotState *s) {
  pthread_mutex_lock(&lock);
  ops_now = m->ops;
  tenon_status status = artifact_load_memory(
      m->bytes, m->nbytes, m->weights, &(ArtifactLoad){.find = find_here}, &s->diag, &s->program);
  pthread_mutex_unlock(&lock);
  SessionOptions o = {.threads = (int)m->threads};
  if (!status) status = session_create(s->program, &o, &s->diag, &s->session);
  if (status) unload(s);
  return status;
}

typedef struct AotCall {
  const void *const *in;
  const int64_t *dims;
  void *const *out;
  Run run;
} AotCall;

// The caller's dims are the symbols that inputs mention, in the program's order.
static void bind(const Program *p, const int64_t *dims, int64_t *sym) {
  int32_t n = 0;
  for (int32_t i = 0; i < p->nsyms; i++) sym[i] = prog_sym_is_input(p, i) ? dims[n++] : SYM_UNBOUND;
}

static tenon_status shape_of(const Program *p, const ProgValue *v, const int64_t *sym,
                             int64_t *dims, int64_t *bytes, Diag *d) {
  int64_t n;
  bool known = v->rank >= 0;
  for (int32_t i = 0; known && i < v->rank; i++) known = prog_eval(p, v->dim[i], sym, &dims[i]);
  if (known && shape_count(v->rank, dims, &n) && dtype_bytes(v->dtype, n, bytes)) return TENON_OK;
  return fail(d, TENON_EINVAL, (Where){.node = v->name}, "its size is not known");
}

static tenon_status call(AotState *s, AotCall *c) {
  const Program *p = s->program;
  const ProgFunction *f = p->function[0];
  Run *run = &c->run;
  int64_t *sym = arena_array(&run->scratch, int64_t, p->nsyms + 1), dims[MAX_RANK], bytes;
  Value **in = arena_array(&run->scratch, Value *, f->nparams + 1);
  Value **out = arena_array(&run->scratch, Value *, f->nresults + 1);
  ResultRoom *room = arena_array(&run->scratch, ResultRoom, f->nresults + 1);
  bool sizes = false;
  for (int32_t i = 0; i < p->nsyms; i++) sizes |= prog_sym_is_input(p, i);
  if ((f->nparams && !c->in) || (f->nresults && !c->out) || (sizes && !c->dims))
    return fail(run->diag, TENON_EINVAL, NOWHERE, "no array of inputs, sizes or outputs is given");
  bind(p, c->dims, sym);
  for (int32_t i = 0; i < f->nparams; i++) {
    const ProgValue *v = &f->value[f->param[i]];
    TRY(shape_of(p, v, sym, dims, &bytes, run->diag));
    if (bytes && !c->in[i])
      return fail(run->diag, TENON_EINVAL, (Where){.node = v->name}, "no input is given");
    TRY(value_borrow(run, v->dtype, v->rank, dims, c->in[i], &in[i]));
  }
  for (int32_t i = 0; i < f->nresults; i++) {
    TRY(shape_of(p, &f->value[f->result[i]], sym, dims, &bytes, run->diag));
    if (bytes && !c->out[i])
      return fail(run->diag, TENON_EINVAL, (Where){.node = f->result_name[i]},
                  "no room is given for the output");
    room[i] = (ResultRoom){c->out[i], bytes};
  }
  TRY(session_run(s->session, run, in, room, out));
  for (int32_t i = 0; i < f->nresults; i++)
    if (out[i]->data != c->out[i] && room[i].bytes)
      memcpy(c->out[i], out[i]->data, (size_t)room[i].bytes);
  return TENON_OK;
}

static tenon_status run_loaded(AotState *s, AotCall *c) {
  Trap t;
  trap_enter(&t, &s->diag);
  if (setjmp(t.env) == 0) {
    if (!s->kept) run_keep_init(&s->keep);
    s->kept = true;
    run_init_keeping(&c->run, &s->keep, &s->diag);
    t.status = call(s, c);
  }
  trap_leave(&t);
  if (s->kept) run_deinit(&c->run);
  return t.status;
}

tenon_status tenon_aot_run(tenon_aot_model *m, const void *const *in, const int64_t *dims,
                           void *const *out, tenon_error *error) {
  AotCall c = {.in = in, .dims = dims, .out = out};
  if (!m) {
    if (error) *error = (tenon_error){TENON_EINVAL, "no model is given"};
    return TENON_EINVAL;
  }
  AotState *s = enter(m);
  if (!s) {
    if (error) *error = (tenon_error){TENON_ENOMEM, "out of memory"};
    return TENON_ENOMEM;
  }
  diag_init(&s->diag);
  tenon_status status = s->program ? TENON_OK : load(m, s);
  if (!status) status = run_loaded(s, &c);
  if (error) {
    error->status = status;
    memcpy(error->message, s->diag.text, status ? (size_t)s->diag.len + 1 : 0);
    if (!status) error->message[0] = 0;
  }
  leave(s);
  return status;
}

void tenon_aot_threads(tenon_aot_model *m, int threads) {
  if (!m) return;
  AotState *s = enter(m);
  if (s) unload(s);
  m->threads = threads;
  if (s) leave(s);
}

void tenon_aot_weights(tenon_aot_model *m, const char *path) {
  if (!m) return;
  AotState *s = enter(m);
  if (s) unload(s);
  m->weights = path;
  if (s) leave(s);
}

void tenon_aot_close(tenon_aot_model *m) {
  AotState *s = m ? enter(m) : NULL;
  if (!s) return;
  unload(s);
  leave(s);
}
