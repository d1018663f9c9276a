// parse.c -- a graph from its text form (docs/reference/text.md).
//
// One pass: each line becomes a node as soon as it is read, so inference, hash-consing and every
// check of node_new happen as for any other builder, with line and column in the message.  A type
// that is written behind a node is held against the inferred one.  The types of the results stand
// in the header, but can name symbols that only the nodes bring in; so they are skipped first and
// read at the end.
//
// Needs:      nothing of the text: it may be hostile.
// Guarantees: memory and time in proportion to the text (and to what the ops' own inference does);
//             only files below the text's folder are ever opened, and none before its bytes are
//             needed.
#include "ir/custom.h"
#include "ir/text.h"

// A line's value: one node, by result.
typedef struct Slot {
  Node *node;
  Node **result;  // projections, or the node itself when it has one result
} Slot;
// Names of one body: bare numbers are values without a name, and apart from those called "0".
typedef struct Names {
  StrMap named, numbered;
} Names;

// ---- messages ----

tenon_status text_fail_at(TextParser *p, const Token *t, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  Where at = {.file = p->path, .line = t->line, .column = t->column};
  tenon_status s = failv(p->d, TENON_EFORMAT, at, fmt, ap);
  va_end(ap);
  return s;
}

tenon_status text_fail(TextParser *p, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  Where at = {.file = p->path, .line = p->lex.tok.line, .column = p->lex.tok.column};
  tenon_status s = failv(p->d, TENON_EFORMAT, at, fmt, ap);
  va_end(ap);
  return s;
}

tenon_status text_expected(TextParser *p, const char *what) {
  const Token *t = &p->lex.tok;
  if (t->kind == TOK_END) return text_fail(p, "expected %s, found the end of the text", what);
  if (t->kind == TOK_BAD) return text_fail(p, "expected %s, found %.*s", what, STR_ARG(t->text));
  int64_t n = MIN(p->lex.at - t->start, 60);
  return text_fail(p, "expected %s, found '%.*s'", what, (int)n, t->start);
}

void text_locate(TextParser *p, const Token *t) {
  p->d->base.line = t->line;
  p->d->base.column = t->column;
}

// ---- tokens ----

bool text_is(const TextParser *p, char c) {
  return p->lex.tok.kind == TOK_PUNCT && p->lex.tok.c == c;
}

bool text_is_word(const TextParser *p, const char *word) {
  return p->lex.tok.kind == TOK_WORD && str_is(p->lex.tok.text, word);
}

bool text_take(TextParser *p, char c) {
  if (!text_is(p, c)) return false;
  lex_next(&p->lex);
  return true;
}

tenon_status text_need(TextParser *p, char c) {
  char what[4] = {'\'', c, '\'', 0};
  return text_take(p, c) ? TENON_OK : text_expected(p, what);
}

static tenon_status need_word(TextParser *p, const char *word) {
  if (!text_is_word(p, word)) return text_expected(p, word);
  lex_next(&p->lex);
  return TENON_OK;
}

static tenon_status need_arrow(TextParser *p) {
  if (p->lex.tok.kind != TOK_ARROW) return text_expected(p, "'->'");
  lex_next(&p->lex);
  return TENON_OK;
}

tenon_status text_string(TextParser *p, Str *out) {
  *out = (Str){"", 0};
  if (p->lex.tok.kind != TOK_STRING) return text_expected(p, "a string in quotes");
  if (!text_unescape(&p->arena, p->lex.tok.text, out))
    return text_fail(p, "a bad escape in a string: \\\" \\\\ \\n \\t \\xHH are known");
  lex_next(&p->lex);
  return TENON_OK;
}

static tenon_status check_name(TextParser *p, const Token *at, Str s, const char **out) {
  if (memchr(s.p, 0, (size_t)s.n)) return text_fail_at(p, at, "a NUL character in a name");
  *out = intern(&p->g->names, s);
  return TENON_OK;
}

tenon_status text_name(TextParser *p, const char **out) {
  Token at = p->lex.tok;
  Str s;
  *out = NULL;
  TRY(text_string(p, &s));
  return check_name(p, &at, s, out);
}

