// inspect_compiled.c -- `tenon inspect` of a compiled model.
#include "cli/inspect/inspect.h"
#include "cli/tensors.h"

#include "runtime/artifact.h"

typedef struct KernelUse {
  int64_t calls;
  double flops;
} KernelUse;

static KernelUse *kernel_uses(Cli *c, const Program *p) {
  KernelUse *use = arena_array(&c->arena, KernelUse, p->nkernels + 1);
  for (int32_t i = 0; i < p->nfunctions; i++)
    for (int32_t k = 0; k < p->function[i]->nsteps; k++) {
      const ProgStep *s = &p->function[i]->step[k];
      if (s->kind == STEP_KERNEL) use[s->kernel].calls++;
    }
  return use;
}

// Kernel calls that share a step with others.
static int64_t count_concurrent(const Program *p) {
  int64_t n = 0;
  for (int32_t i = 0; i < p->nfunctions; i++)
    for (int32_t k = 0; k < p->function[i]->nsteps; k++) {
      int32_t more = p->function[i]->step[k].more;
      n += more ? more + 1 : 0;
    }
  return n;
}

static int64_t count_kind(const Program *p, ProgStepKind kind) {
  int64_t n = 0;
  for (int32_t i = 0; i < p->nfunctions; i++)
    for (int32_t k = 0; k < p->function[i]->nsteps; k++) n += p->function[i]->step[k].kind == kind;
  return n;
}

// Copies from one device's memory to another's.
static int64_t count_moves(const Program *p) {
  int64_t n = 0;
  for (int32_t i = 0; i < p->nfunctions; i++)
    for (int32_t k = 0; k < p->function[i]->nsteps; k++) {
      const ProgFunction *f = p->function[i];
      const ProgStep *s = &f->step[k];
      n += s->kind == STEP_COPY && f->value[s->in[0]].device != f->value[s->out[0]].device;
    }
  return n;
}

// What the host does, each op once with its count.
typedef struct HostOp {
  const char *op;
  int64_t n;
} HostOp;
static int64_t host_ops(Cli *c, const Program *p, HostOp **out) {
  VEC(HostOp) ops = {0};
  for (int32_t i = 0; i < p->nfunctions; i++)
    for (int32_t k = 0; k < p->function[i]->nsteps; k++) {
      const ProgStep *s = &p->function[i]->step[k];
      int64_t at = 0;
      if (s->kind != STEP_HOST) continue;
      while (at < ops.n && strcmp(ops.v[at].op, s->op)) at++;
      if (at == ops.n) vec_push(&c->arena, &ops, ((HostOp){.op = s->op}));
      ops.v[at].n++;
    }
  *out = ops.v;
  return ops.n;
}

static void print_variants(Cli *c, const ArtifactInfo *info) {
  for (int i = 0; i < info->nvariants && info->nvariants > 1; i++)
    say(c, "variant for %s: %s\n", info->variant[i].target,
        info->variant[i].why_not ? info->variant[i].why_not : "runs here; the rest is about it");
}

static void print_text(Cli *c, const Model *m, const ArtifactInfo *info) {
  const Program *p = m->program;
  const ProgFunction *f = p->function[0];
  NumText n[2];
  const KernelUse *use = kernel_uses(c, p);
  HostOp *host;
  say(c, "compiled model, format %u, by Tenon %s\n", info->version, info->maker);
  print_variants(c, info);
  say(c, "target %s\n", p->target ? p->target : "host");
  for (int32_t i = 0; i < p->noptions; i++) say(c, "option %s\n", p->option[i]);
  for (int32_t i = 0; i < f->nparams; i++)
    say(c, "input  %s  %s\n", model_input(m, i)->name,
        type_text(&c->arena, type_of(model_input(m, i))));
  for (int32_t i = 0; i < f->nresults; i++) say(c, "output %s\n", model_output_name(m, i));
  say(c, "steps  %lld kernel calls, %lld on the host, %lld views, %lld copies\n",
      (long long)count_kind(p, STEP_KERNEL), (long long)count_kind(p, STEP_HOST),
      (long long)count_kind(p, STEP_VIEW), (long long)count_kind(p, STEP_COPY));
  if (count_concurrent(p))
    say(c, "       %lld kernel calls run concurrently with others\n",
        (long long)count_concurrent(p));
  for (int32_t i = 1; i < p->ndevices; i++)
    say(c, "device %d: %s, made for %s, code of %s\n", i, p->device[i].driver,
        p->device[i].made_for ? p->device[i].made_for : "any",
        text_bytes(&n[0], p->device[i].code.n));
  if (p->ndevices) say(c, "       %lld copies between devices\n", (long long)count_moves(p));
  const ArtifactVariant *v = &info->variant[info->chosen];
  say(c, "%-10s %s\n", "plan", text_bytes(&n[0], v->plan_bytes));
  say(c, "%-10s %s\n", "constants", text_bytes(&n[0], info->constants_bytes));
  say(c, "%-10s %s\n", "code", text_bytes(&n[0], v->code_bytes));
  say(c, "%-10s %s\n", "file", text_bytes(&n[0], info->file_bytes));
  if (p->nkernels) say(c, "\n%6s %10s  kernel\n", "calls", "scratch");
  for (int32_t i = 0; i < p->nkernels; i++)
    say(c, "%6lld %10s  %s\n", (long long)use[i].calls,
        text_bytes(&n[0], p->kernel[i].scratch_bytes), p->kernel[i].name);
  int64_t nhost = host_ops(c, p, &host);
  if (nhost) say(c, "\n%6s  on the host\n", "calls");
  for (int64_t i = 0; i < nhost; i++) say(c, "%6lld  %s\n", (long long)host[i].n, host[i].op);
}

