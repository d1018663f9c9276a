// header.c -- the C header of a generated model: sizes, function, error text (c.h).
//
// Needs:      the model's inputs and outputs are ones that C holds (c_not_held).
// Guarantees: parameter names are unique C identifiers made from the model's names.  Constant sizes
//             are macros.  With dynamic sizes the header declares SYMBOL_release.
#include "targets/c/emit.h"
#include "targets/object.h"

#include <ctype.h>

typedef struct Names {
  CModel *m;
  StrMap taken;
  StrBuf params, in, out, dims, doc;
} Names;

static const char *fresh(Names *n, const char *text, const char *otherwise) {
  const char *base = cstyle_identifier(n->m->arena, str_of(text && *text ? text : otherwise)),
             *name = base;
  for (int i = 2; strmap_has(&n->taken, str_of(name)); i++)
    name = str_printf(n->m->arena, "%s_%d", base, i);
  strmap_put(&n->taken, str_of(name), n);
  return name;
}

static void add_value(Names *n, const ProgValue *v, const char *text, bool input) {
  CModel *m = n->m;
  const char *type = v->kind == VK_TENSOR ? c_type(v->dtype) : NULL;
  if (!type) {
    c_refuse(m, NULL, "C has no type for an input or output: compile to a .tenon file");
    return;
  }
  const char *name = fresh(n, text, input ? "input" : "output");
  StrBuf *list = input ? &n->in : &n->out;
  strbuf_printf(&n->params, "%s%s%s *%s", n->params.n ? ", " : "", input ? "const " : "", type,
                name);
  strbuf_printf(list, "%s, ", name);
  strbuf_printf(&n->doc, " *   %s %s: %s[", input ? "in " : "out", name, dtype_name(v->dtype));
  for (int32_t i = 0; i < v->rank; i++)
    strbuf_printf(&n->doc, "%s%s", i ? ", " : "", v->dim[i] < 0 ? "?" : c_expr(m, v->dim[i]));
  strbuf_puts(&n->doc, "]\n");
}

static const char *upper(Arena *a, const char *text) {
  char *s = str_printf(a, "%s", text);
  for (char *p = s; *p; p++) *p = (char)toupper((unsigned char)*p);
  return s;
}

static void put_sizes(CModel *m, const char *big, StrBuf *b) {
  for (int32_t i = 0; i < m->p->nconsts; i++)
    if (m->const_used[i]) m->weights_bytes += m->p->constant[i].bytes;
  if (!m->symbolic)
    strbuf_printf(b, "#define %s_ARENA_BYTES %lld\n", big, (long long)m->arena_bytes);
  strbuf_printf(b, "#define %s_SCRATCH_BYTES %lld\n", big, (long long)m->scratch_bytes);
  strbuf_printf(b, "#define %s_WEIGHT_BYTES %lld\n", big, (long long)m->weights_bytes);
  strbuf_printf(b, "#define %s_STACK_BYTES %lld /* at most, besides the C library's own */\n\n",
                big, (long long)m->stack_bytes);
}

tenon_status c_header(CModel *m, StrBuf *b, StrBuf *wrapper) {
  Names n = {.m = m};
  const ProgFunction *f = m->p->function[0];
  const char *s = m->o->symbol, *big = upper(m->arena, s);
  strmap_init(&n.taken, m->arena);
  StrBuf *all[] = {&n.params, &n.in, &n.out, &n.dims, &n.doc};
  for (int i = 0; i < 5; i++) strbuf_init(all[i], m->arena);
  static const char *const ours[] = {"in", "out", "dims"};
  for (int i = 0; i < 3; i++) strmap_put(&n.taken, str_of(ours[i]), m);
  strmap_put(&n.taken, str_of(s), m);
  for (int32_t i = 0; i < f->nparams; i++)
    add_value(&n, &f->value[f->param[i]], f->value[f->param[i]].name, true);
  for (int32_t i = 0; i < m->p->nsyms; i++) {
    if (!prog_sym_is_input(m->p, i)) continue;
    const char *name = fresh(&n, m->p->sym[i].name, "size");
    strbuf_printf(&n.params, "%sint64_t %s", n.params.n ? ", " : "", name);
    strbuf_printf(&n.dims, "%s, ", name);
  }
  for (int32_t i = 0; i < f->nresults; i++)
    add_value(&n, &f->value[f->result[i]], f->result_name[i], false);
  for (int64_t i = 0; i + 1 < n.doc.n; i++)
    if (n.doc.p[i] == '*' && n.doc.p[i + 1] == '/') n.doc.p[i + 1] = ' ';
  put_sizes(m, big, b);
  strbuf_printf(b,
                "/* Runs the model; 0, or what %s_error has words for.  Memory is static: one call "
                "at a time.\n"
                " * Elements are dense and row-major.\n%s */\nint %s(%s);\n",
                s, strbuf_text(&n.doc), s, n.params.n ? strbuf_text(&n.params) : "void");
  strbuf_printf(b,
                "/* The same with lists of addresses, and of the dynamic sizes. */\n"
                "int %s_run(const void *const *in, const int64_t *dims, void *const *out);\n"
                "const char *%s_error(int code);\n",
                s, s);
  if (m->symbolic)
    strbuf_printf(
        b, "/* Gives back the memory that is kept from call to call. */\nvoid %s_release(void);\n",
        s);
  if (m->o->external_weights)
    strbuf_printf(b,
                  "/* Before the first call: where the weights lie, at a multiple of 64 bytes. */\n"
                  "void %s_weights(const void *bytes);\n",
                  s);
  strbuf_printf(wrapper, "\nint %s(%s) {\n  const void *const in_list[] = {%sNULL};\n", s,
                n.params.n ? strbuf_text(&n.params) : "void", strbuf_text(&n.in));
  strbuf_printf(wrapper,
                "  void *const out_list[] = {%sNULL};\n  const int64_t dim_list[] = {%s0};\n",
                strbuf_text(&n.out), strbuf_text(&n.dims));
  strbuf_printf(wrapper, "  return %s_run(in_list, dim_list, out_list);\n}\n", s);
  return TENON_OK;
}
