// llm_open.c -- opening a language model for serving: files, graph, program, memory, engine.
//
// The sizes of a step (rows, sequences, logits) are decided first, then the number of pages: as
// many as are asked for, or as a limit leaves.  Everything is allocated before llm_create returns,
// so what fails for lack of memory fails here.
#include "api/llm.h"

#include "base/platform.h"
#include "compile/declined.h"
#include "compile/program_cache.h"
#include "frontends/gguf/gguf.h"
#include "frontends/gguf/tokenizer.h"

enum {
  CONTEXT = 4096,
  SEQUENCES = 8,
  BATCH = 512,
  REQUESTS = 64,
  DRAFT = 8,
  DRAFT_ROWS = 16,
  STEP_TEXT = 64,
  KEPT_STATES = 2,  // of recurrent layers, for each sequence
  KEEP_EVERY = 256  // positions
};

// ---- tokenizer and chat template ----

static const GgufValue *gguf_string(const GgufFile *f, const char *key) {
  for (int64_t i = 0; i < f->kv.n; i++)
    if (str_is(f->kv.v[i].key, key) && f->kv.v[i].kind == GV_STRING) return &f->kv.v[i];
  return NULL;
}

static tenon_status read_tokenizer(Llm *l, Diag *d) {
  const LlmModel *m = l->model;
  if (m->folder) return tokenizer_load(m->folder, NULL, &l->arena, d, &l->tokenizer);
  TokenizerGguf g;
  TRY(gguf_tokenizer(m->gguf, &l->arena, d, &g));
  return tokenizer_load_gguf(&g, &l->arena, d, &l->tokenizer);
}

// A file of the model's folder, copied into the arena; not there: *out is empty.
static tenon_status read_if_there(Llm *l, const char *name, Diag *d, Str *out) {
  const char *path = str_printf(&l->arena, "%s/%s", l->model->folder, name);
  FileInfo info;
  File f;
  *out = (Str){0};
  if (platform->info(path, &info)) return TENON_OK;
  TRY(file_open(path, &f, d));
  *out = (Str){arena_dup(&l->arena, f.size ? (const void *)f.bytes : "", f.size), f.size};
  file_close(&f);
  return TENON_OK;
}

// The text of "chat_template": a string, or a list of named ones, of which "default" is taken.
static Str template_text(const Json *config) {
  const Json *t = json_get(config, "chat_template");
  if (t && t->kind == JSON_STRING) return t->s;
  for (int64_t i = 0; t && t->kind == JSON_ARRAY && i < t->n; i++) {
    const Json *name = json_get(&t->item[i], "name"), *text = json_get(&t->item[i], "template");
    if (name && name->kind == JSON_STRING && str_is(name->s, "default") && text &&
        text->kind == JSON_STRING)
      return text->s;
  }
  return (Str){0};
}

static tenon_status folder_template(Llm *l, Diag *d, Str *out) {
  TRY(read_if_there(l, "chat_template.jinja", d, out));
  if (out->n) return TENON_OK;
  Str config;
  Json json;
  TRY(read_if_there(l, "tokenizer_config.json", d, &config));
  if (!config.n) return TENON_OK;
  TRY(json_parse(&l->arena, config, d, &json));
  *out = template_text(&json);
  return TENON_OK;
}

// A template that Tenon does not read fails the chat, not the opening: raw text needs none.
static tenon_status read_template(Llm *l, Diag *d) {
  Str text = {0};
  if (l->model->folder) {
    TRY(folder_template(l, d, &text));
  } else {
    const GgufValue *v = gguf_string(l->model->gguf, "tokenizer.chat_template");
    if (v) text = v->s;
  }
  // With a NUL behind it, for the public interface.
  if (text.n) text.p = str_copy(&l->arena, text);
  l->chat_text = text;
  return TENON_OK;
}

// ---- the program ----

typedef struct Build {
  Llm *llm;
  LlmBuildOptions how;
  CompileOptions options;
  CompileReport made;
  Graph *graph;
  Arena scratch;
} Build;

