// cmd_conform.c -- `tenon conform`: runs ONNX backend tests, each in a process of its own.
//
// The parent keeps up to --jobs children.  A child runs one test and writes its verdict to a pipe
// that also takes its standard error; a child that ends without a verdict, or too late, has
// crashed.  So no test can harm another, nor the count.  With --batch a child runs several, one
// after the other, since to open a GPU takes longer than most tests; where it crashes, another goes
// on behind the test that it crashed in.
#include "cli/cli.h"
#include "conform/conform.h"
#include "cli/opt.h"

#include "base/platform.h"
#include "targets/llvm/codegen.h"
#include "targets/target.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXT_CAP = 8192, VERDICT_MARK = 1, VERDICT_END = 2, DEFAULT_TIMEOUT = 300 };

typedef struct Child {
  pid_t pid;         // 0: free
  int fd;            // -1: its end was reached
  Case *test, *end;  // the one at hand, and behind the last
  int64_t started;
  bool timed_out;
  int n;
  char text[TEXT_CAP];  // what it wrote, the last part when it is long
} Child;

typedef struct Runner {
  Cli *cli;
  CaseList tests;
  int64_t next;
  Child *child;
  int jobs;
  int64_t batch;
  int64_t timeout;  // ns
  CaseOptions options;
  Progress progress;
  Codegen *codegen;  // a process for each child, kept from test to test; NULL: none is needed
} Runner;

static volatile sig_atomic_t interrupted;
static void on_interrupt(int sig) {
  (void)sig;
  interrupted = 1;
}

// ---- the child ----
static void run_case(const Case *c, const CaseOptions *o, int fd) {
  Arena a;
  Trap t;
  static Diag diag;
  const char *reason = NULL;
  Verdict v = CASE_CRASHED;
  arena_init(&a);
  diag_init(&diag);
  trap_enter(&t, &diag);
  if (setjmp(t.env) == 0) {
    v = conform_run(c, o, &a, &reason);
  } else {
    // Raised outside the library's own entries: a defect, or no memory.
    v = t.status == TENON_ENOMEM ? CASE_WRONG : CASE_CRASHED;
    reason = diag.text;
  }
  trap_leave(&t);
  dprintf(fd, "%c%c%s%c", VERDICT_MARK, (char)('0' + v), reason ? reason : "", VERDICT_END);
  arena_deinit(&a);
}

// A device stays open from test to test.
static Device *hold_device(const CaseOptions *o, const DeviceDriver **driver) {
  static Diag diag;
  Device *dev = NULL;
  int index;
  diag_init(&diag);
  *driver = o->target && o->target->driver ? device_driver(o->target->driver) : NULL;
  if (!*driver || (*driver)->find(NULL, &diag, &index) || (*driver)->open(index, &diag, &dev))
    return NULL;
  return dev;
}

static void child_main(const Case *c, const Case *end, const CaseOptions *o, int fd) {
  const DeviceDriver *driver;
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  dup2(fd, 2);
  Device *dev = hold_device(o, &driver);
  for (; c < end; c++) run_case(c, o, fd);
  if (dev) driver->close(dev);
  // Through exit, so that a sanitizer can look for leaks.
  exit(0);
}

// ---- the parent ----
static bool start(Runner *r, Child *c, Case *test, Case *end) {
  int fd[2];
  if (pipe(fd)) return false;
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    close(fd[0]);
    if (r->codegen) codegen_adopt(r->codegen, (int)(c - r->child));
    child_main(test, end, &r->options, fd[1]);
  }
  close(fd[1]);
  if (pid < 0) {
    close(fd[0]);
    return false;
  }
  fcntl(fd[0], F_SETFL, O_NONBLOCK);
  fcntl(fd[0], F_SETFD, FD_CLOEXEC);
  *c = (Child){.pid = pid, .fd = fd[0], .test = test, .end = end, .started = platform->now()};
  return true;
}

