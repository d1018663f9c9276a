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
// The end in time.  A walk sorts the tokens into levels by what ending takes behind them.  A mask
// is the levels that the tokens left pay for, so no state is walked twice.
#include "grammar/impl.h"

#include <stdlib.h>

// FIT: costs whose level is found by an index.
enum { SPARSE = 512, WIDE = 8, ODD = 24, FIT = 256, STEP_NODES = 16 };

// Tokens of a cost, while they are found.
typedef struct Found {
  int32_t cost;
  uint32_t *bits;  // NULL: all are in `token`
  VEC(int32_t) token;
} Found;

typedef struct MaskWork {
  VEC(int32_t) exit;
  VEC(Found) found;
  int64_t nfound;  // of this walk
  int run;         // as in Local, with the costs
  int32_t plain[PLAIN_MOST + 1];
  int32_t index[FIT];  // of a cost: into `found`, and one more; 0: none
  int32_t deep;
  int32_t at[TOKEN_BYTES + 1];
} MaskWork;

static MaskWork *work_of(Grammar *g) {
  if (!g->scratch) g->scratch = arena_new(&g->cache, MaskWork);
  return g->scratch;
}

static void allow(const GrammarVocab *v, uint32_t *bits, int32_t token) {
  for (; token >= 0; token = v->again[token]) bits[token / 32] |= 1u << token % 32;
}

static Found *found_of(Grammar *g, int32_t cost) {
  MaskWork *w = g->scratch;
  int64_t i = cost < FIT ? w->index[cost] - 1 : 0;
  if (cost >= FIT)
    while (i < w->nfound && w->found.v[i].cost != cost) i++;
  if (i >= 0 && i < w->nfound) return &w->found.v[i];
  if (w->nfound == w->found.n) {
    Found none = {0};
    vec_push(&g->cache, &w->found, none);
  }
  Found *f = &w->found.v[w->nfound++];
  f->cost = cost;
  f->bits = NULL;
  f->token.n = 0;
  if (cost < FIT) w->index[cost] = (int32_t)w->nfound;
  return f;
}

static void found_reset(MaskWork *w) {
  for (int64_t i = 0; i < w->nfound; i++)
    if (w->found.v[i].cost < FIT) w->index[w->found.v[i].cost] = 0;
  w->nfound = 0;
  w->run = 0;
}

static void make_dense(Grammar *g, Found *f) {
  if (f->bits) return;
  f->bits = arena_array(&g->cache, uint32_t, g->vocab->words);
  for (int64_t i = 0; i < f->token.n; i++) f->bits[f->token.v[i] / 32] |= 1u << f->token.v[i] % 32;
  f->token.n = 0;
}

static void found_add(Grammar *g, int32_t cost, int32_t token) {
  Found *f = found_of(g, cost);
  for (; token >= 0; token = g->vocab->again[token]) {
    if (!f->bits && f->token.n == SPARSE) make_dense(g, f);
    if (f->bits)
      f->bits[token / 32] |= 1u << token % 32;
    else
      vec_push(&g->cache, &f->token, token);
  }
}

