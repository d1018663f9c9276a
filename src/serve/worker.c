// worker.c -- processes with models, and their frames (worker.h).
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // F_SETPIPE_SZ
#endif
#include "serve/worker.h"

#include "base/platform.h"
#include "serve/http_conn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 18, FRAMES_KEPT = 1 << 20, PIPE_BYTES = 1 << 20 };

// ---- frames ----
void frame_write(uint8_t out[FRAME_HEAD], const Frame *f) {
  for (int i = 0; i < 4; i++) out[i] = (uint8_t)(f->bytes >> 8 * i);
  out[4] = (uint8_t)f->type;
  out[5] = (uint8_t)(f->type >> 8);
  out[6] = out[7] = 0;
  for (int i = 0; i < 8; i++) out[8 + i] = (uint8_t)(f->id >> 8 * i);
}

Frame frame_read(const uint8_t in[FRAME_HEAD]) {
  Frame f = {.type = (uint16_t)(in[4] | in[5] << 8)};
  for (int i = 3; i >= 0; i--) f.bytes = f.bytes << 8 | in[i];
  for (int i = 7; i >= 0; i--) f.id = f.id << 8 | in[8 + i];
  return f;
}

// ---- the front's side ----
struct Worker {
  EventLoop *loop;
  const WorkerCalls *calls;
  void *arg;
  Process process;
  EventWatch in, out;  // of our end: what we write, what we read
  HttpBuf to, from;
  bool calling, stopped, writing;
};

static void worker_free(Worker *w) {
  event_remove(w->loop, &w->in);
  event_remove(w->loop, &w->out);
  (void)process_end(&w->process, true);
  http_buf_free(&w->to);
  http_buf_free(&w->from);
  mem_free(w, sizeof *w);
}

void worker_stop(Worker *w) {
  if (!w) return;
  w->stopped = true;
  if (!w->calling) worker_free(w);
}

static void worker_ended(Worker *w, const char *why) {
  const WorkerCalls *calls = w->calls;
  void *arg = w->arg;
  worker_free(w);
  calls->ended(arg, why);
}

// Calls for each whole frame.  False: what came is none.
static bool take_frames(Worker *w) {
  while (!w->stopped && http_buf_full(&w->from) >= FRAME_HEAD) {
    const char *p = w->from.p + w->from.at;
    Frame f = frame_read((const uint8_t *)p);
    if (f.bytes > SERVE_FRAME_BYTES) return false;
    if (http_buf_full(&w->from) - FRAME_HEAD < (int64_t)f.bytes) break;
    w->from.at += FRAME_HEAD + (int64_t)f.bytes;
    w->calls->frame(w->arg, &f, (Str){p + FRAME_HEAD, (int64_t)f.bytes});
  }
  return true;
}

static void on_output(void *arg, uint32_t events) {
  Worker *w = arg;
  (void)events;
  if (!http_buf_room(&w->from, READ_BYTES)) {
    worker_ended(w, "out of memory");
    return;
  }
  ssize_t n = read(w->out.fd, w->from.p + w->from.n, READ_BYTES);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    worker_ended(w, "the engine died");
    return;
  }
  w->from.n += n;
  w->calling = true;
  bool ok = take_frames(w);
  w->calling = false;
  if (w->stopped)
    worker_free(w);
  else if (!ok)
    worker_ended(w, "the engine sent what is no frame");
}

static void flush(Worker *w) {
  while (http_buf_full(&w->to)) {
    ssize_t n = write(w->in.fd, w->to.p + w->to.at, (size_t)http_buf_full(&w->to));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) {  // it is dead: its output ends, too, and says so
      w->to.at = w->to.n = 0;
      break;
    }
    w->to.at += n;
  }
  bool wants = http_buf_full(&w->to) > 0;
  if (wants != w->writing) (void)event_change(w->loop, &w->in, wants ? EPOLLOUT : 0);
  w->writing = wants;
}

static void on_input(void *arg, uint32_t events) {
  Worker *w = arg;
  if (events & EPOLLOUT) {
    flush(w);
  } else if (events & EPOLLERR) {  // nobody reads; on_output tells when all was read
    event_remove(w->loop, &w->in);
  }
}

