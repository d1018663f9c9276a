// notice.c -- a few texts that wait to be taken (notice.h).
//
// A slot goes from free to being written, waiting, being read and said; it never becomes free
// again, so a text that was said is known.  There is no lock, so that a child that is forked in the
// middle of it cannot wait for one.
#include "base/notice.h"

#include <stdatomic.h>
#include <stdio.h>

enum { SLOTS = 16, CAPACITY = 1024 };
typedef enum { SLOT_FREE, SLOT_WRITTEN, SLOT_WAITS, SLOT_READ, SLOT_SAID } SlotState;

typedef struct Slot {
  atomic_int state;
  char text[CAPACITY];
} Slot;
static Slot slot[SLOTS];

void notice_add(const char *fmt, ...) {
  char text[CAPACITY];
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  if (n < 0) return;
  text_clean(text, MIN(n, CAPACITY - 1));
  for (int i = 0; i < SLOTS; i++) {
    int state = SLOT_FREE;
    if (atomic_compare_exchange_strong(&slot[i].state, &state, SLOT_WRITTEN)) {
      memcpy(slot[i].text, text, sizeof text);
      atomic_store(&slot[i].state, SLOT_WAITS);
      return;
    }
    if (state != SLOT_WRITTEN && !strcmp(slot[i].text, text)) return;
  }
}

bool notice_take(char *out, int64_t cap) {
  for (int i = 0; i < SLOTS; i++) {
    int state = SLOT_WAITS;
    if (!atomic_compare_exchange_strong(&slot[i].state, &state, SLOT_READ)) continue;
    snprintf(out, (size_t)cap, "%s", slot[i].text);
    atomic_store(&slot[i].state, SLOT_SAID);
    return true;
  }
  return false;
}
