// inputs.c -- the inputs of a run: given in files, or random from a seed.
//
// Random numbers depend on the seed, the input's position and the element's alone, so they are the
// same on every machine.  Floats lie in [-1, 1).  Integers of 8 bits take their whole range; wider
// ones are 0 or 1, unless they index a table somewhere: then they lie inside the smallest such
// table.
#include "cli/inputs.h"

#include "cli/inputs_json.h"

// ---- which table an integer input indexes ----
// Movement and casts hand an index on unchanged.
static bool passes_index(const Node *n) {
  return op_info(n->op)->flags & OPF_MOVEMENT || !strcmp(op_name(n), "cast");
}

static int64_t attr_i64(const Node *n, const char *name, int64_t dflt) {
  const OpInfo *op = op_info(n->op);
  for (int i = 0; i < op->nattrs; i++)
    if (op->attrs[i].kind == ATTR_i64 && !strcmp(op->attrs[i].name, name))
      return *(const int64_t *)((const char *)n->attrs + op->attrs[i].offset);
  return dflt;
}

static int64_t table_rows(const Node *gather) {
  const Type *t = type_of(gather->src[0]);
  int64_t axis = attr_i64(gather, "axis", 0);
  if (t->kind != TK_TENSOR || t->rank < 1) return INT64_MAX;
  axis += axis < 0 ? t->rank : 0;
  if (axis < 0 || axis >= t->rank || !ie_is_const(t->dims[axis])) return INT64_MAX;
  return t->dims[axis]->value;
}

// The number of values that an index made from `param` may take; 0 when nothing uses it as one.
static int64_t index_range(Graph *g, const NodeList *order, const Node *param, Arena *a) {
  bool *carries = arena_array(a, bool, g->node.n + 1);
  int64_t range = INT64_MAX;
  carries[param->id] = true;
  for (int64_t i = 0; i < order->n; i++) {
    const Node *n = order->v[i];
    for (uint32_t k = 0; k < n->nsrc; k++) {
      if (!carries[n->src[k]->id]) continue;
      if (k == 1 && !strcmp(op_name(n), "gather")) range = MIN(range, table_rows(n));
      if (k == 0 && passes_index(n)) carries[n->id] = true;
    }
  }
  return range == INT64_MAX ? 0 : MAX(range, 1);
}

int64_t *input_ranges(Graph *g, Arena *a) {
  const Body *b = g->main;
  NodeList order = body_order(g, b, a);
  int64_t *range = arena_array(a, int64_t, b->nparams + 1);
  for (int64_t i = 0; i < b->nparams; i++) {
    const Type *t = type_of(b->param[i]);
    if (t->kind == TK_TENSOR && dtype_is_int(t->dtype))
      range[i] = index_range(g, &order, b->param[i], a);
  }
  return range;
}

static int64_t range_of(const Inputs *in, int64_t i, const Node *param, const NodeList *order) {
  if (!in->program) return index_range(in->graph, order, param, in->arena);
  const ProgFunction *f = in->program->function[0];
  return i < f->nranges ? f->range[i] : 0;
}

// ---- making up ----
static uint64_t draw(uint64_t seed, int64_t input, int64_t i) {
  return hash_u64(hash_u64(seed * 0x9e3779b97f4a7c15u + (uint64_t)input + 1) + (uint64_t)i);
}

