// object_header.c -- writes the C header, or source, with a model's function (object.h).
//
// Inputs and outputs become parameters with unique C identifiers.  Sizes in comments are printed
// from the program's postfix expressions.
//
// Needs:      a complete program; `symbol` is a C identifier, such as object_symbol gives.
// Guarantees: EUNSUPPORTED for strings, and for outputs whose sizes do not follow from the inputs'.
//             Names from the model cannot end a comment or clash with keywords.
#include "targets/object.h"

#include <ctype.h>

static const char *const reserved[] = {
    "auto",   "break",    "case",   "char",     "const",    "continue", "default",  "do",
    "double", "else",     "enum",   "extern",   "float",    "for",      "goto",     "if",
    "inline", "int",      "long",   "register", "restrict", "return",   "short",    "signed",
    "sizeof", "static",   "struct", "switch",   "typedef",  "union",    "unsigned", "void",
    "while",  "volatile", "in",     "out",      "dims",     "error",    "bool",     "class"};

const char *c_type(DType t) {
  switch (t) {
  case DT_F32: return "float";
  case DT_F64: return "double";
  case DT_I8: return "int8_t";
  case DT_I16: return "int16_t";
  case DT_I32: return "int32_t";
  case DT_I64: return "int64_t";
  case DT_U16: return "uint16_t";
  case DT_U32: return "uint32_t";
  case DT_U64: return "uint64_t";
  case DT_C64: return "float";  // real and imaginary part in turn
  case DT_C128: return "double";
  case DT_F16:
  case DT_BF16: return "uint16_t";  // the bits
  case DT_STRING: return NULL;
  default: return "uint8_t";  // bool; narrow types as they are packed
  }
}

static const char *identifier(Arena *a, Str text) {
  char *s = str_printf(a, "%s%.*s", text.n && isalpha((unsigned char)text.p[0]) ? "" : "_",
                       STR_ARG(text));
  for (char *p = s; *p; p++)
    if (!isalnum((unsigned char)*p)) *p = '_';
  return s;
}

static bool is_reserved(const char *name) {
  for (int64_t i = 0; i < ARRAY_LEN(reserved); i++)
    if (!strcmp(name, reserved[i])) return true;
  return false;
}

// A function of C's own, main among them, would clash with one of this name.
const char *object_symbol(Arena *a, const char *path) {
  static const char *const taken[] = {"main", "abs", "div",    "exp",    "exit",
                                      "free", "log", "pow",    "printf", "read",
                                      "send", "sin", "system", "time",   "write"};
  const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path,
             *dot = strchr(base, '.');
  const char *name =
      identifier(a, (Str){base, dot && dot > base ? dot - base : (int64_t)strlen(base)});
  bool clash = is_reserved(name);
  for (int64_t i = 0; i < ARRAY_LEN(taken); i++) clash |= !strcmp(name, taken[i]);
  return clash ? str_printf(a, "model_%s", name) : name;
}

typedef struct Header {
  const Program *p;
  Arena *arena;
  StrMap names;
  StrBuf params, in, out, dims, doc;
  Diag *diag;
} Header;

// A name for a parameter that no other has.
static const char *fresh_name(Header *h, const char *text, const char *otherwise) {
  const char *base = identifier(h->arena, str_of(text && *text ? text : otherwise)), *name = base;
  for (int i = 2; strmap_has(&h->names, str_of(name)); i++)
    name = str_printf(h->arena, "%s_%d", base, i);
  strmap_put(&h->names, str_of(name), h);
  return name;
}

// "n * 3" of postfix code, for the comment.
static const char *expr_text(Header *h, int32_t expr) {
  const ProgExpr *e = &h->p->expr[expr];
  static const char *const sign[PX_OPS] = {[PX_ADD] = "%s + %s",
                                           [PX_MUL] = "%s * %s",
                                           [PX_DIV] = "(%s) / (%s)",
                                           [PX_MOD] = "(%s) %% (%s)",
                                           [PX_MIN] = "min(%s, %s)",
                                           [PX_MAX] = "max(%s, %s)",
                                           [PX_BCAST] = "broadcast(%s, %s)"};
  const char *stack[PX_STACK];
  int top = 0;
  for (int32_t i = 0; i < e->n; i++) {
    int64_t op = e->code[i];
    if (op == PX_CONST)
      stack[top++] = str_printf(h->arena, "%lld", (long long)e->code[++i]);
    else if (op == PX_SYM)
      stack[top++] = h->p->sym[e->code[++i]].name;
    else {
      top--;
      StrBuf b;
      strbuf_init(&b, h->arena);
      for (const char *f = sign[op], *arg = stack[top - 1]; *f; f++)
        if (f[0] == '%' && f[1] == 's') {
          strbuf_puts(&b, arg);
          arg = stack[top];
          f++;
        } else if (f[0] != '%' || f[1] != '%') {
          strbuf_putc(&b, *f);
        }
      stack[top - 1] = strbuf_text(&b);
    }
  }
  return stack[0];
}

static tenon_status add_value(Header *h, const ProgValue *v, const char *name, bool input) {
  const char *type = c_type(v->dtype);
  bool known = v->kind == VK_TENSOR && v->rank >= 0 && type;
  for (int32_t i = 0; known && i < v->rank; i++) known = v->dim[i] >= 0;
  if (!known)
    return fail(h->diag, TENON_EUNSUPPORTED, (Where){.node = name},
                "C has no type for this %s, or its size depends on data: compile to a .tenon file",
                input ? "input" : "output");
  StrBuf *args = input ? &h->in : &h->out;
  const char *c = fresh_name(h, name, input ? "input" : "output");
  strbuf_printf(&h->params, "%s%s%s *%s", h->params.n ? ", " : "", input ? "const " : "", type, c);
  strbuf_printf(args, "%s%s", args->n ? ", " : "", c);
  strbuf_printf(&h->doc, " *   %-6s %s: %s[", input ? "input" : "output", c, dtype_name(v->dtype));
  for (int32_t i = 0; i < v->rank; i++)
    strbuf_printf(&h->doc, "%s%s", i ? ", " : "", expr_text(h, v->dim[i]));
  strbuf_puts(&h->doc, "]\n");
  return TENON_OK;
}

