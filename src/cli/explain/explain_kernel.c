// explain_kernel.c -- `tenon explain --kernel`: one kernel in full: its schedule, its loops with
// their assembly, or a device's text.
#include "cli/explain/explain_kernel.h"

#include "base/platform.h"
#include "lower/template.h"
#include "targets/llvm/codegen.h"

typedef struct ExplainReport {
  Cli *cli;
  const Target *target;
  Graph *graph;  // optimised
  Program *program;
  Compiled compiled;
} ExplainReport;

// Steps of the main function that call the kernel.
static int64_t calls_of(const ExplainReport *t, int64_t kernel) {
  const ProgFunction *f = t->program->function[0];
  int64_t n = 0;
  for (int32_t i = 0; i < f->nsteps; i++)
    n += f->step[i].kind == STEP_KERNEL && f->step[i].kernel == kernel;
  return n;
}

// The number that `tenon explain` prints; -1: it is in a body of control flow, or has been made
// for one node of a kernel that no schedule fits.
static int64_t number_of(const ExplainReport *t, const Node *n) {
  NodeList order = body_order(t->graph, t->graph->main, &t->cli->arena);
  int64_t number = 0;
  for (int64_t i = 0; i < order.n; i++) {
    if (order.v[i] == n) return number;
    number += order.v[i]->op == OP_fused;
  }
  return -1;
}

// Whether it is meant: by number, by its name, or by that of a node in it where no kernel has this
// name.  A model may have numbers as names, which exporters give to values: then both are meant.
static bool is_wanted(const ExplainReport *t, const KernelUse *u, const char *text, KernelFit fit) {
  int64_t number;
  if (str_to_i64(str_of(text), &number) && number >= 0 && number == number_of(t, u->node))
    return true;
  return kernel_fit(t->graph, u->node, u->label, text, &t->cli->arena) >= fit;
}

// FIT_LABEL where some kernel is called so.
static KernelFit fit_of(const ExplainReport *t, const char *text) {
  for (int64_t i = 0; i < t->compiled.nuses; i++) {
    const KernelUse *u = &t->compiled.use[i];
    if (kernel_fit(t->graph, u->node, u->label, text, &t->cli->arena) == FIT_LABEL)
      return FIT_LABEL;
  }
  return FIT_NODE;
}

// ---- loops and code in two columns ----

static Str next_line(Str *s) {
  const char *end = s->n ? memchr(s->p, '\n', (size_t)s->n) : NULL;
  Str line = {s->p, end ? end - s->p : s->n};
  int64_t used = line.n + (end != NULL);
  *s = (Str){s->p + used, s->n - used};
  return line;
}

// A line of assembly as people want it: no directives, tabs as spaces.
static bool keep_line(Arena *a, Str line, const char **out) {
  StrBuf b;
  strbuf_init(&b, a);
  for (int64_t i = 0; i < line.n && line.p[i] != '#'; i++)
    strbuf_putc(&b, line.p[i] == '\t' ? ' ' : line.p[i]);
  while (b.n && b.p[b.n - 1] == ' ') b.n--;
  *out = strbuf_text(&b);
  const char *p = *out + strspn(*out, " ");
  bool directive = *p == '.' && !strchr(p, ':');
  bool constant = !strncmp(p, ".LCPI", 5);
  return *p && !directive && !constant;
}

static void print_columns(Cli *c, Str left, Str code) {
  int64_t width = 0;
  for (Str s = left; s.n;) width = MAX(width, MIN(next_line(&s).n, 100));
  while (left.n || code.n) {
    Str l = next_line(&left);
    const char *r = "";
    while (code.n && !keep_line(&c->arena, next_line(&code), &r)) r = "";
    printf("%-*.*s  | %s\n", (int)width, (int)l.n, l.p, r);
  }
}

static tenon_status assembly(ExplainReport *t, int64_t kernel, Str *out) {
  Cli *c = t->cli;
  Codegen *codegen;
  Machine m;
  Code code;
  machine_host(&m);
  TRY(codegen_shared(1, &c->diag, &codegen));
  tenon_status s = codegen_build(codegen, &m, CODE_ASM, &t->compiled.kernel[kernel].text, 1,
                                 &c->arena, &code, &c->diag);
  codegen_release(codegen);
  if (!s) *out = (Str){(const char *)code.bytes, code.n};
  return s;
}

static bool is_of_device(const ExplainReport *t, int64_t kernel) {
  return t->program->kernel[kernel].device > 0;
}

// What is made of it: a device's text, or the CPU's assembly.
static tenon_status code_of(ExplainReport *t, int64_t kernel, Str *out) {
  const ProgKernel *k = &t->program->kernel[kernel];
  if (!is_of_device(t, kernel)) return assembly(t, kernel, out);
  *out = t->target->kernel_text(t->program->device[k->device].code, k->entry);
  return TENON_OK;
}

void json_schedule(JsonWriter *w, const Lowered *lw) {
  json_key(w, "template");
  json_cstr(w, lw->schedule.t->name);
  json_key(w, "schedule");
  schedule_json(w, lw->schedule);
  json_key(w, "schedule_text");
  json_cstr(w, lw->kernel->schedule);
}

