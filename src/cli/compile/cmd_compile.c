// cmd_compile.c -- `tenon compile`: a model to a file that runs without the compiler.
#include "cli/compile/compile_c.h"
#include "cli/files.h"
#include "cli/inputs.h"
#include "cli/run/overrides.h"
#include "cli/compile/installed.h"
#include "cli/compile/link.h"
#include "cli/opt.h"

#include "api/model.h"
#include "base/budget.h"
#include "ir/expand.h"
#include "runtime/artifact.h"
#include "targets/object.h"

#include <stdlib.h>
#include <unistd.h>

enum { MAX_STAGES = 8 };  // of different names
typedef enum {
  EMIT_TENON,
  EMIT_OBJ,
  EMIT_SO,
  EMIT_EXE,
  EMIT_LLVM,
  EMIT_ASM,
  EMIT_C,
  EMIT_COUNT
} Emit;
static const struct {
  const char *name, *ending;
} emits[EMIT_COUNT] = {{"tenon", ".tenon"}, {"obj", ".o"}, {"so", ".so"}, {"exe", ""},
                       {"llvm", ".ll"},     {"asm", ".s"}, {"c", ".c"}};

typedef struct Stage {
  const char *name;
  double ms;
} Stage;
typedef struct CompileCommand {
  Cli *cli;
  ModelOptions options;
  Model *model;
  const char *output;
  const Target *target;  // of the variant that is being made
  const Target *wanted[ARTIFACT_VARIANTS];
  int nwanted;
  Emit emit;
  Machine machine;
  CompileC c;
  Program *program;  // of the last variant
  CompileOptions compile;
  Watch watch;
  const Program *variant[ARTIFACT_VARIANTS];
  int nvariants;
  CompileReport made;  // of the last variant
  Progress bar;
  Stage stage[MAX_STAGES];
  int nstages;
  int64_t began, stage_began;
  int64_t nsteps, nhost;  // of all functions
} CompileCommand;

// ---- stages ----
static void add_stage(CompileCommand *m, const char *name, double ms) {
  int i = 0;
  while (i < m->nstages && strcmp(m->stage[i].name, name)) i++;
  if (i == m->nstages) m->stage[m->nstages++] = (Stage){.name = name};
  m->stage[i].ms += ms;
}

static void end_stage(CompileCommand *m, const char *name) {
  int64_t now = platform->now();
  add_stage(m, name, (double)(now - m->stage_began) / 1e6);
  m->stage_began = now;
}

static void keep_ranges(CompileCommand *m, const int64_t *range) {
  ProgFunction *f = m->program->function[0];
  f->nranges = f->nparams;
  f->range = arena_dup(&m->program->arena, range, MAX(f->nparams, 1) * (int64_t)sizeof *range);
}

static void count_steps(CompileCommand *m) {
  for (int32_t i = 0; i < m->program->nfunctions; i++)
    for (int32_t k = 0; k < m->program->function[i]->nsteps; k++) {
      m->nsteps++;
      m->nhost += m->program->function[i]->step[k].kind == STEP_HOST;
    }
}

static const char *header_of(const CompileCommand *m) {
  int64_t n = (int64_t)strlen(m->output);
  if (str_ends(str_of(m->output), emits[m->emit].ending))
    n -= (int64_t)strlen(emits[m->emit].ending);
  return str_printf(&m->cli->arena, "%.*s.h", (int)n, m->output);
}

// model.o or model.so, and model.h beside it, which comes last: what has no header is not written
// either.
static tenon_status write_with_header(CompileCommand *m, const char *symbol, const char *weights) {
  Cli *c = m->cli;
  bool shared = m->emit == EMIT_SO;
  StrBuf b;
  strbuf_init(&b, &c->arena);
  TRY(object_header(m->program, symbol, shared ? HEADER_DECLARES : HEADER_HOLDS, &b, &c->diag));
  if (shared)
    TRY(link_program(c, m->program, symbol, true, weights, m->output));
  else
    TRY(object_write(m->program, &m->machine, symbol, weights, m->output, &c->diag));
  return file_write(header_of(m), b.p, b.n, &c->diag);
}

