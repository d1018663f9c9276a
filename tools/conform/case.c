// case.c -- runs one conformance test and judges it.
//
// The model is opened and run as `tenon run` would; inputs and expected outputs come from the
// test's files.  Shape and element type must be equal.  Elements are compared with the type's own
// tolerance; what does not meet it is held to 1e-3 where the operator is in the table of
// exceptions, and the result says so.  Operators that draw random numbers cannot be compared: their
// outputs are checked for shape, element type and range.
#include "conform/conform.h"

#include "api/model.h"
#include "cli/opt.h"
#include "cli/bench/resident.h"
#include "cli/tensors.h"
#include "ir/expand.h"
#include "ir/fix.h"
#include "runtime/session.h"
#include "targets/c/c.h"
#include "targets/target.h"

#include <math.h>

const char *const verdict_name[CASE_VERDICTS] = {"passed", "wrong", "unsupported", "crashed"};

// ---- tolerance exceptions ----
static const Tolerance LOOSE = {1e-3, 1e-3};
// clang-format off
static const struct {
  const char *op;    // ONNX operator in the model, or
  const char *tests; // names of tests that hold its expansion
  const char *reason;
} exceptions[] = {
  {"RoiAlign",    "test_roialign_*",    "stored outputs were written down with four digits"},
  {"GridSample",  "test_gridsample_*",  "stored bicubic outputs were written down with four digits"},
  {"AveragePool", "test_averagepool_*", "one stored output was written down with four digits"},
  {"HannWindow",     "test_hannwindow*",     "outputs in older suites were computed with 3.1415 for pi"},
  {"HammingWindow",  "test_hammingwindow*",  "outputs in older suites were computed with 3.1415 for pi"},
  {"BlackmanWindow", "test_blackmanwindow*", "outputs in older suites were computed with 3.1415 for pi"},
};
static const char *const random_ops[] = {
  "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
};
// clang-format on

typedef struct Test {
  const Case *c;
  const CaseOptions *o;
  Arena *arena;
  Diag *diag;
  Model *model;
  Graph *again;  // --text: the graph as read back from its text
  Interp *again_interp;
  Pool *pool, *again_pool;
  ConformBuilt built;
  const char *reason;
  const char *remark;
} Test;

static bool has_op(const Model *m, const char *op) {
  if (!m->onnx) return false;
  const OnnxGraph *g = &m->onnx->graph;
  for (int64_t i = 0; i < g->nodes.n; i++)
    if (str_is(g->nodes.v[i].op_type, op)) return true;
  return false;
}

// Dropout draws only when training, which its third input turns on.
static bool is_random(const Model *m) {
  for (int64_t i = 0; i < ARRAY_LEN(random_ops); i++)
    if (has_op(m, random_ops[i])) return true;
  if (!m->onnx) return false;
  const OnnxGraph *g = &m->onnx->graph;
  for (int64_t i = 0; i < g->nodes.n; i++)
    if (str_is(g->nodes.v[i].op_type, "Dropout") && g->nodes.v[i].inputs.n == 3) return true;
  return false;
}

static const char *exception_for(const Test *t) {
  for (int64_t i = 0; i < ARRAY_LEN(exceptions); i++)
    if (has_op(t->model, exceptions[i].op) || str_glob(exceptions[i].tests, t->c->name))
      return str_printf(t->arena, "%s held to 1e-3: %s", exceptions[i].op, exceptions[i].reason);
  return NULL;
}

