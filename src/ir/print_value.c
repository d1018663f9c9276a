// print_value.c -- types, attributes and constants in the text form.
//
// Needs:      the printer's state (text.h), for names of fresh dimensions and numbers of sources.
// Guarantees: reading what is written gives the same bits.
#include "ir/text.h"

// ---- types ----

// Symbols seen for the first time: fresh ones get the next number, and a named one that is not just
// a size is noted.
static void note_symbols(Printer *p, Dim d) {
  DimVec found = {0};
  dim_symbols(d, &p->seen_dim, p->arena, &found);
  for (int64_t i = 0; i < found.n; i++) {
    Dim s = found.v[i];
    if (s->fresh) {
      Str hint = fresh_hint(s);
      char *name =
          str_printf(p->arena, "%.*s_%lld", (int)MIN(hint.n, 1000), hint.p, (long long)p->nfresh++);
      dimmap_bind(&p->to_text, s, ie_fresh_named(&p->dims, str_of(name)));
    } else if (s->lo != 0 || s->hi != INT64_MAX) {
      vec_push(p->arena, &p->ranged, s);
    }
  }
}

static void print_dim(Printer *p, Dim d) {
  note_symbols(p, d);
  ie_print(p->out, ie_has_fresh(d) ? dimmap_apply(&p->to_text, d) : d);
}

void print_type(Printer *p, const Type *t) {
  StrBuf *b = p->out;
  switch ((TypeKind)t->kind) {
  case TK_NONE: strbuf_puts(b, "none"); return;
  case TK_SEQUENCE: strbuf_puts(b, "seq("); break;
  case TK_OPTIONAL: strbuf_puts(b, "opt("); break;
  case TK_MAP: strbuf_printf(b, "map(%s, ", dtype_name(t->dtype)); break;
  case TK_TENSOR:
    strbuf_puts(b, t->dtype ? dtype_name(t->dtype) : "any");
    strbuf_puts(b, t->rank < 0 ? "[*" : "[");
    for (int i = 0; i < t->rank; i++) {
      if (i) strbuf_puts(b, ", ");
      print_dim(p, t->dims[i]);
    }
    strbuf_putc(b, ']');
    return;
  }
  print_type(p, t->elem);
  strbuf_putc(b, ')');
}

// ---- attributes ----

static void put_word(StrBuf *b, Str word) {
  if (text_is_identifier(word))
    strbuf_put(b, word);
  else
    text_put_quoted(b, word);
}

static void print_list(Printer *p, const AttrDesc *d, const void *field) {
  const Ints *ints = field;
  const Floats *floats = field;
  const Strs *strs = field;
  int64_t n = d->kind == ATTR_i64s ? ints->n : d->kind == ATTR_f64s ? floats->n : strs->n;
  strbuf_putc(p->out, '[');
  for (int64_t i = 0; i < n; i++) {
    if (i) strbuf_puts(p->out, ", ");
    if (d->kind == ATTR_i64s)
      strbuf_printf(p->out, "%lld", (long long)ints->v[i]);
    else if (d->kind == ATTR_f64s)
      text_put_f64(p->out, floats->v[i]);
    else
      text_put_quoted(p->out, strs->v[i]);
  }
  strbuf_putc(p->out, ']');
}

static void print_attr(Printer *p, Scope *s, const AttrDesc *d, const void *field) {
  switch (d->kind) {
  case ATTR_i64: strbuf_printf(p->out, "%lld", (long long)*(const int64_t *)field); return;
  case ATTR_opt_i64: strbuf_printf(p->out, "%lld", (long long)((const OptInt *)field)->v); return;
  case ATTR_bool: strbuf_puts(p->out, *(const bool *)field ? "true" : "false"); return;
  case ATTR_f64: text_put_f64(p->out, *(const double *)field); return;
  case ATTR_dtype: {
    DType t = *(const DType *)field;
    strbuf_puts(p->out, t ? dtype_name(t) : "none");
    return;
  }
  case ATTR_str: text_put_quoted(p->out, *(const Str *)field); return;
  case ATTR_choice: put_word(p->out, attr_choice_word(d->choices, *(const int *)field)); return;
  case ATTR_body: print_body(p, s, *(const Body *const *)field); return;
  case ATTR_i64s:
  case ATTR_f64s:
  case ATTR_strs: print_list(p, d, field); return;
  }
}

void print_attrs(Printer *p, Scope *s, const Node *n) {
  const OpInfo *op = op_info(n->op);
  if (!n->attrs) return;
  for (int i = 0; i < op->nattrs; i++) {
    const AttrDesc *d = &op->attrs[i];
    if (attr_is_default(d, n->attrs)) continue;
    strbuf_printf(p->out, " %s=", d->name);
    print_attr(p, s, d, (const char *)n->attrs + d->offset);
  }
}