static void fill(Inputs *in, Value *v, int64_t position, const Node *param, const NodeList *order) {
  int64_t range = 0;
  DTypeClass k = dtype_class(v->dtype);
  int bits = dtype_bits(v->dtype);
  if (k == DC_INT || k == DC_UINT) range = range_of(in, position, param, order);
  if (!range) range = bits <= 8 ? (int64_t)1 << bits : 2;
  int64_t low = k == DC_INT && bits <= 8 && range == (int64_t)1 << bits ? -(range / 2) : 0;
  for (int64_t i = 0; i < v->n; i++) {
    uint64_t r = draw(in->seed, position, i);
    double unit = (double)(r >> 11) * 0x1p-53;
    if (k == DC_FLOAT)
      val_put_f64(v, i, v->dtype == DT_F8E8M0 ? 1 : 2 * unit - 1);
    else if (k == DC_BOOL)
      val_put_i64(v, i, (int64_t)(r & 1));
    else if (k == DC_STRING)
      ((Str *)v->data)[i] = str_of(str_printf(in->arena, "word%d", (int)(r % 100)));
    else if (k == DC_COMPLEX)
      for (int part = 0; part < 2; part++)
        put_f64(
            v->dtype == DT_C64 ? DT_F32 : DT_F64, v->data, 2 * i + part,
            2 * ((double)(draw(in->seed, position, 2 * i + part + (int64_t)1e9) >> 11) * 0x1p-53) -
                1);
    else
      val_put_i64(v, i, low + (int64_t)(r % (uint64_t)range));
  }
}

static tenon_status make_up(Inputs *in, Run *run, int64_t i, const NodeList *order) {
  const Node *param = in->graph->main->param[i];
  const Type *t = type_of(param);
  Where at = {.node = param->name, .op = "input"};
  int64_t dims[MAX_RANK];
  if (t->kind == TK_OPTIONAL) {  // the empty one
    DType dtype = t->elem && t->elem->kind == TK_TENSOR ? t->elem->dtype : TENON_DTYPE_NONE;
    return value_optional(run, dtype, NULL, &in->value[i]);
  }
  if (t->kind == TK_SEQUENCE)
    return fail(run->diag, TENON_EINVAL, at,
                "%s cannot be random; give its items in order with --input %s=F.npy, one each, or "
                "an F.npz of them",
                type_text(in->arena, t), param->name);
  if (t->kind != TK_TENSOR || t->rank < 0)
    return fail(run->diag, TENON_EINVAL, at, "%s cannot be random; give it with --input %s=F.%s",
                type_text(in->arena, t), param->name, t->kind == TK_MAP ? "json" : "npy");
  for (int k = 0; k < t->rank; k++)
    if (!ie_eval(t->dims[k], in->dims.value, in->dims.known, in->dims.n, &dims[k]) || dims[k] < 0)
      return fail(run->diag, TENON_EINVAL, at, "the size of dimension %d of %s is not known", k,
                  type_text(in->arena, t));
  TRY(value_tensor(run, at, t->dtype, t->rank, dims, &in->value[i]));
  fill(in, in->value[i], i, param, order);
  in->random_inputs[i] = true;
  return TENON_OK;
}

// ---- given ones ----
static int64_t find_input(const Inputs *in, const char *name) {
  const Body *b = in->graph->main;
  for (int64_t i = 0; i < b->nparams; i++)
    if (!strcmp(b->param[i]->name, name)) return i;
  int64_t position;
  if (str_to_i64(str_of(name), &position) && position >= 0 && position < b->nparams)
    return position;
  return -1;
}

static tenon_status unknown_input(const Inputs *in, Diag *d, const char *name, const char *file) {
  const Body *b = in->graph->main;
  const char **words = arena_array(in->arena, const char *, b->nparams + 1);
  for (int64_t i = 0; i < b->nparams; i++) words[i] = b->param[i]->name;
  fail(d, TENON_EINVAL, (Where){.file = file}, "the model has no input '%s'%s", name,
       did_you_mean(str_of(name), words, b->nparams).s);
  for (int64_t i = 0; i < b->nparams && i < 20; i++)
    diag_note(d, "input %lld: %s %s", (long long)i, b->param[i]->name,
              type_text(in->arena, type_of(b->param[i])));
  return TENON_EINVAL;
}

