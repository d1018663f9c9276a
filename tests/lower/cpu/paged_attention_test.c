// paged_attention_test.c -- template paged_attention against plain attention on gathered keys, with
// every page and slot that no row may see full of NaNs; and the same bits for rows alone, in chunks
// and in any company, on any number of threads.
#include "runtime/session.h"
#include "codegen.h"
#include "compiled.h"
#include "eval/paged.h"
#include "ir/interpret.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

enum { SEQS = 3, TABLE_PAGES = 24, PAGES = 48, ROWS_MOST = 96, SIZE_MOST = 96, HEADS_MOST = 8 };

typedef struct Form {
  const char *name, *attrs;
  int heads, kv_heads, size, vsize, window;
  double softcap;
  bool sinks, slopes;
  const char *state;  // dtype
} Form;

static const Form forms[] = {
    {"plain", "", 6, 2, 64, 64, 0, 0, false, false, "f32"},
    {"one head a group", "", 3, 3, 16, 24, 0, 0, false, false, "f32"},
    {"window, softcap", " window=70 softcap=3", 4, 1, 24, 16, 70, 3, false, false, "f32"},
    {"sinks, slopes", " scale=0.2", 8, 2, 40, 33, 0, 0, true, true, "f32"},
    {"window of one page less a key", " window=31", 2, 2, 7, 5, 31, 0, true, false, "f32"},
    {"f16", " softcap=5", 6, 3, 64, 96, 0, 5, false, true, "f16"},
    {"bf16", " window=300", 5, 1, 80, 64, 300, 0, false, false, "bf16"},
};

static uint64_t dice;
static uint64_t draw(uint64_t n) {
  dice = dice * 6364136223846793005ull + 1442695040888963407ull;
  return (dice >> 33) % n;
}
static double uniform(void) { return (double)draw(1 << 20) / (1 << 19) - 1; }

// Sequences of these lengths, in pages at random places; the last rows of each are asked for.
typedef struct World {
  const Form *f;
  DType state;
  int64_t length[SEQS], rows;
  int32_t table[SEQS * TABLE_PAGES], seq[ROWS_MOST], pos[ROWS_MOST];
  float q[ROWS_MOST * HEADS_MOST * SIZE_MOST], sinks[HEADS_MOST], slopes[HEADS_MOST];
  void *k, *v;  // PAGES
  float want[ROWS_MOST * HEADS_MOST * SIZE_MOST];
} World;

static int64_t state_elements(const Form *f, int64_t size) {
  return (int64_t)PAGES * f->kv_heads * LLM_PAGE * size;
}

static void make_rows(World *w, int64_t *rows_of) {
  w->rows = 0;
  for (int s = 0; s < SEQS; s++)
    for (int64_t i = 0; i < rows_of[s]; i++) {
      w->seq[w->rows] = s;
      w->pos[w->rows++] = (int32_t)(w->length[s] - rows_of[s] + i);
    }
}

static void fill_pages(World *w) {
  const Form *f = w->f;
  bool used[PAGES] = {false};
  for (int64_t i = 0; i < state_elements(f, f->size); i++) put_f64(w->state, w->k, i, NAN);
  for (int64_t i = 0; i < state_elements(f, f->vsize); i++) put_f64(w->state, w->v, i, NAN);
  for (int s = 0; s < SEQS; s++)
    for (int64_t p = 0; p < TABLE_PAGES; p++) {
      int32_t *entry = &w->table[s * TABLE_PAGES + p];
      *entry = -12345;  // never read
      if (p * LLM_PAGE >= w->length[s]) continue;
      do *entry = (int32_t)draw(PAGES);
      while (used[*entry]);
      used[*entry] = true;
      for (int64_t h = 0; h < f->kv_heads; h++)
        for (int64_t o = 0; o < LLM_PAGE && p * LLM_PAGE + o < w->length[s]; o++) {
          int64_t at = ((int64_t)*entry * f->kv_heads + h) * LLM_PAGE + o;
          for (int64_t d = 0; d < f->size; d++)
            put_f64(w->state, w->k, at * f->size + d, 2 * uniform());
          for (int64_t d = 0; d < f->vsize; d++)
            put_f64(w->state, w->v, at * f->vsize + d, uniform());
        }
    }
}

static bool make_world(World *w, const Form *f, uint64_t seed) {
  dice = seed;
  w->f = f;
  w->state = f->state[0] == 'b' ? DT_BF16 : f->state[1] == '3' ? DT_F32 : DT_F16;
  w->k = mem_alloc(state_elements(f, f->size) * 4);
  w->v = mem_alloc(state_elements(f, f->vsize) * 4);
  if (!w->k || !w->v) return false;
  int64_t rows_of[SEQS] = {1, 20 + (int64_t)draw(30), 3};
  for (int s = 0; s < SEQS; s++) w->length[s] = rows_of[s] + (int64_t)draw(s == 1 ? 400 : 150);
  fill_pages(w);
  make_rows(w, rows_of);
  for (int64_t i = 0; i < w->rows * f->heads * f->size; i++) w->q[i] = (float)uniform();
  for (int h = 0; h < f->heads; h++) {
    w->sinks[h] = (float)uniform();
    w->slopes[h] = (float)(0.1 * uniform());
  }
  return true;
}

