// event_loop.h -- one thread that waits for descriptors and times (epoll).
//
// Everything of the front happens in its callbacks, so nothing of it needs a lock.  A callback does
// not block.
#ifndef TENON_SERVE_EVENT_LOOP_H
#define TENON_SERVE_EVENT_LOOP_H

#include "base/base.h"

#include <sys/epoll.h>

typedef struct EventLoop EventLoop;
typedef void EventFn(void *arg, uint32_t events);  // EPOLLIN and so on
typedef struct EventWatch {
  int fd;
  uint32_t events;  // what is waited for
  EventFn *fn;
  void *arg;
} EventWatch;
// The watch stays where it is until event_remove, which does not close the descriptor.  0 or an
// errno value.
int event_add(EventLoop *l, EventWatch *w);
int event_change(EventLoop *l, EventWatch *w, uint32_t events);
void event_remove(EventLoop *l, EventWatch *w);

typedef struct EventTimer EventTimer;
struct EventTimer {
  int64_t at;  // of platform->now(); 0: not set
  void (*fn)(void *arg);
  void *arg;
  EventTimer *next;
};
// Calls t->fn once, at `at` or soon after (rounded up to a millisecond).  Set again, it moves.
void event_timer(EventLoop *l, EventTimer *t, int64_t at);
void event_timer_stop(EventLoop *l, EventTimer *t);

enum { EVENT_BATCH = 256 };
struct EventLoop {
  int fd;
  bool stop;
  EventTimer *timers;  // by time
  struct epoll_event ready[EVENT_BATCH];
  int nready, at;
};
int event_open(EventLoop *l);  // 0 or an errno value
int event_run(EventLoop *l);   // until l->stop; 0 or an errno value
void event_close(EventLoop *l);

#endif
