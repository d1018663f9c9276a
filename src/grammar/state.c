// state.c -- grammars and how far an answer is.
//
// A state is a place of its grammar's cache.  When the cache has grown over its limit it is emptied
// between two calls, and the threads of the living states are all that is carried over.
#include "grammar/impl.h"

static void read_form(Build *b, const GrammarSpec *spec, tenon_status *out) {
  const Expr *x = NULL;
  int32_t rule = -1;
  switch (spec->kind) {
  case GRAMMAR_SCHEMA:
    *out = schema_read(b, spec->text, &rule);
    x = *out ? NULL : expr_rule(b, rule);
    break;
  case GRAMMAR_JSON: x = form_object(b); break;
  case GRAMMAR_REGEX: *out = regex_read(b, spec->text, 0, &x); break;
  case GRAMMAR_GBNF: *out = gbnf_read(b, spec->text, &x); break;
  case GRAMMAR_CHOICES: {
    const Expr **of = arena_array(b->a, const Expr *, spec->nchoice + 1);
    for (int64_t i = 0; i < spec->nchoice; i++) of[i] = expr_bytes(b, spec->choice[i]);
    x = expr_list(b, E_ALT, of, spec->nchoice);
    break;
  }
  case GRAMMAR_TOOLS: *out = tools_read(b, &x); break;
  }
  if (*out) return;
  if (spec->think_end.n) x = expr_seq(b, tools_thought(b), x);
  b->root = build_rule(b, STR("the answer"));
  build_body(b, b->root, x);
  b->rule.v[b->root].alone = true;
}

// Symbols that no edge tells apart are one class.
static void find_classes(Grammar *g) {
  bool cut[SYMBOL_MOST + 1] = {[SYMBOL_TOKEN] = true};
  for (int64_t i = 0; i < g->nstate; i++)
    for (int32_t e = g->state[i].edge; e < g->state[i].edge + g->state[i].nedge; e++)
      cut[g->edge[e].lo] = cut[g->edge[e].hi + 1] = true;
  int64_t symbols = SYMBOL_TOKEN + g->ntoken;
  for (int c = 0; c < symbols; c++) {
    if (c == 0 || cut[c]) g->class_symbol[g->classes++] = (int16_t)c;
    g->class_of[c] = (uint16_t)(g->classes - 1);
  }
}

static void keep(Grammar *g, const Build *b, const Dfa *m) {
  g->state = arena_dup(&g->arena, m->state.v, m->state.n * (int64_t)sizeof(State));
  g->edge = arena_dup(&g->arena, m->edge.v, m->edge.n * (int64_t)sizeof(Edge));
  g->call = arena_dup(&g->arena, m->call.v, m->call.n * (int64_t)sizeof(Call));
  int32_t *start = arena_array(&g->arena, int32_t, b->rule.n);
  for (int64_t i = 0; i < b->rule.n; i++) start[i] = b->rule.v[i].start;
  g->start = start;
  g->token = arena_dup(&g->arena, b->token.v, b->token.n * (int64_t)sizeof(int32_t));
  g->ntoken = b->token.n;
  g->nstate = m->state.n;
  g->root = b->rule.v[b->root].start;
  g->depth_most = b->depth_most;
  g->least = g->state[g->root].cost;
  find_classes(g);
}

static tenon_status compile(Grammar *g, const GrammarSpec *spec, Arena *a, Diag *d) {
  Build b = {.a = a,
             .d = d,
             .vocab = g->vocab,
             .spec = spec,
             .fuel = (int64_t)LIMIT_GRAMMAR_KILO_STEPS * 1000,
             .depth_most = LIMIT_GRAMMAR_DEPTH};
  form_begin(&b);
  if (spec->text.n > LIMIT_GRAMMAR_KIB * 1024)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "the form has %lld bytes, the limit is %d",
                (long long)spec->text.n, LIMIT_GRAMMAR_KIB * 1024);
  build_body(&b, build_rule(&b, STR("nothing")), expr_bytes(&b, STR("")));
  tenon_status s = TENON_OK;
  read_form(&b, spec, &s);
  if (s) return s;
  Dfa m;
  build_automaton(&b, &m);
  TRY(finish_automaton(&b, &m));
  keep(g, &b, &m);
  place_begin(g);
  mask_prepare(g, LIMIT_GRAMMAR_PREPARE_KILO * 1000);
  return TENON_OK;
}