static void free_world(World *w) {
  mem_free(w->k, state_elements(w->f, w->f->size) * 4);
  mem_free(w->v, state_elements(w->f, w->f->vsize) * 4);
}

// In double, key by key; nothing of the op's own evaluation.
static void expect_rows(World *w) {
  const Form *f = w->f;
  for (int64_t t = 0; t < w->rows; t++)
    for (int64_t h = 0; h < f->heads; h++) {
      double sum = 0, out[SIZE_MOST] = {0},
             scale = strstr(f->attrs, "scale") ? 0.2 : 1 / sqrt(f->size);
      int64_t first = f->window && w->pos[t] >= f->window ? w->pos[t] - f->window + 1 : 0;
      for (int64_t j = first; j <= w->pos[t]; j++) {
        int64_t page = w->table[w->seq[t] * TABLE_PAGES + j / LLM_PAGE],
                kv = h / (f->heads / f->kv_heads);
        int64_t at = (page * f->kv_heads + kv) * LLM_PAGE + j % LLM_PAGE;
        double x = 0;
        for (int64_t d = 0; d < f->size; d++)
          x += (double)w->q[(t * f->heads + h) * f->size + d] *
               get_f64(w->state, w->k, at * f->size + d);
        x *= scale;
        if (f->softcap > 0) x = f->softcap * tanh(x / f->softcap);
        if (f->slopes) x += (double)w->slopes[h] * (double)(j - w->pos[t]);
        sum += exp(x);
        for (int64_t d = 0; d < f->vsize; d++)
          out[d] += exp(x) * get_f64(w->state, w->v, at * f->vsize + d);
      }
      if (f->sinks) sum += exp((double)w->sinks[h]);
      for (int64_t d = 0; d < f->vsize; d++)
        w->want[(t * f->heads + h) * f->vsize + d] = (float)(out[d] / sum);
    }
}

static const char *text_of(Arena *a, const Form *f) {
  const char *sinks = f->sinks ? "%sinks" : "_";
  return str_printf(
      a,
      "graph @\"g\"(state %%k: %s[n, %d, 32, %d], state %%v: %s[n, %d, 32, %d], %%q: f32[t, %d, "
      "%d], "
      "%%seq: i32[t], %%pos: i32[t], %%table: i32[s, p]%s%s) -> (y: f32[t, %d, %d]) {\n"
      "  %%y = paged_attention(%%q, %%k, %%v, %%seq, %%pos, %%table%s%s)%s\n  return %%y\n}\n",
      f->state, f->kv_heads, f->size, f->state, f->kv_heads, f->vsize, f->heads, f->size,
      f->sinks ? str_printf(a, ", %%sinks: f32[%d]", f->heads) : "",
      f->slopes ? str_printf(a, ", %%slopes: f32[%d]", f->heads) : "", f->heads, f->vsize,
      f->sinks || f->slopes ? str_printf(a, ", %s", sinks) : "", f->slopes ? ", %slopes" : "",
      f->attrs);
}

// Rows [first, first + n) of the world, or these rows in another order.
static tenon_status run_rows(Session *s, const World *w, const int64_t *row, int64_t n, Diag *d,
                             float *out) {
  const Form *f = w->f;
  static float q[ROWS_MOST * HEADS_MOST * SIZE_MOST];
  int32_t seq[ROWS_MOST], pos[ROWS_MOST];
  int64_t width = (int64_t)f->heads * f->size;
  for (int64_t i = 0; i < n; i++) {
    seq[i] = w->seq[row[i]];
    pos[i] = w->pos[row[i]];
    memcpy(&q[i * width], &w->q[row[i] * width], (size_t)width * sizeof(float));
  }
  Run run;
  Value *in[8] = {NULL}, *y[1] = {NULL};
  int at = 6;
  run_init(&run, NULL, d);
  tenon_status status = value_borrow(
      &run, w->state, 4, (int64_t[]){PAGES, f->kv_heads, LLM_PAGE, f->size}, w->k, &in[0]);
  if (!status)
    status = value_borrow(&run, w->state, 4, (int64_t[]){PAGES, f->kv_heads, LLM_PAGE, f->vsize},
                          w->v, &in[1]);
  if (!status) status = value_borrow(&run, DT_F32, 3, (int64_t[]){n, f->heads, f->size}, q, &in[2]);
  if (!status) status = value_borrow(&run, DT_I32, 1, (int64_t[]){n}, seq, &in[3]);
  if (!status) status = value_borrow(&run, DT_I32, 1, (int64_t[]){n}, pos, &in[4]);
  if (!status)
    status = value_borrow(&run, DT_I32, 2, (int64_t[]){SEQS, TABLE_PAGES}, w->table, &in[5]);
  if (!status && f->sinks)
    status = value_borrow(&run, DT_F32, 1, (int64_t[]){f->heads}, w->sinks, &in[at++]);
  if (!status && f->slopes)
    status = value_borrow(&run, DT_F32, 1, (int64_t[]){f->heads}, w->slopes, &in[at++]);
  if (!status) status = session_run(s, &run, in, NULL, y);
  if (!status) memcpy(out, y[0]->data, (size_t)(n * f->heads * f->vsize) * sizeof(float));
  run_deinit(&run);
  return status;
}