// @"name" where there is one.
static tenon_status parse_origin(TextParser *p, const char **out) {
  return text_take(p, '@') ? text_name(p, out) : TENON_OK;
}

// ---- values ----

// Reads %name: its key among the scope's names, and the origin that it stands for.
static tenon_status parse_value(TextParser *p, Names *names, StrMap **out_map, Str *out_key,
                                const char **out_origin) {
  Token t = p->lex.tok;
  if (t.kind != TOK_VALUE) return text_expected(p, "a value such as %x");
  Str s = t.text;
  if (t.quoted && !text_unescape(&p->arena, t.text, &s))
    return text_fail(p, "a bad escape in a name: \\\" \\\\ \\n \\t \\xHH are known");
  bool numbered = !t.quoted && s.p[0] >= '0' && s.p[0] <= '9';
  for (int64_t i = 0; numbered && i < s.n; i++)
    if (s.p[i] < '0' || s.p[i] > '9')
      return text_fail(p, "a name that begins with a digit must be in quotes");
  *out_map = numbered ? &names->numbered : &names->named;
  *out_key = s;
  *out_origin = NULL;
  if (!numbered) TRY(check_name(p, &t, s, out_origin));
  lex_next(&p->lex);
  return TENON_OK;
}

static tenon_status parse_use(TextParser *p, Names *names, Node **out) {
  Token at = p->lex.tok;
  StrMap *map;
  Str key;
  const char *origin;
  int64_t index = 0;
  if (text_is_word(p, "_")) {
    lex_next(&p->lex);
    *out = p->g->none;
    return TENON_OK;
  }
  TRY(parse_value(p, names, &map, &key, &origin));
  const Slot *slot = strmap_get(map, key);
  if (!slot) return text_fail_at(p, &at, "there is no value %%%.*s in this body", STR_ARG(key));
  bool picked = text_take(p, '.');
  if (picked) TRY(text_i64(p, &index));
  if (picked ? index < 0 || index >= slot->node->nres || slot->node->nres == 1
             : slot->node->nres != 1)
    return text_fail_at(p, &at, "%%%.*s has %d result%s: %s", STR_ARG(key), slot->node->nres,
                        slot->node->nres == 1 ? "" : "s",
                        slot->node->nres == 1 ? "it is used without a number"
                                              : "pick one by its number, as in %x.0");
  *out = slot->result[index];
  return TENON_OK;
}

static tenon_status define(TextParser *p, const Token *at, StrMap *map, Str key, Node *n,
                           Node **result) {
  if (strmap_has(map, key)) return text_fail_at(p, at, "%%%.*s is defined twice", STR_ARG(key));
  Slot *slot = arena_new(&p->arena, Slot);
  slot->node = n;
  slot->result = result;
  if (!result) {
    slot->result = arena_array(&p->arena, Node *, 1);
    slot->result[0] = n;
  }
  strmap_put(map, key, slot);
  return TENON_OK;
}

// ---- lines ----

static tenon_status unknown_op(TextParser *p, Str name) {
  const char *words[OP_COUNT];
  for (int i = 0; i < OP_COUNT; i++) words[i] = op_info(i)->name;
  return text_fail(p, "there is no op '%.*s'%s", STR_ARG(name),
                   did_you_mean(name, words, OP_COUNT).s);
}

static tenon_status parse_operands(TextParser *p, Names *names, Node ***out, int64_t *out_n) {
  VEC(Node *) src = {0};
  TRY(text_need(p, '('));
  while (!text_is(p, ')')) {
    Node *n;
    if (src.n > 0) TRY(text_need(p, ','));
    TRY(parse_use(p, names, &n));
    vec_push(&p->arena, &src, n);
  }
  *out = src.v;
  *out_n = src.n;
  return text_need(p, ')');
}

enum { UNTYPED_RESULTS_MAX = 64 };

// Types are counted before the node is made, so that the results cost no more than the text says.
static tenon_status count_types(TextParser *p, int64_t nres) {
  if (!text_is(p, ':'))
    return nres <= UNTYPED_RESULTS_MAX ? TENON_OK : text_expected(p, "':' and the results' types");
  Lexer start = p->lex;
  int64_t n = 0;
  const char *unused;
  do {
    lex_next(&p->lex);
    TRY(skip_type(p));
    TRY(parse_origin(p, &unused));
    n++;
  } while (text_is(p, ','));
  p->lex = start;
  if (n == nres) return TENON_OK;
  return text_fail(p, "%lld types for %lld results", (long long)n, (long long)nres);
}