static tenon_status write_output(CompileCommand *m) {
  Cli *c = m->cli;
  const char *symbol = object_symbol(&c->arena, m->output);
  const char *weights = opt_text(c, OPT_compile_weights_out, NULL);
  switch (m->emit) {
  case EMIT_OBJ:
  case EMIT_SO: return write_with_header(m, symbol, weights);
  case EMIT_EXE: return link_program(c, m->program, symbol, false, weights, m->output);
  case EMIT_LLVM:
  case EMIT_ASM:
    return file_write(m->output, m->made.target.text.p, m->made.target.text.n, &c->diag);
  case EMIT_C: return compile_c_write(c, &m->c);
  case EMIT_TENON:
  case EMIT_COUNT: break;
  }
  return artifact_write_all(m->variant, m->nvariants, m->output, &c->diag);
}

// A graph that was to be split may all be one machine's: where the file has that variant already,
// it is none of its own.
static tenon_status keep_variant(CompileCommand *m) {
  const char *target = program_target(m->program, &m->cli->arena);
  for (int i = 0; i < m->nvariants; i++)
    if (!strcmp(program_target(m->variant[i], &m->cli->arena), target)) {
      fprintf(stderr, "tenon: for %s: all of it is best on %s, which is there already\n",
              m->target->name, target);
      program_release(m->program);
      m->program = (Program *)(uintptr_t)m->variant[i];
      return TENON_OK;
    }
  m->variant[m->nvariants++] = m->program;
  return TENON_OK;
}

// What the command line says, for the target at hand.  Of several variants each takes what has a
// meaning for it; a single one refuses what has none.
static tenon_status set_options(CompileCommand *m) {
  CompileOptions *o = &m->compile;
  TRY(opt_compile(m->cli, o));
  o->target = m->target;
  o->machine = &m->machine;
  o->text = m->emit == EMIT_ASM ? TEXT_ASM : m->emit == EMIT_LLVM ? TEXT_LLVM : TEXT_NONE;
  o->c_source = m->emit == EMIT_C ? &m->c.source : NULL;
  o->c_options = &m->c.options;
  o->watch = &m->watch;
  if (o->tier != TIER_FULL)
    return fail(&m->cli->diag, TENON_EINVAL, NOWHERE,
                "--tier %s is for a model that is run at once: a compiled model has full code",
                o->tier == TIER_AUTO ? "auto" : "quick");
  if (m->nwanted > 1 && !m->target->driver) o->device = NULL;
  if (m->nwanted > 1 && !m->target->with) o->place = (TextList){0};
  return TENON_OK;
}

// `decomposed`: composites that have no loops as they stand are decomposed first.
static tenon_status compile(CompileCommand *m, bool decomposed) {
  Cli *c = m->cli;
  Diag *d = &c->diag;
  m->stage_began = platform->now();
  TRY(open_fixed(c, c->pos[0], &m->options, &m->model));
  TRY(model_need_supported(m->model, d));
  TRY(compile_constants(c, m->model->graph));
  if (decomposed) TRY(graph_expand(m->model->graph, c_composites, &decomposed));
  Graph *g = m->model->graph;
  // Of the model as it is: random inputs of a run must not depend on how it was optimised.
  const int64_t *range = input_ranges(g, &c->arena);
  end_stage(m, "read");
  m->watch = progress_watch(&m->bar);
  TRY(set_options(m));
  m->made = (CompileReport){0};
  tenon_status s = compile_graph(g, &m->compile, COMPILE_BUILD, &c->arena, d, &m->made);
  progress_end(&m->bar);
  TRY(s);
  warn_declined(c, &m->made);
  m->program = m->made.program;
  add_stage(m, "optimise", 1e3 * m->made.seconds[COMPILE_OPTIMISE]);
  add_stage(m, "plan", 1e3 * m->made.seconds[COMPILE_PLAN]);
  add_stage(m, "lower", 1e3 * m->made.seconds[COMPILE_LOWER]);
  add_stage(m, "make code", 1e3 * m->made.seconds[COMPILE_BUILD]);
  keep_ranges(m, range);
  count_steps(m);
  return keep_variant(m);
}

// The graph is changed by what is made of it: each variant reads the model again.
static void close_model(CompileCommand *m) {
  model_free(m->model);
  m->model = NULL;
}

// C has more loops for decomposed composites; where that does not help, what was said first stands.
static tenon_status compile_or_again(CompileCommand *m) {
  tenon_status s = compile(m, false);
  if (s != TENON_EUNSUPPORTED || m->emit != EMIT_C) return s;
  Diag *first = arena_dup(&m->cli->arena, &m->cli->diag, (int64_t)sizeof(Diag));
  close_model(m);
  m->nstages = 0;
  diag_init(&m->cli->diag);
  s = compile(m, true);
  if (s) m->cli->diag = *first;
  return s;
}