typedef struct Ready {
  Arena arena;
  Diag d;
  Program *program;
  Session *session[3];  // of 1, 3 and 7 threads
} Ready;

static bool make_ready(Ready *r, const Form *f, const char *target, Compiled *c) {
  static const int threads[] = {1, 3, 7};
  arena_init(&r->arena);
  diag_init(&r->d);
  r->program = NULL;
  memset(r->session, 0, sizeof r->session);
  Asked asked = {.compiled = c, .advised = true};
  tenon_status s =
      compile_asked(&asked, text_of(&r->arena, f), target, &r->arena, &r->d, &r->program);
  for (int i = 0; i < 3 && !s; i++)
    s = session_create(r->program, &(SessionOptions){.threads = threads[i]}, &r->d, &r->session[i]);
  if (s) FAIL("%s: %s", f->name, r->d.text);
  return !s;
}

static void free_ready(Ready *r) {
  for (int i = 0; i < 3; i++) session_free(r->session[i]);
  program_release(r->program);
  arena_deinit(&r->arena);
}

static int64_t far_from(const World *w, const float *got) {
  for (int64_t i = 0; i < w->rows * w->f->heads * w->f->vsize; i++)
    if (!(fabs((double)got[i] - (double)w->want[i]) <= 3e-5 * (1 + fabs((double)w->want[i]))))
      return i;
  return -1;
}

// All rows at once, against the reference; then in other companies.
static void check_form(const Form *f, const char *target, int seeds) {
  static World w;
  static float all[ROWS_MOST * HEADS_MOST * SIZE_MOST], some[ROWS_MOST * HEADS_MOST * SIZE_MOST];
  static Ready r;
  Compiled c = {0};
  if (!make_ready(&r, f, target, &c)) {
    free_ready(&r);
    return;
  }
  EXPECT_INT_EQ(c.nhost, 0);
  EXPECT_INT_EQ(c.ndeclined, 0);
  for (int seed = 1; seed <= seeds; seed++) {
    int64_t row[ROWS_MOST], width = (int64_t)f->heads * f->vsize;
    if (!make_world(&w, f, (uint64_t)seed)) FAIL("out of memory");
    expect_rows(&w);
    for (int64_t i = 0; i < w.rows; i++) row[i] = i;
    if (run_rows(r.session[0], &w, row, w.rows, &r.d, all)) FAIL("%s: %s", f->name, r.d.text);
    int64_t far = far_from(&w, all);
    if (far >= 0)
      FAIL("%s, seed %d: element %lld is %g, must be %g", f->name, seed, (long long)far,
           (double)all[far], (double)w.want[far]);
    for (int64_t chunk = 1, t = 0; chunk < w.rows; chunk = chunk * 2 + (int64_t)draw(3), t++) {
      if (chunk < 3) {  // in any order
        for (int64_t i = w.rows - 1; i > 0; i--) {
          int64_t k = (int64_t)draw((uint64_t)i + 1), x = row[i];
          row[i] = row[k];
          row[k] = x;
        }
      } else {
        for (int64_t i = 0; i < w.rows; i++) row[i] = i;
      }
      for (int64_t i = 0; i < w.rows; i += chunk) {
        int64_t n = MIN(chunk, w.rows - i);
        if (run_rows(r.session[t % 3], &w, &row[i], n, &r.d, some))
          FAIL("%s: %s", f->name, r.d.text);
        for (int64_t k = 0; k < n; k++)
          if (memcmp(&some[k * width], &all[row[i + k] * width], (size_t)width * sizeof(float)))
            FAIL("%s, seed %d: row %lld differs in chunks of %lld", f->name, seed,
                 (long long)row[i + k], (long long)chunk);
      }
    }
    free_world(&w);
  }
  free_ready(&r);
}

TEST(paged_attention_is_attention) {
  if (!codegen_there()) SKIP("built without LLVM");
  for (int i = 0; i < ARRAY_LEN(forms); i++) check_form(&forms[i], "cpu", 6);
}

TEST(paged_attention_is_attention_by_loops) {
  check_form(&forms[2], "ref", 1);
  check_form(&forms[4], "ref", 1);
}

// Thread blocks, as plain loops.
TEST_LONG(paged_attention_is_attention_by_blocks) {
  setenv("TENON_BLOCK_THREADS", "64", 1);
  for (int i = 2; i < 5; i++) check_form(&forms[i], "ref", 1);
  unsetenv("TENON_BLOCK_THREADS");
}
