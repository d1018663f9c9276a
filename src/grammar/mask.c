// mask.c -- masks: which tokens go on from a place, and can be ended behind.
//
// A thread's tokens are found in two parts.  What its state allows before its rule ends does not
// depend on the stack: it is found once, by a walk over the vocabulary's trie with an empty stack,
// and remembered with the nodes at which the rule ends (Local).  Behind those nodes the walk goes
// on with the real stack, each time; few tokens reach over a rule's end.
//
// Plain text.  Where all plain characters lead to one place, and on from there as far as tokens of
// plain text go, such tokens are taken out of ready sets and only the rest is walked.
//
// The end in time.  A walk lists the tokens behind which the end takes longest: a mask for few
// tokens that are left is that for many without these.  Where they are too many, a walk is made for
// a number of tokens that are left, and finds out for which other numbers it is right, too: those
// at which no token's cost crosses the line.
#include "grammar/impl.h"

#include <stdlib.h>

enum { SPARSE = 512, WIDE = 8, COSTLY = 4096, ODD = 24 };

typedef struct MaskWork {
  uint32_t *bits;  // [words], all 0 between walks
  VEC(int32_t) exit;
  int64_t lo, hi;  // as in Local
  int64_t looked;  // nodes looked at
  int64_t floor;   // INT64_MAX: costly tokens are not listed, or are too many
  VEC(Costly) costly;
  int32_t deep;
  int32_t at[TOKEN_BYTES + 1];
} MaskWork;

static MaskWork *work_of(Grammar *g) {
  if (!g->scratch) {
    MaskWork *w = arena_new(&g->cache, MaskWork);
    w->bits = arena_array(&g->cache, uint32_t, g->vocab->words);
    w->floor = INT64_MAX;
    g->scratch = w;
  }
  return g->scratch;
}

static void allow(const GrammarVocab *v, uint32_t *bits, int32_t token) {
  for (; token >= 0; token = v->again[token]) bits[token / 32] |= 1u << token % 32;
}

static void add_costly(Grammar *g, int32_t cost, int32_t token) {
  MaskWork *w = g->scratch;
  for (; token >= 0; token = g->vocab->again[token]) {
    if (w->costly.n >= COSTLY) {
      w->floor = INT64_MAX;
      return;
    }
    Costly c = {cost, token};
    vec_push(&g->cache, &w->costly, c);
  }
}

static int by_cost(const void *x, const void *y) {
  const Costly *a = x, *b = y;
  if (a->cost != b->cost) return a->cost > b->cost ? -1 : 1;
  return (a->token > b->token) - (a->token < b->token);
}

// Walks the nodes first to end of a trie, whose parents lead to w->at, setting bits.
static void walk(Grammar *g, const Trie *t, int64_t first, int64_t end, int64_t left, bool exits,
                 uint32_t *bits) {
  MaskWork *w = g->scratch;
  for (int64_t n = first; n < end;) {
    int cls = g->class_of[t->byte[n]];
    int32_t to = place_next(g, w->at[t->depth[n] - 1], cls);
    w->looked++;
    if (!to) {
      n = t->skip[n];
      continue;
    }
    w->at[t->depth[n]] = to;
    const Place *p = g->place.v[to];
    w->deep = MAX(w->deep, p->deep);
    if (t->token[n] >= 0) {
      if (p->cost <= left) {
        w->lo = MAX(w->lo, p->cost);
        allow(g->vocab, bits, t->token[n]);
        if (p->cost > w->floor) add_costly(g, p->cost, t->token[n]);
      } else {
        w->hi = MIN(w->hi, p->cost);
      }
    }
    if (exits && p->exit && t->skip[n] > n + 1)
      vec_push(&g->cache, &w->exit, (int32_t)(2 * n + (t == &g->vocab->rest)));
    n++;
  }
}

