// prefix.c -- the prefix tree: full pages by the tokens that they hold and those before them.
//
// A node is a page of 32 tokens; its parent is the page before it.  A page is looked up by a hash
// of its tokens, chained to the hash of its parent or to the salt of the requests that may share
// it, and then compared: parent, salt and tokens.  So equal hashes never give a wrong page, and two
// salts never share one.
#include "engine/engine.h"

static const int32_t *tokens_of(const Engine *e, int32_t page) {
  return e->page_tokens + (int64_t)page * ENGINE_PAGE;
}

static uint64_t hash_of(const Engine *e, int32_t parent, uint64_t salt, const int32_t *tokens) {
  uint64_t before = parent >= 0 ? e->page[parent].hash : hash_u64(salt);
  return hash_bytes(tokens, ENGINE_PAGE * (int64_t)sizeof *tokens, before);
}

int32_t prefix_find(const Engine *e, int32_t parent, uint64_t salt, const int32_t *tokens) {
  uint64_t hash = hash_of(e, parent, salt, tokens);
  int32_t page = e->bucket[hash % (uint64_t)e->nbuckets];
  for (; page >= 0; page = e->page[page].chain) {
    const Page *p = &e->page[page];
    if (p->hash == hash && p->parent == parent && p->salt == salt &&
        !memcmp(tokens_of(e, page), tokens, ENGINE_PAGE * sizeof *tokens))
      return page;
  }
  return -1;
}

void prefix_add(Engine *e, int32_t page, int32_t parent, uint64_t salt, const int32_t *tokens) {
  Page *p = &e->page[page];
  uint64_t hash = hash_of(e, parent, salt, tokens);
  int32_t *bucket = &e->bucket[hash % (uint64_t)e->nbuckets];
  memcpy(e->page_tokens + (int64_t)page * ENGINE_PAGE, tokens, ENGINE_PAGE * sizeof *tokens);
  p->cached = true;
  p->state = -1;
  p->parent = parent;
  p->children = 0;
  p->salt = salt;
  p->hash = hash;
  p->chain = *bucket;
  *bucket = page;
  if (parent >= 0) e->page[parent].children++;
  e->ncached++;
}

void prefix_remove(Engine *e, int32_t page) {
  Page *p = &e->page[page];
  int32_t *at = &e->bucket[p->hash % (uint64_t)e->nbuckets];
  while (*at != page) at = &e->page[*at].chain;
  *at = p->chain;
  if (p->parent >= 0) e->page[p->parent].children--;
  state_drop(e, page);
  p->cached = false;
  p->parent = p->chain = -1;
  e->ncached--;
}

// The cached page with the sequence's tokens [32 i, 32 i + 32), which must leave a token whose
// logits are wanted; -1: none.
static int32_t next_cached(const Engine *e, const Seq *s, int32_t i, int32_t parent) {
  if (e->options.no_prefix || s->pool || (i + 1) * ENGINE_PAGE > s->len - 1) return -1;
  // Rows from s->scored on are wanted.
  if (s->score && s->scored < s->prompt - 1 && (i + 1) * ENGINE_PAGE > s->scored) return -1;
  return prefix_find(e, parent, s->salt, s->token + (int64_t)i * ENGINE_PAGE);
}

// A model with states goes on only where one was kept.
int32_t prefix_match(const Engine *e, const Seq *s, int32_t *out_unused) {
  int32_t first = s->shared, parent = first ? s->page[first - 1] : -1, best = first, unused = 0;
  *out_unused = 0;
  for (int32_t n = first, page; (page = next_cached(e, s, n, parent)) >= 0; parent = page) {
    n++;
    if (e->page[page].ref == 0) unused++;
    if (e->model.states && e->page[page].state < 0) continue;
    best = n;
    *out_unused = unused;
  }
  return best;
}

void prefix_take(Engine *e, Seq *s) {
  int32_t unused;
  if (s->done != s->shared * ENGINE_PAGE) return;
  int32_t before = s->shared, to = prefix_match(e, s, &unused);
  while (s->shared < to) {
    int32_t i = s->shared, page = next_cached(e, s, i, i ? s->page[i - 1] : -1);
    page_retain(e, page);
    if (i < s->npages)
      page_release(e, s->page[i]);  // its own, still without contents
    else
      s->npages++;
    s->page[i] = page;
    s->shared++;
    s->done += ENGINE_PAGE;
    e->stats.cached_tokens += ENGINE_PAGE;
  }
  if (to > before) state_resume(e, s);
}

// Where the tree has the same tokens already, computed by another sequence, the sequence goes on
// with that page: both have the same bits.
void prefix_share(Engine *e, Seq *s) {
  if (e->options.no_prefix || s->pool) return;
  for (; (s->shared + 1) * ENGINE_PAGE <= s->done; s->shared++) {
    int32_t i = s->shared, own = s->page[i], parent = i ? s->page[i - 1] : -1;
    const int32_t *tokens = s->token + (int64_t)i * ENGINE_PAGE;
    int32_t other = prefix_find(e, parent, s->salt, tokens);
    if (other < 0) {
      prefix_add(e, own, parent, s->salt, tokens);
      continue;
    }
    page_retain(e, other);
    page_release(e, own);
    s->page[i] = other;
  }
}