tenon_status grammar_compile(const GrammarVocab *v, const GrammarSpec *spec, Diag *d,
                             Grammar **out) {
  *out = NULL;
  Grammar *g = mem_alloc(sizeof *g);
  if (!g) return fail(d, TENON_ENOMEM, NOWHERE, "no memory for a grammar");
  *g = (Grammar){.vocab = v};
  arena_init(&g->arena);
  arena_init(&g->cache);
  Arena a;
  arena_init(&a);
  a.limit = (int64_t)LIMIT_GRAMMAR_COMPILE_MIB << 20;
  Trap trap;
  trap_enter(&trap, d);
  tenon_status s = TENON_OK;
  if (setjmp(trap.env) == 0) trap.status = compile(g, spec, &a, d);
  trap_leave(&trap);
  s = trap.status;
  arena_deinit(&a);
  if (s) {
    grammar_free(g);
    return s;
  }
  *out = g;
  return TENON_OK;
}

void grammar_free(Grammar *g) {
  if (!g) return;
  arena_deinit(&g->cache);
  arena_deinit(&g->arena);
  mem_free(g, sizeof *g);
}

int64_t grammar_least(const Grammar *g) { return g->least; }

// ---- states ----
// Work of a call on a state; an error is the state's for good.
#define GUARDED(s, work)                                                                           \
  do {                                                                                             \
    Trap trap_;                                                                                    \
    diag_init(&(s)->diag);                                                                         \
    trap_enter(&trap_, &(s)->diag);                                                                \
    if (setjmp(trap_.env) == 0) {                                                                  \
      work;                                                                                        \
    }                                                                                              \
    trap_leave(&trap_);                                                                            \
    if (trap_.status) (s)->wrong = (s)->diag.len ? (s)->diag.text : "no memory for a mask";        \
  } while (0)

typedef struct Kept {
  Thread *thread;
  int32_t n;
  bool exit;
  VEC(int32_t) ret;  // of all stacks, each from its top to the bottom
} Kept;

// Empties the cache, but for the places of living states.
static void forget(Grammar *g) {
  Arena a;
  arena_init_scoped(&a);
  int64_t n = 0;
  for (GrammarState *s = g->states; s; s = s->next) n++;
  Kept *kept = arena_array(&a, Kept, n + 1);
  n = 0;
  for (GrammarState *s = g->states; s; s = s->next, n++) {
    const Place *p = g->place.v[s->place];
    kept[n].thread = arena_dup(&a, p->thread, p->n * (int64_t)sizeof(Thread));
    kept[n].n = p->n;
    kept[n].exit = p->exit;
    for (int32_t i = 0; i < p->n; i++) {
      for (int32_t k = p->thread[i].stack; k; k = g->stack.v[k].below)
        vec_push(&a, &kept[n].ret, g->stack.v[k].ret);
      vec_push(&a, &kept[n].ret, -1);
    }
    s->place = 0;  // nowhere, where memory ends below
  }
  place_begin(g);
  n = 0;
  for (GrammarState *s = g->states; s; s = s->next, n++) {
    int64_t at = 0;
    for (int32_t i = 0; i < kept[n].n; i++) {
      int64_t end = at;
      while (kept[n].ret.v[end] >= 0) end++;
      int32_t stack = 0;
      for (int64_t k = end; k-- > at;) stack = stack_push(g, kept[n].ret.v[k], stack);
      kept[n].thread[i].stack = stack;
      at = end + 1;
    }
    s->place = place_make(g, kept[n].thread, kept[n].n, kept[n].exit);
  }
  arena_deinit(&a);
}

static void make_room(Grammar *g) {
  if (g->cache.total > (int64_t)LIMIT_GRAMMAR_CACHE_MIB << 20) forget(g);
}