// ---- random outputs ---- Every element lies in the range of the expected ones, widened by its
// width; where those are only 0 and 1, it must be one of the two.
static bool random_matches(const Value *got, const Value *want) {
  if (got->kind != VK_TENSOR || want->kind != VK_TENSOR || got->dtype != want->dtype ||
      got->rank != want->rank)
    return false;
  for (int i = 0; i < got->rank; i++)
    if (got->dims[i] != want->dims[i]) return false;
  DTypeClass k = dtype_class(got->dtype);
  if (k == DC_STRING || k == DC_COMPLEX) return true;
  double lo = INFINITY, hi = -INFINITY;
  bool binary = true;
  for (int64_t i = 0; i < want->n; i++) {
    double x = val_f64(want, i);
    lo = fmin(lo, x);
    hi = fmax(hi, x);
    binary &= x == 0 || x == 1;
  }
  double width = fmax(hi - lo, 1);
  for (int64_t i = 0; i < got->n; i++) {
    double x = val_f64(got, i);
    if (binary ? x != 0 && x != 1 : !(x >= lo - width && x <= hi + width)) return false;
  }
  return true;
}

static bool output_matches(Test *t, const Value *got, const Value *want) {
  Comparison strict = {.arena = t->arena};
  bool right;
  const char *sentence = conform_decided(t->c, got, &right);
  if (sentence) {
    *(right ? &t->remark : &t->reason) = sentence;
    return right;
  }
  if (values_match(&strict, got, want)) return true;
  t->reason = strict.why;
  if (is_random(t->model)) {
    if (!random_matches(got, want)) {
      t->reason = str_printf(t->arena, "random output out of shape or range: %s", strict.why);
      return false;
    }
    t->remark = "random: shape, element type and range were checked";
    return true;
  }
  const char *excuse = exception_for(t);
  Comparison loose = {.arena = t->arena, .given = &LOOSE};
  bool real = got && got->kind == VK_TENSOR && dtype_is_float(got->dtype);
  if (!excuse || !real || !values_match(&loose, got, want)) return false;
  t->remark = excuse;
  return true;
}

// ---- test data ---- Reads one .pb file.  The bytes stay mapped until the process ends: a test is
// a process of its own, and strings refer to them.
static tenon_status read_pb(Test *t, Run *run, const char *path, OnnxTypeKind kind,
                            const Type *type, Value **out) {
  File f;
  *out = NULL;
  TRY(file_open(path, &f, t->diag));
  Where base = t->diag->base;
  t->diag->base.file = path;
  tenon_status s =
      value_of_pb(run, t->arena, kind, type, (Str){(const char *)f.bytes, f.size}, out);
  t->diag->base = base;
  return s;
}

static int64_t count_files(Test *t, const char *folder, const char *what) {
  for (int64_t n = 0;; n++) {
    File f;
    static Diag quiet;
    diag_init(&quiet);
    if (file_open(str_printf(t->arena, "%s/%s_%lld.pb", folder, what, (long long)n), &f, &quiet))
      return n;
    file_close(&f);
  }
}

// What the file says a value is: inference may know more, but the test data was written for this.
static OnnxTypeKind declared_kind(const Model *m, bool output, const char *name) {
  if (!m->onnx) return OT_TENSOR;
  const OnnxGraph *g = &m->onnx->graph;
  const OnnxValueInfo *v = output ? g->outputs.v : g->inputs.v;
  int64_t n = output ? g->outputs.n : g->inputs.n;
  for (int64_t i = 0; i < n; i++)
    if (str_is(v[i].name, name)) return v[i].type.kind;
  return OT_TENSOR;
}

// Which parameter the i-th input file feeds.  A file that has initializers among its inputs may
// come with data for them, too: then the model's own list counts.
static int64_t param_for(const Model *m, int64_t nfiles, int64_t i) {
  if (nfiles <= model_ninputs(m) || !m->onnx) return i;
  const OnnxGraph *g = &m->onnx->graph;
  for (int64_t p = 0; i < g->inputs.n && p < model_ninputs(m); p++)
    if (str_is(g->inputs.v[i].name, model_input(m, p)->name)) return p;
  return -1;
}

// Suites from before the format had a way to store bf16 hold its bits as u16.
static void take_for_bf16(Value *v, const Type *type) {
  bool wanted = type->kind == TK_TENSOR && type->dtype == DT_BF16;
  if (wanted && v->kind == VK_TENSOR && v->dtype == DT_U16) v->dtype = DT_BF16;
}

