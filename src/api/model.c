// model.c -- opening and running models (model.h).
//
// Every entry sets a trap, so that a failed allocation anywhere below ends here with everything
// freed.
#include "api/model.h"

#include "frontends/common/other.h"

#include "base/process.h"
#include "runtime/speed.h"

#include <pthread.h>

static Model *model_new(const char *path, Diag *d) {
  Model *m = mem_alloc((int64_t)sizeof *m);
  if (!m) {
    fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
    return NULL;
  }
  arena_init(&m->arena);
  m->path = path;
  return m;
}

// A graph written by hand may leave inputs and outputs without names; a user needs some.
static void name_values(Graph *g) {
  Body *b = g->main;
  for (int64_t i = 0; i < b->nparams; i++)
    if (!b->param[i]->name) b->param[i]->name = str_printf(&g->arena, "input_%lld", (long long)i);
  for (int64_t i = 0; i < b->nresults; i++)
    if (!b->result_name[i]) b->result_name[i] = str_printf(&g->arena, "output_%lld", (long long)i);
}

static tenon_status read_compiled(Model *m, const ModelOptions *o, Diag *d) {
  if (!o || o->compiled == COMPILED_REFUSED || !m->owns_file)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE,
                "this is a compiled model, a program: tenon_program_load, tenon.load and `tenon "
                "run` take it; give the model that it was compiled from");
  bool listed = o->compiled == COMPILED_LISTED;
  ArtifactTrust trust = o->trust;
  trust.name = m->path;
  File f = m->file;
  m->file = (File){0};
  ArtifactLoad load = {.find = eval_find,
                       .speed = driver_speed,
                       .ask_late = !o->ask_drivers && !system_has_accelerator(),
                       .target = o->target,
                       .trust = listed ? NULL : &trust,
                       .listed = listed};
  TRY(artifact_load(&f, &load, d, &m->program));
  if (m->program->ndevices && !listed) program_use_devices(m->program);
  return graph_of_program(m->program, d, &m->graph);
}

// The file that constants come from is a model of its own, which this one keeps.
static tenon_status read_attached(Model *m, const ModelOptions *o, Diag *d) {
  if (!o || !o->weights) return TENON_OK;
  Where base = d->base;
  TRY(model_open(o->weights,
                 &(ModelOptions){.memory_limit = o->memory_limit, .weights_alone = true}, d,
                 &m->attached));
  d->base = base;
  m->import.attach = &m->attached->import.weights;
  if (m->attached->import.weights.v.n) return TENON_OK;
  return fail(d, TENON_EINVAL, (Where){.file = o->weights}, "the file holds no weights by name");
}

// A number for an input that nobody looks at would be a promise that is not kept.
static tenon_status check_numbers(const Model *m, Diag *d) {
  const Imported *in = &m->import;
  if (m->frontend == &frontend_onnx || m->frontend == &frontend_pytorch) return TENON_OK;
  for (int64_t i = 0; i < in->ntypes; i++)
    if (in->types[i].fixed)
      return fail(
          d, TENON_EUNSUPPORTED, NOWHERE,
          "'%.*s' cannot be a number: inputs become constants in ONNX and TorchScript models alone",
          STR_ARG(in->types[i].name));
  return TENON_OK;
}

// What is not recognised by a sign of its own may be anything.
static tenon_status refuse_others(const Frontend *f, Str bytes, Diag *d) {
  TRY(other_refuse_cut_zip(bytes, d));
  if (f == &frontend_npz) TRY(other_refuse_zip(bytes, d));
  return f == &frontend_onnx ? other_refuse(bytes, d) : TENON_OK;
}

// ---- language models ----

static const Frontend frontend_llm = {
    .name = "llm", .doc = "folders of Hugging Face's form with a language model"};

static void add_fact(void *ctx, const char *key, const char *text) {
  frontend_fact(ctx, key, "%s", text);
}

static tenon_status build_llm(Model *m, const ModelOptions *o, Diag *d) {
  TRY(graph_create(d, &m->graph));
  m->graph->arena.limit = m->graph->scratch.limit = o ? o->memory_limit : 0;
  if (o) {
    m->graph->dims.fixed = o->fixed;
    m->graph->dims.nfixed = o->nfixed;
  }
  return llm_build(m->llm, NULL, m->graph);
}