static tenon_status compile_all(CompileCommand *m) {
  m->began = platform->now();
  for (int i = 0; i < m->nwanted; i++) {
    if (i) close_model(m);
    m->target = m->wanted[i];
    TRY(compile_or_again(m));
  }
  m->stage_began = platform->now();
  TRY(write_output(m));
  end_stage(m, "write");
  return TENON_OK;
}

// ---- what is said of it ----
static double total_ms(const CompileCommand *m) {
  return (double)(platform->now() - m->began) / 1e6;
}

static int64_t ncached(const CompileCommand *m) {
  int64_t n = 0;
  for (int64_t i = 0; m->made.target.kernel && i < m->made.target.nkernels; i++)
    n += m->made.target.kernel[i].cached;
  return n;
}

static int slowest_first(const void *a, const void *b) {
  const KernelReport *x = a, *y = b;
  return x->ms > y->ms ? -1 : x->ms < y->ms;
}

static void print_times(CompileCommand *m) {
  fprintf(stderr, "%-12s %10s\n", "stage", "ms");
  for (int i = 0; i < m->nstages; i++)
    fprintf(stderr, "%-12s %10.3f\n", m->stage[i].name, m->stage[i].ms);
  fprintf(stderr, "%-12s %10.3f\n", "all", total_ms(m));
  if (!m->made.target.kernel) return;
  KernelReport *k = arena_dup(&m->cli->arena, m->made.target.kernel,
                              MAX(m->made.target.nkernels, 1) * (int64_t)sizeof *k);
  if (m->made.target.nkernels) qsort(k, (size_t)m->made.target.nkernels, sizeof *k, slowest_first);
  int wide = (int)strlen("kernel");
  for (int64_t i = 0; i < m->made.target.nkernels; i++) {
    k[i].label = clean_text(&m->cli->arena, k[i].label);
    wide = MAX(wide, (int)MIN(strlen(k[i].label), NAME_COLUMNS));
  }
  fprintf(stderr, "\n%10s %10s  %-7s %-*s  %s\n", "ms", "bytes", "cached", wide, "kernel",
          "schedule");
  for (int64_t i = 0; i < m->made.target.nkernels; i++)
    fprintf(stderr, "%10.3f %10lld  %-7s %-*s  %s\n", k[i].ms, (long long)k[i].bytes,
            k[i].cached ? "yes" : "no", wide, k[i].label, clean_text(&m->cli->arena, k[i].name));
}

// The host's and all devices'.
static int64_t code_bytes(const Program *p) {
  int64_t n = p->code_bytes;
  for (int32_t i = 1; i < p->ndevices; i++) n += p->device[i].code.n;
  return n;
}

static void print_c_sizes(CompileCommand *m) {
  NumText weights, arena, stack;
  const CSource *s = &m->c.source;
  say(m->cli, ", %s of weights", text_bytes(&weights, s->weights_bytes));
  if (s->arena_bytes >= 0) say(m->cli, ", arena %s", text_bytes(&arena, s->arena_bytes));
  say(m->cli, ", stack at most %s, %.2f s\n", text_bytes(&stack, s->stack_bytes),
      total_ms(m) / 1e3);
}

static void print_variants(CompileCommand *m) {
  NumText constants, code;
  say(m->cli, "%s: %d variants, %.2f s\n", m->output, m->nvariants, total_ms(m) / 1e3);
  for (int i = 0; i < m->nvariants; i++) {
    const Program *p = m->variant[i];
    say(m->cli, "  for %s: %d kernel%s, %s of constants, %s of code\n",
        program_target(p, &m->cli->arena), p->nkernels, p->nkernels == 1 ? "" : "s",
        text_bytes(&constants, p->constants_bytes), text_bytes(&code, code_bytes(p)));
  }
}

// How a program that calls the model is linked.
static void print_link(CompileCommand *m) {
  Cli *c = m->cli;
  Installed in = installed_find(c);
  const char *include = in.include ? str_printf(&c->arena, " -I%s", in.include) : "";
  if (m->emit == EMIT_C)
    say(c, "link: cc -O3 main.c %s -lm\n", m->output);
  else if (m->emit == EMIT_OBJ)
    say(c, "link: cc%s main.c %s %s -lm -pthread\n", include, m->output,
        in.runtime ? in.runtime : "libtenon_runtime.a");
  else if (m->emit == EMIT_SO)
    say(c, "link: cc%s main.c %s%s -Wl,-rpath,'$ORIGIN'\n", include,
        strchr(m->output, '/') ? "" : "./", m->output);
}