// Some stored inputs contradict what their model declares; no run can be right then.
static tenon_status check_input(Test *t, const Value *v, const Node *param) {
  const Type *type = type_of(param);
  if (!v || v->kind != VK_TENSOR || type->kind != TK_TENSOR || type->rank < 0) return TENON_OK;
  bool fits = type->rank == v->rank;
  for (int i = 0; fits && i < v->rank; i++)
    fits = !ie_is_const(type->dims[i]) || type->dims[i]->value == v->dims[i];
  if (fits) return TENON_OK;
  return fail(t->diag, TENON_EUNSUPPORTED, (Where){.node = param->name, .op = "input"},
              "the test contradicts its model: the data is %s, declared %s",
              value_text(t->arena, v), type_text(t->arena, type));
}

static tenon_status read_inputs(Test *t, Run *run, const char *folder, Value **in) {
  int64_t n = count_files(t, folder, "input"), have = model_ninputs(t->model);
  for (int64_t i = 0; i < n; i++) {
    int64_t p = param_for(t->model, n, i);
    if (p < 0) continue;
    if (p >= have)
      return fail(t->diag, TENON_EINVAL, (Where){.file = folder}, "%lld input files, %lld inputs",
                  (long long)n, (long long)have);
    TRY(read_pb(t, run, str_printf(t->arena, "%s/input_%lld.pb", folder, (long long)i),
                declared_kind(t->model, false, model_input(t->model, p)->name),
                type_of(model_input(t->model, p)), &in[p]));
    take_for_bf16(in[p], type_of(model_input(t->model, p)));
    TRY(check_input(t, in[p], model_input(t->model, p)));
  }
  return TENON_OK;
}

// Equal to the last bit, the signs of zeros and the insides of NaNs included.
static bool same_bits(const Value *a, const Value *b) {
  if (!a || !b) return a == b;
  if (a->kind != b->kind || a->nitems != b->nitems) return false;
  for (int64_t i = 0; i < a->nitems; i++)
    if (!same_bits(a->items[i], b->items[i])) return false;
  if (a->kind != VK_TENSOR) return true;
  if (a->dtype != b->dtype || a->rank != b->rank || a->n != b->n) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i]) return false;
  if (a->dtype != DT_STRING) return !a->n || !memcmp(a->data, b->data, (size_t)a->data_bytes);
  for (int64_t i = 0; i < a->n; i++)
    if (!str_eq(val_str(a, i), val_str(b, i))) return false;
  return true;
}

// Runs the model; with --text also the graph that was read back, on three threads.
static tenon_status run_graph(Test *t, Run *run, Value **in, Value **out) {
  if (!run->max_bytes) run->max_bytes = machine_memory();
  TRY(t->built.session ? session_run(t->built.session, run, in, NULL, out)
      : t->built.plan  ? plan_run(t->built.plan, run, in, out)
                       : model_run(t->model, run, in, out));
  if (t->o->resident && t->built.session)
    TRY(resident_check(t->built.session, run->seed, in, out, t->arena, t->diag));
  if (!t->again) return TENON_OK;
  Value **same = arena_array(t->arena, Value *, model_noutputs(t->model) + 1);
  run->pool = t->again_pool;
  TRY(interp_run(t->again_interp, run, in, same));
  for (int64_t i = 0; i < model_noutputs(t->model); i++)
    if (!same_bits(same[i], out[i]))
      return fail(t->diag, TENON_EINTERNAL, NOWHERE,
                  "read back from text, on three threads, output '%s' has other bits",
                  model_output_name(t->model, i));
  return TENON_OK;
}

// What may be an optional by inference can be declared as what it holds.
static const Type *output_type(const Test *t, int64_t i) {
  const Type *type = type_of(model_output(t->model, i));
  bool plain = declared_kind(t->model, true, model_output_name(t->model, i)) != OT_OPTIONAL;
  return type->kind == TK_OPTIONAL && plain ? type->elem : type;
}

