// text_tfidf.c -- counting n-grams.
//
// Tokens are numbered first, so that integers and strings are the same from there on; the pool's
// n-grams are a tree over token numbers.  Each row of x is walked once per skip distance.
#include "eval/text.h"

typedef struct Tokens {
  IntMap ints;
  StrMap strings;
  int64_t n;
  bool text;
} Tokens;

// The tree: node 0 is the root; an edge is (node, token) -> node.
typedef struct Grams {
  Tokens tokens;
  IntMap edge;
  int64_t nnodes;
  int64_t *gram;  // [node] number of the n-gram that ends here, from 1; 0 none
} Grams;

static bool fits_pool(const tf_idf_vectorizer_attrs *at, int64_t pool, int64_t *out_grams) {
  int64_t grams = 0;
  for (int64_t i = 0; i < at->ngram_counts.n; i++) {
    int64_t begin = at->ngram_counts.v[i];
    int64_t end = i + 1 < at->ngram_counts.n ? at->ngram_counts.v[i + 1] : pool;
    if (begin < 0 || end < begin || end > pool || (end - begin) % (i + 1)) return false;
    grams += (end - begin) / (i + 1);
  }
  *out_grams = grams;
  return true;
}

int64_t tf_idf_columns(const tf_idf_vectorizer_attrs *at, const char **why) {
  int64_t most = -1, grams, pool = at->pool_int64s.n + at->pool_strings.n;
  *why = NULL;
  if ((at->pool_int64s.n > 0) == (at->pool_strings.n > 0))
    *why = "one of pool_int64s and pool_strings must be given";
  else if (!fits_pool(at, pool, &grams))
    *why = "ngram_counts do not divide the pool into n-grams";
  else if (grams > at->ngram_indexes.n)
    *why = "ngram_indexes has fewer elements than the pool n-grams";
  else if (at->min_gram_length < 1 || at->max_gram_length < at->min_gram_length ||
           at->max_skip_count < 0)
    *why = "min_gram_length, max_gram_length and max_skip_count do not fit";
  for (int64_t i = 0; i < at->ngram_indexes.n && !*why; i++) {
    if (at->ngram_indexes.v[i] < 0 || at->ngram_indexes.v[i] == INT64_MAX)
      *why = "an element of ngram_indexes is out of range";
    most = MAX(most, at->ngram_indexes.v[i]);
  }
  return *why ? -1 : most + 1;
}

// ---- tokens ----

static int64_t token_find(const Tokens *t, const Value *x, int64_t i) {
  if (t->text) return (int64_t)(uintptr_t)strmap_get(&t->strings, val_str(x, i)) - 1;
  uint64_t v;
  return intmap_get(&t->ints, (uint64_t)val_i64(x, i), &v) ? (int64_t)v : -1;
}

static int64_t token_add(Tokens *t, const tf_idf_vectorizer_attrs *at, int64_t i) {
  if (t->text) {
    uintptr_t v = (uintptr_t)strmap_get(&t->strings, at->pool_strings.v[i]);
    if (v) return (int64_t)v - 1;
    strmap_put(&t->strings, at->pool_strings.v[i], (void *)(uintptr_t)(t->n + 1));
    return t->n++;
  }
  uint64_t v, key = (uint64_t)at->pool_int64s.v[i];
  if (intmap_get(&t->ints, key, &v)) return (int64_t)v;
  intmap_put(&t->ints, key, (uint64_t)t->n);
  return t->n++;
}

// ---- the tree ----

static uint64_t edge_key(int64_t node, int64_t token) {
  return (uint64_t)node << 32 | (uint64_t)token;
}

static int64_t step_to(const Grams *g, int64_t node, int64_t token) {
  uint64_t v;
  return token >= 0 && intmap_get(&g->edge, edge_key(node, token), &v) ? (int64_t)v : -1;
}

static void add_gram(Grams *g, const tf_idf_vectorizer_attrs *at, int64_t begin, int64_t size,
                     int64_t number) {
  int64_t node = 0;
  for (int64_t k = 0; k < size; k++) {
    int64_t token = token_add(&g->tokens, at, begin + k), next = step_to(g, node, token);
    if (next < 0) {
      next = g->nnodes++;
      intmap_put(&g->edge, edge_key(node, token), (uint64_t)next);
    }
    node = next;
  }
  g->gram[node] = number;
}