// A graph's type in the text's own names, as far as they are tied.
static const Type *type_to_text(TextParser *p, const Type *t) {
  Type *own = arena_dup(&p->arena, t, (int64_t)sizeof *t);
  Dim *dims = arena_array(&p->arena, Dim, MAX(t->rank, 0));
  for (int i = 0; i < t->rank; i++) {
    dims[i] = dimmap_apply(&p->to_text, t->dims[i]);
    if (ie_is_poison(dims[i])) dims[i] = t->dims[i];
  }
  own->dims = dims;
  if (t->elem) own->elem = type_to_text(p, t->elem);
  return own;
}

static tenon_status wrong_type(TextParser *p, const Token *at, int i, const Type *w,
                               const Type *t) {
  StrBuf a, b;
  strbuf_init(&a, &p->arena);
  strbuf_init(&b, &p->arena);
  type_print(&a, w);
  type_print(&b, type_to_text(p, t));
  return text_fail_at(p, at, "result %d is written as %s, but it is %s", i, strbuf_text(&a),
                      strbuf_text(&b));
}

// An op that is not registered here has the types that are written: nothing else knows them.
static bool takes_written(const Graph *g, const Node *n, int i) {
  if (n->op != OP_foreign || n->type[i]->dtype || n->type[i]->rank >= 0) return false;
  return n->type[i]->kind == TK_TENSOR &&
         !custom_find(g->custom, ((const foreign_attrs *)n->attrs)->op);
}

static tenon_status check_type(TextParser *p, Node *n, int i) {
  Token at = p->lex.tok;
  const Type *written;
  TRY(parse_type(p, &written));
  if (takes_written(p->g, n, i)) {
    ((const Type **)n->type)[i] = type_to_graph(p, written);
    return TENON_OK;
  }
  if (type_matches(p, written, n->type[i])) return TENON_OK;
  return wrong_type(p, &at, i, written, n->type[i]);
}

// ` : type, type`, each with the name of its projection where that differs.
static tenon_status parse_results(TextParser *p, Node *n, Node **result) {
  bool written = text_take(p, ':');
  for (int i = 0; i < n->nres; i++) {
    const char *name = n->name;
    if (written) {
      if (i > 0) TRY(text_need(p, ','));
      TRY(check_type(p, n, i));
      TRY(parse_origin(p, &name));
    }
    result[i] = node_proj(p->g, n, i);
    TRY(graph_status(p->g));
    if (n->nres > 1) result[i]->name = name && *name ? name : NULL;
  }
  return TENON_OK;
}

static tenon_status find_op(TextParser *p, int *out) {
  if (p->lex.tok.kind != TOK_WORD) return text_expected(p, "an op");
  Str name = p->lex.tok.text;
  *out = (int)(uintptr_t)strmap_get(&p->ops, name) - 1;
  if (*out < 0) return unknown_op(p, name);
  if (*out == OP_none || *out == OP_param || *out == OP_proj)
    return text_fail(p, "%.*s is not an operation", STR_ARG(name));
  lex_next(&p->lex);
  return TENON_OK;
}

// The text has the last word on names: a constant may have been made before, by an expansion.
static tenon_status set_origin(TextParser *p, Node *n, const char *origin) {
  TRY(parse_origin(p, &origin));
  n->name = origin;
  return TENON_OK;
}

