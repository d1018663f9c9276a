// codegen.c -- a running tenon-codegen for the tests.
#include "codegen.h"
#include "test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int to_child = -1, from_child = -1;
static pid_t child;

static void stop_child(void) {
  if (to_child < 0) return;
  close(to_child);
  close(from_child);
  to_child = from_child = -1;
  waitpid(child, NULL, 0);
}

bool codegen_there(void) {
  static bool tried;
  if (tried) return to_child >= 0;
  tried = true;
  const char *program = TENON_BINARY_DIR "/tenon-codegen";
  int in[2], out[2];
  if (access(program, X_OK) || pipe(in)) return false;
  if (pipe(out)) return false;
  child = fork();
  if (child < 0) return false;
  if (!child) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    close(in[1]);
    close(out[0]);
    execl(program, program, (char *)NULL);
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  to_child = in[1], from_child = out[0];
  fcntl(to_child, F_SETFD, FD_CLOEXEC);
  fcntl(from_child, F_SETFD, FD_CLOEXEC);
  atexit(stop_child);
  return true;
}

static bool put_all(const void *p, int64_t n) {
  for (int64_t at = 0; at < n;) {
    ssize_t got = write(to_child, (const char *)p + at, (size_t)(n - at));
    if (got <= 0) return false;
    at += got;
  }
  return true;
}

static bool get_all(void *p, int64_t n) {
  for (int64_t at = 0; at < n;) {
    ssize_t got = read(from_child, (char *)p + at, (size_t)(n - at));
    if (got <= 0) return false;
    at += got;
  }
  return true;
}

bool codegen_ask(const CodeRequest *r, Arena *a, CodeReply *out) {
  uint8_t head[PROTOCOL_HEADER];
  const Str part[] = {r->triple, r->cpu, r->features, r->symbol, r->kernel};
  request_header(r, head);
  if (!put_all(head, sizeof head)) return false;
  for (int i = 0; i < ARRAY_LEN(part); i++)
    if (!put_all(part[i].p, part[i].n)) return false;
  int64_t size;
  if (!get_all(head, sizeof head) || !reply_parse(head, out, &size)) return false;
  char *body = arena_alloc(a, size + 1);
  if (!get_all(body, size)) return false;
  reply_body(out, body);
  return true;
}

bool codegen_machine(const char *triple, const char *cpu, const char *features, Machine *out) {
  static Diag d;
  diag_init(&d);
  return !machine_make(str_of(triple), str_of(cpu), str_of(features), out, &d);
}

CodeRequest codegen_request(CodeKind kind, const Machine *m, const LoopKernel *k, Arena *a) {
  StrBuf text;
  strbuf_init(&text, a);
  loop_print(k, &text);
  return (CodeRequest){.kind = kind,
                       .triple = str_of(m->triple),
                       .cpu = str_of(m->cpu),
                       .features = str_of(m->features),
                       .symbol = STR("kernel"),
                       .kernel = strbuf_str(&text)};
}

Mapped codegen_map(const LoopKernel *k, CodeKind kind, const Machine *m, Arena *a) {
  CodeRequest r = codegen_request(kind, m, k, a);
  CodeReply reply;
  Mapped out = {0};
  if (!codegen_ask(&r, a, &reply)) {
    EXPECT(!"tenon-codegen answers");
    return out;
  }
  if (reply.status) {
    fprintf(stderr, "kernel '%s': %.*s\n", k->name, STR_ARG(reply.message));
    EXPECT_INT_EQ(reply.status, TENON_OK);
    return out;
  }
  out.bytes = (reply.bytes.n + 4095) / 4096 * 4096;
  out.at =
      mmap(NULL, (size_t)out.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (out.at == MAP_FAILED) return (Mapped){0};
  memcpy(out.at, reply.bytes.p, (size_t)reply.bytes.n);
  mprotect(out.at, (size_t)out.bytes, PROT_READ | PROT_EXEC);
  void *entry = (char *)out.at + reply.entry;
  memcpy(&out.fn, &entry, sizeof entry);
  return out;
}

void codegen_unmap(Mapped m) {
  if (m.at) munmap(m.at, (size_t)m.bytes);
}
