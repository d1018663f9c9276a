// parse.c -- operations, regions, functions and modules in MLIR text, and files of several parts.
#include "frontends/stablehlo/text.h"

// ---- values ----

MlirValue *mt_new_value(Parser *p, Str name, const MlirType *t) {
  MlirValue *v = arena_new(p->arena, MlirValue);
  v->name = str_printf(p->arena, "%%%.*s", STR_ARG(name));
  v->type = t;
  v->id = p->nvalues++;
  return v;
}

static tenon_status bind(Parser *p, Str name, MlirValue *const *values, int64_t n) {
  if (strmap_get(p->names, name))
    return fail(p->diag, TENON_EFORMAT, mt_tok_where(p),
                "%%%.*s is defined a second time before this", STR_ARG(name));
  Binding *b = arena_new(p->arena, Binding);
  *b = (Binding){values, n};
  Shadow s = {name, NULL};
  vec_push(p->arena, &p->shadow, s);
  strmap_put(p->names, name, b);
  return TENON_OK;
}

static void leave_scope(Parser *p, int64_t mark) {
  while (p->shadow.n > mark) {
    p->shadow.n--;
    strmap_put(p->names, p->shadow.v[p->shadow.n].name, p->shadow.v[p->shadow.n].before);
  }
}

tenon_status mt_operand(Parser *p, MlirValue **out) {
  if (p->tok.kind != T_VALUE) return mt_expected(p, "a value");
  const Binding *b = strmap_get(p->names, p->tok.text);
  int64_t i = MAX(p->tok.number, 0);
  if (!b)
    return fail(p->diag, TENON_EFORMAT, mt_tok_where(p), "%%%.*s is not defined",
                STR_ARG(p->tok.text));
  if (i >= b->n || (p->tok.number < 0 && b->n != 1))
    return fail(p->diag, TENON_EFORMAT, mt_tok_where(p),
                "%%%.*s has %lld results, none of this number", STR_ARG(p->tok.text),
                (long long)b->n);
  *out = b->values[i];
  mt_lex_next(p);
  return TENON_OK;
}

tenon_status mt_operands(Parser *p, Values *out) {
  while (p->tok.kind == T_VALUE) {
    MlirValue *v;
    TRY(mt_operand(p, &v));
    vec_push(p->arena, out, v);
    if (!mt_take_punct(p, ',')) break;
  }
  return TENON_OK;
}

// ---- ops ----

MlirOp *mt_make_op(Parser *p, OpBuild *b) {
  MlirOp *op = arena_new(p->arena, MlirOp);
  MlirValue **results = arena_array(p->arena, MlirValue *, MAX(b->results.n, 1));
  *op = (MlirOp){.name = b->name,
                 .operands = b->operands.v,
                 .noperands = b->operands.n,
                 .results = results,
                 .nresults = b->results.n,
                 .attrs = b->attrs.v,
                 .nattrs = b->attrs.n,
                 .regions = b->regions.v,
                 .nregions = b->regions.n,
                 .line = b->line,
                 .column = b->column,
                 .offset = 0};
  for (int64_t i = 0; i < b->results.n; i++) {
    results[i] = mt_new_value(p, STR(""), b->results.v[i]);
    results[i]->op = op;
    results[i]->index = i;
  }
  return op;
}

// The signature behind an op: its operands have these types, its results get them.
tenon_status mt_signature(Parser *p, OpBuild *b, const MlirType *t) {
  int64_t nin = t->nparts - t->nresults;
  if (nin != b->operands.n)
    return fail(p->diag, TENON_EFORMAT, mt_tok_where(p), "%s has %lld operands, its type has %lld",
                b->name, (long long)b->operands.n, (long long)nin);
  for (int64_t i = 0; i < nin; i++)
    if (!mlir_type_eq(t->parts[i], b->operands.v[i]->type))
      return fail(p->diag, TENON_EFORMAT, mt_tok_where(p), "operand %s of %s is %s, not %s",
                  b->operands.v[i]->name, b->name, mlir_type_text(p->arena, b->operands.v[i]->type),
                  mlir_type_text(p->arena, t->parts[i]));
  for (int64_t i = nin; i < t->nparts; i++) vec_push(p->arena, &b->results, t->parts[i]);
  return TENON_OK;
}