// Walks the nodes first to end of a trie, whose parents lead to w->at.  Sets the bits of tokens
// that `left` pays for; without `bits`: sorts all tokens into levels, and lists the nodes of exits.
static void walk(Grammar *g, const Trie *t, int64_t first, int64_t end, int64_t left,
                 uint32_t *bits) {
  MaskWork *w = g->scratch;
  for (int64_t n = first; n < end;) {
    int cls = g->class_of[t->byte[n]];
    int32_t to = place_next(g, w->at[t->depth[n] - 1], cls);
    g->looked++;
    if (!to) {
      n = t->skip[n];
      continue;
    }
    w->at[t->depth[n]] = to;
    const Place *p = g->place.v[to];
    w->deep = MAX(w->deep, p->deep);
    if (t->token[n] >= 0) {
      if (!bits)
        found_add(g, p->cost, t->token[n]);
      else if (p->cost <= left)
        allow(g->vocab, bits, t->token[n]);
    }
    if (!bits && p->exit && t->skip[n] > n + 1)
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
  int run;                       // characters that a place takes, all being alike, up to PLAIN_MOST
  int32_t cost[PLAIN_MOST + 1];  // behind k of them
  bool exit;                     // the rule may end within
  uint8_t odd[ODD];              // first bytes that lead elsewhere
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
static bool plain_run(Grammar *g, int32_t place, Plain *out) {
  MaskWork *w = g->scratch;
  *out = (Plain){.run = 0};
  while (out->run < PLAIN_MOST) {
    int32_t to = plain_step(g, place, out->run ? NULL : out);
    if (to < 0) return false;
    if (!to) break;
    const Place *p = g->place.v[to];
    int last = to == place ? PLAIN_MOST : out->run + 1;
    while (out->run < last) out->cost[++out->run] = p->cost;
    out->exit |= p->exit;
    w->deep = MAX(w->deep, p->deep);
    place = to;
  }
  return out->run > 0;
}

// Tokens of first to last plain characters.
static void add_plain(const GrammarVocab *v, int first, int last, uint32_t *bits) {
  const uint32_t *with = v->plain[last], *without = first > 1 ? v->plain[first - 1] : NULL;
  for (int64_t i = 0; i < v->words; i++) bits[i] |= without ? with[i] & ~without[i] : with[i];
}

// Those that `left` pays for; cost[k] is that of k characters.
static void add_fitting(const GrammarVocab *v, const int32_t *cost, int run, int64_t left,
                        uint32_t *bits) {
  for (int k = 1, last; k <= run; k = last + 1) {
    last = k;
    if (cost[k] > left) continue;
    while (last < run && cost[last + 1] <= left) last++;
    add_plain(v, k, last, bits);
  }
}

static void forbid(const GrammarVocab *v, const Trie *t, int64_t first, int64_t end,
                   uint32_t *bits) {
  for (int64_t n = first; n < end; n++)
    for (int32_t id = t->token[n]; id >= 0; id = v->again[id]) bits[id / 32] &= ~(1u << id % 32);
}

// All tokens from a place; `left` and `bits` as in walk.  Exits are 2 * node of the trie `all`, or
// 2 * node + 1 of `rest`.
static void walk_all(Grammar *g, int32_t place, int64_t left, uint32_t *bits) {
  MaskWork *w = g->scratch;
  const GrammarVocab *v = g->vocab;
  Plain plain;
  w->at[0] = place;
  // Where plain text cannot come to the rule's end, what is behind an end is no plain text either.
  if (!plain_run(g, place, &plain) || (plain.exit && !bits)) {
    walk(g, &v->all, 0, v->all.n, left, bits);
    return;
  }
  if (bits) add_fitting(v, plain.cost, plain.run, left, bits);
  if (!bits && !plain.nodd) {
    w->run = plain.run;
    memcpy(w->plain, plain.cost, sizeof plain.cost);
  }
  for (int k = 1; k <= plain.run && !bits && plain.nodd; k++) {
    Found *f = found_of(g, plain.cost[k]);
    make_dense(g, f);
    add_plain(v, k, k, f->bits);
  }
  for (int64_t n = 0; n < v->all.n && plain.nodd; n = v->all.skip[n]) {
    if (!memchr(plain.odd, v->all.byte[n], (size_t)plain.nodd)) continue;
    if (bits) forbid(v, &v->all, n, v->all.skip[n], bits);
    for (int64_t i = 0; i < w->nfound && !bits; i++)
      if (w->found.v[i].bits) forbid(v, &v->all, n, v->all.skip[n], w->found.v[i].bits);
    walk(g, &v->all, n, v->all.skip[n], left, bits);
  }
  for (int64_t n = 0; n < v->rest.n; n = v->rest.skip[n])
    if (!memchr(plain.odd, v->rest.byte[n], (size_t)plain.nodd))
      walk(g, &v->rest, n, v->rest.skip[n], left, bits);
}

// ---- what a state allows ----
static int by_cost(const void *x, const void *y) {
  const Level *a = x, *b = y;
  return (a->cost > b->cost) - (a->cost < b->cost);
}

static void set_add(const GrammarVocab *v, const TokenSet *set, uint32_t *bits) {
  if (set->bits)
    for (int64_t i = 0; i < v->words; i++) bits[i] |= set->bits[i];
  for (int64_t i = 0; i < set->n; i++) bits[set->token[i] / 32] |= 1u << set->token[i] % 32;
}

// The levels that were found, and all their tokens.
static void keep_levels(Grammar *g, Local *l) {
  MaskWork *w = g->scratch;
  const GrammarVocab *v = g->vocab;
  int64_t nsparse = 0;
  bool dense = w->run > 0;
  l->nlevel = w->nfound;
  l->run = w->run;
  l->plain = arena_dup(&g->cache, w->plain, (w->run + 1) * (int64_t)sizeof(int32_t));
  for (int k = 1; k <= w->run; k++) l->most = MAX(l->most, w->plain[k]);
  l->level = arena_array(&g->cache, Level, l->nlevel + 1);
  for (int64_t i = 0; i < l->nlevel; i++) {
    Found *f = &w->found.v[i];
    l->level[i].cost = f->cost;
    l->level[i].set.bits = f->bits;
    l->level[i].set.n = f->token.n;
    l->level[i].set.token = arena_dup(&g->cache, f->token.v, f->token.n * (int64_t)sizeof(int32_t));
    nsparse += f->token.n;
    dense |= f->bits != NULL;
    l->most = MAX(l->most, f->cost);
  }
  if (l->nlevel > 1) qsort(l->level, (size_t)l->nlevel, sizeof *l->level, by_cost);
  if (l->nlevel == 1 && !l->run) {
    l->all = l->level[0].set;
  } else if (dense || nsparse > SPARSE) {
    l->all.bits = arena_array(&g->cache, uint32_t, v->words);
    if (l->run) add_plain(v, 1, l->run, l->all.bits);
    for (int64_t i = 0; i < l->nlevel; i++) set_add(v, &l->level[i].set, l->all.bits);
  } else {
    l->all.token = arena_array(&g->cache, int32_t, nsparse + 1);
    for (int64_t i = 0; i < l->nlevel; i++)
      for (int64_t k = 0; k < l->level[i].set.n; k++)
        l->all.token[l->all.n++] = l->level[i].set.token[k];
  }
}

static const Local *local_of(Grammar *g, int32_t state) {
  MaskWork *w = g->scratch;
  if (g->local[state]) return g->local[state];
  Local *l = arena_new(&g->cache, Local);
  found_reset(w);  // memory may have ended in the last walk
  w->exit.n = 0;
  w->deep = 0;
  walk_all(g, place_of_state(g, state, 0), 0, NULL);
  l->deep = w->deep;
  l->nexit = w->exit.n;
  l->exit = arena_dup(&g->cache, w->exit.v, w->exit.n * (int64_t)sizeof(int32_t));
  keep_levels(g, l);
  return g->local[state] = l;
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

// Beforehand: states in which answers stay, then the others that take many bytes, and the rest as
// long as there is work left.  A place that is made counts as STEP_NODES nodes.
void mask_prepare(Grammar *g, int64_t work) {
  work_of(g);
  for (int pass = 0; pass < 3; pass++)
    for (int32_t i = 0; i < g->nstate && g->looked + STEP_NODES * g->place.n < work; i++) {
      bool loop;
      int64_t width = g->state[i].cost < COST_NEVER ? width_of(g, i, &loop) : 0;
      if (width && pass == (width <= WIDE ? 2 : !loop)) local_of(g, i);
    }
}

// ---- masks ----
static bool mask_thread(Grammar *g, Thread t, int64_t left, uint32_t *allowed) {
  MaskWork *w = g->scratch;
  const Stack *s = &g->stack.v[t.stack];
  int64_t here = left - s->cost;
  if (here < 0) return true;
  const Local *l = local_of(g, t.state);
  if (l->deep + g->stack.v[t.stack].depth > g->depth_most) return false;
  if (l->most <= here) {
    set_add(g->vocab, &l->all, allowed);
  } else {
    add_fitting(g->vocab, l->plain, l->run, here, allowed);
    for (int64_t i = 0; i < l->nlevel && l->level[i].cost <= here; i++)
      set_add(g->vocab, &l->level[i].set, allowed);
  }
  if (!t.stack || !l->nexit) return true;
  s = &g->stack.v[t.stack];
  int32_t behind = place_of_state(g, s->ret, s->below);
  for (int64_t i = 0; i < l->nexit && behind; i++) {
    const Trie *trie = l->exit[i] & 1 ? &g->vocab->rest : &g->vocab->all;
    int32_t n = l->exit[i] / 2;
    w->at[trie->depth[n]] = behind;
    walk(g, trie, n + 1, trie->skip[n], left, allowed);
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
    walk_all(g, place, left, allowed);
  }
  for (int64_t i = 0; i < g->ntoken; i++) {
    int32_t to = place_next(g, place, g->class_of[SYMBOL_TOKEN + i]);
    if (to && g->place.v[to]->cost <= left) allow(g->vocab, allowed, g->token[i]);
  }
}