// The sizes of a given input hold for random inputs, and must be those that --dim set.
static tenon_status take_sizes(Inputs *in, Diag *d, const Node *param, const NdArray *v) {
  const Type *t = type_of(param);
  for (int k = 0; t->kind == TK_TENSOR && k < t->rank && t->rank == v->rank; k++) {
    Dim dim = t->dims[k];
    if (dim->kind != IE_SYM || dim->slot >= in->dims.n) continue;
    if (in->dims.known[dim->slot] && in->dims.value[dim->slot] != v->dims[k])
      return fail(d, TENON_EINVAL, (Where){.node = param->name, .op = "input"},
                  "size %lld of dimension %d, where %s is %lld by --dim or another input",
                  (long long)v->dims[k], k, dim->name, (long long)in->dims.value[dim->slot]);
    in->dims.value[dim->slot] = v->dims[k];
    in->dims.known[dim->slot] = true;
  }
  return TENON_OK;
}

static const Type *without_optional(const Type *t) {
  return t->kind == TK_OPTIONAL && t->elem ? t->elem : t;
}
// The type of one array for an input: its own, an optional's or that of a sequence's items.
static const Type *array_type(const Type *t) {
  t = without_optional(t);
  return t->kind == TK_SEQUENCE && t->elem ? t->elem : t;
}
static bool takes_many(const Type *t) { return without_optional(t)->kind == TK_SEQUENCE; }

static tenon_status read_item(Inputs *in, Run *run, const Node *param, NdArray *v, Value **out) {
  const Type *t = array_type(type_of(param));
  if (t->kind != TK_TENSOR && t->kind != TK_NONE)
    return fail(run->diag, TENON_EUNSUPPORTED, NOWHERE,
                "input '%s' is %s, which arrays cannot give; write it as JSON: --input %s=F.json",
                param->name, type_text(in->arena, type_of(param)), param->name);
  if (t->kind == TK_TENSOR && t->dtype && !nd_converts(v, t->dtype))
    return fail(run->diag, TENON_EINVAL, NOWHERE,
                "input '%s' is %s, %s is needed: convert it, for instance with x.astype(\"%s\")",
                param->name, v->dtype ? dtype_name(v->dtype) : "void", dtype_name(t->dtype),
                numpy_name(t->dtype));
  if (t->kind == TK_TENSOR && t->dtype) TRY(nd_convert(in->arena, v, t->dtype, run->diag));
  if (!v->dtype)
    return fail(run->diag, TENON_EINVAL, NOWHERE, "opaque elements for input '%s'", param->name);
  return value_of_array(run, v, out);
}

static tenon_status give(Inputs *in, Run *run, int64_t i, NdArray *v, const char *file) {
  const Node *param = in->graph->main->param[i];
  const Type *t = type_of(param);
  if (in->given[i] && (!takes_many(t) || in->value[i]))
    return fail(run->diag, TENON_EINVAL, (Where){.file = file}, "input '%s' is given twice",
                param->name);
  in->given[i] = true;
  Value *item = NULL;
  Where base = run->diag->base;
  run->diag->base.file = file;
  tenon_status s = read_item(in, run, param, v, &item);
  run->diag->base = base;
  TRY(s);
  if (takes_many(t)) {
    vec_push(in->arena, &in->items[i], item);
    return TENON_OK;
  }
  if (t->kind == TK_OPTIONAL) return value_optional(run, item->dtype, item, &in->value[i]);
  in->value[i] = item;
  return take_sizes(in, run->diag, param, v);
}

// Makes the sequences of the items that were given, and the optionals around them.
static tenon_status finish_sequences(Inputs *in, Run *run) {
  const Body *b = in->graph->main;
  for (int64_t i = 0; i < b->nparams; i++) {
    const Type *t = type_of(b->param[i]), *item = array_type(t);
    if (!in->given[i] || !takes_many(t) || in->value[i]) continue;
    const ItemList *l = &in->items[i];
    DType dtype = item->kind == TK_TENSOR ? item->dtype : TENON_DTYPE_NONE;
    if (!dtype && l->n) dtype = l->v[0]->dtype;
    Value *seq;
    TRY(value_sequence(run, dtype, l->n, &seq));
    for (int64_t k = 0; k < l->n; k++) seq->items[k] = l->v[k];
    if (t->kind == TK_OPTIONAL)
      TRY(value_optional(run, dtype, seq, &in->value[i]));
    else
      in->value[i] = seq;
  }
  return TENON_OK;
}

