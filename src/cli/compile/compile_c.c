// compile_c.c -- options and files of `tenon compile --target c` (compile_c.h).
#include "cli/compile/compile_c.h"

#include "base/npy.h"
#include "base/platform.h"
#include "ir/fix.h"
#include "targets/object.h"

static const char *with_ending(Cli *c, const char *path, const char *ending) {
  int64_t n = (int64_t)strlen(path);
  if (str_ends(str_of(path), ".c")) n -= 2;
  return str_printf(&c->arena, "%.*s%s", (int)n, path, ending);
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

int compile_c_choose(Cli *c, const char *output, Machine *m, CompileC *out) {
  LowerTarget lt;
  bool embedded = opt_given(c, OPT_compile_embedded), one = opt_given(c, OPT_compile_single_file);
  if (!strcmp(output, "-") && !one)
    return cli_usage(c, "compile: two files need a name: -o F.c, or --single-file");
  if (embedded) {  // no vectors, and little of everything
    m->has = 0;
    m->vector_bytes = 16;
    m->l1_bytes = 16 << 10;
    m->l2_bytes = 64 << 10;
  }
  c_describe(m, &lt);
  *out = (CompileC){.output = output, .weights = opt_text(c, OPT_compile_weights_out, NULL)};
  if (!one) out->header = with_ending(c, output, ".h");
  out->options =
      (CSourceOptions){.symbol = strcmp(output, "-") ? object_symbol(&c->arena, output) : "model",
                       .header = out->header ? base_name(out->header) : NULL,
                       .vector_bytes = embedded ? 0 : lt.vector_bytes,
                       .external_weights = out->weights != NULL,
                       .embedded = embedded,
                       .arena_attribute = opt_text(c, OPT_compile_arena_attribute, NULL),
                       .weights_attribute = opt_text(c, OPT_compile_weights_attribute, NULL)};
  return CLI_OK;
}

tenon_status compile_c_write(Cli *c, const CompileC *o) {
  if (o->weights) TRY(file_write(o->weights, o->source.weights.p, o->source.weights.n, &c->diag));
  if (o->header) TRY(file_write(o->header, o->source.header.p, o->source.header.n, &c->diag));
  return file_write(o->output, o->source.source.p, o->source.source.n, &c->diag);
}

static tenon_status read_fixed(Cli *c, Graph *g, const char *text, FixedInput *out) {
  const char *name, *path;
  if (!opt_split(c, text, &name, &path))
    return fail(&c->diag, TENON_EINVAL, NOWHERE, "--constant takes NAME=F.npy, not '%s'", text);
  for (out->param = 0; out->param < g->main->nparams; out->param++)
    if (!strcmp(g->main->param[out->param]->name, name)) break;
  if (out->param == g->main->nparams)
    return fail(&c->diag, TENON_EINVAL, NOWHERE, "the model has no input '%s'", name);
  File f;
  NdArray v;
  const Type *t = type_of(g->main->param[out->param]);
  TRY(file_open(path, &f, &c->diag));
  tenon_status s = npy_read(&c->arena, (Str){(const char *)f.bytes, f.size}, &c->diag, &v);
  if (!s && t->kind == TK_TENSOR && t->dtype) s = nd_convert(&c->arena, &v, t->dtype, &c->diag);
  if (!s) {
    *out = (FixedInput){out->param, v.dtype, v.rank,
                        arena_dup(&c->arena, v.dims, MAX(v.rank, 1) * (int64_t)sizeof *v.dims),
                        arena_dup(&c->arena, v.data, MAX(v.bytes, 1))};
  }
  file_close(&f);
  return s;
}

tenon_status compile_constants(Cli *c, Graph *g) {
  const OptionValue *v = &c->opt[OPT_compile_constant];
  if (!v->count) return TENON_OK;
  FixedInput *list = arena_array(&c->arena, FixedInput, v->count);
  for (int64_t i = 0; i < v->count; i++) TRY(read_fixed(c, g, v->text[i], &list[i]));
  return graph_fix(g, list, v->count);
}