// Sizes of results must follow from those of inputs.
static tenon_status check_symbols(Header *h, const ProgValue *v, const char *name) {
  for (int32_t i = 0; i < v->rank; i++) {
    const ProgExpr *e = &h->p->expr[v->dim[i]];
    for (int32_t k = 0; k < e->n; k++) {
      int64_t op = e->code[k];
      if (op != PX_SYM && op != PX_CONST) continue;
      k++;
      if (op == PX_SYM && !prog_sym_is_input(h->p, (int32_t)e->code[k]))
        return fail(h->diag, TENON_EUNSUPPORTED, (Where){.node = name},
                    "the size of this output depends on data: compile to a .tenon file");
    }
  }
  return TENON_OK;
}

static tenon_status collect(Header *h) {
  const ProgFunction *f = h->p->function[0];
  for (int64_t i = 0; i < ARRAY_LEN(reserved); i++) strmap_put(&h->names, str_of(reserved[i]), h);
  for (int32_t i = 0; i < f->nparams; i++) {
    const ProgValue *v = &f->value[f->param[i]];
    TRY(add_value(h, v, v->name, true));
  }
  for (int32_t i = 0; i < h->p->nsyms; i++) {
    if (!prog_sym_is_input(h->p, i)) continue;
    const char *c = fresh_name(h, h->p->sym[i].name, "size");
    strbuf_printf(&h->params, "%sint64_t %s", h->params.n ? ", " : "", c);
    strbuf_printf(&h->dims, "%s, ", c);
  }
  for (int32_t i = 0; i < f->nresults; i++) {
    const ProgValue *v = &f->value[f->result[i]];
    TRY(add_value(h, v, f->result_name[i], false));
    TRY(check_symbols(h, v, f->result_name[i]));
  }
  return TENON_OK;
}

static void print_function(const Header *h, const char *symbol, HeaderKind kind, StrBuf *out) {
  strbuf_printf(out, "%stenon_status %s(%s%stenon_error *error)",
                kind == HEADER_HOLDS ? "static inline " : "", symbol, strbuf_text(&h->params),
                h->params.n ? ", " : "");
  if (kind == HEADER_DECLARES) {
    strbuf_puts(out, ";\n");
    return;
  }
  strbuf_printf(out, " {\n  const void *in[] = {%s%sNULL};\n", strbuf_text(&h->in),
                h->in.n ? ", " : "");
  strbuf_printf(out, "  void *out[] = {%s%sNULL};\n", strbuf_text(&h->out), h->out.n ? ", " : "");
  strbuf_printf(out, "  const int64_t dims[] = {%s0};\n", strbuf_text(&h->dims));
  strbuf_printf(out, "  return tenon_aot_run(&%s_model, in, dims, out, error);\n}\n", symbol);
}

// A name out of a model must not end the comment that it stands in.
static void text_clean_comment(StrBuf *b) {
  for (int64_t i = 0; i + 1 < b->n; i++)
    if (b->p[i] == '*' && b->p[i + 1] == '/') b->p[i + 1] = ' ';
}

tenon_status object_header(const Program *p, const char *symbol, HeaderKind kind, StrBuf *out,
                           Diag *d) {
  static const char open_c[] = "#ifdef __cplusplus\nextern \"C\" {\n#endif\n";
  static const char close_c[] = "#ifdef __cplusplus\n}\n#endif\n";
  Header h = {.p = p, .arena = out->arena, .diag = d};
  strmap_init(&h.names, h.arena);
  StrBuf *all[] = {&h.params, &h.in, &h.out, &h.dims, &h.doc};
  for (int i = 0; i < 5; i++) strbuf_init(all[i], h.arena);
  TRY(collect(&h));
  text_clean_comment(&h.doc);
  strbuf_printf(out,
                "/* %s -- a model compiled ahead of time, " FILE_MARK " %s.\n *\n"
                " * Elements are dense and row-major; pointers at multiples of 64 bytes are read "
                "fastest.\n%s *\n%s */\n",
                symbol, TENON_VERSION,
                kind == HEADER_HOLDS ? " * Link with libtenon_runtime.a -lm -pthread.\n" : "",
                strbuf_text(&h.doc));
  bool header = kind != HEADER_SOURCE;
  if (header)
    strbuf_printf(out, "#ifndef TENON_MODEL_%s_H\n#define TENON_MODEL_%s_H\n\n", symbol, symbol);
  strbuf_puts(out, "#include \"tenon/aot.h\"\n\n#include <stddef.h>\n\n");
  if (header) strbuf_puts(out, open_c);
  if (kind == HEADER_DECLARES)
    print_function(&h, symbol, kind, out);
  else
    strbuf_printf(out, "extern tenon_aot_model %s_model;\n", symbol);
  if (header) strbuf_puts(out, close_c);
  if (kind != HEADER_DECLARES) {
    strbuf_puts(out, "\n");
    print_function(&h, symbol, kind, out);
  }
  if (header) strbuf_puts(out, "\n#endif\n");
  return TENON_OK;
}