// np.savez without names calls its members arr_0, arr_1 and so on.
static int64_t array_position(Str name) {
  int64_t i;
  if (!str_starts(name, "arr_") || !str_to_i64((Str){name.p + 4, name.n - 4}, &i)) return -1;
  return i;
}

bool item_name(Str s, Str *out_name, int64_t *out_item) {
  int64_t dot = s.n - 1;
  while (dot > 0 && s.p[dot] != '.') dot--;
  *out_name = (Str){s.p, dot};
  return dot > 0 && str_to_i64((Str){s.p + dot + 1, s.n - dot - 1}, out_item) && *out_item >= 0;
}

// The input that a member of an archive is for, by its name; -1: none.
static tenon_status find_member(const Inputs *in, Diag *d, Str name, const char *path,
                                int64_t *out) {
  Str sequence;
  int64_t item;
  *out = find_input(in, str_copy(in->arena, name));
  if (*out < 0) *out = array_position(name);
  if (*out >= 0 || !item_name(name, &sequence, &item)) return TENON_OK;
  *out = find_input(in, str_copy(in->arena, sequence));
  if (*out < 0 || !takes_many(type_of(in->graph->main->param[*out]))) {
    *out = -1;
  } else if (item != in->items[*out].n) {
    return fail(d, TENON_EINVAL, (Where){.file = path},
                "'%.*s' where item %lld of the sequence is next", STR_ARG(name),
                (long long)in->items[*out].n);
  }
  return TENON_OK;
}

static tenon_status give_json(Inputs *in, Run *run, int64_t i, const Json *x, const char *path) {
  const Node *param = in->graph->main->param[i];
  if (in->given[i])
    return fail(run->diag, TENON_EINVAL, (Where){.file = path}, "input '%s' is given twice",
                param->name);
  in->given[i] = true;
  TRY(json_input_value(in, run, param, path, x, &in->value[i]));
  const Value *v = in->value[i];
  NdArray sizes = {.rank = v->rank};
  if (v->kind != VK_TENSOR) return TENON_OK;
  for (int k = 0; k < v->rank; k++) sizes.dims[k] = v->dims[k];
  return take_sizes(in, run->diag, param, &sizes);
}

// An object with a member for each input.
static tenon_status give_object(Inputs *in, Run *run, const char *path) {
  Json all;
  TRY(json_input_read(in, run->diag, path, &all));
  if (all.kind != JSON_OBJECT)
    return fail(run->diag, TENON_EINVAL, (Where){.file = path},
                "an object of inputs by name is needed");
  for (int64_t k = 0; k < all.n; k++) {
    int64_t i = find_input(in, str_copy(in->arena, all.key[k]));
    if (i < 0) return unknown_input(in, run->diag, str_copy(in->arena, all.key[k]), path);
    TRY(give_json(in, run, i, &all.item[k], path));
  }
  return TENON_OK;
}

static tenon_status give_archive(Inputs *in, Run *run, const char *path) {
  NdArrayList list;
  if (is_json_path(path)) return give_object(in, run, path);
  TRY(arrays_read(in->arena, path, in->files, run->diag, &list));
  for (int64_t k = 0; k < list.n; k++) {
    NdArray *v = &list.v[k];
    int64_t i = 0;
    if (list.n != 1 || v->name.n) TRY(find_member(in, run->diag, v->name, path, &i));
    if (i < 0 || i >= in->graph->main->nparams)
      return unknown_input(in, run->diag, str_copy(in->arena, v->name), path);
    TRY(give(in, run, i, v, path));
  }
  return TENON_OK;
}