static void print_text(CompileCommand *m) {
  NumText constants, code;
  const Program *p = m->program;
  if (!strcmp(m->output, "-")) return;
  if (m->nvariants > 1) {
    print_variants(m);
    return;
  }
  say(m->cli, "%s: %d kernel%s", m->output, p->nkernels, p->nkernels == 1 ? "" : "s");
  if (ncached(m)) say(m->cli, " (%lld from the cache)", (long long)ncached(m));
  if (m->nhost)
    say(m->cli, ", %lld of %lld steps on the host", (long long)m->nhost, (long long)m->nsteps);
  if (m->emit == EMIT_C)
    print_c_sizes(m);
  else
    say(m->cli, ", %s of constants, %s of code, %.2f s\n",
        text_bytes(&constants, p->constants_bytes), text_bytes(&code, code_bytes(p)),
        total_ms(m) / 1e3);
  print_link(m);
}

// One line: what runs slowly, and why.
static void print_host(CompileCommand *m) {
  const TargetReport *r = &m->made.target;
  if (!r->nhost || !r->left || !strcmp(m->output, "-")) return;
  say(m->cli, "%lld kernel%s left to the host: %s: %.*s", (long long)r->nhost,
      r->nhost == 1 ? "" : "s", host_kernel_ops(&m->cli->arena, m->model->graph, &r->left[0]),
      (int)strcspn(r->left[0].why, "\n"), r->left[0].why);
  say(m->cli, r->nhost > 1 ? "; tenon explain says why of each\n" : "\n");
}

static void json_times(JsonWriter *w, const CompileCommand *m) {
  json_key(w, "stages");
  json_begin_object(w);
  for (int i = 0; i < m->nstages; i++) {
    json_key(w, m->stage[i].name);
    json_f64(w, m->stage[i].ms);
  }
  json_end_object(w);
  json_key(w, "kernel_list");
  json_begin_array(w);
  for (int64_t i = 0; m->made.target.kernel && i < m->made.target.nkernels; i++) {
    const KernelReport *k = &m->made.target.kernel[i];
    json_begin_object(w);
    json_key(w, "kernel");
    json_cstr(w, k->label);
    json_key(w, "name");
    json_cstr(w, k->name);
    json_key(w, "ms");
    json_f64(w, k->ms);
    json_key(w, "cached");
    json_bool(w, k->cached);
    json_key(w, "bytes");
    json_i64(w, k->bytes);
    json_end_object(w);
  }
  json_end_array(w);
}

static void json_variants(JsonWriter *w, const CompileCommand *m) {
  json_key(w, "variants");
  json_begin_array(w);
  for (int i = 0; i < m->nvariants; i++) {
    json_begin_object(w);
    json_key(w, "target");
    json_cstr(w, program_target(m->variant[i], &m->cli->arena));
    json_key(w, "kernels");
    json_i64(w, m->variant[i]->nkernels);
    json_key(w, "constant_bytes");
    json_i64(w, m->variant[i]->constants_bytes);
    json_key(w, "code_bytes");
    json_i64(w, code_bytes(m->variant[i]));
    json_end_object(w);
  }
  json_end_array(w);
}

static void print_json(CompileCommand *m) {
  StrBuf b;
  JsonWriter w;
  const Program *p = m->program;
  strbuf_init(&b, &m->cli->arena);
  json_init(&w, &b, false);
  json_begin_object(&w);
  json_key(&w, "model");
  json_cstr(&w, m->cli->pos[0]);
  json_key(&w, "output");
  json_cstr(&w, m->output);
  json_key(&w, "target");
  json_cstr(&w, m->target->name);
  json_variants(&w, m);
  json_key(&w, "kernels");
  json_i64(&w, p->nkernels);
  json_key(&w, "cached_kernels");
  json_i64(&w, ncached(m));
  json_key(&w, "steps");
  json_i64(&w, m->nsteps);
  json_key(&w, "host_steps");
  json_i64(&w, m->nhost);
  json_key(&w, "kernels_left_to_the_host");
  json_i64(&w, m->made.target.nhost);
  json_declined(&w, &m->made);
  json_key(&w, "constant_bytes");
  json_i64(&w, p->constants_bytes);
  json_key(&w, "code_bytes");
  json_i64(&w, code_bytes(p));
  json_key(&w, "compile_ms");
  json_f64(&w, total_ms(m));
  json_times(&w, m);
  json_end_object(&w);
  cli_print(&b);
}