int worker_start(EventLoop *l, const char *const *argv, const WorkerCalls *calls, void *arg,
                 Worker **out) {
  Worker *w = mem_alloc(sizeof *w);
  if (!w) return ENOMEM;
  *w = (Worker){.loop = l, .calls = calls, .arg = arg};
  int err = process_start(argv[0], argv, &w->process);
  if (err) {
    mem_free(w, sizeof *w);
    return err;
  }
  // An image goes through in one piece, where the system allows it.
  (void)fcntl(w->process.in, F_SETPIPE_SZ, PIPE_BYTES);
  (void)fcntl(w->process.out, F_SETPIPE_SZ, PIPE_BYTES);
  w->in = (EventWatch){w->process.in, 0, on_input, w};
  w->out = (EventWatch){w->process.out, EPOLLIN, on_output, w};
  err = event_add(l, &w->in);
  if (!err) err = event_add(l, &w->out);
  if (err)
    worker_free(w);
  else
    *out = w;
  return err;
}

char *worker_reserve(Worker *w, int type, uint64_t id, int64_t bytes) {
  uint8_t head[FRAME_HEAD];
  if (bytes < 0 || bytes > SERVE_FRAME_BYTES || http_buf_full(&w->to) > SERVE_FRAMES_BYTES)
    return NULL;
  frame_write(head, &(Frame){(uint32_t)bytes, (uint16_t)type, id});
  if (!http_buf_room(&w->to, FRAME_HEAD + bytes)) return NULL;
  (void)http_buf_put(&w->to, head, FRAME_HEAD);
  char *out = w->to.p + w->to.n;
  w->to.n += bytes;
  return out;
}

void worker_flush(Worker *w) { flush(w); }

bool worker_send(Worker *w, int type, uint64_t id, Str payload) {
  char *out = worker_reserve(w, type, id, payload.n);
  if (!out) return false;
  if (payload.n) memcpy(out, payload.p, (size_t)payload.n);
  flush(w);
  return true;
}

int64_t worker_pid(const Worker *w) { return w->process.pid; }

// ---- the worker's side ----
static bool in_room(FrameIn *in) {
  HttpBuf b = {in->p, in->at, in->n, in->cap};
  bool ok = http_buf_room(&b, READ_BYTES);
  *in = (FrameIn){b.p, b.at, b.n, b.cap};
  return ok;
}

int frame_next(FrameIn *in, int timeout_ms, Frame *out, Str *payload) {
  for (;;) {
    int64_t have = in->n - in->at;
    if (have >= FRAME_HEAD) {
      *out = frame_read((const uint8_t *)in->p + in->at);
      if (out->bytes > SERVE_FRAME_BYTES) return -1;
      if (have - FRAME_HEAD >= (int64_t)out->bytes) {
        *payload = (Str){in->p + in->at + FRAME_HEAD, (int64_t)out->bytes};
        in->at += FRAME_HEAD + (int64_t)out->bytes;
        return 1;
      }
    }
    struct pollfd p = {.fd = 0, .events = POLLIN};
    int ready = poll(&p, 1, timeout_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return ready;
    if (!in_room(in)) return -1;
    ssize_t n = read(0, in->p + in->n, READ_BYTES);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return -1;
    in->n += n;
  }
}

char *frame_reserve(FrameOut *out, int type, uint64_t id, int64_t bytes) {
  uint8_t head[FRAME_HEAD];
  HttpBuf b = {out->p, 0, out->n, out->cap};
  if (bytes < 0 || bytes > SERVE_FRAME_BYTES) return NULL;
  frame_write(head, &(Frame){(uint32_t)bytes, (uint16_t)type, id});
  bool ok = http_buf_room(&b, FRAME_HEAD + bytes);
  *out = (FrameOut){b.p, b.n, b.cap};
  if (!ok) return NULL;
  memcpy(out->p + out->n, head, FRAME_HEAD);
  out->n += FRAME_HEAD + bytes;
  return out->p + out->n - bytes;
}

bool frame_put(FrameOut *out, int type, uint64_t id, Str payload) {
  char *to = frame_reserve(out, type, id, payload.n);
  if (to && payload.n) memcpy(to, payload.p, (size_t)payload.n);
  return to != NULL;
}

bool frame_flush(FrameOut *out) {
  bool ok = !fd_write(1, out->p, out->n);
  out->n = 0;
  if (out->cap > FRAMES_KEPT) {
    mem_free(out->p, out->cap);
    *out = (FrameOut){0};
  }
  return ok;
}