// (%a, %b) <{properties}> ({regions}) {attributes} : type
tenon_status mt_generic_rest(Parser *p, OpBuild *b) {
  const MlirType *t;
  TRY(mt_need_punct(p, '('));
  TRY(mt_operands(p, &b->operands));
  TRY(mt_need_punct(p, ')'));
  if (mt_is_punct(p, '['))
    return fail(p->diag, TENON_EUNSUPPORTED, mt_tok_where(p),
                "%s branches to other blocks: that is not supported", b->name);
  if (mt_take_punct(p, '<')) {
    TRY(mt_dict(p, &b->attrs));
    TRY(mt_need_punct(p, '>'));
  }
  if (mt_take_punct(p, '(')) {
    do {
      MlirRegion *r;
      TRY(mt_region(p, NULL, 0, &r));
      vec_push(p->arena, &b->regions, r);
    } while (mt_take_punct(p, ','));
    TRY(mt_need_punct(p, ')'));
  }
  if (mt_is_punct(p, '{')) TRY(mt_dict(p, &b->attrs));
  TRY(mt_need_punct(p, ':'));
  TRY(mt_type(p, &t));
  if (t->kind != MT_FUNCTION) return mt_expected(p, "a function type before this");
  return mt_signature(p, b, t);
}

typedef struct Name {
  Str name;
  int64_t n;
} Name;
typedef VEC(Name) Names;

// %a, %b:2 =
static tenon_status result_names(Parser *p, Names *out, int64_t *total) {
  enum { RESULTS_MAX = 1 << 20 };
  *total = 0;
  if (p->tok.kind != T_VALUE) return TENON_OK;
  do {
    Name n = {p->tok.text, 1};
    if (p->tok.kind != T_VALUE || p->tok.number >= 0) return mt_expected(p, "a name for a result");
    mt_lex_next(p);
    if (mt_take_punct(p, ':')) TRY(mt_take_int(p, &n.n));
    if (n.n < 1 || n.n > RESULTS_MAX) return mt_expected(p, "a number of results before this");
    *total += n.n;
    if (*total > RESULTS_MAX) return mt_expected(p, "fewer results before this");
    vec_push(p->arena, out, n);
  } while (mt_take_punct(p, ','));
  return mt_need_punct(p, '=');
}

static tenon_status name_results(Parser *p, const MlirOp *op, const Names *names, int64_t total) {
  if (total && total != op->nresults)
    return fail(p->diag, TENON_EFORMAT, mlir_where(op), "has %lld results, %lld are named",
                (long long)op->nresults, (long long)total);
  if (!total) return TENON_OK;
  int64_t at = 0;
  for (int64_t i = 0; i < names->n; i++) {
    Name n = names->v[i];
    for (int64_t k = 0; k < n.n; k++)
      op->results[at + k]->name =
          n.n == 1 ? str_printf(p->arena, "%%%.*s", STR_ARG(n.name))
                   : str_printf(p->arena, "%%%.*s#%lld", STR_ARG(n.name), (long long)k);
    TRY(bind(p, n.name, op->results + at, n.n));
    at += n.n;
  }
  return TENON_OK;
}

static tenon_status trailing_loc(Parser *p, MlirOp *op) {
  if (!mt_is_word(p, "loc")) return TENON_OK;
  mt_lex_next(p);
  TRY(mt_loc(p, &op->loc));
  if (op->loc && op->loc[0] == '#') vec_push(p->arena, &p->located, op);
  return TENON_OK;
}

// Names of the functions' dialect stand without it; MHLO's ops are StableHLO's.
static const char *plain_name(Parser *p, Str s) {
  static const struct {
    const char *from, *to;
  } plain[] = {{"return", "func.return"},
               {"call", "func.call"},
               {"func", "func.func"},
               {"module", "builtin.module"}};
  for (int i = 0; i < ARRAY_LEN(plain); i++)
    if (str_is(s, plain[i].from)) return plain[i].to;
  if (str_starts(s, "mhlo."))
    return str_printf(p->arena, "stablehlo.%.*s", STR_ARG(((Str){s.p + 5, s.n - 5})));
  return str_copy(p->arena, s);
}

static tenon_status parse_function(Parser *p, OpBuild *b);
static tenon_status parse_module(Parser *p, OpBuild *b);