// ---- the command ----
// What is written: by --emit, else by the ending of the output's name.
static bool choose_emit(CompileCommand *m) {
  const char *word = opt_text(m->cli, OPT_compile_emit, NULL);
  const char *output = opt_text(m->cli, OPT_compile_output, "");
  for (int i = 0; i < EMIT_COUNT; i++) {
    bool ends = *emits[i].ending && str_ends(str_of(output), emits[i].ending);
    if (word ? !strcmp(word, emits[i].name) : ends) {
      m->emit = (Emit)i;
      return true;
    }
  }
  return !word;
}

// MODEL without its folder and ending.
static const char *default_output(const CompileCommand *m) {
  Cli *c = m->cli;
  const char *model = c->pos[0], *slash = strrchr(model, '/'), *base = slash ? slash + 1 : model;
  const char *dot = strrchr(base, '.');
  int n = (int)(dot && dot > base ? dot - base : (int64_t)strlen(base));
  if (!strcmp(model, "-")) base = "model", n = 5;
  return str_printf(&c->arena, "%.*s%s", n, base, emits[m->emit].ending);
}

// The machine that code is made for: this one, and what is said otherwise.  A CPU has its own
// features, and so has another architecture.
static int choose_machine(CompileCommand *m) {
  Cli *c = m->cli;
  Machine host;
  Diag *d = arena_new(&c->arena, Diag);
  diag_init(d);
  machine_host(&host);
  m->machine = host;
  const char *triple = opt_text(c, OPT_compile_triple, NULL),
             *cpu = opt_text(c, OPT_compile_cpu, "");
  const char *features = opt_text(c, OPT_compile_features, "");
  if (!triple && !*cpu && !*features) return CLI_OK;
  bool here = !triple && !*cpu;
  if (here)
    features = str_printf(&c->arena, "%s%s%s", host.features, *host.features ? "," : "", features);
  tenon_status s = machine_make(str_of(triple ? triple : host.triple),
                                str_of(here ? host.cpu : cpu), str_of(features), &m->machine, d);
  return s ? cli_usage(c, "compile: %s", d->text) : CLI_OK;
}

// Each --target is a variant of the file.
static int choose_targets(CompileCommand *m, bool source) {
  Cli *c = m->cli;
  const OptionValue *given = &c->opt[OPT_compile_target];
  if (given->count > ARTIFACT_VARIANTS)
    return cli_usage(c, "compile: a file holds at most %d variants", ARTIFACT_VARIANTS);
  m->nwanted = (int)MAX(given->count, 1);
  for (int i = 0; i < m->nwanted; i++) {
    const char *name = given->count ? given->text[i] : source ? "c" : "auto";
    m->wanted[i] = strcmp(name, "auto") ? target_find(name) : target_auto();
    // A file without code is asked for by name, or a mistake: cpu says what it lacks.
    if (m->wanted[i] && m->wanted[i]->host_only && strcmp(name, "host"))
      m->wanted[i] = target_find("cpu");
    if (!m->wanted[i])
      return cli_usage(c, "compile: unknown target '%s'%s", name, target_hint(name, &c->arena));
    for (int k = 0; k < i; k++)
      if (m->wanted[k] == m->wanted[i])
        return cli_usage(c, "compile: target %s is given twice", m->wanted[i]->name);
  }
  m->target = m->wanted[0];
  for (int i = 0; i < m->nwanted && m->nwanted > 1; i++)
    if (!strcmp(m->wanted[i]->name, "c"))
      return cli_usage(c, "compile: C source is a file of its own, no variant of another");
  return CLI_OK;
}

