// text_token.c -- splitting strings into tokens, as ONNX Runtime's Tokenizer does.
//
// Tokens are what an expression matches, or what lies between matches of separators, applied one
// after the other, or single characters.  The tokens of all strings are listed first; the longest
// list then gives the size of the result's last axis.
#include "eval/text.h"

typedef VEC(Str) Tokens;

typedef struct Tokenizer {
  const tokenizer_attrs *at;
  Arena *arena;
  const Regex **re;   // the separators, or the expression of a token
  int64_t nre, work;  // work: operations not charged yet
  bool chars;
  Eval *e;
} Tokenizer;

static int64_t count_chars(Str s) {
  int64_t n = 0;
  for (int64_t i = 0; i < s.n; i++) n += (s.p[i] & 0xC0) != 0x80;
  return n;
}

static void keep(const Tokenizer *t, Tokens *out, Str token) {
  if (token.n && count_chars(token) >= t->at->mincharnum) vec_push(t->arena, out, token);
}

static void split_chars(const Tokenizer *t, Str s, Tokens *out) {
  for (int64_t i = 0; i < s.n;) {
    int len;
    utf8_decode(s.p + i, s.p + s.n, &len);
    keep(t, out, (Str){s.p + i, len});
    i += len;
  }
}

// The position after the character at i: an empty match must not be found again.
static int64_t step(Str s, int64_t i) {
  int len = 1;
  if (i < s.n) utf8_decode(s.p + i, s.p + s.n, &len);
  return i + len;
}

// A search may read far beyond the match that it finds, so each is charged.
static tenon_status charge(Tokenizer *t) {
  TRY(eval_work(t->e, (double)t->work));
  t->work = 0;
  return TENON_OK;
}

static tenon_status find_tokens(Tokenizer *t, Str s, Tokens *out) {
  int64_t begin, end;
  for (int64_t i = 0; i <= s.n && regex_find(t->re[0], s, i, &begin, &end, &t->work);) {
    TRY(charge(t));
    keep(t, out, (Str){s.p + begin, end - begin});
    i = end > begin ? end : step(s, end);
  }
  return charge(t);
}

static tenon_status split_once(Tokenizer *t, const Regex *re, Str s, Tokens *out) {
  int64_t begin, end, last = 0;
  for (int64_t i = 0; i <= s.n && regex_find(re, s, i, &begin, &end, &t->work);) {
    TRY(charge(t));
    if (end == begin) {  // separates nothing
      i = step(s, end);
      continue;
    }
    keep(t, out, (Str){s.p + last, begin - last});
    i = last = end;
  }
  keep(t, out, (Str){s.p + last, s.n - last});
  return charge(t);
}

static tenon_status split_by_all(Tokenizer *t, Str s, Tokens *out) {
  Tokens row = {0};
  vec_push(t->arena, &row, s);
  for (int64_t k = 0; k < t->nre; k++) {
    Tokens parts = {0};
    for (int64_t i = 0; i < row.n; i++) TRY(split_once(t, t->re[k], row.v[i], &parts));
    row = parts;
  }
  *out = row;
  return TENON_OK;
}

static tenon_status tokenizer_init(Eval *e, Tokenizer *t) {
  const tokenizer_attrs *at = e->attrs;
  *t = (Tokenizer){.at = at, .arena = &e->run->scratch, .e = e};
  t->chars = str_is(at->tokenexp, ".") || (at->separators.n == 1 && !at->separators.v[0].n);
  if (t->chars) return TENON_OK;
  bool expression = at->tokenexp.n > 0;
  if (!expression && !at->separators.n)
    return eval_fail(e, TENON_EINVAL, "neither tokenexp nor separators are given");
  t->nre = expression ? 1 : at->separators.n;
  t->re = arena_array(t->arena, const Regex *, t->nre);
  for (int64_t i = 0; i < t->nre; i++) {
    const char *why;
    Str text = expression ? at->tokenexp : at->separators.v[i];
    t->re[i] = regex_compile(t->arena, text, &why);
    if (!t->re[i]) return eval_fail(e, TENON_EINVAL, "expression '%.*s': %s", STR_ARG(text), why);
  }
  return TENON_OK;
}

static void write_row(const tokenizer_attrs *at, const Tokens *row, int64_t width, Str *to) {
  int64_t n = 0;
  if (at->mark) to[n++] = (Str){"\x02", 1};
  for (int64_t i = 0; i < row->n; i++) to[n++] = row->v[i];
  if (at->mark) to[n++] = (Str){"\x03", 1};
  while (n < width) to[n++] = at->pad_value;
}

tenon_status eval_tokenizer(Eval *e) {
  TRY(eval_need(e, 0, "x", DT_STRING));
  const Value *x = e->in[0];
  Tokenizer t;
  if (x->rank < 1 || x->rank > 2)
    return eval_fail(e, TENON_EINVAL, "x has shape %s, must be [C] or [N, C]",
                     shape_text(x->rank, x->dims).s);
  TRY(tokenizer_init(e, &t));
  Tokens *row = arena_array(t.arena, Tokens, x->n + 1);
  int64_t width = 0;
  for (int64_t i = 0; i < x->n; i++) {
    Str s = val_str(x, i);
    if (!s.n) s = STR("");  // an empty string may have no address, and none can be reckoned from
    t.work += s.n + 1;
    if (t.chars)
      split_chars(&t, s, &row[i]);
    else if (t.at->tokenexp.n)
      TRY(find_tokens(&t, s, &row[i]));
    else
      TRY(split_by_all(&t, s, &row[i]));
    width = MAX(width, row[i].n);
  }
  if (width && t.at->mark) width += 2;
  int64_t dims[3] = {x->dims[0], x->dims[x->rank - 1]};
  dims[x->rank] = width;
  Value *y;
  TRY(eval_out(e, 0, DT_STRING, x->rank + 1, dims, &y));
  for (int64_t i = 0; i < x->n && width; i++)
    write_row(t.at, &row[i], width, (Str *)y->data + i * width);
  return TENON_OK;
}