static tenon_status compare_outputs(Test *t, Run *run, const char *folder, Value **out,
                                    bool *out_right) {
  int64_t n = count_files(t, folder, "output"), have = model_noutputs(t->model);
  *out_right = true;
  if (n > have) {
    t->reason =
        str_printf(t->arena, "%lld outputs, %lld are expected", (long long)have, (long long)n);
    *out_right = false;
  }
  for (int64_t i = 0; i < n && *out_right; i++) {
    Value *want;
    TRY(read_pb(t, run, str_printf(t->arena, "%s/output_%lld.pb", folder, (long long)i),
                declared_kind(t->model, true, model_output_name(t->model, i)), output_type(t, i),
                &want));
    take_for_bf16(want, type_of(model_output(t->model, i)));
    *out_right = output_matches(t, out[i], want);
    if (!*out_right)
      t->reason =
          str_printf(t->arena, "output '%s': %s", model_output_name(t->model, i), t->reason);
  }
  return TENON_OK;
}

static tenon_status run_set(Test *t, Run *run, const char *folder, bool *out_right) {
  Value **in = arena_array(t->arena, Value *, model_ninputs(t->model) + 1);
  Value **out = arena_array(t->arena, Value *, model_noutputs(t->model) + 1);
  TRY(read_inputs(t, run, folder, in));
  TRY(run_graph(t, run, in, out));
  return compare_outputs(t, run, folder, out, out_right);
}

// ---- light tests ----
static tenon_status light_input(Test *t, Run *run, const Node *param, Value **out) {
  const Type *type = type_of(param);
  int64_t dims[MAX_RANK];
  if (type->kind != TK_TENSOR || type->dtype != DT_F32 || type->rank < 0 || !type_is_static(type))
    return fail(t->diag, TENON_EINVAL, (Where){.node = param->name},
                "a light test needs inputs of f32 and a fixed shape");
  for (int i = 0; i < type->rank; i++) dims[i] = type->dims[i]->value;
  TRY(value_tensor(run, NOWHERE, DT_F32, type->rank, dims, out));
  for (int64_t i = 0; i < (*out)->n; i++)
    ((float *)(*out)->data)[i] = (float)((double)i / (double)(*out)->n);
  return TENON_OK;
}

static tenon_status run_light(Test *t, Run *run, bool *out_right) {
  Value **in = arena_array(t->arena, Value *, model_ninputs(t->model) + 1);
  Value **out = arena_array(t->arena, Value *, model_noutputs(t->model) + 1), *want;
  for (int64_t i = 0; i < model_ninputs(t->model); i++)
    TRY(light_input(t, run, model_input(t->model, i), &in[i]));
  TRY(run_graph(t, run, in, out));
  TRY(read_pb(t, run, t->c->output, OT_TENSOR, type_of(model_output(t->model, 0)), &want));
  *out_right = output_matches(t, out[0], want);
  return TENON_OK;
}

// ---- one test ----
static tenon_status with_run(Test *t, const char *folder, bool *out_right) {
  Run *run = arena_new(t->arena, Run);
  run_init(run, t->pool, t->diag);
  tenon_status s = folder ? run_set(t, run, folder, out_right) : run_light(t, run, out_right);
  run_deinit(run);
  return s;
}

// The model printed, read back and printed again must give the same text.
static tenon_status through_text(Test *t) {
  StrBuf first, second;
  strbuf_init(&first, t->arena);
  strbuf_init(&second, t->arena);
  graph_print(t->model->graph, &first);
  // The text lies, as it were, beside the model: that is where it looks for the weights.
  const char *path = str_printf(t->arena, "%s.tir", t->c->model);
  TRY(graph_parse(strbuf_str(&first), path, t->diag, &t->again));
  TRY(graph_verify(t->again, t->diag));
  graph_print(t->again, &second);
  if (!str_eq(strbuf_str(&first), strbuf_str(&second)))
    return fail(t->diag, TENON_EINTERNAL, NOWHERE, "the text form changes when read back");
  return interp_create(t->again, &(InterpOptions){.expand = t->o->expand}, t->diag,
                       &t->again_interp);
}