static tenon_status build(Eval *e, const tf_idf_vectorizer_attrs *at, Grams *g) {
  Arena *a = &e->run->scratch;
  int64_t pool = at->pool_int64s.n + at->pool_strings.n, number = 1;
  if (pool >= INT32_MAX)
    return eval_fail(e, TENON_EUNSUPPORTED, "a pool of %lld tokens", (long long)pool);
  *g = (Grams){.nnodes = 1};
  g->tokens.text = at->pool_strings.n > 0;
  intmap_init(&g->tokens.ints, a);
  strmap_init(&g->tokens.strings, a);
  intmap_init(&g->edge, a);
  g->gram = arena_array(a, int64_t, pool + 1);
  for (int64_t i = 0; i < at->ngram_counts.n; i++) {
    int64_t size = i + 1, end = size < at->ngram_counts.n ? at->ngram_counts.v[size] : pool;
    bool wanted = size >= at->min_gram_length && size <= at->max_gram_length;
    for (int64_t k = at->ngram_counts.v[i]; k < end; k += size, number++)
      if (wanted) add_gram(g, at, k, size, number);
  }
  return TENON_OK;
}

// ---- counting ----

// N-grams whose tokens are `skip` apart.
static void count_skip(const Grams *g, const tf_idf_vectorizer_attrs *at, const int64_t *token,
                       int64_t n, int64_t skip, int64_t least, double *count) {
  for (int64_t start = 0; start < n && skip * (least - 1) < n - start; start++) {
    int64_t node = 0, size = 1;
    for (int64_t i = start; i < n && size <= at->max_gram_length; i += skip, size++) {
      node = step_to(g, node, token[i]);
      if (node < 0) break;
      int64_t number = g->gram[node];
      if (number && size >= least) count[number - 1]++;
    }
  }
}

static void count_row(const Grams *g, const tf_idf_vectorizer_attrs *at, const int64_t *token,
                      int64_t n, double *count) {
  int64_t least = at->min_gram_length;
  // No n-gram of two or more tokens reaches across a skip of n.
  for (int64_t skip = 1; skip - 1 <= at->max_skip_count && skip <= n; skip++) {
    if (least > 1 && least - 1 > n / skip) break;
    count_skip(g, at, token, n, skip, least, count);
    if (least > 1) continue;
    // Single tokens have no skips: they are counted once.
    if (++least > at->max_gram_length) break;
  }
}

// Weights are those of the n-grams in the pool, wherever ngram_indexes puts their counts.
static double weigh(const tf_idf_vectorizer_attrs *at, int64_t gram, double count) {
  double w = gram < at->weights.n ? at->weights.v[gram] : 1;
  if (at->mode == TFIDF_TF) return count;
  return at->mode == TFIDF_IDF ? (count > 0 ? w : 0) : w * count;
}

tenon_status eval_tf_idf_vectorizer(Eval *e) {
  const tf_idf_vectorizer_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "x", 0));
  const Value *x = e->in[0];
  const char *why;
  int64_t columns = tf_idf_columns(at, &why);
  if (columns < 0) return eval_fail(e, TENON_EINVAL, "%s", why);
  if (x->rank > 2) return eval_fail(e, TENON_EINVAL, "x has rank %d, must have 1 or 2", x->rank);
  bool text = at->pool_strings.n > 0;
  if (text ? x->dtype != DT_STRING : !dtype_is_int(x->dtype))
    return eval_fail(e, TENON_EINVAL, "x is %s, the pool holds %s", dtype_name(x->dtype),
                     text ? "strings" : "integers");
  int64_t rows = x->rank == 2 ? x->dims[0] : 1, n = rows ? x->n / rows : 0,
          dims[2] = {rows, columns};
  Value *y;
  Grams g;
  TRY(eval_out(e, 0, DT_F32, x->rank == 2 ? 2 : 1, x->rank == 2 ? dims : dims + 1, &y));
  if (!y->n) return TENON_OK;
  double skips = (double)MIN(at->max_skip_count, n) + 1;
  TRY(eval_work(e, (double)x->n * skips * (double)MIN(at->max_gram_length, n) +
                       8.0 * (double)(at->pool_int64s.n + at->pool_strings.n)));
  TRY(build(e, at, &g));
  int64_t *token = arena_array(&e->run->scratch, int64_t, n);
  int64_t grams = at->ngram_indexes.n;
  double *count = arena_array(&e->run->scratch, double, grams);
  double *sum = arena_array(&e->run->scratch, double, columns);
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t i = 0; i < n; i++) token[i] = token_find(&g.tokens, x, r * n + i);
    memset(count, 0, (size_t)grams * sizeof(*count));
    memset(sum, 0, (size_t)columns * sizeof(*sum));
    count_row(&g, at, token, n, count);
    for (int64_t i = 0; i < grams; i++) sum[at->ngram_indexes.v[i]] += weigh(at, i, count[i]);
    for (int64_t c = 0; c < columns; c++) val_put_f64(y, r * columns + c, sum[c]);
  }
  return TENON_OK;
}
