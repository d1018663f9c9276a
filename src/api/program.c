// program.c -- the public interface: compiled models.
//
// What a program takes and gives is told by the program itself, so that one read from a file says
// the same as one that was just made.
#include "api/api.h"

tenon_program *tenon_program_retain(tenon_program *p) {
  if (p) atomic_fetch_add(&p->refs, 1);
  return p;
}

void tenon_program_release(tenon_program *p) {
  if (!p || atomic_fetch_sub(&p->refs, 1) > 1) return;
  program_release(p->program);
  arena_deinit(&p->arena);
  mem_free(p, (int64_t)sizeof(*p));
}

// ---- sizes in words ----

static const char *group(Arena *a, const char *s) {
  return strpbrk(s, " +*/%") ? str_printf(a, "(%s)", s) : s;
}

static const char *apply(Arena *a, int64_t op, const char *x, const char *y) {
  switch ((ProgOp)op) {
  case PX_ADD: return str_printf(a, "%s + %s", x, y);
  case PX_MUL: return str_printf(a, "%s*%s", group(a, x), group(a, y));
  case PX_DIV: return str_printf(a, "%s / %s", group(a, x), group(a, y));
  case PX_MOD: return str_printf(a, "%s %% %s", group(a, x), group(a, y));
  case PX_MIN: return str_printf(a, "min(%s, %s)", x, y);
  case PX_MAX: return str_printf(a, "max(%s, %s)", x, y);
  case PX_BCAST: return str_printf(a, "bcast(%s, %s)", x, y);
  case PX_CONST:
  case PX_SYM:
  case PX_OPS: break;
  }
  return "?";
}

static const char *expr_text(Arena *a, const Program *p, int32_t expr) {
  const char *stack[PX_STACK];
  int top = 0;
  if (expr < 0) return "?";
  const ProgExpr *e = &p->expr[expr];
  for (int32_t i = 0; i < e->n; i++) {
    int64_t op = e->code[i];
    if (op == PX_CONST) {
      stack[top++] = str_printf(a, "%lld", (long long)e->code[++i]);
    } else if (op == PX_SYM) {
      stack[top++] = p->sym[e->code[++i]].name;
    } else {
      top--;
      stack[top - 1] = apply(a, op, stack[top - 1], stack[top]);
    }
  }
  return stack[0];
}

static bool is_number(const Program *p, int32_t expr, int64_t *out) {
  const ProgExpr *e = expr < 0 ? NULL : &p->expr[expr];
  if (!e || e->n != 2 || e->code[0] != PX_CONST) return false;
  *out = e->code[1];
  return true;
}

// ---- what it takes and gives ----

// "seq(f32[*])": the program knows the element type of what a list holds, and no key type of a map.
static const char *list_type(tenon_program *p, const ProgValue *v) {
  static const char *const open[] = {
      [VK_TENSOR] = "", [VK_SEQUENCE] = "seq(", [VK_OPTIONAL] = "opt(", [VK_MAP] = "map(?, "};
  StrBuf b;
  strbuf_init(&b, &p->arena);
  strbuf_puts(&b, open[v->kind]);
  strbuf_puts(&b, open[v->item]);
  strbuf_printf(&b, "%s[*])%s", v->dtype ? dtype_name(v->dtype) : "?", v->item ? ")" : "");
  return strbuf_text(&b);
}

static void describe(tenon_program *p, const ProgValue *v, const char *name,
                     tenon_value_info *out) {
  static const tenon_kind kind[] = {[VK_TENSOR] = TENON_KIND_TENSOR,
                                    [VK_SEQUENCE] = TENON_KIND_SEQUENCE,
                                    [VK_OPTIONAL] = TENON_KIND_OPTIONAL,
                                    [VK_MAP] = TENON_KIND_MAP};
  StrBuf b;
  out->name = name ? str_copy(&p->arena, str_of(name)) : "";
  out->kind = kind[v->kind];
  out->rank = -1;
  if (v->kind != VK_TENSOR) {
    out->type = list_type(p, v);
    return;
  }
  out->dtype = v->dtype;
  out->rank = v->rank;
  strbuf_init(&b, &p->arena);
  strbuf_printf(&b, "%s[", v->dtype ? dtype_name(v->dtype) : "?");
  for (int32_t i = 0; i < v->rank; i++) {
    if (!is_number(p->program, v->dim[i], &out->shape[i])) {
      out->shape[i] = -1;
      out->symbol[i] = expr_text(&p->arena, p->program, v->dim[i]);
    }
    strbuf_puts(&b, i ? ", " : "");
    if (out->symbol[i])
      strbuf_puts(&b, out->symbol[i]);
    else
      strbuf_printf(&b, "%lld", (long long)out->shape[i]);
  }
  strbuf_puts(&b, v->rank < 0 ? "*]" : "]");
  out->type = strbuf_text(&b);
}

void api_describe_program(tenon_program *p) {
  const ProgFunction *f = p->program->function[0];
  p->ninputs = (size_t)f->nparams;
  p->noutputs = (size_t)f->nresults;
  p->input = arena_array(&p->arena, tenon_value_info, MAX(f->nparams, 1));
  p->output = arena_array(&p->arena, tenon_value_info, MAX(f->nresults, 1));
  for (int32_t i = 0; i < f->nparams; i++)
    describe(p, &f->value[f->param[i]], f->value[f->param[i]].name, &p->input[i]);
  for (int32_t i = 0; i < f->nresults; i++)
    describe(p, &f->value[f->result[i]], f->result_name[i], &p->output[i]);
}

size_t tenon_program_input_count(const tenon_program *p) { return p ? p->ninputs : 0; }
size_t tenon_program_output_count(const tenon_program *p) { return p ? p->noutputs : 0; }

tenon_status tenon_program_input(const tenon_program *p, size_t i, tenon_value_info *out) {
  if (!out) return TENON_EINVAL;
  *out = (tenon_value_info){0};
  if (i >= tenon_program_input_count(p)) return TENON_EINVAL;
  *out = p->input[i];
  return TENON_OK;
}

tenon_status tenon_program_output(const tenon_program *p, size_t i, tenon_value_info *out) {
  if (!out) return TENON_EINVAL;
  *out = (tenon_value_info){0};
  if (i >= tenon_program_output_count(p)) return TENON_EINVAL;
  *out = p->output[i];
  return TENON_OK;
}

size_t tenon_program_option_count(const tenon_program *p) {
  return p ? (size_t)p->program->noptions : 0;
}

const char *tenon_program_option(const tenon_program *p, size_t i) {
  return i < tenon_program_option_count(p) ? p->program->option[i] : NULL;
}

size_t tenon_program_warning_count(const tenon_program *p) { return p ? p->nwarnings : 0; }

const char *tenon_program_warning(const tenon_program *p, size_t i) {
  return i < tenon_program_warning_count(p) ? p->warning[i] : NULL;
}

void tenon_program_describe(const tenon_program *p, tenon_program_info *out) {
  if (!out) return;
  *out = (tenon_program_info){0};
  if (!p) return;
  const ProgFunction *f = p->program->function[0];
  *out = (tenon_program_info){.target = p->target,
                              .kernels = p->program->nkernels,
                              .steps = f->nsteps,
                              .code_bytes = p->program->code_bytes,
                              .constant_bytes = p->program->constants_bytes};
  for (int32_t i = 0; i < f->nsteps; i++) out->host_steps += f->step[i].kind == STEP_HOST;
}
