// models_memory.c -- many models in one memory budget: who is loaded, and who makes room.
//
// What a model takes is what its engines reported when it was loaded last; before that, its file's
// size and what the smallest engine takes.  Models of which that is not known are loaded one at a
// time.  Those used longest ago make room, but never one with requests.  Where nothing can make
// room, the model waits, and its requests with it.
#include "base/platform.h"
#include "serve/models.h"
#include "serve/serve.h"

static int64_t bytes_of(const Model *m) {
  FileInfo info;
  int64_t least = 0;
  if (m->bytes) return m->bytes;
  for (const Model *other = m->serve->models; other; other = other->next)
    if (other->bytes && (!least || other->bytes < least)) least = other->bytes;
  return least + (!platform->info(m->path, &info) && info.regular ? info.bytes : 0);
}

static bool is_loaded(const Model *m) {
  return (m->state == MODEL_READY || m->state == MODEL_LOADING) && !m->waits;
}

static int64_t bytes_loaded(const Serve *s, const Model *but) {
  int64_t total = 0;
  for (const Model *m = s->models; m; m = m->next)
    if (m != but && is_loaded(m)) total += bytes_of(m);
  return total;
}

// Unloads the one used longest ago that nobody needs; false: there is none.
static bool make_room(const Serve *s, const Model *but) {
  Model *oldest = NULL;
  for (Model *m = s->models; m; m = m->next) {
    bool may = m != but && m->state == MODEL_READY && m->kind->busy && !m->kind->busy(m);
    if (may && (!oldest || m->used < oldest->used)) oldest = m;
  }
  if (!oldest) return false;
  oldest->kind->unload(oldest);
  return oldest->state == MODEL_OUT;
}

bool models_room(Model *m) {
  const Serve *s = m->serve;
  int64_t budget = s->config.memory_budget, need = bytes_of(m);
  if (!budget) return true;
  if (need > budget) {
    Diag d;
    diag_init(&d);
    (void)fail(&d, TENON_ENOMEM, NOWHERE,
               "it takes %lld bytes, more than all that models may (--memory-budget=%lld)",
               (long long)need, (long long)budget);
    model_is(m, MODEL_FAILED, d.text);
    return false;
  }
  for (const Model *other = s->models; other; other = other->next)
    if (other != m && other->state == MODEL_LOADING && !other->waits && !other->bytes) return false;
  while (bytes_loaded(s, m) + need > budget)
    if (!make_room(s, m)) return false;
  return true;
}

void models_wait(Model *m) {
  m->waits = true;
  model_is(m, MODEL_LOADING, "it waits until other models make room");
}

static void on_wake(void *arg) { models_tick(arg); }

void models_wake(Serve *s) {
  if (!s->config.memory_budget) return;
  s->room = (EventTimer){.fn = on_wake, .arg = s, .at = s->room.at, .next = s->room.next};
  event_timer(&s->loop, &s->room, 1);
}

void models_tick(Serve *s) {
  int64_t budget = s->config.memory_budget;
  if (!budget) return;
  while (bytes_loaded(s, NULL) > budget)
    if (!make_room(s, NULL)) break;
  for (Model *m = s->models; m; m = m->next) {
    if (!m->waits) continue;
    if (m->state == MODEL_LOADING && !models_room(m) && m->state == MODEL_LOADING) continue;
    m->waits = false;
    if (m->state != MODEL_LOADING) continue;
    m->kind->load(m);
  }
}