static tenon_status build(Build *b, Diag *d) {
  Llm *l = b->llm;
  TRY(graph_create(d, &b->graph));
  TRY(llm_build(l->model, &b->how, b->graph));
  TRY(compile_program(b->graph, &b->options, l->model->path, &b->scratch, d, &b->made));
  l->program = b->made.program;
  l->warning = compile_warnings(&b->made, &l->arena);
  return TENON_OK;
}

static tenon_status build_program(Llm *l, const LlmServeOptions *o, Diag *d) {
  Build b = {.llm = l, .options = *o->compile};
  int32_t rank;
  TRY(llm_adapters_size(o, d, &rank));
  b.how = (LlmBuildOptions){.form = LLM_PAGED,
                            .kv = o->kv,
                            .embed = o->embed,
                            .adapters = o->adapters,
                            .rank = rank,
                            .in_place = !b.options.target->driver,
                            .activations = o->exact ? LLM_ACTIVATIONS_F32 : LLM_ACTIVATIONS_INT8};
  b.options.watch = o->watch;
  b.options.loops = &l->arena;
  b.options.batch_invariant = true;  // a row's bits do not depend on the other rows
  arena_init(&b.scratch);
  Trap t;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) t.status = build(&b, d);
  trap_leave(&t);
  graph_free(b.graph);
  arena_deinit(&b.scratch);
  return t.status;
}

static tenon_status make_session(Llm *l, const LlmServeOptions *o, Diag *d) {
  SessionOptions so = {.threads = o->threads};
  TRY(session_create(l->program, &so, d, &l->session));
  const ProgFunction *f = l->program->function[0];
  l->state_bytes_each = llm_state_bytes(&l->model->spec);
  l->nstates = session_state_count(l->session);
  l->in = arena_array(&l->arena, Value *, f->nparams);
  l->out = arena_array(&l->arena, Value *, f->nresults);
  l->room = arena_array(&l->arena, ResultRoom, f->nresults);
  l->state = arena_array(&l->arena, void *, l->nstates);
  l->state_bytes = arena_array(&l->arena, int64_t, l->nstates);
  run_keep_init(&l->keep);
  int32_t rank;
  TRY(llm_adapters_size(o, d, &rank));
  return llm_adapters_init(l, o->adapters, rank, d);
}

// ---- sizes ----

static void choose_sizes(const Llm *l, const LlmServeOptions *o, EngineModel *m, EngineOptions *e) {
  const LlmSpec *s = &l->model->spec;
  int32_t most = (int32_t)MIN(s->context, 1 << 24), draft = o->draft ? o->draft : DRAFT;
  m->vocab = (int32_t)s->vocab;
  m->context = o->context ? MIN(o->context, most) : MIN(most, CONTEXT);
  m->seqs_max = o->sequences ? o->sequences : SEQUENCES;
  m->outs_max = MAX(m->seqs_max + (draft > 0 ? DRAFT_ROWS : 0), o->logits);
  m->rows_max = MAX(o->batch ? o->batch : BATCH, m->outs_max);
  m->no_logits = llm_headless(s);
  m->adapters = o->adapters;
  m->whole = s->encoder;
  if (m->whole) m->rows_max = MAX(m->rows_max, m->context);
  if (o->embed || m->no_logits) {
    m->hidden = (int32_t)s->hidden;
    m->scores = s->classify ? (int32_t)s->labels : 0;
  }
  if (l->state_bytes_each) {
    m->states = (1 + KEPT_STATES) * m->seqs_max;
    m->keep_every = KEEP_EVERY;
  }
  *e = (EngineOptions){.requests = o->requests ? o->requests : MAX(REQUESTS, 2 * m->seqs_max),
                       .draft = MAX(draft, 0),
                       .no_prefix = o->no_prefix,
                       .step_ns = o->step_ns,
                       .now = platform->now};
}

// Without a limit: half of the machine's memory, or nine tenths of the device's that has the pages.
static int64_t default_limit(const Llm *l) {
  int64_t device = session_device_memory(l->session);
  return device ? device / 10 * 9 : machine_memory() / 2;
}