// Which operators are refused and why, without the layout of model_need_supported's report.
static tenon_status need_supported(Test *t) {
  const Unsupported *u;
  int64_t n = model_unsupported(t->model, &u);
  for (int64_t i = 0; i < n; i++)
    fail(t->diag, TENON_EUNSUPPORTED, NOWHERE, "%s%s: %s", i ? "; " : "", u[i].op, u[i].why);
  return n ? TENON_EUNSUPPORTED : TENON_OK;
}

// ---- sizes that must be known when a model is compiled ----

static bool is_first_operand(const Test *t, const Node *param) {
  NodeList all = body_order(t->model->graph, t->model->graph->main, t->arena);
  for (int64_t i = 0; i < all.n; i++)
    if (all.v[i]->nsrc && all.v[i]->src[0] == param) return true;
  return false;
}

// What sizes may follow from: few numbers, that are not what an operator works on.  `first`:
// integers that are, and scalars, too.
static bool gives_sizes(const Test *t, const Value *v, const Node *param, bool first) {
  enum { FEW = 64 };
  if (!v || v->kind != VK_TENSOR || v->rank > 1 || v->n > FEW || v->dtype == DT_STRING)
    return false;
  bool whole = v->dtype == DT_I64 || v->dtype == DT_I32;
  return !is_first_operand(t, param) || (first && (whole || !v->rank));
}

static void note_sizes(Test *t, const Value *v, const Type *type, IntFixed *fixed, int64_t *n) {
  if (!v || v->kind != VK_TENSOR || type->kind != TK_TENSOR || type->rank != v->rank) return;
  for (int i = 0; i < v->rank; i++) {
    if (type->dims[i]->kind != IE_SYM || type->dims[i]->fresh) continue;
    Str name = str_of(str_printf(t->arena, "%s", type->dims[i]->name));
    bool seen = false;
    for (int64_t k = 0; k < *n; k++) seen |= str_eq(fixed[k].name, name);
    if (!seen && *n < MAX_RANK * 8) fixed[(*n)++] = (IntFixed){.name = name, .value = v->dims[i]};
  }
}

// Opens the model again with the sizes of the first data set, and with the inputs that sizes follow
// from as constants.
static tenon_status open_and_fix(Test *t, Run *run, bool first, int64_t *out_n) {
  IntFixed *fixed = arena_array(t->arena, IntFixed, MAX_RANK * 8);
  int64_t nfixed = 0, nin = model_ninputs(t->model), n = 0;
  Value **in = arena_array(t->arena, Value *, nin + 1);
  FixedInput *list = arena_array(t->arena, FixedInput, nin + 1);
  StrBuf names;
  strbuf_init(&names, t->arena);
  TRY(read_inputs(t, run, str_printf(t->arena, "%s/test_data_set_0", t->c->folder), in));
  for (int64_t i = 0; i < nin; i++) {
    const Node *p = model_input(t->model, i);
    note_sizes(t, in[i], type_of(p), fixed, &nfixed);
    if (!gives_sizes(t, in[i], p, first)) continue;
    list[n++] = (FixedInput){i, in[i]->dtype, in[i]->rank, in[i]->dims, in[i]->data};
    strbuf_printf(&names, "%s%s", names.n ? ", " : "", p->name);
  }
  model_free(t->model);
  t->model = NULL;
  TRY(model_open(t->c->model, &(ModelOptions){.fixed = fixed, .nfixed = nfixed}, t->diag,
                 &t->model));
  if (n) t->remark = str_printf(t->arena, "compiled with %s fixed", strbuf_text(&names));
  bool decomposed;
  TRY(graph_fix(t->model->graph, list, n));
  TRY(graph_expand(t->model->graph, c_composites, &decomposed));
  *out_n = n + nfixed + decomposed;
  return TENON_OK;
}

