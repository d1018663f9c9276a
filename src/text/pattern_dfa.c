// pattern_dfa.c -- a program of sets and splits as a deterministic automaton, and its matcher.
//
// Code points that are in the same sets of the program form a class.  A state is the list of
// program places that are alive, in the order of their priority, before the jumps that lead on from
// them: those are followed when the next class is known, so that lookahead at one character needs
// nothing else.  A place behind a match in that list can never win and is dropped.  All states are
// built at once, with a limit on their number, so matching changes nothing and takes one table
// lookup per character.
#include "text/pattern.h"

#include "text/unicode.h"

enum { BUILD_WORK = 1 << 24 };  // steps: a tenth of a second
enum { DEAD = 0, START = 1, MATCHES = 0x8000, PAGE_BITS = 8, MASK_WORDS = 4 };

struct Pattern {
  int32_t nclasses;  // the last is the end of the text
  int32_t nstates;
  const uint16_t *next;  // [nstates][nclasses]: the next state; MATCHES: a match ends before it
  uint8_t ascii[128];    // class of
  const uint8_t *const *page;  // [0x110000 >> PAGE_BITS][1 << PAGE_BITS]: class of
};

typedef struct Mask {
  uint64_t w[MASK_WORDS];  // the sets that the class is in
} Mask;
typedef VEC(int32_t) Places;
typedef struct State {
  int32_t *place;
  int32_t n;
} State;

typedef struct Builder {
  const PatternProgram *program;
  const PatternSets *sets;
  Str pattern;
  Arena *arena;
  Diag *diag;
  Pattern *r;
  VEC(Mask) mask;  // by class
  VEC(State) states;
  IntMap by_hash;  // hash -> state; states of one hash differ by a probe
  uint32_t *seen;  // [program]: the closure that saw it last
  uint32_t round;
  Places stack, now;
  int64_t work;  // steps taken so far
} Builder;

// ---- classes ----
typedef struct Edge {
  uint32_t at;
  int32_t set;
  bool in;
} Edge;

static void sort_edges(Edge *v, Edge *spare, int64_t n) {
  for (int64_t run = 1; run < n; run *= 2) {
    for (int64_t i = 0; i < n; i += 2 * run) {
      int64_t a = i, a_end = MIN(i + run, n), b = a_end, b_end = MIN(i + 2 * run, n), k = i;
      while (a < a_end || b < b_end)
        spare[k++] = b == b_end || (a < a_end && v[a].at <= v[b].at) ? v[a++] : v[b++];
    }
    memcpy(v, spare, (size_t)n * sizeof *v);
  }
}

static int32_t class_of_mask(Builder *b, const Mask *m) {
  for (int64_t i = 0; i < b->mask.n; i++)
    if (!memcmp(&b->mask.v[i], m, sizeof *m)) return (int32_t)i;
  vec_push(b->arena, &b->mask, *m);
  return (int32_t)(b->mask.n - 1);
}

// Fills [from, to) of the map with a class; pages of one class are shared.
static void fill(Builder *b, uint8_t **page, uint8_t **whole, uint32_t from, uint32_t to,
                 int32_t class) {
  while (from < to) {
    uint32_t at = from >> PAGE_BITS, end = MIN(to, (at + 1) << PAGE_BITS);
    if (end - from == 1 << PAGE_BITS) {
      if (!whole[class]) {
        whole[class] = arena_alloc(b->arena, 1 << PAGE_BITS);
        memset(whole[class], class, 1 << PAGE_BITS);
      }
      page[at] = whole[class];
    } else {
      if (!page[at]) page[at] = arena_alloc(b->arena, 1 << PAGE_BITS);
      memset(page[at] + (from & ((1 << PAGE_BITS) - 1)), class, end - from);
    }
    from = end;
  }
}