// ---- plain text ----
typedef struct Lead {
  uint8_t first, last, next_first, next_last;
  int more;  // bytes behind the first
} Lead;
static const Lead leads[] = {{0xc2, 0xdf, 0x80, 0xbf, 1}, {0xe0, 0xe0, 0xa0, 0xbf, 2},
                             {0xe1, 0xec, 0x80, 0xbf, 2}, {0xed, 0xed, 0x80, 0x9f, 2},
                             {0xee, 0xef, 0x80, 0xbf, 2}, {0xf0, 0xf0, 0x90, 0xbf, 3},
                             {0xf1, 0xf3, 0x80, 0xbf, 3}, {0xf4, 0xf4, 0x80, 0x8f, 3}};

// Whether all bytes first to last lead from a place to one; *io is it, or -1 before the first.
static bool all_to(Grammar *g, int32_t place, int first, int last, int32_t *io) {
  int before = -1;
  for (int c = first; c <= last; c++) {
    int cls = g->class_of[c];
    if (cls == before) continue;
    before = cls;
    int32_t to = place_next(g, place, cls);
    if (*io < 0) *io = to;
    if (to != *io) return false;
  }
  return true;
}

typedef struct Plain {
  int run;           // characters that a place takes, all being alike, up to PLAIN_MOST
  uint32_t fits;     // bit k: behind k of them the end is within the tokens left
  bool exit;         // the rule may end within
  uint8_t odd[ODD];  // first bytes that lead elsewhere
  int nodd;
} Plain;

// The place that each plain character leads to, but for odd first bytes; -1: they are too many.
static int32_t plain_step(Grammar *g, int32_t place, Plain *odd) {
  int32_t to = -1;
  for (int i = 0; i < ARRAY_LEN(leads); i++) {
    const Lead *l = &leads[i];
    int32_t at = -1;
    if (!all_to(g, place, l->first, l->last, &at)) return -1;
    for (int k = 0; k < l->more && at; k++) {
      int32_t next = -1;
      if (!all_to(g, at, k ? 0x80 : l->next_first, k ? 0xbf : l->next_last, &next)) return -1;
      at = next;
    }
    if (to < 0) to = at;
    if (at != to) return -1;
  }
  for (int c = 0x20; c < 0x80; c++) {
    if (c == '"' || c == '\\' || place_next(g, place, g->class_of[c]) == to) continue;
    if (!odd || odd->nodd == ODD) return -1;
    odd->odd[odd->nodd++] = (uint8_t)c;
  }
  return to;
}

// False: plain characters are not alike from this place on.
static bool plain_run(Grammar *g, int32_t place, int64_t left, Plain *out) {
  MaskWork *w = g->scratch;
  int64_t lo = 0, hi = INT64_MAX;
  *out = (Plain){.run = 0};
  while (out->run < PLAIN_MOST) {
    int32_t to = plain_step(g, place, out->run ? NULL : out);
    if (to < 0) return false;
    if (!to) break;
    const Place *p = g->place.v[to];
    int last = to == place ? PLAIN_MOST : out->run + 1;
    while (out->run < last) out->fits |= (uint32_t)(p->cost <= left) << ++out->run;
    if (p->cost <= left)
      lo = MAX(lo, p->cost);
    else
      hi = MIN(hi, p->cost);
    out->exit |= p->exit;
    w->deep = MAX(w->deep, p->deep);
    place = to;
  }
  if (!out->run) return false;
  w->lo = MAX(w->lo, lo);
  w->hi = MIN(w->hi, hi);
  if (w->floor < lo) w->floor = lo;
  return true;
}

static void add_plain(const GrammarVocab *v, const Plain *p, uint32_t *bits) {
  uint32_t all = (2u << p->run) - 2;
  for (int k = 1; k <= p->run; k++) {
    if (!(p->fits >> k & 1) || (p->fits == all && k < p->run)) continue;
    const uint32_t *with = v->plain[k],
                   *without = p->fits == all || k == 1 ? NULL : v->plain[k - 1];
    for (int64_t i = 0; i < v->words; i++) bits[i] |= without ? with[i] & ~without[i] : with[i];
  }
}