static tenon_status parse_op(TextParser *p, Names *names, const char *origin, int64_t nres,
                             Node **out, Node ***out_result) {
  Token at = p->lex.tok;
  int op;
  TRY(find_op(p, &op));
  if (op == OP_const) {
    if (nres != 1) return text_fail_at(p, &at, "a constant has one result");
    TRY(parse_const(p, out));
    return set_origin(p, *out, origin);
  }
  const OpInfo *info = op_info(op);
  Node **src;
  int64_t nsrc;
  TRY(parse_operands(p, names, &src, &nsrc));
  void *attrs = arena_alloc(&p->arena, info->attrs_size + 1);
  attrs_defaults(info->attrs, info->nattrs, attrs);
  TRY(parse_attrs(p, info, attrs));
  TRY(parse_origin(p, &origin));
  TRY(count_types(p, nres));
  if (nsrc > INT32_MAX) return text_fail_at(p, &at, "too many operands");
  text_locate(p, &at);
  *out = node_new(p->g, op, (int)nsrc, src, info->attrs_size ? attrs : NULL, (int)nres, origin);
  TRY(graph_status(p->g));
  (*out)->name = origin;
  *out_result = arena_array(&p->arena, Node *, (*out)->nres);
  return parse_results(p, *out, *out_result);
}

static tenon_status parse_line(TextParser *p, Names *names) {
  Token at = p->lex.tok;
  StrMap *map;
  Str key;
  const char *origin;
  int64_t nres = 1;
  TRY(parse_value(p, names, &map, &key, &origin));
  if (text_take(p, ':')) {
    Token count = p->lex.tok;
    TRY(text_i64(p, &nres));
    if (nres < 1 || nres > UINT16_MAX)
      return text_fail_at(p, &count, "a node has 1 to %d results", UINT16_MAX);
  }
  TRY(text_need(p, '='));
  ArenaMark mark = arena_mark(&p->g->scratch);
  Node *n, **result = NULL;
  TRY(parse_op(p, names, origin, nres, &n, &result));
  arena_reset(&p->g->scratch, mark);
  return define(p, &at, map, key, n, result);
}

// ---- bodies ----

typedef VEC(Node *) Nodes;
typedef VEC(const char *) Labels;

static tenon_status parse_params(TextParser *p, Names *names, Nodes *out) {
  TRY(text_need(p, '('));
  while (!text_is(p, ')')) {
    if (out->n > 0) TRY(text_need(p, ','));
    Token at = p->lex.tok;
    StrMap *map;
    Str key;
    const char *origin;
    const Type *type;
    bool state = p->depth == 0 && text_is_word(p, "state");
    if (state) lex_next(&p->lex);
    TRY(parse_value(p, names, &map, &key, &origin));
    TRY(parse_origin(p, &origin));
    TRY(text_need(p, ':'));
    TRY(parse_type(p, &type));
    const Type *t = type_to_graph(p, type);
    Node *n = state ? node_state(p->g, t, origin) : node_param(p->g, t, origin);
    TRY(define(p, &at, map, key, n, NULL));
    if (p->depth > 0 && text_take(p, '=')) TRY(parse_known(p, n));
    vec_push(&p->arena, out, n);
  }
  return text_need(p, ')');
}

// A result's name: a word or a string.
static tenon_status parse_label(TextParser *p, const char **out) {
  if (p->lex.tok.kind == TOK_STRING) return text_name(p, out);
  if (p->lex.tok.kind != TOK_WORD) return text_expected(p, "a result's name");
  *out = intern(&p->g->names, p->lex.tok.text);
  lex_next(&p->lex);
  return TENON_OK;
}

static tenon_status parse_return(TextParser *p, Names *names, Nodes *out, Labels *labels) {
  TRY(need_word(p, "return"));
  while (!text_is(p, '}')) {
    Node *n;
    const char *label = NULL;
    if (out->n > 0) TRY(text_need(p, ','));
    if (p->lex.tok.kind != TOK_VALUE && !text_is_word(p, "_")) {
      TRY(parse_label(p, &label));
      TRY(text_need(p, '='));
    }
    TRY(parse_use(p, names, &n));
    vec_push(&p->arena, out, n);
    vec_push(&p->arena, labels, label);
  }
  return text_need(p, '}');
}

static tenon_status parse_lines(TextParser *p, Names *names) {
  while (!text_is_word(p, "return")) {
    if (p->lex.tok.kind != TOK_VALUE)
      return text_expected(p, "a line such as %y = op(%x), or return");
    TRY(parse_line(p, names));
  }
  return TENON_OK;
}

static void names_init(TextParser *p, Names *names) {
  strmap_init(&names->named, &p->arena);
  strmap_init(&names->numbered, &p->arena);
}