static tenon_status parse_op(Parser *p, MlirOp **out) {
  Names names = {0};
  int64_t total;
  OpBuild b = {.line = p->tok.line, .column = p->tok.column, .start = p->tok.start};
  TRY(mt_enter(p));
  TRY(result_names(p, &names, &total));
  bool generic = p->tok.kind == T_STRING;
  if (!generic && p->tok.kind != T_WORD) return mt_expected(p, "an operation");
  const char *text;
  int64_t n;
  TRY(mt_take_text(p, &text, &n));
  b.name = plain_name(p, (Str){text, n});
  StrMap *outer = p->names, inner;
  int64_t mark = p->shadow.n;
  bool isolated = !strcmp(b.name, "func.func") || !strcmp(b.name, "builtin.module");
  if (isolated) {  // sees no value of what is around it
    strmap_init(&inner, p->arena);
    p->names = &inner;
  }
  if (generic)
    TRY(mt_generic_rest(p, &b));
  else if (!strcmp(b.name, "func.func"))
    TRY(parse_function(p, &b));
  else if (!strcmp(b.name, "builtin.module"))
    TRY(parse_module(p, &b));
  else
    TRY(mt_form(p, &b));
  if (isolated) {
    p->shadow.n = mark;
    p->names = outer;
  }
  *out = mt_make_op(p, &b);
  p->depth--;
  TRY(trailing_loc(p, *out));
  return name_results(p, *out, &names, total);
}

// ---- blocks and regions ----

typedef VEC(MlirOp *) Ops;
typedef VEC(MlirBlock *) Blocks;

static tenon_status parse_ops(Parser *p, Ops *out) {
  while (!mt_is_punct(p, '}') && p->tok.kind != T_CARET && p->tok.kind != T_END) {
    MlirOp *op;
    TRY(parse_op(p, &op));
    vec_push(p->arena, out, op);
  }
  return TENON_OK;
}

// %name: type loc(...)
static tenon_status parse_argument(Parser *p, Values *args) {
  Str name = p->tok.text;
  const MlirType *t;
  const char *loc;
  if (p->tok.kind != T_VALUE) return mt_expected(p, "an argument");
  mt_lex_next(p);
  TRY(mt_need_punct(p, ':'));
  TRY(mt_type(p, &t));
  MlirValue *v = mt_new_value(p, name, t);
  v->index = args->n;
  vec_push(p->arena, args, v);
  return mt_take_word(p, "loc") ? mt_loc(p, &loc) : TENON_OK;
}

static tenon_status bind_arguments(Parser *p, const Values *args) {
  for (int64_t i = 0; i < args->n; i++) {
    MlirValue **one = arena_array(p->arena, MlirValue *, 1);
    one[0] = args->v[i];
    TRY(bind(p, str_of(args->v[i]->name + 1), one, 1));
  }
  return TENON_OK;
}

static tenon_status parse_block(Parser *p, Values args, Blocks *out) {
  MlirBlock *b = arena_new(p->arena, MlirBlock);
  if (p->tok.kind == T_CARET) {
    b->label = str_printf(p->arena, "^%.*s", STR_ARG(p->tok.text));
    mt_lex_next(p);
    if (mt_take_punct(p, '(') && !mt_take_punct(p, ')')) {
      do TRY(parse_argument(p, &args));
      while (mt_take_punct(p, ','));
      TRY(mt_need_punct(p, ')'));
    }
    TRY(mt_need_punct(p, ':'));
  }
  TRY(bind_arguments(p, &args));
  Ops ops = {0};
  TRY(parse_ops(p, &ops));
  b->args = args.v;
  b->nargs = args.n;
  b->ops = ops.v;
  b->nops = ops.n;
  vec_push(p->arena, out, b);
  return TENON_OK;
}

tenon_status mt_region(Parser *p, MlirValue *const *args, int64_t nargs, MlirRegion **out) {
  MlirRegion *r = arena_new(p->arena, MlirRegion);
  Blocks blocks = {0};
  Values entry = {0};
  int64_t mark = p->shadow.n;
  for (int64_t i = 0; i < nargs; i++) vec_push(p->arena, &entry, args[i]);
  TRY(mt_enter(p));
  TRY(mt_need_punct(p, '{'));
  if (!mt_is_punct(p, '}') || nargs) TRY(parse_block(p, entry, &blocks));
  while (p->tok.kind == T_CARET) TRY(parse_block(p, (Values){0}, &blocks));
  TRY(mt_need_punct(p, '}'));
  p->depth--;
  leave_scope(p, mark);
  r->blocks = blocks.v;
  r->nblocks = blocks.n;
  *out = r;
  return TENON_OK;
}

// ---- functions and modules ----