static void forbid(const GrammarVocab *v, const Trie *t, int64_t first, int64_t end,
                   uint32_t *bits) {
  for (int64_t n = first; n < end; n++)
    for (int32_t id = t->token[n]; id >= 0; id = v->again[id]) bits[id / 32] &= ~(1u << id % 32);
}

// All tokens from a place.  Exits are 2 * node of the trie `all`, or 2 * node + 1 of `rest`.
static void walk_all(Grammar *g, int32_t place, int64_t left, bool exits, uint32_t *bits) {
  MaskWork *w = g->scratch;
  const GrammarVocab *v = g->vocab;
  Plain plain;
  w->at[0] = place;
  // Where plain text cannot come to the rule's end, what is behind an end is no plain text either.
  if (!plain_run(g, place, left, &plain) || (plain.exit && exits)) {
    walk(g, &v->all, 0, v->all.n, left, exits, bits);
    return;
  }
  add_plain(v, &plain, bits);
  for (int64_t n = 0; n < v->rest.n; n = v->rest.skip[n])
    if (!memchr(plain.odd, v->rest.byte[n], (size_t)plain.nodd))
      walk(g, &v->rest, n, v->rest.skip[n], left, exits, bits);
  for (int64_t n = 0; n < v->all.n && plain.nodd; n = v->all.skip[n]) {
    if (!memchr(plain.odd, v->all.byte[n], (size_t)plain.nodd)) continue;
    forbid(v, &v->all, n, v->all.skip[n], bits);
    walk(g, &v->all, n, v->all.skip[n], left, exits, bits);
  }
}

// ---- what a state allows ----
static void keep_bits(Grammar *g, Local *l, uint32_t *bits) {
  const GrammarVocab *v = g->vocab;
  int64_t n = 0;
  for (int64_t i = 0; i < v->words; i++) n += __builtin_popcount(bits[i]);
  if (n > SPARSE) {
    l->bits = arena_dup(&g->cache, bits, v->words * (int64_t)sizeof *bits);
  } else {
    l->token = arena_array(&g->cache, int32_t, n + 1);
    for (int64_t i = 0; i < v->words; i++)
      for (uint32_t rest = bits[i]; rest; rest &= rest - 1)
        l->token[l->ntoken++] = (int32_t)(i * 32 + __builtin_ctz(rest));
  }
  memset(bits, 0, (size_t)v->words * sizeof *bits);
}

enum { MANY = COST_NEVER };  // tokens left: more than any way to the end costs

static const Local *local_make(Grammar *g, int32_t state, int64_t left) {
  MaskWork *w = g->scratch;
  Local *l = arena_new(&g->cache, Local);
  w->exit.n = 0;
  w->costly.n = 0;
  w->lo = 0;
  w->hi = INT64_MAX;
  w->deep = 0;
  w->floor = left == MANY ? 0 : INT64_MAX;
  walk_all(g, place_of_state(g, state, 0), left, true, w->bits);
  l->lo = w->lo;
  l->hi = w->hi;
  l->deep = w->deep;
  l->floor = w->floor;
  if (w->floor < INT64_MAX) {
    l->ncostly = w->costly.n;
    l->costly = arena_dup(&g->cache, w->costly.v, w->costly.n * (int64_t)sizeof(Costly));
    if (l->ncostly) qsort(l->costly, (size_t)l->ncostly, sizeof(Costly), by_cost);
  }
  w->floor = INT64_MAX;
  l->nexit = w->exit.n;
  l->exit = arena_dup(&g->cache, w->exit.v, w->exit.n * (int64_t)sizeof(int32_t));
  keep_bits(g, l, w->bits);
  if (left == MANY || !g->local[state]) {
    l->next = g->local[state];
    g->local[state] = l;
  } else {  // behind that of many tokens
    l->next = g->local[state]->next;
    g->local[state]->next = l;
  }
  return l;
}

