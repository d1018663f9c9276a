// aot.c -- runs a model that is linked into the program (tenon/aot.h).
//
// Not part of the library but of the runtime archive.  The model is loaded by the first call and kept, with its session.
#include "tenon/aot.h"

#include "runtime/artifact.h"
#include "runtime/session.h"

#include <pthread.h>

typedef struct AotState {
  Program *program;
  Session *session;
} AotState;

// One lock for all models: it is held while a model loads, and while one runs.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int wanted_threads;
static const void *const *ops_now;  // of the model that loads, under the lock

static const EvalOp *find_here(const char *name) {
  for (const void *const *op = ops_now; op && *op; op++)
    if (!strcmp(((const EvalOp *)*op)->name, name)) return *op;
  return NULL;
}

static void release(AotState *s) {
  if (!s) return;
  session_free(s->session);
  program_release(s->program);
  mem_free(s, (int64_t)sizeof *s);
}

static tenon_status load(tenon_aot_model *m, Diag *d) {
  AotState *s = mem_alloc((int64_t)sizeof *s);
  if (!s) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  ops_now = m->ops;
  tenon_status status =
      artifact_load_memory(m->bytes, m->nbytes, m->weights, find_here, d, &s->program);
  if (!status)
    status =
        session_create(s->program, &(SessionOptions){.threads = wanted_threads}, d, &s->session);
  if (status)
    release(s);
  else
    m->state = s;
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
  int64_t *sym = arena_array(&run->strings, int64_t, p->nsyms + 1), dims[MAX_RANK], bytes;
  Value **in = arena_array(&run->strings, Value *, f->nparams + 1);
  Value **out = arena_array(&run->strings, Value *, f->nresults + 1);
  ResultRoom *room = arena_array(&run->strings, ResultRoom, f->nresults + 1);
  bind(p, c->dims, sym);
  for (int32_t i = 0; i < f->nparams; i++) {
    const ProgValue *v = &f->value[f->param[i]];
    TRY(shape_of(p, v, sym, dims, &bytes, run->diag));
    TRY(value_borrow(run, v->dtype, v->rank, dims, c->in[i], &in[i]));
  }
  for (int32_t i = 0; i < f->nresults; i++) {
    TRY(shape_of(p, &f->value[f->result[i]], sym, dims, &bytes, run->diag));
    room[i] = (ResultRoom){c->out[i], bytes};
  }
  TRY(session_run(s->session, run, in, room, out));
  for (int32_t i = 0; i < f->nresults; i++)
    if (out[i]->data != c->out[i] && room[i].bytes)
      memcpy(c->out[i], out[i]->data, (size_t)room[i].bytes);
  return TENON_OK;
}

tenon_status tenon_aot_run(tenon_aot_model *m, const void *const *in, const int64_t *dims,
                           void *const *out, tenon_error *error) {
  static Diag d;  // under the lock
  AotCall c = {.in = in, .dims = dims, .out = out};
  pthread_mutex_lock(&lock);
  diag_init(&d);
  tenon_status s = m->state ? TENON_OK : load(m, &d);
  if (!s) {
    Trap t;
    run_init(&c.run, NULL, &d);
    trap_enter(&t, &d);
    if (setjmp(t.env) == 0) t.status = call(m->state, &c);
    trap_leave(&t);
    s = t.status;
    run_deinit(&c.run);
  }
  if (error) {
    error->status = s;
    memcpy(error->message, d.text, s ? (size_t)d.len + 1 : 0);
    if (!s) error->message[0] = 0;
  }
  pthread_mutex_unlock(&lock);
  return s;
}

void tenon_aot_threads(tenon_aot_model *m, int threads) {
  tenon_aot_close(m);
  pthread_mutex_lock(&lock);
  wanted_threads = threads;
  pthread_mutex_unlock(&lock);
}

void tenon_aot_close(tenon_aot_model *m) {
  pthread_mutex_lock(&lock);
  release(m->state);
  m->state = NULL;
  pthread_mutex_unlock(&lock);
}

void tenon_aot_weights(tenon_aot_model *m, const char *path) {
  tenon_aot_close(m);
  m->weights = path;
}
