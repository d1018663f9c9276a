// explain_steps.c -- steps and copies of a program for several machines (explain_steps.h).
#include "cli/explain/explain_steps.h"

static const char *device_name(const Program *p, int device) {
  return device ? p->device[device].driver : "cpu";
}

static int64_t value_bytes(const Program *p, const ProgValue *v, const int64_t *sym) {
  int64_t n = 1, bytes, d;
  for (int32_t i = 0; i < v->rank; i++)
    if (v->dim[i] < 0 || !prog_eval(p, v->dim[i], sym, &d) || !ck_mul(n, d, &n)) return -1;
  return v->rank >= 0 && dtype_bytes(v->dtype, n, &bytes) ? bytes : -1;
}

// The program's symbols have the graph's names.
static int64_t *symbol_values(Cli *c, const Program *p, const Graph *g, const DimBinding *b) {
  int64_t *v = arena_array(&c->arena, int64_t, MAX(p->nsyms, 1));
  for (int32_t i = 0; i < p->nsyms; i++) {
    v[i] = SYM_UNBOUND;
    for (int32_t k = 0; k < b->n && k < g->dims.sym.n; k++)
      if (b->known[k] && !strcmp(g->dims.sym.v[k]->name, p->sym[i].name)) v[i] = b->value[k];
  }
  return v;
}

void explain_steps(Cli *c, const Program *p, const Graph *g, const DimBinding *sizes,
                   MovedSteps *out) {
  const ProgFunction *f = p->function[0];
  const int64_t *sym = symbol_values(c, p, g, sizes);
  for (int32_t i = 0; i < f->nsteps; i++) {
    const ProgStep *s = &f->step[i];
    MovedStep m = {.step = s, .device = "cpu", .kernel = "", .why = "", .bytes = -1};
    int from = s->nin && s->in[0] >= 0 ? f->value[s->in[0]].device : 0;
    int to = s->nout ? f->value[s->out[0]].device : 0;
    if (s->kind == STEP_VIEW || (s->kind == STEP_COPY && from == to)) continue;
    if (s->kind == STEP_KERNEL) {
      m.device = device_name(p, p->kernel[s->kernel].device);
      m.kernel = s->op;
    } else if (s->kind == STEP_COPY) {
      m.copy = true;
      m.device = device_name(p, to);
      m.bytes = value_bytes(p, &f->value[s->out[0]], sym);
      out->copies++;
      out->copied += MAX(m.bytes, 0);
    } else {
      m.why = s->op;
    }
    vec_push(&c->arena, &out->list, m);
  }
}

void print_steps(Cli *c, const MovedSteps *s) {
  NumText n;
  if (!s->list.n) return;
  say(c, "\n%6s  %-8s %12s  %s\n", "step", "on", "copied", "kernel");
  for (int64_t i = 0; i < s->list.n; i++) {
    const MovedStep *m = &s->list.v[i];
    const char *node = m->step->node ? m->step->node : "-";
    if (m->copy)
      say(c, "%6lld  > %-6s %12s  %s\n", (long long)i, m->device,
          m->bytes < 0 ? "?" : text_bytes(&n, m->bytes), node);
    else
      say(c, "%6lld  %-8s %12s  %s%s: %s\n", (long long)i, m->device, "", m->kernel,
          *m->why ? str_printf(&c->arena, "%s by its evaluation", m->why) : "", node);
  }
  say(c, "%lld copies between machines, %s\n", (long long)s->copies, text_bytes(&n, s->copied));
}

void json_steps(JsonWriter *w, const MovedSteps *s) {
  json_key(w, "steps");
  json_begin_array(w);
  for (int64_t i = 0; i < s->list.n; i++) {
    const MovedStep *m = &s->list.v[i];
    json_begin_object(w);
    json_key(w, "kind");
    json_cstr(w, m->copy ? "copy" : *m->kernel ? "kernel" : "evaluation");
    json_key(w, "on");
    json_cstr(w, m->device);
    json_key(w, "node");
    json_cstr(w, m->step->node);
    json_key(w, "name");
    json_cstr(w, *m->kernel ? m->kernel : m->why);
    json_key(w, "copied_bytes");
    json_i64(w, m->copy ? m->bytes : 0);
    json_end_object(w);
  }
  json_end_array(w);
}