static tenon_status build_classes(Builder *b) {
  int64_t n = 0, k = 0;
  for (int64_t i = 0; i < b->sets->n; i++) n += 2 * b->sets->v[i].n;
  Edge *edge = arena_array(b->arena, Edge, n + 1), *spare = arena_array(b->arena, Edge, n + 1);
  for (int64_t i = 0; i < b->sets->n; i++)
    for (int64_t j = 0; j < b->sets->v[i].n; j++) {
      PatternRange r = b->sets->v[i].v[j];
      edge[k++] = (Edge){r.first, (int32_t)i, true};
      edge[k++] = (Edge){r.last + 1, (int32_t)i, false};
    }
  sort_edges(edge, spare, n);
  uint8_t **page = arena_array(b->arena, uint8_t *, UNICODE_END >> PAGE_BITS);
  uint8_t *whole[256] = {0};
  Mask m = {0};
  uint32_t from = 0;
  for (k = 0; k <= n; k++) {
    uint32_t to = k < n ? MIN(edge[k].at, UNICODE_END) : UNICODE_END;
    if (to > from) {
      int32_t class = class_of_mask(b, &m);
      if (class >= 255)
        return fail(b->diag, TENON_EUNSUPPORTED, NOWHERE,
                    "regular expression '%.*s': too many classes of characters",
                    (int)MIN(b->pattern.n, 200), b->pattern.p);
      fill(b, page, whole, from, to, class);
      from = to;
    }
    if (k < n) m.w[edge[k].set / 64] ^= (uint64_t)1 << edge[k].set % 64;
  }
  b->r->page = (const uint8_t *const *)page;
  memcpy(b->r->ascii, page[0], 128);
  b->r->nclasses = (int32_t)b->mask.n + 1;
  return TENON_OK;
}

static bool class_in(const Builder *b, int32_t class, int32_t set) {
  if (class == b->r->nclasses - 1) return false;
  return b->mask.v[class].w[set / 64] >> set % 64 & 1;
}

// ---- states ----
static tenon_status too_large(const Builder *b, const char *what) {
  return fail(b->diag, TENON_EUNSUPPORTED, NOWHERE, "regular expression '%.*s': its automaton %s",
              (int)MIN(b->pattern.n, 200), b->pattern.p, what);
}

static uint64_t hash_places(const int32_t *p, int64_t n) {
  return hash_bytes(p, n * (int64_t)sizeof *p, 0x7e);
}

// The state with these places; a new one where there is none.
static tenon_status state_of(Builder *b, const int32_t *place, int64_t n, uint16_t *out) {
  if (!n) return *out = DEAD, TENON_OK;
  uint64_t h = hash_places(place, n), found;
  for (;; h++) {
    if (!intmap_get(&b->by_hash, h, &found)) break;
    const State *s = &b->states.v[found];
    if (s->n == n && !memcmp(s->place, place, (size_t)n * sizeof *place))
      return *out = (uint16_t)found, TENON_OK;
  }
  if (b->states.n == LIMIT_TOKENIZER_REGEX_STATES) return too_large(b, "has too many states");
  State s = {arena_dup(b->arena, place, n * (int64_t)sizeof *place), (int32_t)n};
  intmap_put(&b->by_hash, h, (uint64_t)b->states.n);
  *out = (uint16_t)b->states.n;
  vec_push(b->arena, &b->states, s);
  return TENON_OK;
}

// Follows one place to all sets that take `class`, in order of priority.  True: it comes to a
// match, and what has a lower priority is dead.
static bool follow(Builder *b, int32_t place, int32_t class) {
  const PatternInst *inst = b->program->v;
  b->stack.n = 0;
  vec_push(b->arena, &b->stack, place);
  while (b->stack.n) {
    int32_t at = b->stack.v[--b->stack.n];
    b->work++;
    if (b->seen[at] == b->round) continue;
    b->seen[at] = b->round;
    switch (inst[at].op) {
    case RX_MATCH: return true;
    case RX_SET:
      if (class_in(b, class, inst[at].x)) vec_push(b->arena, &b->now, at + 1);
      break;
    case RX_LOOK:
      if (class_in(b, class, inst[at].x) != (inst[at].y == 1))
        vec_push(b->arena, &b->stack, at + 1);
      break;
    case RX_JUMP: vec_push(b->arena, &b->stack, inst[at].x); break;
    case RX_SPLIT:
      vec_push(b->arena, &b->stack, inst[at].y);
      vec_push(b->arena, &b->stack, inst[at].x);
      break;
    }
  }
  return false;
}

