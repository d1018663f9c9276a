// text.c -- concatenating, splitting and normalising strings.
#include "eval/elementwise.h"
#include "eval/text.h"

static tenon_status need_strings(Eval *e, int i, const char *name) {
  return eval_need(e, i, name, DT_STRING);
}

// ---- string_concat ----

tenon_status eval_string_concat(Eval *e) {
  TRY(need_strings(e, 0, "x"));
  TRY(need_strings(e, 1, "y"));
  Broadcast b;
  Value *out;
  TRY(broadcast_init(e, e->in, 2, &b));
  TRY(eval_out(e, 0, DT_STRING, b.rank, b.dims, &out));
  Str *to = out->data;
  for (int64_t i = 0; i < b.count;) {
    int64_t ix[EW_BLOCK], iy[EW_BLOCK], n = MIN(EW_BLOCK, b.count - i);
    broadcast_index(&b, 0, i, n, ix);
    broadcast_index(&b, 1, i, n, iy);
    for (int64_t k = 0; k < n; k++, i++) {
      Str x = val_str(e->in[0], ix[k]), y = val_str(e->in[1], iy[k]);
      if (!x.n || !y.n) {
        to[i] = x.n ? x : y;
        continue;
      }
      TRY(eval_work(e, (double)(x.n + y.n)));
      char *p = arena_alloc(&e->run->strings, x.n + y.n + 1);
      memcpy(p, x.p, (size_t)x.n);
      memcpy(p + x.n, y.p, (size_t)y.n);
      to[i] = (Str){p, x.n + y.n};
    }
  }
  return TENON_OK;
}

// ---- string_split ----

static bool is_space(uint32_t c) {
  return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

// The next position at or after p where white space begins (or ends, when `inside`).
static const char *scan_space(const char *p, const char *end, bool inside) {
  while (p < end) {
    int len;
    if (is_space(utf8_decode(p, end, &len)) != inside) return p;
    p += len;
  }
  return end;
}

static const char *find_bytes(const char *p, const char *end, Str what) {
  for (; end - p >= what.n; p++) {
    p = memchr(p, what.p[0], (size_t)(end - p - what.n + 1));
    if (!p) return NULL;
    if (!memcmp(p, what.p, (size_t)what.n)) return p;
  }
  return NULL;
}

// One string's parts, written to `out` when it is not NULL; returns their number.
static int64_t split(Str s, const string_split_attrs *at, Str *out) {
  const char *p = s.p, *end = s.n ? s.p + s.n : s.p;
  int64_t n = 0, limit = at->maxsplit < 0 ? INT64_MAX : at->maxsplit;
  bool spaces = !at->delimiter.n;
  for (;;) {
    if (spaces) p = scan_space(p, end, true);
    if (spaces && p == end) return n;
    const char *stop = NULL;
    if (n < limit) {
      stop = spaces ? scan_space(p, end, false) : find_bytes(p, end, at->delimiter);
      if (spaces && stop == end) stop = NULL;
    }
    if (out) out[n] = (Str){p, (stop ? stop : end) - p};
    n++;
    if (!stop) return n;
    p = spaces ? stop : stop + at->delimiter.n;
  }
}

tenon_status eval_string_split(Eval *e) {
  const string_split_attrs *at = e->attrs;
  TRY(need_strings(e, 0, "x"));
  const Value *x = e->in[0];
  int64_t dims[MAX_RANK], most = 0;
  if (x->rank == MAX_RANK)
    return eval_fail(e, TENON_EUNSUPPORTED, "rank %d leaves no axis for the parts", x->rank);
  Value *y, *counts = NULL;
  if (eval_wants(e, 1)) TRY(eval_out(e, 1, DT_I64, x->rank, x->dims, &counts));
  for (int64_t i = 0; i < x->n; i++) {
    int64_t n = split(val_str(x, i), at, NULL);
    if (counts) ((int64_t *)counts->data)[i] = n;
    most = MAX(most, n);
  }
  memcpy(dims, x->dims, sizeof(dims));
  dims[x->rank] = most;
  TRY(eval_out(e, 0, DT_STRING, x->rank + 1, dims, &y));
  for (int64_t i = 0; i < x->n && most; i++) split(val_str(x, i), at, (Str *)y->data + i * most);
  return TENON_OK;
}

// ---- string_normalizer ----

// Whether a word is dropped; `stop` holds the stop words, in one case unless case counts.
static bool is_stop(Eval *e, const StrMap *stop, Str word, int fold) {
  ArenaMark m = arena_mark(&e->run->scratch);
  bool found = strmap_has(stop, text_change_case(&e->run->scratch, word, fold));
  arena_reset(&e->run->scratch, m);
  return found;
}

tenon_status eval_string_normalizer(Eval *e) {
  const string_normalizer_attrs *at = e->attrs;
  TRY(need_strings(e, 0, "x"));
  const Value *x = e->in[0];
  if (x->rank < 1 || x->rank > 2 || (x->rank == 2 && x->dims[0] != 1))
    return eval_fail(e, TENON_EINVAL, "x has shape %s, must be [C] or [1, C]",
                     shape_text(x->rank, x->dims).s);
  StrMap stop;
  int fold = at->is_case_sensitive ? CASE_NONE : CASE_LOWER;
  strmap_init(&stop, &e->run->scratch);
  for (int64_t i = 0; i < at->stopwords.n; i++)
    strmap_put(&stop, text_change_case(&e->run->scratch, at->stopwords.v[i], fold), NULL);
  bool *keep = arena_array(&e->run->scratch, bool, x->n);
  int64_t n = 0;
  for (int64_t i = 0; i < x->n; i++) {
    keep[i] = !at->stopwords.n || !is_stop(e, &stop, val_str(x, i), fold);
    n += keep[i];
  }
  int64_t dims[2] = {1, MAX(n, 1)};  // nothing left: one empty string
  Value *y;
  TRY(eval_out(e, 0, DT_STRING, x->rank, x->rank == 2 ? dims : dims + 1, &y));
  Str *to = y->data;
  for (int64_t i = 0; i < x->n; i++)
    if (keep[i]) *to++ = text_change_case(&e->run->strings, val_str(x, i), at->case_change_action);
  return TENON_OK;
}

// ---- regex_full_match ----

tenon_status eval_regex_full_match(Eval *e) {
  const regex_full_match_attrs *at = e->attrs;
  TRY(need_strings(e, 0, "x"));
  const Value *x = e->in[0];
  const char *why;
  const Regex *re = regex_compile(&e->run->scratch, at->pattern, &why);
  if (!re) return eval_fail(e, TENON_EINVAL, "pattern '%.*s': %s", STR_ARG(at->pattern), why);
  Value *y;
  TRY(eval_out(e, 0, DT_BOOL, x->rank, x->dims, &y));
  double chars = (double)x->n;
  for (int64_t i = 0; i < x->n; i++) chars += (double)val_str(x, i).n;
  TRY(eval_work(e, chars * (double)regex_size(re)));
  for (int64_t i = 0; i < x->n; i++) ((uint8_t *)y->data)[i] = regex_full_match(re, val_str(x, i));
  return TENON_OK;
}
