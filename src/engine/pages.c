// pages.c -- the pages of the KV cache: a free list, uses, and the list of least recent use.
//
// A cached page that no sequence uses stays in the prefix tree until its memory is needed.  Such
// pages are in a list by the time at which they became unused.  A sequence gives its pages up from
// the last to the first, and nobody uses a child without its parent, so a page's children are
// always ahead of it in the list: the first page of the list has no children, and can go.
#include "engine/engine.h"

void pages_init(Engine *e) {
  for (int32_t i = 0; i < e->model.pages; i++)
    e->page[i] = (Page){.next = i + 1 < e->model.pages ? i + 1 : -1, .prev = -1, .parent = -1};
  for (int32_t i = 0; i < e->model.pages; i++) e->page[i].chain = e->page[i].state = -1;
  e->free_head = e->model.pages ? 0 : -1;
  e->nfree = e->model.pages;
  e->lru_head = e->lru_tail = -1;
  for (int32_t i = 0; i < e->nbuckets; i++) e->bucket[i] = -1;
}

int32_t pages_available(const Engine *e) { return e->nfree + e->ncached_free; }

static void become_free(Engine *e, int32_t page) {
  e->page[page].next = e->free_head;
  e->page[page].prev = -1;
  e->free_head = page;
  e->nfree++;
  if (e->model.freed) e->model.freed(e->model.ctx, page);
}

static void lru_append(Engine *e, int32_t page) {
  Page *p = &e->page[page];
  p->prev = e->lru_tail;
  p->next = -1;
  if (e->lru_tail >= 0)
    e->page[e->lru_tail].next = page;
  else
    e->lru_head = page;
  e->lru_tail = page;
  e->ncached_free++;
}

static void lru_remove(Engine *e, int32_t page) {
  Page *p = &e->page[page];
  if (p->prev >= 0)
    e->page[p->prev].next = p->next;
  else
    e->lru_head = p->next;
  if (p->next >= 0)
    e->page[p->next].prev = p->prev;
  else
    e->lru_tail = p->prev;
  p->prev = p->next = -1;
  e->ncached_free--;
}

static void evict_one(Engine *e) {
  int32_t page = e->lru_head;
  lru_remove(e, page);
  prefix_remove(e, page);
  e->stats.evicted++;
  become_free(e, page);
}

int32_t page_take(Engine *e) {
  if (e->free_head < 0 && e->lru_head >= 0) evict_one(e);
  int32_t page = e->free_head;
  if (page < 0) return -1;
  e->free_head = e->page[page].next;
  e->nfree--;
  e->page[page].next = -1;
  e->page[page].ref = 1;
  return page;
}

void page_retain(Engine *e, int32_t page) {
  if (e->page[page].ref++ == 0) lru_remove(e, page);
}

void page_release(Engine *e, int32_t page) {
  Page *p = &e->page[page];
  if (--p->ref > 0) return;
  if (p->cached)
    lru_append(e, page);
  else
    become_free(e, page);
}

void prefix_clear(Engine *e) {
  while (e->lru_head >= 0) evict_one(e);
}