// A GGUF file of a language model has a graph; of others it is weights by name, and why.
static tenon_status read_gguf(Model *m, const ModelOptions *o, Diag *d) {
  if (!m->path || (o && o->weights_alone)) return TENON_OK;
  Diag why;
  diag_init(&why);
  LlmOpenOptions lo = {.memory_limit = o ? o->memory_limit : 0};
  m->owns_llm = !m->llm;
  tenon_status s = m->llm ? TENON_OK : llm_open(m->path, &lo, &why, &m->llm);
  if (s == TENON_ENOMEM) return diag_again(d, s, why.text);
  if (s) {
    text_clean(why.text, why.len);
    m->import.empty =
        str_printf(&m->graph->arena, "no language model that is supported: %s", why.text);
    return TENON_OK;
  }
  Graph *facts = m->graph;
  m->import.empty = NULL;
  m->import.about =
      str_printf(&facts->arena, "%s, a language model, %s", m->import.about, m->llm->spec.name);
  llm_facts(m->llm, add_fact, &m->import);
  m->spare = facts;
  m->graph = NULL;
  return build_llm(m, o, d);
}

// The graph of one sequence as a whole: ids in, logits out.
static tenon_status read_llm(Model *m, const ModelOptions *o, Diag *d) {
  m->frontend = &frontend_llm;
  LlmOpenOptions lo = {.memory_limit = o ? o->memory_limit : 0};
  if (o && (o->weights || o->tensors))
    return fail(d, TENON_EINVAL, NOWHERE, "a language model has its weights in its own files");
  if (!m->llm) {
    m->owns_llm = true;
    tenon_status s = llm_open(m->path, &lo, d, &m->llm);
    if (s == TENON_EUNSUPPORTED)
      diag_note(d, "other checkpoints: optimum-cli export onnx --model FOLDER OUT");
    if (s) return s;
  }
  Imported *in = &m->import;
  in->memory_limit = lo.memory_limit;
  in->bytes = STR("");
  TRY(frontend_begin(in, d));
  m->spare = in->graph;  // of what is said about the model
  in->about = str_printf(&in->graph->arena, "a language model, %s", m->llm->spec.name);
  llm_facts(m->llm, add_fact, in);
  return build_llm(m, o, d);
}

static tenon_status read_foreign(Model *m, const ModelOptions *o, Str bytes, Diag *d) {
  m->frontend = frontend_of(bytes);
  TRY(refuse_others(m->frontend, bytes, d));
  m->import = (Imported){.bytes = bytes, .path = m->path};
  if (o) {
    m->import.custom = o->custom;
    m->import.memory_limit = o->memory_limit;
    m->import.given = o->given;
    m->import.fixed = o->fixed;
    m->import.nfixed = o->nfixed;
    m->import.types = o->types;
    m->import.ntypes = o->ntypes;
    m->import.signature = o->signature;
  }
  if (m->import.signature && m->frontend != &frontend_tflite)
    return fail(d, TENON_EINVAL, NOWHERE,
                "the model has no signature '%s': only TensorFlow Lite models have signatures",
                m->import.signature);
  TRY(check_numbers(m, d));
  TRY(read_attached(m, o, d));
  if (o && o->tensors) m->import.attach = o->tensors;
  tenon_status s = m->frontend->import(&m->import, d);
  m->graph = m->import.graph;
  if (s) return s;
  if (m->attached && m->import.attach && !m->import.attach->used)
    return fail(d, TENON_EINVAL, (Where){.file = o->weights},
                "no constant of the model has the name of a weight in it; its first is '%s'",
                m->import.attach->v.v[0].name);
  if (m->frontend == &frontend_onnx) m->onnx = m->import.file;
  if (m->graph->source.n && !m->graph->source.v[0]->path)
    m->graph->source.v[0]->file.mapped = m->file.mapped;
  return m->frontend == &frontend_gguf ? read_gguf(m, o, d) : TENON_OK;
}

static tenon_status read_model(Model *m, const ModelOptions *o, Diag *d) {
  at_work_part("reading", "the model", -1);
  m->lock = arena_alloc(&m->arena, (int64_t)sizeof(pthread_mutex_t));
  pthread_mutex_init(m->lock, NULL);
  m->diag = arena_new(&m->arena, Diag);
  diag_init(m->diag);
  if (m->path) m->path = str_copy(&m->arena, str_of(m->path));
  // An empty file has no memory; the readers get a pointer in any case.
  Str bytes = m->file.size > 0 ? (Str){(const char *)m->file.bytes, m->file.size} : STR("");
  tenon_status s;
  if (m->is_llm)
    s = read_llm(m, o, d);
  else if (artifact_is(bytes.p, bytes.n))
    s = read_compiled(m, o, d);
  else if (o && o->trust.said)
    s = fail(d, TENON_EFORMAT, NOWHERE, "this is not a compiled model; leave --compiled out");
  else
    s = read_foreign(m, o, bytes, d);
  if (!s) name_values(m->graph);
  if (m->graph) m->graph->diag = m->diag;
  return s;
}