// Pages: as asked, or for whole contexts of all sequences within the limit.
static tenon_status choose_pages(const Llm *l, const LlmServeOptions *o, const EngineOptions *e,
                                 EngineModel *m, Diag *d) {
  int64_t limit = o->memory_limit ? o->memory_limit : default_limit(l);
  int64_t whole = (int64_t)engine_pages_for(m->context) * m->seqs_max;
  // Of an encoder those of one step, each sequence's last one begun, and the plan's reserve.
  if (m->whole) whole = engine_pages_for(m->rows_max) + 2 * (int64_t)m->seqs_max;
  int32_t most = certificate_pages(m, e, &l->bytes, limit);
  if (o->pages && (o->pages <= most || !o->memory_limit)) {
    m->pages = o->pages;
    return TENON_OK;
  }
  if (o->pages)
    return fail(d, TENON_ENOMEM, NOWHERE, "%d pages do not fit into %lld bytes, which hold %d",
                o->pages, (long long)limit, most);
  m->pages = (int32_t)MIN(whole, most);
  if (m->pages) return TENON_OK;
  m->pages = 1;
  Certificate c;
  TRY(certificate_make(m, e, &l->bytes, d, &c));
  return fail(d, TENON_ENOMEM, NOWHERE,
              "serving needs %lld bytes besides the mapped weights with one page of the KV cache, "
              "and %lld are allowed",
              (long long)c.total, (long long)limit);
}

static tenon_status measure(Llm *l, EngineModel *m, Diag *d) {
  static const char *const symbol[] = {"T", "S", "R", "P", "N", "E"};
  const int64_t most[] = {m->rows_max, m->seqs_max, m->outs_max, engine_pages_for(m->context),
                          1,           m->rows_max};
  const SymbolValue one[] = {{"N", 1}, {"M", 1}};
  l->bytes.weights = l->model->weight_bytes;
  l->bytes.copied = l->program->constants_bytes - l->program->mapped_bytes;
  l->bytes.code = l->program->code_bytes;
  TRY(session_reserve(l->session, symbol, most, ARRAY_LEN(symbol), d));
  l->bytes.arena = session_arena_bytes(l->session) + session_scratch_bytes(l->session);
  // Constants, arenas and scratch, and room for the logits: no state has memory there yet.
  l->bytes.device = session_device_bytes(l->session);
  if (l->bytes.device) l->bytes.device += (int64_t)m->outs_max * m->vocab * (int64_t)sizeof(float);
  l->bytes.page = -l->state_bytes_each - l->bytes.adapters;
  l->bytes.state = l->state_bytes_each;
  for (int32_t i = 0; i < l->nstates; i++) {
    int64_t dims[MAX_RANK], n;
    StateInfo info = session_state(l->session, i);
    TRY(session_state_dims(l->session, i, one, ARRAY_LEN(one), dims, d));
    if (!shape_count(info.rank, dims, &n))
      return fail(d, TENON_EINVAL, NOWHERE, "a state has no size");
    l->bytes.page += n * elem_bytes(info.dtype);
  }
  return TENON_OK;
}

static tenon_status make_engine(Llm *l, const LlmServeOptions *o, Diag *d) {
  EngineModel m = {.ctx = l, .run = llm_run};
  EngineOptions e;
  choose_sizes(l, o, &m, &e);
  if (o->draft_model) {
    TRY(llm_open_drafter(l, o, &m, d));
    e.drafter = &l->drafter->engine->model;
  }
  TRY(measure(l, &m, d));
  TRY(choose_pages(l, o, &e, &m, d));
  TRY(certificate_make(&m, &e, &l->bytes, d, &l->certificate));
  TRY(llm_bind_states(l, m.pages, m.states, d));
  return engine_create(&m, &e, d, &l->engine);
}

static tenon_status make_streams(Llm *l) {
  l->stream = arena_array(&l->arena, LlmStream, l->engine->nslots);
  for (int32_t i = 0; i < l->engine->nslots; i++)
    for (int k = 0; k < LLM_STOPS; k++)
      l->stream[i].stop[k] = arena_alloc(&l->arena, LLM_STOP_BYTES);
  l->event = arena_array(&l->arena, LlmEvent, l->engine->events_max + l->engine->nslots);
  arena_alloc(&l->step, STEP_TEXT);  // the first chunk stays
  l->step_begin = arena_mark(&l->step);
  return TENON_OK;
}