static tenon_status open_with_sizes(Test *t, bool first, int64_t *out_n) {
  Run *run = arena_new(t->arena, Run);
  run_init(run, NULL, t->diag);
  tenon_status s = open_and_fix(t, run, first, out_n);
  run_deinit(run);
  return s;
}

// A target that needs every size gets those of the test's data, as a user would give them.
static tenon_status optimise_with_sizes(Test *t) {
  tenon_status s = conform_compile(t->c, t->o, t->model->graph, t->arena, t->diag, &t->built);
  bool sizes = t->o->target && !strcmp(t->o->target->name, "c") && t->c->folder;
  for (int first = 0; first < 2 && sizes && s == TENON_EUNSUPPORTED; first++) {
    Diag *was = arena_dup(t->arena, t->diag, (int64_t)sizeof(Diag));
    int64_t n = 0;
    diag_init(t->diag);
    s = open_with_sizes(t, first, &n);
    if (!s && n) s = conform_compile(t->c, t->o, t->model->graph, t->arena, t->diag, &t->built);
    // What is refused with every size known is the better reason.
    if (!n || (s && s != TENON_EUNSUPPORTED)) *t->diag = *was;
    if (!n || s) {
      t->remark = NULL;
      s = TENON_EUNSUPPORTED;
    }
  }
  return s;
}

static tenon_status run_case(Test *t, bool *out_right) {
  *out_right = true;
  TRY(model_open(t->c->model, NULL, t->diag, &t->model));
  TRY(need_supported(t));
  TRY(graph_verify(t->model->graph, t->diag));
  if (t->o->compile) TRY(optimise_with_sizes(t));
  if (t->o->text) TRY(through_text(t));
  if (t->o->expand)
    TRY(interp_create(t->model->graph, &(InterpOptions){.expand = true}, t->diag,
                      &t->model->interp));
  if (!t->c->folder) return with_run(t, NULL, out_right);
  for (int64_t k = 0; *out_right; k++) {
    const char *set = str_printf(t->arena, "%s/test_data_set_%lld", t->c->folder, (long long)k);
    if (!count_files(t, set, "output")) {
      if (k) break;
      return fail(t->diag, TENON_EINVAL, (Where){.file = set}, "no expected outputs");
    }
    TRY(with_run(t, set, out_right));
  }
  return TENON_OK;
}

// A message on one line, without the model's path in front: the test's name says which it is.
const char *conform_one_line(Arena *a, const char *text, const char *model) {
  size_t n = strlen(model);
  if (!strncmp(text, model, n) && text[n] == ':') text += n + 1;
  StrBuf b;
  strbuf_init(&b, a);
  for (const char *p = text; *p; p++) {
    bool space = *p == ' ' || *p == '\n';
    if (space && (!b.n || b.p[b.n - 1] == ' ')) continue;
    strbuf_putc(&b, space ? ' ' : *p);
  }
  return strbuf_text(&b);
}

Verdict conform_run(const Case *c, const CaseOptions *o, Arena *a, const char **out_reason) {
  Test t = {.c = c, .o = o, .arena = a, .diag = arena_new(a, Diag)};
  bool right = false;
  if (c->program) return conform_run_program(c, o, a, out_reason);
  diag_init(t.diag);
  if (o->threads > 1) t.pool = pool_create(o->threads);
  if (o->text) t.again_pool = pool_create(3);
  tenon_status s = run_case(&t, &right);
  interp_free(t.again_interp);
  graph_free(t.again);
  session_free(t.built.session);
  program_release(t.built.program);
  model_free(t.model);
  pool_release(t.pool);
  pool_release(t.again_pool);
  *out_reason = s ? conform_one_line(a, t.diag->text, c->model) : right ? t.remark : t.reason;
  if (!s) return right ? CASE_PASSED : CASE_WRONG;
  if (s == TENON_EINTERNAL) return CASE_CRASHED;
  return s == TENON_EUNSUPPORTED ? CASE_UNSUPPORTED : CASE_WRONG;
}