static tenon_status open_file(Model *m, const ModelOptions *o, Diag *d, Model **out) {
  Where base = d->base;
  d->base.file = m->path;
  Trap t;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) t.status = read_model(m, o, d);
  trap_leave(&t);
  d->base = base;
  if (t.status) {
    if (!m->graph && !m->spare) m->graph = m->import.graph;  // a trap left it there
    model_free(m);
    return t.status;
  }
  *out = m;
  return TENON_OK;
}

tenon_status model_open(const char *path, const ModelOptions *o, Diag *d, Model **out) {
  *out = NULL;
  Model *m = model_new(path, d);
  if (!m) return TENON_ENOMEM;
  m->is_llm = llm_is_folder(path);
  tenon_status s = m->is_llm ? TENON_OK : other_refuse_folder(path, d);
  if (!s && !m->is_llm) s = file_open(path, &m->file, d);
  if (s) {
    model_free(m);
    return s;
  }
  m->owns_file = !m->is_llm;
  return open_file(m, o, d, out);
}

tenon_status model_open_memory(const void *bytes, int64_t n, const char *label,
                               const ModelOptions *o, Diag *d, Model **out) {
  *out = NULL;
  Model *m = model_new(NULL, d);
  if (!m) return TENON_ENOMEM;
  (void)label;
  m->file = (File){.bytes = bytes, .size = n};
  return open_file(m, o, d, out);
}

tenon_status model_copy(const Model *m, const ModelOptions *o, Diag *d, Model **out) {
  *out = NULL;
  Model *copy = model_new(m->path, d);
  if (!copy) return TENON_ENOMEM;
  copy->file = m->file;  // borrowed
  copy->llm = m->llm;
  copy->is_llm = m->is_llm;
  return open_file(copy, o, d, out);
}

void model_free(Model *m) {
  if (!m) return;
  interp_free(m->interp);
  graph_free(m->graph);
  if (m->spare != m->graph) graph_free(m->spare);
  program_release(m->program);
  if (m->lock) pthread_mutex_destroy(m->lock);
  if (m->owns_file) file_close(&m->file);
  model_free(m->attached);
  if (m->owns_llm) llm_close(m->llm);
  arena_deinit(&m->arena);
  mem_free(m, (int64_t)sizeof *m);
}

int64_t model_unsupported(const Model *m, const Unsupported **out) {
  *out = m->import.unsupported.v;
  return m->import.unsupported.n;
}

tenon_status model_need_supported(const Model *m, Diag *d) {
  const Unsupported *u;
  int64_t n = model_unsupported(m, &u);
  if (m->spent)
    return fail(d, TENON_EINVAL, (Where){.file = m->path},
                "the model was compiled by its last use, and can only be closed");
  if (m->import.empty)
    return fail(d, TENON_EUNSUPPORTED, (Where){.file = m->path}, "%s", m->import.empty);
  if (!n) return TENON_OK;
  fail(d, TENON_EUNSUPPORTED, (Where){.file = m->path},
       "%lld operator%s of this model %s not supported:", (long long)n, n == 1 ? "" : "s",
       n == 1 ? "is" : "are");
  for (int64_t i = 0; i < n; i++)
    diag_note(d, "%s: %lld node%s, first '%s': %s", u[i].op, (long long)u[i].count,
              u[i].count == 1 ? "" : "s", u[i].first, u[i].why);
  return TENON_EUNSUPPORTED;
}

static tenon_status prepare(Model *m, Diag *d) {
  pthread_mutex_lock(m->lock);
  tenon_status s = TENON_OK;
  if (!m->interp) s = interp_create(m->graph, NULL, d, &m->interp);
  pthread_mutex_unlock(m->lock);
  return s;
}

tenon_status model_run(Model *m, Run *run, Value *const *inputs, Value **outputs) {
  Where base = run->diag->base;
  if (!run->max_bytes)
    run->max_bytes = machine_memory();  // an error, before the system ends the process
  run->diag->base.file = m->path;
  tenon_status s = model_need_supported(m, run->diag);
  if (!s) s = prepare(m, run->diag);
  if (!s) s = interp_run(m->interp, run, inputs, outputs);
  run->diag->base = base;
  return s;
}