// ---- opening and closing ----

static tenon_status check_options(const LlmServeOptions *o, Diag *d) {
  // Before they are added and multiplied: the engine's own check comes behind its formula.
  const struct {
    const char *name;
    int64_t size, most;
  } size[] = {{"context", o->context, 1 << 24},
              {"sequences", o->sequences, 4096},
              {"requests", o->requests, 65536},
              {"batch", o->batch, 1 << 20},
              {"pages", o->pages, INT32_MAX / ENGINE_PAGE - 1}};
  for (int64_t i = 0; i < ARRAY_LEN(size); i++)
    if (size[i].size > size[i].most)
      return fail(d, TENON_EINVAL, NOWHERE, "%s of %lld; at most %lld", size[i].name,
                  (long long)size[i].size, (long long)size[i].most);
  if (o->context < 0 || o->sequences < 0 || o->requests < 0 || o->batch < 0 || o->pages < 0 ||
      o->memory_limit < 0 || o->threads < 0)
    return fail(d, TENON_EINVAL, NOWHERE, "a size of the options is negative");
  if (o->kv && o->kv != DT_F32 && o->kv != DT_F16 && o->kv != DT_BF16 && o->kv != DT_I8)
    return fail(d, TENON_EINVAL, NOWHERE, "keys and values can be f32, f16, bf16 or i8, not %s",
                dtype_name(o->kv));
  return TENON_OK;
}

static tenon_status open_all(Llm *l, const char *path, const LlmServeOptions *o, Diag *d) {
  LlmOpenOptions open = {.context = o->drafts ? 0 : o->context};
  TRY(check_options(o, d));
  TRY(watch_step(o->watch, d, "read", path, 0, 3));
  TRY(llm_open(path, &open, d, &l->model));
  if (o->context > l->model->spec.context && !o->drafts)
    return fail(d, TENON_EINVAL, NOWHERE, "a context of %d tokens; the model was made for %lld",
                o->context, (long long)l->model->spec.context);
  TRY(watch_step(o->watch, d, "read", "tokenizer", 1, 3));
  TRY(read_tokenizer(l, d));
  if (tokenizer_size(l->tokenizer) > l->model->spec.vocab)
    return fail(d, TENON_EFORMAT, NOWHERE, "the tokenizer has %lld tokens, and the model %lld",
                (long long)tokenizer_size(l->tokenizer), (long long)l->model->spec.vocab);
  TRY(read_template(l, d));
  TRY(watch_step(o->watch, d, "read", "graph", 2, 3));
  TRY(build_program(l, o, d));
  TRY(make_session(l, o, d));
  TRY(make_engine(l, o, d));
  return make_streams(l);
}

tenon_status llm_create(const char *path, const LlmServeOptions *o, Diag *d, Llm **out) {
  *out = NULL;
  Llm *l = mem_alloc((int64_t)sizeof *l);
  if (!l) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  arena_init(&l->arena);
  arena_init(&l->step);
  const char *base = d->base.file;
  d->base.file = path;
  Trap t;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) t.status = open_all(l, path, o, d);
  trap_leave(&t);
  d->base.file = base;
  if (t.status)
    llm_free(l);
  else
    *out = l;
  return t.status;
}

void llm_free(Llm *l) {
  if (!l) return;
  for (int32_t i = 0; l->stream && i < l->engine->nslots; i++) llm_form_free(l->stream[i].form);
  grammar_vocab_free(l->vocab);
  engine_free(l->engine);
  llm_free(l->drafter);
  if (l->session) run_keep_deinit(&l->keep);
  session_free(l->session);
  if (l->state) llm_drop_states(l);
  program_release(l->program);
  token_buffer_deinit(&l->tokens);
  llm_close(l->model);
  arena_deinit(&l->step);
  arena_deinit(&l->arena);
  mem_free(l, (int64_t)sizeof *l);
}