static Body *make_body(TextParser *p, const char *name, const Nodes *params, const Nodes *results,
                       const Labels *labels) {
  Body *b = body_new(p->g, name, params->n, params->v, results->n, results->v);
  for (int64_t i = 0; i < results->n; i++) b->result_name[i] = labels->v[i];
  return b;
}

tenon_status parse_body(TextParser *p, const Body **out) {
  Names names;
  Nodes params = {0}, results = {0};
  Labels labels = {0};
  const char *name = NULL;
  if (p->depth == TEXT_DEPTH_MAX)
    return text_fail(p, "bodies are nested more than %d deep", TEXT_DEPTH_MAX);
  p->depth++;
  names_init(p, &names);
  TRY(text_need(p, '{'));
  TRY(parse_origin(p, &name));
  TRY(parse_params(p, &names, &params));
  TRY(parse_lines(p, &names));
  TRY(parse_return(p, &names, &results, &labels));
  *out = make_body(p, name, &params, &results, &labels);
  p->depth--;
  return TENON_OK;
}

// ---- graphs ----

static tenon_status parse_bound(TextParser *p, int64_t *out) {
  return text_take(p, '*') ? TENON_OK : text_i64(p, out);
}

// dim NAME [LOW, HIGH]: a symbol that is not just a size.
static tenon_status parse_range(TextParser *p) {
  Token at = p->lex.tok;
  const char *end = at.start;
  IntPool pool;  // where the name is read as part of a dimension is
  intpool_init(&pool, &p->arena);
  Dim d = ie_parse(&pool, &end, p->lex.end);
  if (!d || d->kind != IE_SYM || d->fresh) return text_fail(p, "expected a dimension's name");
  lex_seek(&p->lex, end);
  int64_t lo = INT64_MIN, hi = INT64_MAX;
  TRY(text_need(p, '['));
  TRY(parse_bound(p, &lo));
  TRY(text_need(p, ','));
  TRY(parse_bound(p, &hi));
  if (lo > hi) return text_fail_at(p, &at, "an empty range");
  ie_sym(&p->dims, (Str){d->name, d->value}, lo, hi);
  return text_need(p, ']');
}

// The header's list of results: skipped with `results` NULL, else read and held against them.
static tenon_status parse_header_results(TextParser *p, const Nodes *results, Labels *labels) {
  TRY(text_need(p, '('));
  int64_t n = 0;
  for (; !text_is(p, ')'); n++) {
    const char *label = NULL;
    if (n > 0) TRY(text_need(p, ','));
    Lexer start = p->lex;
    bool named = p->lex.tok.kind == TOK_STRING;
    if (!named) {
      TRY(skip_type(p));
      named = text_is(p, ':');
      p->lex = start;
    }
    if (named) {
      TRY(parse_label(p, &label));
      TRY(text_need(p, ':'));
    }
    Token at = p->lex.tok;
    const Type *written;
    if (!results) {
      TRY(skip_type(p));
      continue;
    }
    if (n >= results->n)
      return text_fail_at(p, &at, "%lld results are returned", (long long)results->n);
    TRY(parse_type(p, &written));
    const Type *type = type_of(results->v[n]);
    if (!type_matches(p, written, type)) return wrong_type(p, &at, (int)n, written, type);
    labels->v[n] = label;
  }
  if (results && n < results->n)
    return text_fail(p, "%lld results are returned, %lld are declared", (long long)results->n,
                     (long long)n);
  return text_need(p, ')');
}

// The model's inputs are told apart by name, and so are its outputs.
static tenon_status check_names(TextParser *p, const Nodes *params, const Labels *labels) {
  StrMap in, out;
  strmap_init(&in, &p->arena);
  strmap_init(&out, &p->arena);
  for (int64_t i = 0; i < params->n; i++) {
    const char *name = params->v[i]->name;
    if (!name) continue;
    if (strmap_has(&in, str_of(name))) return text_fail(p, "two inputs are called '%s'", name);
    strmap_put(&in, str_of(name), params->v[i]);
  }
  for (int64_t i = 0; i < labels->n; i++) {
    const char *name = labels->v[i];
    if (!name) continue;
    if (strmap_has(&out, str_of(name))) return text_fail(p, "two outputs are called '%s'", name);
    strmap_put(&out, str_of(name), p);
  }
  return TENON_OK;
}

