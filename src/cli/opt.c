// opt.c -- compile options from the command line, and what is needed to look into a pass that
// breaks.
//
// Passes put a new main body in the old one's place when they are done, and nodes never change.  So
// after a pass has failed, even by a signal, the graph still says what the pass was given.
#include "cli/opt.h"

#include "base/platform.h"
#include "cli/files.h"
#include "compile/declined.h"

#include <signal.h>
#include <stdlib.h>

// ---- broken passes ----
static sigjmp_buf broken_env;
static const int broken_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

static void on_broken(int sig) { siglongjmp(broken_env, sig); }

static const char *failed_pass(const OptReport *r) {
  const char *name = "the first pass";
  for (int64_t i = 0; i < r->npasses; i++)
    if (r->pass[i].ran) name = r->pass[i].pass->name;
  return name;
}

// Beside the model, where its weights are found; else where temporary files go.
static void write_reproducer(const OptCall *call, const char *pass, Graph *g, Arena *a, Diag *d) {
  StrBuf b;
  static Diag quiet;
  const char *folder = getenv("TMPDIR"), *slash = strrchr(call->label, '/');
  const char *base = slash ? slash + 1 : call->label;
  const char *try[] = {call->sibling_of ? str_printf(a, "%s.%s.tir", call->sibling_of, pass) : NULL,
                       str_printf(a, "%s/%s.%s.tir", folder ? folder : "/tmp", base, pass)};
  strbuf_init(&b, a);
  strbuf_printf(&b, "// " FILE_MARK ": pass %s broke on this graph: %.*s\n// %s\n", pass,
                (int)strcspn(d->text, "\n"), d->text, call->command);
  graph_print(g, &b);
  for (int64_t i = 0; i < ARRAY_LEN(try); i++) {
    diag_init(&quiet);
    if (!try[i] || !file_replaceable(try[i]) || file_write(try[i], b.p, b.n, &quiet)) continue;
    diag_note(d, "pass %s broke; the graph that it was given is in %s: run it with", pass, try[i]);
    diag_note(d, "tenon inspect --optimised --start-from %s %s", pass, try[i]);
    return;
  }
}

static tenon_status run_caught(const OptimiseRun *r) {
  static char stack[1 << 16];  // for the handler: a pass may have used up its own
  stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack}, was;
  sigaltstack(&alternate, &was);
  struct sigaction act = {.sa_handler = on_broken, .sa_flags = SA_ONSTACK},
                   old[ARRAY_LEN(broken_signals)];
  sigemptyset(&act.sa_mask);
  for (int64_t i = 0; i < ARRAY_LEN(broken_signals); i++)
    sigaction(broken_signals[i], &act, &old[i]);
  volatile tenon_status s = TENON_EINTERNAL;
  int sig = sigsetjmp(broken_env, 1);
  if (!sig) s = optimise_run(r);
  for (int64_t i = 0; i < ARRAY_LEN(broken_signals); i++)
    sigaction(broken_signals[i], &old[i], NULL);
  sigaltstack(&was, NULL);
  if (sig) fail(r->diag, TENON_EINTERNAL, NOWHERE, "%s while optimising", strsignal(sig));
  return s;
}

static tenon_status guard(void *ctx, const OptimiseRun *r) {
  tenon_status s = run_caught(r);
  if (s == TENON_EINTERNAL) {
    r->g->status = TENON_OK;  // for printing
    write_reproducer(ctx, failed_pass(r->report), r->g, r->arena, r->diag);
    r->g->status = s;
  }
  return s;
}

void opt_guard(CompileOptions *o, const OptCall *call) {
  o->guard = guard;
  o->guard_ctx = (void *)(uintptr_t)call;
}

// ---- options ----
static void print_stderr(void *ctx, Str text) {
  (void)ctx;
  fwrite(text.p, 1, (size_t)text.n, stderr);
}

static const char *command_line(Cli *c) {
  StrBuf b;
  strbuf_init(&b, &c->arena);
  strbuf_printf(&b, "tenon %s", command_name(&cli_command[c->command]));
  for (int64_t i = 0; i < c->npos; i++) strbuf_printf(&b, " %s", c->pos[i]);
  for (int i = 0; i < OPT_COUNT; i++)
    for (int64_t k = 0; k < c->opt[i].count; k++)
      strbuf_printf(&b, " --%s%s%s", option_name(&cli_option[i]), c->opt[i].text ? "=" : "",
                    c->opt[i].text ? c->opt[i].text[k] : "");
  return clean_text(&c->arena, strbuf_text(&b));  // one line, whatever a file is called
}

static int compile_row(const char *name) {
  for (int i = 0; i < COMPILE_OPTIONS; i++)
    if (!strcmp(compile_option[i].name, name)) return i;
  return -1;
}

static tenon_status read_options(Cli *c, CompileOptions *out) {
  for (int i = 0; i < OPT_COUNT; i++) {
    const OptionValue *v = &c->opt[i];
    int row =
        cli_option[i].command == c->command && v->count ? compile_row(cli_option[i].name) : -1;
    for (int64_t k = 0; row >= 0 && k < v->count; k++)
      TRY(compile_option_put(out, row, v->text ? v->text[k] : "1", &c->arena, &c->diag));
  }
  return TENON_OK;
}

tenon_status opt_compile(Cli *c, CompileOptions *out) {
  compile_defaults(out);
  tenon_status wrong = read_options(c, out);
  if (!wrong) wrong = compile_options_check(out, &c->diag);
  c->misused |= wrong == TENON_EINVAL;
  TRY(wrong);
  const char *model = c->pos[0];
  bool file = strcmp(model, "-") != 0;
  OptCall *call = arena_new(&c->arena, OptCall);
  *call = (OptCall){file ? model : NULL, file ? model : "stdin", command_line(c)};
  opt_guard(out, call);
  out->misused = &c->misused;
  out->print = print_stderr;
  return TENON_OK;
}

void warn_declined(Cli *c, const CompileReport *r) {
  TextList w = compile_warnings(r, &c->arena);
  for (int64_t i = 0; i < w.n; i++)
    fprintf(stderr, "tenon: warning: %s\n", clean_text(&c->arena, w.v[i]));
}

void json_declined(JsonWriter *w, const CompileReport *r) {
  json_key(w, "declined");
  json_begin_array(w);
  for (int64_t i = 0; i < r->target.ndeclined; i++) {
    const DeclinedKernel *k = &r->target.declined[i];
    json_begin_object(w);
    json_key(w, "kernel");
    json_cstr(w, k->label);
    json_key(w, "nodes");
    json_cstr(w, k->nodes);
    json_key(w, "instead");
    json_cstr(w, k->instead);
    json_key(w, "tried");
    json_begin_array(w);
    for (int64_t j = 0; j < k->ntried; j++) {
      json_begin_object(w);
      json_key(w, "schedule");
      json_cstr(w, k->tried[j].schedule);
      json_key(w, "limit");
      json_bool(w, k->tried[j].kind == DECLINED_LIMIT);
      json_key(w, "why");
      json_cstr(w, k->tried[j].why);
      json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
  }
  json_end_array(w);
}