void json_refused(JsonWriter *w, const Refusal *refused, int64_t n) {
  json_key(w, "refused");
  json_begin_array(w);
  for (int64_t i = 0; i < n; i++) {
    if (!refusal_is_near(&refused[i])) continue;
    json_begin_object(w);
    json_key(w, "template");
    json_cstr(w, refused[i].t->name);
    json_key(w, "why");
    json_cstr(w, refused[i].why);
    json_key(w, "detail");
    json_cstr(w, refused[i].detail);
    json_end_object(w);
  }
  json_end_array(w);
}

static void print_refused(Cli *c, const KernelUse *u) {
  for (int64_t i = 0; i < u->nrefused; i++) {
    const Refusal *r = &u->refused[i];
    if (!refusal_is_near(r)) continue;
    say(c, "  not by %s: %s\n", r->t->name, r->why);
    if (r->detail && opt_given(c, OPT_explain_verbose)) say(c, "    %s\n", r->detail);
  }
}

void json_no_schedule(JsonWriter *w) {
  json_key(w, "template");
  json_cstr(w, NULL);
  json_key(w, "schedule");
  json_cstr(w, NULL);
  json_key(w, "schedule_text");
  json_cstr(w, NULL);
}

static void json_kernel(JsonWriter *w, const ExplainReport *t, const KernelUse *u, Str code) {
  int64_t kernel = u->kernel;
  const KernelText *k = &t->compiled.kernel[kernel];
  json_begin_object(w);
  json_key(w, "kernel");
  json_i64(w, number_of(t, u->node));
  json_key(w, "name");
  json_cstr(w, u->label);
  json_schedule(w, k->lowered);
  json_refused(w, u->refused, u->nrefused);
  json_key(w, "loops");
  json_str(w, k->text);
  json_key(w, is_of_device(t, kernel) ? "text" : "assembly");
  json_str(w, code);
  json_end_object(w);
}

// ---- the command ----

static void print_kernel(const ExplainReport *t, const KernelUse *u, Str code) {
  const KernelText *k = &t->compiled.kernel[u->kernel];
  int64_t calls = calls_of(t, u->kernel), number = number_of(t, u->node);
  if (number >= 0) say(t->cli, "kernel %lld, ", (long long)number);
  say(t->cli, "%s: %s, called %lld time%s a run\n", u->label, k->name, (long long)calls,
      calls == 1 ? "" : "s");
  print_refused(t->cli, u);
  if (is_of_device(t, u->kernel))
    printf("%.*s\n%.*s", (int)k->text.n, k->text.p, (int)code.n, code.p);
  else
    print_columns(t->cli, k->text, code);
  putchar('\n');
}

// Kernels of one text are printed once, with the name of the first.
static tenon_status print_kernels(ExplainReport *t, const char *text, bool json, int64_t *found) {
  Cli *c = t->cli;
  StrBuf b;
  JsonWriter w;
  KernelFit fit = fit_of(t, text);
  bool *shown = arena_array(&c->arena, bool, MAX(t->compiled.nkernels, 1));
  strbuf_init(&b, &c->arena);
  json_init(&w, &b, false);
  json_begin_array(&w);
  for (int64_t i = 0; i < t->compiled.nuses; i++) {
    const KernelUse *u = &t->compiled.use[i];
    Str code = {0};
    if (shown[u->kernel] || !is_wanted(t, u, text, fit)) continue;
    shown[u->kernel] = true;
    TRY(code_of(t, u->kernel, &code));
    ++*found;
    if (json)
      json_kernel(&w, t, u, code);
    else
      print_kernel(t, u, code);
  }
  json_end_array(&w);
  if (json) cli_print(&b);
  return TENON_OK;
}

static void list_kernels(const ExplainReport *t) {
  for (int64_t i = 0; i < t->compiled.nuses; i++) {
    const KernelUse *u = &t->compiled.use[i];
    int64_t number = number_of(t, u->node);
    const char *by = number < 0 ? "" : str_printf(&t->cli->arena, "%lld: ", (long long)number);
    diag_note(&t->cli->diag, "kernel %s%s (%s)", by, u->label, t->compiled.kernel[u->kernel].name);
  }
}

int explain_kernel(Cli *c, const CompileOptions *o, Graph *g, CompileReport *made, const char *text,
                   bool json) {
  ExplainReport *t = arena_new(&c->arena, ExplainReport);
  int64_t found = 0;
  t->cli = c;
  t->target = o->target;
  t->graph = g;
  tenon_status s = compile_graph(g, o, COMPILE_BUILD, &c->arena, &c->diag, made);
  t->program = made->program;
  t->compiled = made->compiled;
  if (!s) s = print_kernels(t, text, json, &found);
  if (!s && !found) {
    (void)fail(&c->diag, TENON_EINVAL, NOWHERE, "no kernel is '%s'; there are %lld", text,
               (long long)t->compiled.nuses);
    list_kernels(t);
    return CLI_USAGE;
  }
  return cli_exit_of(s);
}