static tenon_status give_one(Inputs *in, Run *run, const char *name, const char *path) {
  NdArrayList list;
  int64_t i = find_input(in, name);
  in->misused = i < 0;
  if (i < 0) return unknown_input(in, run->diag, name, NULL);
  if (is_json_path(path)) {
    Json x;
    TRY(json_input_read(in, run->diag, path, &x));
    return give_json(in, run, i, &x, path);
  }
  TRY(arrays_read(in->arena, path, in->files, run->diag, &list));
  bool many = takes_many(type_of(in->graph->main->param[i]));
  if (list.n != 1 && !many)
    return fail(run->diag, TENON_EINVAL, (Where){.file = path}, "%lld arrays where one is needed",
                (long long)list.n);
  if (many) in->given[i] = true;  // an archive without members is the empty sequence
  for (int64_t k = 0; k < list.n; k++) TRY(give(in, run, i, &list.v[k], path));
  return TENON_OK;
}

tenon_status arrays_read(Arena *a, const char *path, FileList *files, Diag *d, NdArrayList *out) {
  File f;
  *out = (NdArrayList){0};
  TRY(file_open(path, &f, d));
  vec_push(a, files, f);
  Where base = d->base;
  d->base.file = path;
  tenon_status s = nd_read(a, (Str){(const char *)f.bytes, f.size}, d, out);
  d->base = base;
  return s;
}

tenon_status inputs_read(Inputs *in, Cli *c, Run *run, const char *archive,
                         const OptionValue *one) {
  const Body *b = in->graph->main;
  in->value = arena_array(in->arena, Value *, b->nparams + 1);
  in->random_inputs = arena_array(in->arena, bool, b->nparams + 1);
  in->given = arena_array(in->arena, bool, b->nparams + 1);
  in->items = arena_array(in->arena, ItemList, b->nparams + 1);
  if (archive) TRY(give_archive(in, run, archive));
  for (int64_t i = 0; i < one->count; i++) {
    const char *name, *path;
    in->misused = !opt_split(c, one->text[i], &name, &path);
    if (in->misused)
      return fail(run->diag, TENON_EINVAL, NOWHERE, "--input takes NAME=F.npy, not '%s'",
                  one->text[i]);
    TRY(give_one(in, run, name, path));
  }
  TRY(finish_sequences(in, run));
  in->defaulted = arena_array(in->arena, bool, in->dims.n + 1);
  for (int64_t i = 0; i < b->nparams; i++) {
    const Type *t = type_of(b->param[i]);
    for (int k = 0; !in->value[i] && t->kind == TK_TENSOR && k < t->rank; k++)
      if (t->dims[k]->kind == IE_SYM && t->dims[k]->slot < in->dims.n)
        in->defaulted[t->dims[k]->slot] = !in->dims.known[t->dims[k]->slot];
  }
  binding_default(&in->dims, in->graph, 1);
  NodeList order = body_order(in->graph, b, in->arena);
  for (int64_t i = 0; i < b->nparams; i++)
    if (!in->value[i]) TRY(make_up(in, run, i, &order));
  return TENON_OK;
}

int dims_read(Cli *c, const Graph *g, const OptionValue *opt, DimBinding *out) {
  binding_init(out, &c->arena, g);
  for (int64_t i = 0; i < opt->count; i++) {
    const char *name, *text;
    int64_t size;
    if (!opt_split(c, opt->text[i], &name, &text) || !str_to_i64(str_of(text), &size) || size < 0)
      return cli_usage(c, "--dim takes NAME=N with a size, not '%s'", opt->text[i]);
    int32_t found = -1;
    for (int32_t k = 0; k < out->n; k++)
      if (!g->dims.sym.v[k]->fresh && !strcmp(g->dims.sym.v[k]->name, name)) found = k;
    HintText hint = dim_hint(g, str_of(name), &c->arena);
    if (found < 0)
      return cli_usage(c, "the model has no dimension '%s'%s", name,
                       *hint.s ? hint.s : "; `tenon inspect` lists them");
    out->value[found] = size;
    out->known[found] = true;
  }
  return CLI_OK;
}