// Only a file for the library holds what devices run; what is asked of devices must fit a variant.
static int check_device(const CompileCommand *m) {
  Cli *c = m->cli;
  bool device = false, split = false;
  for (int i = 0; i < m->nwanted; i++) {
    device |= m->wanted[i]->driver != NULL;
    split |= m->wanted[i]->with != NULL;
  }
  if (m->nwanted > 1 && !device && opt_given(c, OPT_compile_device))
    return cli_usage(c, "compile: --device goes with a target that has devices");
  if (m->nwanted > 1 && !split && opt_given(c, OPT_compile_place))
    return cli_usage(c, "compile: --place goes with two targets for one graph, as in cpu,opencl");
  if (device && m->emit != EMIT_TENON)
    return cli_usage(c,
                     "compile: --emit=%s is of the CPU's code alone; for target %s write a .tenon "
                     "file, which the library loads",
                     emits[m->emit].name, m->target->name);
  return CLI_OK;
}

// What is written besides what the command line names.
static int add_outputs(const CompileCommand *m, const char *header) {
  Cli *c = m->cli;
  int rc = CLI_OK;
  if (!opt_given(c, OPT_compile_output)) rc = files_output(c, m->output, "the default output");
  if (!rc && header) rc = files_output(c, header, "the header");
  return rc;
}

static int choose(CompileCommand *m) {
  Cli *c = m->cli;
  bool source = str_ends(str_of(opt_text(c, OPT_compile_output, "")), ".c") ||
                !strcmp(opt_text(c, OPT_compile_emit, ""), "c");
  Machine host;
  machine_host(&host);
  int rc = choose_targets(m, source);
  if (rc) return rc;
  if (!choose_emit(m))
    return cli_usage(c, "compile: --emit takes tenon, c, obj, so, exe, llvm or asm, not '%s'",
                     opt_text(c, OPT_compile_emit, ""));
  if (!strcmp(m->target->name, "c") != (m->emit == EMIT_C)) {
    if (opt_given(c, OPT_compile_emit) || m->emit == EMIT_C)
      return cli_usage(c, "compile: --target c writes C, and no other target does");
    m->emit = EMIT_C;
  }
  if (m->nwanted > 1 && m->emit != EMIT_TENON)
    return cli_usage(c, "compile: only a .tenon file holds variants for several targets");
  rc = check_device(m);
  if (!rc) rc = choose_machine(m);
  if (rc) return rc;
  if (m->emit != EMIT_C && !machine_is_linux(&m->machine))
    return cli_usage(
        c,
        "compile: nothing could load the code for '%s': Tenon's runtime is for Linux, such as "
        "aarch64-linux-gnu; for other systems write C source: --target c",
        m->machine.triple);
  bool linked = m->emit == EMIT_SO || m->emit == EMIT_EXE;
  if (linked && m->machine.arch != host.arch)
    return cli_usage(c,
                     "compile: only --emit=tenon, obj, llvm and asm are made for other machines");
  m->output = opt_text(c, OPT_compile_output, default_output(m));
  if (m->emit == EMIT_C) {
    rc = compile_c_choose(c, m->output, &m->machine, &m->c);
    return rc ? rc : add_outputs(m, m->c.header);
  }
  if (opt_given(c, OPT_compile_weights_out) && !linked && m->emit != EMIT_OBJ)
    return cli_usage(c, "compile: --weights-out goes with --emit=c, obj, so and exe");
  if (!strcmp(m->output, "-") && (linked || m->emit == EMIT_OBJ))
    return cli_usage(c, "compile: this output needs a name: -o F%s", emits[m->emit].ending);
  if (!strcmp(m->output, "-") && m->emit == EMIT_TENON && isatty(1))
    return cli_usage(c, "compile: a compiled model is no text for a terminal; give -o F.tenon");
  return add_outputs(m, m->emit == EMIT_OBJ || m->emit == EMIT_SO ? header_of(m) : NULL);
}

int cmd_compile(Cli *c) {
  // In the arena, since a trap may pass over this frame.
  CompileCommand *m = arena_new(&c->arena, CompileCommand);
  m->cli = c;
  int rc = choose(m);
  if (!rc) rc = fixed_read(c, &c->opt[OPT_compile_fix], &m->options);
  if (!rc)
    rc = foreign_read(c, &c->opt[OPT_compile_type], &c->opt[OPT_compile_weights], &m->options);
  if (!rc) rc = cli_exit_of(compile_all(m));
  if (!rc && opt_given(c, OPT_compile_timings)) print_times(m);
  if (!rc && opt_given(c, OPT_compile_json))
    print_json(m);
  else if (!rc)
    print_text(m), print_host(m);
  for (int i = 0; i < m->nvariants; i++) program_release((Program *)(uintptr_t)m->variant[i]);
  model_free(m->model);
  return rc;
}