static void read_child(Child *c) {
  char buf[4096];
  ssize_t got;
  while ((got = read(c->fd, buf, sizeof buf)) > 0) {
    int keep = MIN(c->n, TEXT_CAP - 1 - (int)got);
    memmove(c->text, c->text + c->n - keep, (size_t)keep);
    memcpy(c->text + keep, buf, (size_t)got);
    c->n = keep + (int)got;
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  close(c->fd);
  c->fd = -1;
}

// The line of what a crashed child said that tells most: a sanitizer's finding, else the first.
static const char *report_line(Arena *a, const char *text) {
  static const char *const marks[] = {"ERROR:", "runtime error:", "CHECK"};
  const char *line = text;
  for (int64_t i = ARRAY_LEN(marks) - 1; i >= 0; i--) {
    const char *p = strstr(text, marks[i]);
    while (p && p > text && p[-1] != '\n') p--;
    if (p) line = p;
  }
  return str_copy(a, (Str){line, MIN((int64_t)strcspn(line, "\n"), 300)});
}

// A text without the temporary folder that an archive was unpacked into: paths as the archive has
// them.
static const char *inside(Arena *a, const Case *c, const char *text) {
  if (!text || !c->archive) return text;
  StrBuf b;
  strbuf_init(&b, a);
  size_t n = strlen(c->unpacked);
  for (const char *p = text; *p;) {
    if (!strncmp(p, c->unpacked, n) && p[n] == '/')
      p += n + 1;
    else
      strbuf_putc(&b, *p++);
  }
  return strbuf_text(&b);
}

// What the child said of the test at hand; the text ends with it.
static void take_verdict(Runner *r, Child *c, char *text) {
  Arena *a = &r->cli->arena;
  Case *t = c->test++;
  char *mark = strrchr(text, VERDICT_MARK);
  t->seconds = (double)(platform->now() - c->started) / 1e9;
  c->started = platform->now();
  progress_step(&r->progress, t->name);
  t->verdict = CASE_CRASHED;
  t->reason = "no verdict";
  if (!mark || mark[1] < '0' || mark[1] >= '0' + CASE_VERDICTS) return;
  t->verdict = (Verdict)(mark[1] - '0');
  Str reason = str_of(mark + 2);
  while (reason.n && reason.p[reason.n - 1] == '\n') reason.n--;
  t->reason = reason.n ? inside(a, t, str_copy(a, reason)) : NULL;
}

static void take_verdicts(Runner *r, Child *c) {
  c->text[c->n] = 0;
  for (char *end; c->test < c->end && (end = memchr(c->text, VERDICT_END, (size_t)c->n));) {
    *end++ = 0;
    take_verdict(r, c, c->text);
    c->n -= (int)(end - c->text);
    memmove(c->text, end, (size_t)c->n + 1);
  }
}

// The child ended, cleanly or not.
static void judge(Runner *r, Child *c, int status) {
  Arena *a = &r->cli->arena;
  bool clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (clean && c->test == c->end) return;
  Case *t = c->test < c->end ? c->test++ : c->end - 1;
  if (t == c->test - 1) progress_step(&r->progress, t->name);
  t->verdict = CASE_CRASHED;
  const char *said = report_line(a, c->text);
  if (c->timed_out)
    t->reason = str_printf(a, "no result after %lld s", (long long)(r->timeout / 1000000000));
  else if (WIFSIGNALED(status))
    t->reason = str_printf(a, "%s%s%s", strsignal(WTERMSIG(status)), *said ? ": " : "", said);
  else
    t->reason = str_printf(a, "exit status %d%s%s", WEXITSTATUS(status), *said ? ": " : "", said);
}

static void poll_children(Runner *r) {
  struct pollfd p[64];
  Child *who[64];
  int n = 0;
  for (int i = 0; i < r->jobs && n < 64; i++)
    if (r->child[i].pid && r->child[i].fd >= 0) {
      p[n] = (struct pollfd){.fd = r->child[i].fd, .events = POLLIN};
      who[n++] = &r->child[i];
    }
  poll(p, (nfds_t)n, 100);
  for (int i = 0; i < n; i++)
    if (p[i].revents) {
      read_child(who[i]);
      take_verdicts(r, who[i]);
    }
}

// Another child for the tests behind one that a child crashed in.
static int go_on(Runner *r, Child *c) {
  if (c->test == c->end || interrupted || start(r, c, c->test, c->end)) return c->pid != 0;
  for (; c->test < c->end; c->test++) {
    c->test->verdict = CASE_CRASHED;
    c->test->reason = "no process could be started";
  }
  return 0;
}

// Takes in finished children, stops those that are late, and returns how many still run.
static int reap(Runner *r) {
  int busy = 0;
  for (int i = 0; i < r->jobs; i++) {
    Child *c = &r->child[i];
    if (!c->pid) continue;
    if (!c->timed_out && platform->now() - c->started > r->timeout) {
      c->timed_out = true;
      kill(c->pid, SIGKILL);
    }
    int status;
    if (c->fd < 0 && waitpid(c->pid, &status, 0) == c->pid) {
      judge(r, c, status);
      if (r->codegen && c->test[-1].verdict != CASE_PASSED) codegen_restart(r->codegen, i);
      c->pid = 0;
      busy += go_on(r, c);
    } else {
      busy++;
    }
  }
  return busy;
}

static int run_all(Runner *r) {
  progress_start(&r->progress, r->tests.n);
  for (int busy = 0; r->next < r->tests.n || busy;) {
    for (int i = 0; i < r->jobs && r->next < r->tests.n && !interrupted; i++) {
      if (r->child[i].pid) continue;
      int64_t n = MIN(r->batch, r->tests.n - r->next);
      Case *first = &r->tests.v[r->next];
      if (!start(r, &r->child[i], first, first + n)) {
        if (busy) break;  // the machine is full: wait for one of ours
        n = 1;
        first->verdict = CASE_CRASHED;
        first->reason = "no process could be started";
      }
      r->next += n;
      busy++;
    }
    if (interrupted) {
      for (int i = 0; i < r->jobs; i++)
        if (r->child[i].pid) kill(r->child[i].pid, SIGKILL);
      r->next = r->tests.n;
    }
    poll_children(r);
    busy = reap(r);
  }
  progress_end(&r->progress);
  return interrupted ? CLI_INTERRUPTED : CLI_OK;
}

// ---- the report ----
static void print_text(Runner *r, const int64_t *count) {
  bool verbose = opt_given(r->cli, OPT_conform_verbose);
  for (int v = 0; v < CASE_VERDICTS; v++)
    for (int64_t i = 0; i < r->tests.n; i++) {
      const Case *c = &r->tests.v[i];
      if ((int)c->verdict != v || (v == CASE_PASSED && !verbose && !c->reason)) continue;
      say(r->cli, "%s: %s", verdict_name[v], c->name);
      // The JSON has all of a long message.
      if (c->reason) say(r->cli, ": %.300s", c->reason);
      putchar('\n');
    }
  say(r->cli, "%lld tests: %lld passed, %lld wrong, %lld unsupported, %lld crashed\n",
      (long long)r->tests.n, (long long)count[CASE_PASSED], (long long)count[CASE_WRONG],
      (long long)count[CASE_UNSUPPORTED], (long long)count[CASE_CRASHED]);
}

static void make_json(Runner *r, const int64_t *count, StrBuf *b) {
  JsonWriter w;
  json_init(&w, b, false);
  json_begin_object(&w);
  json_key(&w, "generator");
  json_cstr(&w, FILE_MARK " " TENON_VERSION);
  json_key(&w, "tests");
  json_i64(&w, r->tests.n);
  for (int v = 0; v < CASE_VERDICTS; v++) {
    json_key(&w, verdict_name[v]);
    json_i64(&w, count[v]);
  }
  json_key(&w, "results");
  json_begin_array(&w);
  for (int64_t i = 0; i < r->tests.n; i++) {
    const Case *c = &r->tests.v[i];
    json_begin_object(&w);
    json_key(&w, "name");
    json_cstr(&w, c->name);
    json_key(&w, "archive");
    json_cstr(&w, c->archive);
    json_key(&w, "model");
    json_cstr(&w, inside(&r->cli->arena, c, c->model));
    json_key(&w, "verdict");
    json_cstr(&w, verdict_name[c->verdict]);
    json_key(&w, "reason");
    json_cstr(&w, c->reason);
    json_key(&w, "seconds");
    json_f64(&w, (double)(int64_t)(c->seconds * 1000) / 1000);
    json_end_object(&w);
  }
  json_end_array(&w);
  json_end_object(&w);
}

static int report(Runner *r) {
  int64_t count[CASE_VERDICTS] = {0};
  for (int64_t i = 0; i < r->tests.n; i++) count[r->tests.v[i].verdict]++;
  const char *json = opt_text(r->cli, OPT_conform_report, NULL);
  if (json) {
    StrBuf b;
    strbuf_init(&b, &r->cli->arena);
    make_json(r, count, &b);
    strbuf_putc(&b, '\n');
    tenon_status s = file_write(json, b.p, b.n, &r->cli->diag);
    if (s) return CLI_FAILED;
  }
  if (!json || strcmp(json, "-")) print_text(r, count);
  return count[CASE_WRONG] + count[CASE_CRASHED] ? CLI_MISMATCH : CLI_OK;
}

// ---- the command ----
// Starting tenon-codegen takes longer than a small model does: each child finds one running.
static tenon_status start_codegen(Runner *r) {
  const Target *t = r->options.target;
  if (!t || strcmp((t->with ? t->with : t)->name, "cpu")) return TENON_OK;
  TRY(codegen_shared(1, &r->cli->diag, &r->codegen));
  return codegen_start(r->codegen, r->jobs, &r->cli->diag);
}

static bool is_wanted(const Cli *c, const char *name) {
  const OptionValue *f = &c->opt[OPT_conform_filter];
  for (int64_t i = 0; i < f->count; i++)
    if (str_glob(f->text[i], name)) return true;
  return f->count == 0;
}

typedef VEC(const char *) Folders;
static tenon_status collect(Runner *r, Folders *unpacked) {
  Cli *c = r->cli;
  CaseList all = {0};
  for (int64_t i = 0; i < c->npos; i++) {
    const char *path = c->pos[i], *folder = path;
    if (conform_is_archive(path)) {
      tenon_status s = conform_unpack(&c->arena, path, &c->diag, &folder);
      if (folder) vec_push(&c->arena, unpacked, folder);
      TRY(s);
    }
    int64_t before = all.n;
    TRY(conform_find(&c->arena, folder, &c->diag, &all));
    if (all.n == before)
      return fail(&c->diag, TENON_EINVAL, (Where){.file = path},
                  "no tests below: neither model.onnx with test_data_set_*, nor NAME.onnx with "
                  "NAME_output_0.pb, nor StableHLO programs (.mlir)");
    for (int64_t k = before; k < all.n && folder != path; k++)
      all.v[k].archive = path, all.v[k].unpacked = folder;
  }
  const int64_t every = opt_int(c, OPT_conform_every, 1);
  int64_t fitting = 0;
  for (int64_t i = 0; i < all.n; i++)
    if (is_wanted(c, all.v[i].name) && fitting++ % every == 0)
      vec_push(&c->arena, &r->tests, all.v[i]);
  if (!r->tests.n)
    return fail(&c->diag, TENON_EINVAL, NOWHERE, "none of %lld tests fits --filter '%s'",
                (long long)all.n, opt_text(c, OPT_conform_filter, ""));
  return TENON_OK;
}

int cmd_conform(Cli *c) {
  const char *target = opt_text(c, OPT_conform_target, "interp");
  bool plan = strcmp(target, "interp") != 0;
  CompileOptions compile;
  if (plan && strcmp(target, "plan") && !target_find(target))
    return cli_usage(c, "conform: unknown target '%s'; `tenon targets` lists them", target);
  int rc = cli_exit_of(opt_compile(c, &compile));
  if (rc) return rc;
  Runner r = {.cli = c};
  Folders unpacked = {0};
  signal(SIGINT, on_interrupt);
  signal(SIGTERM, on_interrupt);
  r.jobs = (int)opt_int(c, OPT_conform_jobs, 0);
  if (!r.jobs) r.jobs = machine_threads();
  r.batch = opt_int(c, OPT_conform_group, 1);
  r.timeout = opt_int(c, OPT_conform_timeout, DEFAULT_TIMEOUT) * 1000000000;
  r.options.expand = opt_given(c, OPT_conform_expand);
  r.options.plan = plan;
  r.options.target = target_find(target);
  r.options.compile = plan || opt_given(c, OPT_conform_level) ? &compile : NULL;
  r.options.text = opt_given(c, OPT_conform_reparse);
  r.options.artifact = opt_given(c, OPT_conform_artifact);
  r.options.resident = opt_given(c, OPT_conform_resident);
  r.options.threads = (int)opt_int(c, OPT_conform_threads, MAX(1, machine_threads() / r.jobs));
  r.child = arena_array(&c->arena, Child, r.jobs);
  rc = cli_exit_of(collect(&r, &unpacked));
  if (!rc) rc = cli_exit_of(start_codegen(&r));
  if (!rc) rc = run_all(&r);
  if (!rc) rc = report(&r);
  codegen_release(r.codegen);
  for (int64_t i = 0; i < unpacked.n; i++) conform_remove(&c->arena, unpacked.v[i]);
  if (!interrupted) return rc;
  diag_init(&c->diag);  // what the end of a child or of tar made of it
  cli_usage(c, "conform: interrupted");
  return CLI_INTERRUPTED;
}