static tenon_status visibility(Parser *p, Fields *attrs) {
  static const char *const words[] = {"public", "private", "nested"};
  for (int i = 0; i < ARRAY_LEN(words); i++)
    if (mt_take_word(p, words[i]))
      mt_add_field(p, attrs, "sym_visibility",
                   mt_text_attr(p, MA_STRING, words[i], (int64_t)strlen(words[i])));
  return TENON_OK;
}

static tenon_status symbol_name(Parser *p, Fields *attrs) {
  const char *name;
  int64_t n;
  if (p->tok.kind != T_SYMBOL) return mt_expected(p, "a name, @...");
  TRY(mt_take_text(p, &name, &n));
  mt_add_field(p, attrs, "sym_name", mt_text_attr(p, MA_STRING, name, n));
  return TENON_OK;
}

typedef VEC(const MlirAttr *) Attrs;

static tenon_status maybe_dict(Parser *p, Attrs *list, bool *any) {
  Fields f = {0};
  if (mt_is_punct(p, '{')) {
    *any = true;
    TRY(mt_dict(p, &f));
  }
  vec_push(p->arena, list, mt_dict_attr(p, f.v, f.n));
  return TENON_OK;
}

static void list_field(Parser *p, Fields *attrs, const char *name, const Attrs *list) {
  MlirAttr *a = arena_new(p->arena, MlirAttr);
  *a = (MlirAttr){.kind = MA_ARRAY, .items = list->v, .n = list->n};
  mt_add_field(p, attrs, name, a);
}

// (%a: type {attributes} loc(...), ...), or types alone of a declaration
static tenon_status function_args(Parser *p, Values *args, Types *types, Fields *attrs) {
  Attrs list = {0};
  bool any = false;
  const char *loc;
  TRY(mt_need_punct(p, '('));
  if (!mt_is_punct(p, ')')) do {
      const MlirType *t;
      Str name = p->tok.text;
      bool named = p->tok.kind == T_VALUE;
      if (named) {
        mt_lex_next(p);
        TRY(mt_need_punct(p, ':'));
      }
      TRY(mt_type(p, &t));
      vec_push(p->arena, types, t);
      if (named) {
        MlirValue *v = mt_new_value(p, name, t);
        v->index = args->n;
        vec_push(p->arena, args, v);
      }
      TRY(maybe_dict(p, &list, &any));
      if (mt_take_word(p, "loc")) TRY(mt_loc(p, &loc));
    } while (mt_take_punct(p, ','));
  if (args->n && args->n != types->n)
    return mt_expected(p, "a name for every argument before this");
  if (any) list_field(p, attrs, "arg_attrs", &list);
  return mt_need_punct(p, ')');
}

static tenon_status function_results(Parser *p, Types *types, Fields *attrs) {
  Attrs list = {0};
  bool any = false;
  const MlirType *t;
  if (p->tok.kind != T_ARROW) return TENON_OK;
  mt_lex_next(p);
  if (!mt_take_punct(p, '(')) {
    TRY(mt_type(p, &t));
    vec_push(p->arena, types, t);
    return TENON_OK;
  }
  if (mt_take_punct(p, ')')) return TENON_OK;
  do {
    TRY(mt_type(p, &t));
    vec_push(p->arena, types, t);
    TRY(maybe_dict(p, &list, &any));
  } while (mt_take_punct(p, ','));
  if (any) list_field(p, attrs, "res_attrs", &list);
  return mt_need_punct(p, ')');
}

static tenon_status parse_function(Parser *p, OpBuild *b) {
  Values args = {0};
  Types in = {0}, out = {0};
  TRY(visibility(p, &b->attrs));
  TRY(symbol_name(p, &b->attrs));
  TRY(function_args(p, &args, &in, &b->attrs));
  TRY(function_results(p, &out, &b->attrs));
  mt_add_field(p, &b->attrs, "function_type",
               mt_type_attr(p, mt_function_type(p, in.v, in.n, out.v, out.n)));
  if (mt_take_word(p, "attributes")) TRY(mt_dict(p, &b->attrs));
  MlirRegion *r = arena_new(p->arena, MlirRegion);
  if (mt_is_punct(p, '{')) {
    if (args.n != in.n)
      return mt_expected(p, "named arguments of a function with a body before this");
    TRY(mt_region(p, args.v, args.n, &r));
    if (!r->nblocks) return mt_expected(p, "a body that returns before this");
  }
  vec_push(p->arena, &b->regions, r);
  return TENON_OK;
}