static tenon_status build_row(Builder *b, int64_t state, uint16_t *row) {
  for (int32_t class = 0; class < b->r->nclasses; class ++) {
    State s = b->states.v[state];
    bool matches = false;
    b->now.n = 0;
    b->round++;
    for (int32_t i = 0; i < s.n && !matches; i++) matches = follow(b, s.place[i], class);
    if (b->work > BUILD_WORK) return too_large(b, "takes too long to build");
    uint16_t to;
    // The places that were taken on may repeat one another: the first counts.
    int64_t n = 0;
    b->round++;
    for (int64_t i = 0; i < b->now.n; i++)
      if (b->seen[b->now.v[i]] != b->round) {
        b->seen[b->now.v[i]] = b->round;
        b->now.v[n++] = b->now.v[i];
      }
    TRY(state_of(b, b->now.v, n, &to));
    row[class] = (uint16_t)(to | (matches ? MATCHES : 0));
  }
  return TENON_OK;
}

tenon_status pattern_build(const PatternProgram *program, const PatternSets *sets, Str pattern,
                           Arena *a, Diag *d, const Pattern **out) {
  Pattern *r = arena_new(a, Pattern);
  Builder b = {.program = program, .sets = sets, .pattern = pattern, .arena = a, .diag = d, .r = r};
  TRY(build_classes(&b));
  intmap_init(&b.by_hash, a);
  b.seen = arena_array(a, uint32_t, program->n + 1);
  vec_push(a, &b.states, ((State){0}));
  int32_t first = 0;
  uint16_t start;
  TRY(state_of(&b, &first, 1, &start));
  CHECK(start == START, "the start of a regular expression is state %d", start);
  VEC(uint16_t *) rows = {0};
  for (int64_t i = 0; i < b.states.n; i++) {
    uint16_t *row = arena_array(a, uint16_t, r->nclasses);
    if (i) TRY(build_row(&b, i, row));
    vec_push(a, &rows, row);
  }
  uint16_t *next = arena_array(a, uint16_t, rows.n * r->nclasses);
  for (int64_t i = 0; i < rows.n; i++)
    memcpy(next + i * r->nclasses, rows.v[i], (size_t)r->nclasses * sizeof *next);
  r->next = next;
  r->nstates = (int32_t)rows.n;
  *out = r;
  return TENON_OK;
}

int64_t pattern_states(const Pattern *r) { return r->nstates; }

int64_t pattern_match(const Pattern *r, Str text, int64_t at, int64_t *work) {
  const uint8_t *p = (const uint8_t *)text.p + at, *begin = p;
  const uint8_t *end = (const uint8_t *)text.p + text.n;
  int64_t last = -1, nclasses = r->nclasses;
  uint32_t state = START;
  const uint16_t *next = r->next;
  while (p < end) {
    int n = 1;
    uint32_t class;
    if (*p < 0x80) {
      class = r->ascii[*p];
    } else {
      uint32_t c = utf8_get(p, &n);
      class = r->page[c >> PAGE_BITS][c & ((1 << PAGE_BITS) - 1)];
    }
    uint32_t to = next[(int64_t)state * nclasses + class];
    if (to & MATCHES) last = p - begin;
    state = to & (MATCHES - 1);
    if (state == DEAD) break;
    p += n;
  }
  if (state != DEAD && next[(int64_t)state * nclasses + nclasses - 1] & MATCHES) last = p - begin;
  *work += p - begin;
  return last;
}

bool pattern_find(const Pattern *r, Str text, int64_t from, int64_t *work, int64_t *out_start,
                  int64_t *out_end) {
  while (from < text.n) {
    int64_t n = pattern_match(r, text, from, work);
    if (n > 0) {
      *out_start = from;
      *out_end = from + n;
      return true;
    }
    from += utf8_bytes((uint8_t)text.p[from]);
  }
  return false;
}
