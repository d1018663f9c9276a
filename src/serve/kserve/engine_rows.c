// engine_rows.c -- may requests of a model run together?  Asked of its types, then of the model.
//
// Dimension 0 of every input and output must be one and the same symbol, and nothing else may
// depend on it.  That does not tell whether a row's results depend on other rows, as those of a
// softmax over dimension 0 do.  So the engine runs random rows together and alone: the bits must be
// the same.  The program was compiled with batch_invariant, which promises that for its kernels.
#include "serve/kserve/engine.h"

#include "base/platform.h"

enum { ROWS = 3, OTHER_SIZES = 2 };

static bool word_char(char c) {
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Whether the expression `text` names the symbol.
static bool names(const char *text, const char *symbol) {
  size_t n = strlen(symbol);
  for (const char *p = strstr(text, symbol); p; p = strstr(p + 1, symbol))
    if ((p == text || !word_char(p[-1])) && !word_char(p[n])) return true;
  return false;
}

// Whether dimension 0 is `*symbol` (or becomes it, when NULL), and no other one depends on it.
static bool value_fits(const tenon_value_info *v, const char **symbol) {
  if (v->kind != TENON_KIND_TENSOR || v->rank < 1 || !v->symbol[0]) return false;
  if (!*symbol) *symbol = v->symbol[0];
  if (strcmp(*symbol, v->symbol[0])) return false;
  for (int k = 1; k < v->rank; k++)
    if (v->symbol[k] && names(v->symbol[k], *symbol)) return false;
  return true;
}

static const char *types_fit(Engine *e) {
  const char *symbol = NULL;
  tenon_value_info v;
  size_t nin = tenon_program_input_count(e->program), nout = tenon_program_output_count(e->program);
  for (size_t i = 0; i < nin; i++)
    if (tenon_program_input(e->program, i, &v) || !value_fits(&v, &symbol))
      return str_printf(&e->arena, "dimension 0 of input '%s' is not the inputs' common symbol",
                        v.name);
  for (size_t i = 0; i < nout; i++)
    if (tenon_program_output(e->program, i, &v) || !value_fits(&v, &symbol))
      return str_printf(&e->arena, "dimension 0 of output '%s' is not that of the inputs", v.name);
  return symbol ? NULL : "there is no input";
}

// ---- the trial ----
typedef struct Trial {
  Engine *e;
  Arena arena;
  uint64_t random;
  PacketTensor *input;  // with ROWS rows
  int64_t *row_bytes;
} Trial;

static uint64_t next_random(Trial *t) { return t->random = hash_u64(t->random + 1); }

static void random_element(Trial *t, const KsType *type, char *p) {
  uint64_t r = next_random(t);
  if (dtype_is_float(type->dtype))
    put_f64(type->dtype, p, 0, (double)(r % 20001) / 10000.0 - 1);
  else
    put_i64(type->dtype, p, 0, (int64_t)(r % 2));
}

// Inputs of ROWS rows; false: they are of a kind that is not tried.
static bool make_inputs(Trial *t, int64_t other) {
  const KsSignature *s = &t->e->signature;
  t->input = arena_array(&t->arena, PacketTensor, s->ninputs);
  t->row_bytes = arena_array(&t->arena, int64_t, s->ninputs);
  for (int64_t i = 0; i < s->ninputs; i++) {
    const KsValue *v = &s->input[i];
    PacketTensor *p = &t->input[i];
    int64_t n = 1;
    if (!v->type->bytes) return false;
    *p = (PacketTensor){.index = i, .dtype = v->type->dtype, .rank = v->rank};
    for (int k = 0; k < v->rank; k++) {
      p->shape[k] = !k ? ROWS : v->shape[k] < 0 ? other : v->shape[k];
      if (!ck_mul(n, p->shape[k], &n) || n > 1 << 24) return false;
    }
    p->bytes = n * v->type->bytes;
    t->row_bytes[i] = p->bytes / ROWS;
    char *data = arena_alloc(&t->arena, p->bytes + 1);
    for (int64_t k = 0; k < n; k++) random_element(t, v->type, data + k * v->type->bytes);
    p->data = data;
  }
  return true;
}

static tenon_status run_rows(Trial *t, int64_t from, int64_t rows, tenon_tensor *out,
                             tenon_error *err) {
  const KsSignature *s = &t->e->signature;
  Packet p = {.n = s->ninputs, .tensor = arena_array(&t->arena, PacketTensor, s->ninputs)};
  for (int64_t i = 0; i < p.n; i++) {
    p.tensor[i] = t->input[i];
    p.tensor[i].shape[0] = rows;
    p.tensor[i].bytes = rows * t->row_bytes[i];
    p.tensor[i].data += from * t->row_bytes[i];
  }
  return engine_run(t->e, &t->arena, &p, out, err);
}

// Whether `part`, of some rows, is those rows of `whole`.
static bool same_rows(const Engine *e, const tenon_tensor *whole, const tenon_tensor *part,
                      int64_t from, int64_t rows) {
  for (int64_t i = 0; i < e->noutputs; i++) {
    int64_t all = tenon_tensor_size(whole[i].dtype, whole[i].rank, whole[i].shape);
    int64_t some = tenon_tensor_size(part[i].dtype, part[i].rank, part[i].shape);
    if (whole[i].rank != part[i].rank || !part[i].rank || part[i].shape[0] != rows ||
        whole[i].shape[0] != ROWS || all % ROWS || some != all / ROWS * rows)
      return false;
    if (whole[i].dtype == DT_STRING) return false;
    if (some &&
        memcmp((const char *)whole[i].data + from * (all / ROWS), part[i].data, (size_t)some))
      return false;
  }
  return true;
}

static const char *try_rows(Trial *t) {
  static const struct { int from, rows; } part[] = {{0, 1}, {1, 1}, {2, 1}, {0, 2}, {1, 2}};
  Engine *e = t->e;
  tenon_error err = {0};
  tenon_tensor *whole = arena_array(&t->arena, tenon_tensor, e->noutputs + 1);
  tenon_tensor *some = arena_array(&t->arena, tenon_tensor, e->noutputs + 1);
  if (run_rows(t, 0, ROWS, whole, &err))
    return str_printf(&e->arena, "the trial with random rows failed: %.300s", err.message);
  const char *why = NULL;
  for (int i = 0; i < (int)ARRAY_LEN(part) && !why; i++) {
    if (run_rows(t, part[i].from, part[i].rows, some, &err))
      why = str_printf(&e->arena, "the trial with random rows failed: %.300s", err.message);
    else if (!same_rows(e, whole, some, part[i].from, part[i].rows))
      why = "a row's results depend on the rows beside it";
    engine_release(e, some);
  }
  engine_release(e, whole);
  return why;
}

static const char *trial(Engine *e) {
  static const int64_t other[OTHER_SIZES] = {8, 1};  // of symbolic dimensions besides the rows
  const char *why = NULL;
  for (int i = 0; i < OTHER_SIZES; i++) {
    Trial t = {.e = e, .random = 1};
    arena_init_scoped(&t.arena);
    why =
        make_inputs(&t, other[i]) ? try_rows(&t) : "its inputs cannot be tried with random values";
    arena_deinit(&t.arena);
    if (!why) break;
  }
  return why;
}

static bool is_invariant(const tenon_program *p) {
  for (size_t i = 0; i < tenon_program_option_count(p); i++)
    if (names(tenon_program_option(p, i), "batch_invariant") ||
        strstr(tenon_program_option(p, i), "batch-invariant"))
      return true;
  return false;
}

void engine_check_rows(Engine *e) {
  const char *why = is_invariant(e->program) ? NULL : "it was compiled without --batch-invariant";
  if (!why) why = types_fit(e);
  if (!why) why = trial(e);
  e->signature.rows = !why;
  e->signature.why_not = why ? why : "";
}