static tenon_status parse_module(Parser *p, OpBuild *b) {
  MlirRegion *r;
  if (p->tok.kind == T_SYMBOL) TRY(symbol_name(p, &b->attrs));
  if (mt_take_word(p, "attributes")) TRY(mt_dict(p, &b->attrs));
  TRY(mt_region(p, NULL, 0, &r));
  vec_push(p->arena, &b->regions, r);
  return TENON_OK;
}

// ---- files ----

// #name = attribute, #loc1 = loc(...), !name = type
static tenon_status parse_alias(Parser *p) {
  bool is_type = p->tok.kind == T_BANG;
  Str name = p->tok.text;
  mt_lex_next(p);
  TRY(mt_need_punct(p, '='));
  if (is_type) {
    const MlirType *t;
    TRY(mt_type(p, &t));
    strmap_put(&p->type_alias, name, (void *)(uintptr_t)t);
    return TENON_OK;
  }
  if (mt_take_word(p, "loc")) {
    const char *loc;
    TRY(mt_loc(p, &loc));
    strmap_put(&p->loc_alias, name, (void *)(uintptr_t)(loc ? loc : ""));
    return TENON_OK;
  }
  const MlirAttr *a;
  TRY(mt_attr(p, false, &a));
  strmap_put(&p->attr_alias, name, (void *)(uintptr_t)a);
  return TENON_OK;
}

static void resolve_locations(Parser *p) {
  enum { HOPS_MAX = 8 };
  for (int64_t i = 0; i < p->located.n; i++) {
    const char *loc = p->located.v[i]->loc;
    for (int hops = 0; loc && loc[0] == '#' && hops < HOPS_MAX; hops++)
      loc = strmap_get(&p->loc_alias, str_of(loc + 1));
    p->located.v[i]->loc = loc && loc[0] && loc[0] != '#' ? loc : NULL;
  }
}

static tenon_status check_resources(Parser *p) {
  for (int64_t i = 0; i < p->resources.n; i++) {
    Resource *r = &p->resources.v[i];
    if (!r->attr->data)
      return fail(p->diag, TENON_EFORMAT, (Where){.line = r->line, .column = r->column},
                  "the bytes of resource %.*s are not in the file", STR_ARG(r->key));
  }
  return TENON_OK;
}

static tenon_status parse_part(Parser *p, MlirModule **out) {
  Ops ops = {0};
  StrMap names;
  strmap_init(&names, p->arena);
  p->names = &names;
  mt_lex_next(p);
  while (p->tok.kind != T_END) {
    if (p->tok.kind == T_HASH || p->tok.kind == T_BANG) {
      TRY(parse_alias(p));
    } else if (p->tok.kind == T_META) {
      TRY(mt_resources(p));
    } else {
      MlirOp *op;
      TRY(parse_op(p, &op));
      vec_push(p->arena, &ops, op);
    }
  }
  resolve_locations(p);
  TRY(check_resources(p));
  MlirBlock top = {.ops = ops.v, .nops = ops.n};
  return mlir_make_module(p->arena, &top, p->nvalues, out, p->diag);
}

// The end of the part that begins at `at`: a line `// -----`, or the end of the text.
static const char *part_end(const char *at, const char *end) {
  while (at < end) {
    if (str_starts((Str){at, end - at}, "// -----")) return at;
    const char *nl = memchr(at, '\n', (size_t)(end - at));
    at = nl ? nl + 1 : end;
  }
  return end;
}

tenon_status mlir_read_text(Arena *a, Str bytes, MlirFile *out, Diag *d) {
  VEC(MlirModule *) modules = {0};
  const char *at = bytes.p, *end = bytes.p + bytes.n;
  int line = 1;
  *out = (MlirFile){.form = MLIR_TEXT, .producer = ""};
  do {
    Parser p = {.arena = a, .diag = d, .at = at, .line_start = at, .line = line};
    MlirModule *m;
    p.end = part_end(at, end);
    strmap_init(&p.attr_alias, a);
    strmap_init(&p.type_alias, a);
    strmap_init(&p.loc_alias, a);
    TRY(parse_part(&p, &m));
    vec_push(a, &modules, m);
    line = p.line;
    at = p.end;
    if (at < end) {
      const char *nl = memchr(at, '\n', (size_t)(end - at));
      at = nl ? nl + 1 : end;
      line++;
    }
  } while (at < end);
  out->modules = modules.v;
  out->nmodules = modules.n;
  return TENON_OK;
}