static tenon_status parse_graph(TextParser *p) {
  Names names;
  Nodes params = {0}, results = {0};
  Labels labels = {0};
  const char *name = NULL;
  names_init(p, &names);
  while (text_is_word(p, "dim")) {
    lex_next(&p->lex);
    TRY(parse_range(p));
  }
  TRY(need_word(p, "graph"));
  TRY(parse_origin(p, &name));
  TRY(parse_params(p, &names, &params));
  bool typed = !text_is(p, '{');  // by hand the results' types may be left to inference
  if (typed) TRY(need_arrow(p));
  Lexer header = p->lex;
  if (typed) TRY(parse_header_results(p, NULL, NULL));
  TRY(text_need(p, '{'));
  while (text_is_word(p, "source")) {
    lex_next(&p->lex);
    TRY(parse_source(p));
  }
  TRY(parse_lines(p, &names));
  TRY(parse_return(p, &names, &results, &labels));
  if (p->lex.tok.kind != TOK_END) return text_expected(p, "the end of the text");
  p->lex = header;
  if (typed) TRY(parse_header_results(p, &results, &labels));
  TRY(check_names(p, &params, &labels));
  p->g->main = make_body(p, name, &params, &results, &labels);
  p->g->body.n--;  // the list has every body but main
  return graph_status(p->g);
}

// The folder that sources must lie in, as external data of a model: see source.c.
static void find_folder(TextParser *p) {
  enum { PATH_CAP = 4096 };
  if (!p->path || !strcmp(p->path, "-")) return;
  const char *slash = strrchr(p->path, '/');
  Str folder = slash ? (Str){p->path, MAX(slash - p->path, 1)} : STR(".");
  char *real = arena_alloc(&p->arena, PATH_CAP);
  if (!platform->real_path(str_copy(&p->arena, folder), real, PATH_CAP))
    p->folder = intern(&p->g->names, str_of(real));
  if (platform->real_path(p->path, real, PATH_CAP)) return;
  slash = strrchr(real, '/');
  if (slash) p->real_folder = intern(&p->g->names, (Str){real, MAX(slash - real, 1)});
}

static tenon_status parse_text(TextParser *p, Str text, const ParseOptions *o, Graph **out) {
  TRY(graph_create(p->d, out));
  p->g = *out;
  p->g->custom = o->custom;
  p->g->arena.limit = p->g->scratch.limit = p->arena.limit = o->memory_limit;
  p->d->base.file = p->path;
  intpool_init(&p->dims, &p->arena);
  p->dims.fixed = p->g->dims.fixed = o->fixed;
  p->dims.nfixed = p->g->dims.nfixed = o->nfixed;
  dimmap_init(&p->to_graph, &p->g->dims, &p->arena);
  dimmap_init(&p->to_text, &p->dims, &p->arena);
  strmap_init(&p->ops, &p->arena);
  for (int i = 0; i < OP_COUNT; i++)
    strmap_put(&p->ops, str_of(op_info(i)->name), (void *)(uintptr_t)(i + 1));
  find_folder(p);
  lex_init(&p->lex, text);
  return parse_graph(p);
}

tenon_status graph_parse(Str text, const char *path, Diag *d, Graph **out) {
  return graph_parse_with(text, path, &(ParseOptions){0}, d, out);
}

tenon_status graph_parse_with(Str text, const char *path, const ParseOptions *o, Diag *d,
                              Graph **out) {
  *out = NULL;
  // On the heap, so that it is what it was when the trap is raised.
  TextParser *p = mem_alloc((int64_t)sizeof *p);
  if (!p) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  p->path = path;
  p->d = d;
  arena_init(&p->arena);
  Where base = d->base;
  Trap t;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) t.status = parse_text(p, text, o, out);
  trap_leave(&t);
  d->base = base;
  arena_deinit(&p->arena);
  mem_free(p, (int64_t)sizeof *p);
  if (t.status) {
    graph_free(*out);
    *out = NULL;
  }
  return t.status;
}
