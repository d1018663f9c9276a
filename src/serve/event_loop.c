// event_loop.c -- waiting for descriptors and times (event_loop.h).
#include "serve/event_loop.h"

#include "base/platform.h"

#include <errno.h>

int event_open(EventLoop *l) {
  *l = (EventLoop){.fd = epoll_create1(EPOLL_CLOEXEC)};
  return l->fd < 0 ? errno : 0;
}

void event_close(EventLoop *l) { (void)platform->close(l->fd); }

int event_add(EventLoop *l, EventWatch *w) {
  struct epoll_event e = {.events = w->events, .data.ptr = w};
  return epoll_ctl(l->fd, EPOLL_CTL_ADD, w->fd, &e) ? errno : 0;
}

int event_change(EventLoop *l, EventWatch *w, uint32_t events) {
  if (w->events == events) return 0;
  struct epoll_event e = {.events = events, .data.ptr = w};
  w->events = events;
  return epoll_ctl(l->fd, EPOLL_CTL_MOD, w->fd, &e) ? errno : 0;
}

// Events of this round that were not handled yet must not reach a watch that is gone.
void event_remove(EventLoop *l, EventWatch *w) {
  (void)epoll_ctl(l->fd, EPOLL_CTL_DEL, w->fd, NULL);
  for (int i = l->at; i < l->nready; i++)
    if (l->ready[i].data.ptr == w) l->ready[i].data.ptr = NULL;
}

void event_timer_stop(EventLoop *l, EventTimer *t) {
  if (!t->at) return;
  for (EventTimer **p = &l->timers; *p; p = &(*p)->next)
    if (*p == t) {
      *p = t->next;
      break;
    }
  t->at = 0;
  t->next = NULL;
}

void event_timer(EventLoop *l, EventTimer *t, int64_t at) {
  event_timer_stop(l, t);
  EventTimer **p = &l->timers;
  while (*p && (*p)->at <= at) p = &(*p)->next;
  t->at = MAX(at, 1);
  t->next = *p;
  *p = t;
}

static void run_timers(EventLoop *l) {
  int64_t now = platform->now();
  while (l->timers && l->timers->at <= now) {
    EventTimer *t = l->timers;
    l->timers = t->next;
    t->at = 0;
    t->next = NULL;
    t->fn(t->arg);
  }
}

// Milliseconds to the next timer, rounded up; -1: there is none.
static int wait_time(const EventLoop *l) {
  if (!l->timers) return -1;
  int64_t left = l->timers->at - platform->now();
  return left <= 0 ? 0 : (int)MIN((left + 999999) / 1000000, 60000);
}

int event_run(EventLoop *l) {
  while (!l->stop) {
    int n = epoll_wait(l->fd, l->ready, EVENT_BATCH, wait_time(l));
    if (n < 0 && errno != EINTR) return errno;
    l->nready = MAX(n, 0);
    for (l->at = 0; l->at < l->nready;) {
      struct epoll_event e = l->ready[l->at++];
      EventWatch *w = e.data.ptr;
      if (w) w->fn(w->arg, e.events);
    }
    l->nready = l->at = 0;
    run_timers(l);
  }
  return 0;
}