static void json_lists(JsonWriter *w, Cli *c, const Model *m) {
  const Program *p = m->program;
  const KernelUse *use = kernel_uses(c, p);
  HostOp *host;
  json_key(w, "kernels");
  json_begin_array(w);
  for (int32_t i = 0; i < p->nkernels; i++) {
    json_begin_object(w);
    json_key(w, "name");
    json_cstr(w, p->kernel[i].name);
    json_key(w, "calls");
    json_i64(w, use[i].calls);
    json_key(w, "device");
    json_i64(w, p->kernel[i].device);
    json_key(w, "scratch_bytes");
    json_i64(w, p->kernel[i].scratch_bytes);
    json_end_object(w);
  }
  json_end_array(w);
  json_key(w, "host_ops");
  json_begin_object(w);
  int64_t nhost = host_ops(c, p, &host);
  for (int64_t i = 0; i < nhost; i++) {
    json_key(w, host[i].op);
    json_i64(w, host[i].n);
  }
  json_end_object(w);
}

static void json_devices(JsonWriter *w, const Program *p) {
  json_key(w, "devices");
  json_begin_array(w);
  for (int32_t i = 1; i < p->ndevices; i++) {
    json_begin_object(w);
    json_key(w, "driver");
    json_cstr(w, p->device[i].driver);
    json_key(w, "made_for");
    json_cstr(w, p->device[i].made_for ? p->device[i].made_for : "");
    json_key(w, "code_bytes");
    json_i64(w, p->device[i].code.n);
    json_end_object(w);
  }
  json_end_array(w);
  json_key(w, "device_copies");
  json_i64(w, count_moves(p));
}

static void json_values(JsonWriter *w, Cli *c, const Model *m) {
  json_key(w, "inputs");
  json_begin_array(w);
  for (int64_t i = 0; i < model_ninputs(m); i++) {
    json_begin_object(w);
    json_key(w, "name");
    json_cstr(w, model_input(m, i)->name);
    json_key(w, "type");
    json_cstr(w, type_text(&c->arena, type_of(model_input(m, i))));
    json_end_object(w);
  }
  json_end_array(w);
  json_key(w, "outputs");
  json_begin_array(w);
  for (int64_t i = 0; i < model_noutputs(m); i++) json_cstr(w, model_output_name(m, i));
  json_end_array(w);
}

static void json_variants(JsonWriter *w, const ArtifactInfo *info) {
  json_key(w, "variants");
  json_begin_array(w);
  for (int i = 0; i < info->nvariants; i++) {
    const ArtifactVariant *v = &info->variant[i];
    json_begin_object(w);
    json_key(w, "target");
    json_cstr(w, v->target);
    json_key(w, "chosen");
    json_bool(w, !v->why_not);
    json_key(w, "why_not");
    json_cstr(w, v->why_not);
    json_key(w, "plan_bytes");
    json_i64(w, v->plan_bytes);
    json_key(w, "code_bytes");
    json_i64(w, v->code_bytes);
    json_end_object(w);
  }
  json_end_array(w);
}

static void print_json(Cli *c, const Model *m, const ArtifactInfo *info) {
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, &c->arena);
  json_init(&w, &b, false);
  json_begin_object(&w);
  json_key(&w, "model");
  json_cstr(&w, c->pos[0]);
  json_key(&w, "compiled");
  json_bool(&w, true);
  json_key(&w, "format_version");
  json_i64(&w, info->version);
  json_key(&w, "maker");
  json_cstr(&w, info->maker);
  json_variants(&w, info);
  json_key(&w, "target");
  json_cstr(&w, m->program->target);
  json_key(&w, "options");
  json_begin_flat_array(&w);
  for (int32_t i = 0; i < m->program->noptions; i++) json_cstr(&w, m->program->option[i]);
  json_end_array(&w);
  json_values(&w, c, m);
  json_key(&w, "steps");
  json_i64(&w, m->program->function[0]->nsteps);
  json_key(&w, "host_steps");
  json_i64(&w, count_kind(m->program, STEP_HOST));
  json_key(&w, "concurrent_kernels");
  json_i64(&w, count_concurrent(m->program));
  json_key(&w, "plan_bytes");
  json_i64(&w, info->variant[info->chosen].plan_bytes);
  json_key(&w, "constants_bytes");
  json_i64(&w, info->constants_bytes);
  json_key(&w, "code_bytes");
  json_i64(&w, info->variant[info->chosen].code_bytes);
  json_key(&w, "file_bytes");
  json_i64(&w, info->file_bytes);
  json_devices(&w, m->program);
  json_lists(&w, c, m);
  json_end_object(&w);
  cli_print(&b);
}

int inspect_compiled(Cli *c, const Model *m) {
  ArtifactInfo info;
  artifact_info(m->program, &info);
  if (opt_given(c, OPT_inspect_json))
    print_json(c, m, &info);
  else
    print_text(c, m, &info);
  return CLI_OK;
}