tenon_status grammar_state_create(Grammar *g, Diag *d, GrammarState **out) {
  *out = NULL;
  GrammarState *s = mem_alloc(sizeof *s);
  if (!s) return fail(d, TENON_ENOMEM, NOWHERE, "no memory for a grammar's state");
  *s = (GrammarState){.g = g};
  Trap trap;
  trap_enter(&trap, d);
  if (setjmp(trap.env) == 0) s->place = place_of_state(g, g->root, 0);
  trap_leave(&trap);
  if (trap.status) {
    mem_free(s, sizeof *s);
    return trap.status;
  }
  s->next = g->states;
  if (s->next) s->next->prev = &s->next;
  s->prev = &g->states;
  g->states = s;
  *out = s;
  return TENON_OK;
}

void grammar_state_free(GrammarState *s) {
  if (!s) return;
  *s->prev = s->next;
  if (s->next) s->next->prev = s->prev;
  mem_free(s, sizeof *s);
}

void grammar_mask(GrammarState *s, int64_t left, uint32_t *allowed) {
  Grammar *g = s->g;
  memset(allowed, 0, (size_t)g->vocab->words * sizeof *allowed);
  if (s->wrong) return;
  GUARDED(s, make_room(g); if (left > 0 && !s->ended) mask_place(g, s->place, left - 1, allowed));
  if (s->wrong)
    memset(allowed, 0, (size_t)g->vocab->words * sizeof *allowed);
  else if (g->place.v[s->place]->exit)
    for (int64_t i = 0; i < g->vocab->nend; i++)
      allowed[g->vocab->end[i] / 32] |= 1u << g->vocab->end[i] % 32;
}

// The place behind some bytes or a control token; 0: the form does not allow it.
static int32_t place_behind(Grammar *g, int32_t place, Str bytes) {
  for (int64_t i = 0; i < bytes.n && place; i++)
    place = place_next(g, place, g->class_of[(uint8_t)bytes.p[i]]);
  return place;
}

static bool is_end(const GrammarVocab *v, int32_t token) {
  for (int64_t i = 0; i < v->nend; i++)
    if (v->end[i] == token) return true;
  return false;
}

static bool go(GrammarState *s) {
  if (s->wrong || !s->to) return false;
  s->place = s->to;
  s->taken++;
  return true;
}

static void find_next(GrammarState *s, int32_t token) {
  Grammar *g = s->g;
  make_room(g);
  for (int64_t i = 0; i < g->ntoken && !s->to; i++)
    if (g->token[i] == token) s->to = place_next(g, s->place, g->class_of[SYMBOL_TOKEN + i]);
  if (g->vocab->piece[token].n && !s->to) s->to = place_behind(g, s->place, g->vocab->piece[token]);
}

bool grammar_accept(GrammarState *s, int32_t token) {
  Grammar *g = s->g;
  if (s->wrong || s->ended || token < 0 || token >= g->vocab->size) return false;
  s->to = 0;
  GUARDED(s, find_next(s, token));
  if (go(s)) return true;
  if (s->wrong || !grammar_can_end(s) || !is_end(g->vocab, token)) return false;
  s->ended = true;
  s->taken++;
  return true;
}

bool grammar_accept_bytes(GrammarState *s, Str bytes) {
  if (s->wrong || s->ended) return false;
  s->to = 0;
  GUARDED(s, make_room(s->g); s->to = place_behind(s->g, s->place, bytes));
  return go(s);
}

bool grammar_can_end(const GrammarState *s) { return !s->wrong && s->g->place.v[s->place]->exit; }

bool grammar_must_end(const GrammarState *s) {
  return grammar_can_end(s) && (s->ended || !s->g->place.v[s->place]->n);
}

int64_t grammar_state_least(const GrammarState *s) {
  return s->wrong || s->ended ? 0 : s->g->place.v[s->place]->cost;
}

int64_t grammar_taken(const GrammarState *s) { return s->taken; }
const char *grammar_wrong(const GrammarState *s) { return s->wrong; }

// ---- for a sampler ----
tenon_llm_allowed grammar_hook(const tenon_llm_place *place, uint32_t *allowed, void *state) {
  GrammarState *s = state;
  for (int64_t i = s->taken; i < (int64_t)(place->ntokens - place->nprompt); i++)
    if (!grammar_accept(s, place->tokens[place->nprompt + (size_t)i]))
      return TENON_LLM_ALLOW_FAILED;
  grammar_mask(s, place->left, allowed);
  return s->wrong ? TENON_LLM_ALLOW_FAILED : TENON_LLM_ALLOW_SET;
}