// What is right for `left`, but for costly tokens.
static const Local *local_of(Grammar *g, int32_t state, int64_t left) {
  const Local *most = g->local[state] ? g->local[state] : local_make(g, state, MANY);
  if (left >= MIN(most->lo, most->floor)) return most;
  for (const Local *l = most->next; l; l = l->next)
    if (l->lo <= left && left < l->hi) return l;
  return local_make(g, state, left);
}

// Adds what a state allows to a mask.
static void add_local(Grammar *g, const Local *l, int64_t left, uint32_t *allowed) {
  uint32_t *bits = allowed;
  bool less = l->ncostly && l->costly[0].cost > left;
  if (less) bits = g->scratch->bits;
  if (l->bits)
    for (int64_t i = 0; i < g->vocab->words; i++) bits[i] |= l->bits[i];
  for (int64_t i = 0; i < l->ntoken; i++) bits[l->token[i] / 32] |= 1u << l->token[i] % 32;
  if (!less) return;
  for (int64_t i = 0; i < l->ncostly && l->costly[i].cost > left; i++)
    bits[l->costly[i].token / 32] &= ~(1u << l->costly[i].token % 32);
  for (int64_t i = 0; i < g->vocab->words; i++) allowed[i] |= bits[i];
  memset(bits, 0, (size_t)g->vocab->words * sizeof *bits);
}

// Bytes that a state takes; *out_loop: some lead back to it, so that answers stay there.
static int64_t width_of(const Grammar *g, int32_t state, bool *out_loop) {
  int64_t width = 0;
  const State *s = &g->state[state];
  *out_loop = false;
  for (int32_t e = s->edge; e < s->edge + s->nedge; e++) {
    width += g->edge[e].hi - g->edge[e].lo + 1;
    *out_loop |= g->edge[e].to == state;
  }
  return width;
}

void mask_prepare(Grammar *g, int64_t work) {
  MaskWork *w = work_of(g);
  w->looked = 0;
  for (int loops = 1; loops >= 0; loops--)
    for (int32_t i = 0; i < g->nstate && w->looked < work; i++) {
      bool loop;
      if (g->state[i].cost < COST_NEVER && width_of(g, i, &loop) > WIDE && loop == loops)
        local_of(g, i, MANY);
    }
}

// ---- masks ----
static bool mask_thread(Grammar *g, Thread t, int64_t left, uint32_t *allowed) {
  MaskWork *w = g->scratch;
  const Stack *s = &g->stack.v[t.stack];
  int64_t here = left - s->cost;
  if (here < 0) return true;
  const Local *l = local_of(g, t.state, here);
  if (l->deep + g->stack.v[t.stack].depth > g->depth_most) return false;
  add_local(g, l, here, allowed);
  if (!t.stack || !l->nexit) return true;
  s = &g->stack.v[t.stack];
  int32_t behind = place_of_state(g, s->ret, s->below);
  for (int64_t i = 0; i < l->nexit && behind; i++) {
    const Trie *trie = l->exit[i] & 1 ? &g->vocab->rest : &g->vocab->all;
    int32_t n = l->exit[i] / 2;
    w->at[trie->depth[n]] = behind;
    walk(g, trie, n + 1, trie->skip[n], left, false, allowed);
  }
  return true;
}

void mask_place(Grammar *g, int32_t place, int64_t left, uint32_t *allowed) {
  work_of(g);
  const Place *p = g->place.v[place];
  bool whole = !g->cut;
  for (int64_t i = 0; i < p->nkernel && whole; i++)
    whole = mask_thread(g, p->kernel[i], left, allowed);
  // Near the limits of stacks and threads, where a token's way depends on what is below.
  if (!whole) {
    memset(allowed, 0, (size_t)g->vocab->words * sizeof *allowed);
    walk_all(g, place, left, false, allowed);
  }
  for (int64_t i = 0; i < g->ntoken; i++) {
    int32_t to = place_next(g, place, g->class_of[SYMBOL_TOKEN + i]);
    if (to && g->place.v[to]->cost <= left) allow(g->vocab, allowed, g->token[i]);
  }
}