// ---- constants ----

static void put_hex(StrBuf *b, const uint8_t *p, int64_t n) {
  static const char digit[] = "0123456789abcdef";
  char chunk[256];
  strbuf_puts(b, "hex\"");
  for (int64_t i = 0; i < n;) {
    int64_t k = 0;
    for (; k < (int64_t)sizeof chunk && i < n; i++) {
      chunk[k++] = digit[p[i] >> 4];
      chunk[k++] = digit[p[i] & 15];
    }
    strbuf_put(b, (Str){chunk, k});
  }
  strbuf_putc(b, '"');
}

static void put_elements(StrBuf *b, DType t, const void *data, int64_t n) {
  strbuf_putc(b, '{');
  for (int64_t i = 0; i < n; i++) {
    if (i) strbuf_puts(b, ", ");
    if (t == DT_STRING)
      text_put_quoted(b, ((const Str *)data)[i]);
    else
      text_put_element(b, t, data, i);
  }
  strbuf_putc(b, '}');
}

static int64_t source_number(Printer *p, Source *s) {
  uint64_t key = (uint64_t)(uintptr_t)s, at;
  if (intmap_get(&p->source_index, key, &at)) return (int64_t)at;
  intmap_put(&p->source_index, key, (uint64_t)p->source.n);
  vec_push(p->arena, &p->source, s);
  return p->source.n - 1;
}

static void put_contents(StrBuf *b, DType t, const void *data, int64_t n, int64_t nbytes) {
  if (t == DT_STRING || (n <= TEXT_INLINE_MAX && text_can_list(t, data, n)))
    put_elements(b, t, data, n);
  else
    put_hex(b, data, nbytes);
}

// A captured value may be known before anything runs; inference inside the body relies on it.
void print_known(Printer *p, const Node *n) {
  int64_t nbytes;
  if (n->known && dtype_bytes(n->known->dtype, n->known->n, &nbytes)) {
    strbuf_puts(p->out, " = ");
    put_contents(p->out, n->known->dtype, n->known->data, n->known->n, nbytes);
  } else if (n->sym) {
    strbuf_puts(p->out, " = [");
    for (int64_t i = 0; i < n->nsym; i++) {
      if (i) strbuf_puts(p->out, ", ");
      print_dim(p, n->sym[i]);
    }
    strbuf_putc(p->out, ']');
  }
}

static const void *moved_bytes(Printer *p, const Node *n) {
  const void *data;
  if (!p->quiet) p->quiet = arena_new(p->arena, Diag);
  diag_init(p->quiet);
  tenon_status s = const_bytes(p->g, n, &data, p->quiet);
  if (s) trap_again(s, p->quiet->text);
  return data;
}

void print_const(Printer *p, const Node *n) {
  const ConstData *c = n->data;
  DType t = type_of(n)->dtype;
  strbuf_puts(p->out, "const ");
  print_type(p, type_of(n));
  strbuf_putc(p->out, ' ');
  const void *data = c->mem;
  if (c->moved) data = moved_bytes(p, n);
  if (c->source)
    strbuf_printf(p->out, "@%lld+%lld", (long long)source_number(p, c->source),
                  (long long)c->offset);
  else
    put_contents(p->out, t, data, c->n, c->bytes);
}

// Shapes and axes are worth seeing, wherever they are kept.
void print_const_comment(Printer *p, const Node *n) {
  const ConstData *c = n->data;
  DType t = type_of(n)->dtype;
  if (!c->source || c->n > TEXT_COMMENT_MAX || c->n == 0) return;
  if (!p->quiet) p->quiet = arena_new(p->arena, Diag);
  diag_init(p->quiet);
  const void *data;
  if (const_bytes(p->g, n, &data, p->quiet)) return;
  data = arena_dup(p->arena, data, c->bytes);  // aligned, unlike the file
  if (!text_can_list(t, data, c->n)) return;
  strbuf_puts(p->out, "  // ");
  put_elements(p->out, t, data, c->n);
}

// A file is named as the text file's neighbour; bytes that never were in a file are written out.
void print_source(Printer *p, int64_t i) {
  const Source *s = p->source.v[i];
  strbuf_printf(p->out, "  source @%lld ", (long long)i);
  bool in_file = s->label && *s->label && *s->label != '<' && strcmp(s->label, "-");
  if (in_file) {
    if (s->folder && !s->own) strbuf_puts(p->out, "external ");
    const char *slash = s->folder ? NULL : strrchr(s->label, '/');
    text_put_quoted(p->out, str_of(slash ? slash + 1 : s->label));
  } else {
    put_hex(p->out, s->file.bytes, s->file.size);
  }
  strbuf_putc(p->out, '\n');
}
