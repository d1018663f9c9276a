// script_builtin.c -- what TorchScript calls besides ATen operators on tensors: numbers, lists,
// strings, prim.
#include "frontends/pytorch/script.h"

#include <math.h>

enum { MOST_ARGS = 32 };

tenon_status script_truth(Script *s, const AtenValue *v, AtenValue *out) {
  Graph *g = s->g;
  switch (v->kind) {
  case AV_BOOL: *out = *v; return TENON_OK;
  case AV_INT:
  case AV_FLOAT: {
    AtenValue zero = v->kind == AV_INT ? av_int(0) : av_float(0);
    *out = aten_compare(&s->aten, "ne", v, &zero);
    return graph_status(g);
  }
  case AV_STR: *out = av_bool(v->s.n > 0); return TENON_OK;
  case AV_LIST:
  case AV_TUPLE:
  case AV_DICT: *out = av_bool(v->list->v.n > 0); return TENON_OK;
  case AV_NONE:
    if (av_is_unknown(v)) return script_fail(s, "a condition without a value");
    *out = av_bool(false);
    return TENON_OK;
  case AV_TENSOR: {
    Node *n = bt_cast(g, v->box->node, DT_BOOL);
    *out = av_number(g, bt_reshape(g, n, 0, NULL), AV_BOOL);
    return graph_status(g);
  }
  default: *out = av_bool(true); return TENON_OK;
  }
}

// ---- numbers ----

static tenon_status to_number(Script *s, const AtenValue *v, AvKind kind, AtenValue *out) {
  Graph *g = s->g;
  DType t = kind == AV_INT ? DT_I64 : DT_F64;
  if (v->kind == AV_STR) return script_fail(s, "a number from text");
  if (av_is_known(v)) {
    *out =
        kind == AV_FLOAT ? av_float(av_f64(v)) : av_int(v->kind == AV_FLOAT ? (int64_t)v->f : v->i);
    return TENON_OK;
  }
  if (v->kind != AV_TENSOR && !av_is_number(v)) return script_fail(s, "a number from what is none");
  Node *n = av_node(g, v, t);
  if (v->kind == AV_TENSOR) n = bt_reshape(g, n, 0, NULL);
  *out = av_number(g, n, kind);
  return graph_status(g);
}

typedef struct NumberOp {
  const char *name;
  char op;
} NumberOp;
static const NumberOp number_ops[] = {{"add", '+'},       {"sub", '-'},      {"mul", '*'},
                                      {"div", '/'},       {"floordiv", 'f'}, {"floor_divide", 'f'},
                                      {"remainder", '%'}, {"pow", 'p'},      {"__range_min", '<'}};

static bool is_number(const AtenValue *v) { return av_is_number(v); }

// a & b, a | b, a ^ b ('a', 'o', 'x') of numbers that are not known.
static AtenValue bits_of(Graph *g, char op, const AtenValue *a, const AtenValue *b) {
  bool truth = a->kind == AV_BOOL && b->kind == AV_BOOL;
  DType t = truth ? DT_BOOL : DT_I64;
  Node *x = av_node(g, a, t), *y = av_node(g, b, t), *n;
  if (truth)
    n = op == 'a' ? N(g, and, x, y) : op == 'o' ? N(g, or, x, y) : N(g, xor, x, y);
  else
    n = op == 'a' ? N(g, bit_and, x, y) : op == 'o' ? N(g, bit_or, x, y) : N(g, bit_xor, x, y);
  return av_number(g, n, truth ? AV_BOOL : AV_INT);
}

static tenon_status round_number(Script *s, const AtenValue *v, Str name, AtenValue *out) {
  Graph *g = s->g;
  if (v->kind == AV_INT) {
    *out = *v;
    return TENON_OK;
  }
  bool up = str_is(name, "ceil");
  if (av_is_known(v)) {
    *out = av_int((int64_t)(up ? ceil(v->f) : str_is(name, "round") ? rint(v->f) : floor(v->f)));
    return TENON_OK;
  }
  Node *x = av_node(g, v, DT_F64);
  *out = av_number(g, bt_cast(g, up ? N(g, ceil, x) : N(g, floor, x), DT_I64), AV_INT);
  return graph_status(g);
}

// True where the name is arithmetic of numbers and was done.
static bool number_call(Script *s, Str name, const AtenValue *a, int n, AtenValue *out,
                        tenon_status *status) {
  static const char *const compare[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  *status = TENON_OK;
  if (n == 2 && is_number(&a[0]) && is_number(&a[1])) {
    for (int64_t i = 0; i < ARRAY_LEN(number_ops); i++)
      if (str_is(name, number_ops[i].name)) {
        *out = aten_number_op(&s->aten, number_ops[i].op, &a[0], &a[1], s->at);
        return true;
      }
    for (int64_t i = 0; i < ARRAY_LEN(compare); i++)
      if (str_is(name, compare[i])) {
        *out = aten_compare(&s->aten, compare[i], &a[0], &a[1]);
        return true;
      }
    if (str_is(name, "__and__") || str_is(name, "__or__") || str_is(name, "__xor__")) {
      if (!av_is_known(&a[0]) || !av_is_known(&a[1])) {
        *out = bits_of(s->g, name.p[2], &a[0], &a[1]);
        return true;
      }
      int64_t x = a[0].i, y = a[1].i;
      out->kind = a[0].kind;
      out->i = name.p[2] == 'a' ? x & y : name.p[2] == 'o' ? x | y : x ^ y;
      return true;
    }
  }
  if (n != 1 || !is_number(&a[0])) return false;
  AtenValue zero = a[0].kind == AV_FLOAT ? av_float(0) : av_int(0);
  if (str_is(name, "neg")) {
    *out = aten_number_op(&s->aten, '-', &zero, &a[0], s->at);
  } else if (str_is(name, "floor") || str_is(name, "ceil") || str_is(name, "round")) {
    *status = round_number(s, &a[0], name, out);
  } else if (str_is(name, "sqrt") && av_is_known(&a[0])) {
    *out = av_float(sqrt(av_f64(&a[0])));
  } else if (str_is(name, "log") && av_is_known(&a[0])) {
    *out = av_float(log(av_f64(&a[0])));
  } else if (str_is(name, "exp") && av_is_known(&a[0])) {
    *out = av_float(exp(av_f64(&a[0])));
  } else if (str_is(name, "abs") && av_is_known(&a[0])) {
    *out = a[0].kind == AV_FLOAT ? av_float(fabs(a[0].f)) : av_int(a[0].i < 0 ? -a[0].i : a[0].i);
  } else {
    return false;
  }
  return true;
}

// ---- lists ----

// Equal for certain; -1: not known.
static int same_value(const AtenValue *a, const AtenValue *b) {
  if (av_is_unknown(a) || av_is_unknown(b)) return -1;
  if (av_is_number(a) && av_is_number(b)) {
    if (!av_is_known(a) || !av_is_known(b)) return a->node && a->node == b->node ? 1 : -1;
    return av_f64(a) == av_f64(b);
  }
  if (a->kind != b->kind) return 0;
  if (a->kind == AV_STR) return str_eq(a->s, b->s);
  if (a->list && b->list) {
    if (a->list->v.n != b->list->v.n) return 0;
    int all = 1;
    for (int64_t i = 0; i < a->list->v.n && all == 1; i++)
      all = same_value(&a->list->v.v[i], &b->list->v.v[i]);
    return all;
  }
  if (a->kind == AV_TENSOR) return a->box == b->box ? 1 : -1;
  return a->kind == AV_NONE || a->object == b->object;
}

static tenon_status change(Script *s, const AtenValue *list) {
  if (list->kind != AV_LIST && list->kind != AV_DICT)
    return script_fail(s, "a change of what is no list");
  if (s->dynamic)
    return script_fail(s, "a list is changed where it depends on the model's inputs whether it is");
  return TENON_OK;
}

static tenon_status slice_list(Script *s, const AtenValue *a, int n, AtenValue *out) {
  int64_t len = a[0].list->v.n, part[3] = {0, len, 1};
  for (int i = 1; i < n && i < 4; i++) {
    if (a[i].kind == AV_NONE) continue;
    if (!av_is_known(&a[i])) return script_fail(s, "a part of a list that is not known");
    part[i - 1] = a[i].i;
  }
  for (int i = 0; i < 2; i++) {
    if (part[i] < 0) part[i] = MAX(part[i] + len, 0);
    part[i] = MIN(part[i], len);
  }
  if (part[2] < 1) return script_fail(s, "a step of %lld", (long long)part[2]);
  *out = av_list(s->arena, a[0].kind);
  for (int64_t i = part[0]; i < part[1]; i += part[2]) av_push(s->arena, out, a[0].list->v.v[i]);
  return TENON_OK;
}

static tenon_status join_lists(Script *s, const AtenValue *a, bool repeat, AtenValue *out) {
  *out = av_list(s->arena, AV_LIST);
  int64_t times = repeat ? a[1].i : 1;
  if (repeat && (!av_is_known(&a[1]) || times > 65536))
    return script_fail(s, "a list so many times");
  for (int64_t k = 0; k < times; k++)
    for (int64_t i = 0; i < a[0].list->v.n; i++) av_push(s->arena, out, a[0].list->v.v[i]);
  for (int64_t i = 0; !repeat && i < a[1].list->v.n; i++) av_push(s->arena, out, a[1].list->v.v[i]);
  return TENON_OK;
}

static tenon_status quantified(Script *s, const AtenValue *list, bool all, AtenValue *out) {
  *out = av_bool(all);
  for (int64_t i = 0; i < list->list->v.n; i++) {
    AtenValue t;
    TRY(script_truth(s, &list->list->v.v[i], &t));
    if (t.node) return script_fail(s, "all or any of what is not known");
    if ((t.i != 0) != all) *out = av_bool(!all);
  }
  return TENON_OK;
}

static tenon_status contains(Script *s, const AtenValue *in, const AtenValue *v, AtenValue *out) {
  *out = av_bool(false);
  int64_t step = in->kind == AV_DICT ? 2 : 1;
  for (int64_t i = 0; in->list && i < in->list->v.n; i += step) {
    int same = same_value(&in->list->v.v[i], v);
    if (same < 0) {  // a chain of comparisons
      if (!av_is_number(v)) return script_fail(s, "whether a list holds what is not known");
      AtenValue one = aten_compare(&s->aten, "eq", &in->list->v.v[i], v);
      Node *n = N(s->g, or, av_node(s->g, out, DT_BOOL), av_node(s->g, &one, DT_BOOL));
      *out = av_number(s->g, n, AV_BOOL);
    } else if (same) {
      *out = av_bool(true);
      return TENON_OK;
    }
  }
  return graph_status(s->g);
}

static tenon_status dict_part(Script *s, const AtenValue *d, int part, AtenValue *out) {
  *out = av_list(s->arena, AV_LIST);
  for (int64_t i = 0; i + 1 < d->list->v.n; i += 2) {
    AtenValue pair = av_list(s->arena, AV_TUPLE);
    av_push(s->arena, &pair, d->list->v.v[i]);
    av_push(s->arena, &pair, d->list->v.v[i + 1]);
    av_push(s->arena, out, part == 2 ? pair : d->list->v.v[i + part]);
  }
  return TENON_OK;
}

// Where the item is: of a dictionary that of the key, -1: it is not there.
static int64_t place_of(const AtenValue *list, const AtenValue *key) {
  int64_t n = list->list->v.n;
  if (list->kind == AV_DICT) {
    for (int64_t i = 0; i + 1 < n; i += 2)
      if (same_value(&list->list->v.v[i], key) == 1) return i;
    return -1;
  }
  int64_t at = !av_is_known(key) ? -1 : key->i < 0 ? key->i + n : key->i;
  return at < n ? at : -1;
}

static void take_out(AtenValue *list, int64_t at, int64_t n) {
  for (int64_t i = at; i + n < list->list->v.n; i++) list->list->v.v[i] = list->list->v.v[i + n];
  list->list->v.n -= n;
}

// pop, get, insert, clear, reverse; false: none of them.
static bool item_call(Script *s, Str name, AtenValue *a, int n, AtenValue *out,
                      tenon_status *status) {
  const AtenValue last = av_int(-1);
  bool dict = a[0].kind == AV_DICT, pop = str_is(name, "pop");
  if (pop || (dict && str_is(name, "get") && n > 1)) {
    int64_t at = place_of(&a[0], n > 1 ? &a[1] : &last);
    if (pop && (*status = change(s, &a[0]))) return true;
    if (at < 0 && (n < 3 && (pop || !dict))) *status = script_fail(s, "an item that is not there");
    *out = at < 0 ? n > 2 ? a[2] : (AtenValue){0} : a[0].list->v.v[at + dict];
    if (pop && at >= 0) take_out(&a[0], at, 1 + dict);
  } else if (str_is(name, "insert") && n == 3 && a[0].kind == AV_LIST && av_is_known(&a[1])) {
    if ((*status = change(s, &a[0]))) return true;
    int64_t len = a[0].list->v.n, at = a[1].i < 0 ? a[1].i + len : a[1].i;
    at = MIN(MAX(at, 0), len);
    vec_push(s->arena, &a[0].list->v, a[2]);
    for (int64_t i = len; i > at; i--) a[0].list->v.v[i] = a[0].list->v.v[i - 1];
    a[0].list->v.v[at] = a[2];
  } else if (str_is(name, "clear")) {
    if (!(*status = change(s, &a[0]))) a[0].list->v.n = 0;
  } else if (str_is(name, "reverse") && a[0].kind == AV_LIST) {
    if ((*status = change(s, &a[0]))) return true;
    for (int64_t i = 0, k = a[0].list->v.n - 1; i < k; i++, k--) {
      AtenValue kept = a[0].list->v.v[i];
      a[0].list->v.v[i] = a[0].list->v.v[k];
      a[0].list->v.v[k] = kept;
    }
  } else {
    return false;
  }
  return true;
}

static bool list_call(Script *s, Str name, const AtenValue *a, int n, AtenValue *out,
                      tenon_status *status) {
  *status = TENON_OK;
  if (!n || !a[0].list) return false;
  AtenValue first[3];
  memcpy(first, a, sizeof *a * (size_t)MIN(n, 3));
  if (n <= 3 && item_call(s, name, first, n, out, status)) return true;
  if (str_is(name, "append") && n == 2) {
    if (!(*status = change(s, &a[0]))) vec_push(s->arena, &a[0].list->v, a[1]);
    *out = a[0];
  } else if (str_is(name, "extend") && n == 2 && a[1].list) {
    if (!(*status = change(s, &a[0])))
      for (int64_t i = 0; i < a[1].list->v.n; i++)
        vec_push(s->arena, &a[0].list->v, a[1].list->v.v[i]);
  } else if (str_is(name, "len")) {
    *out = av_int(a[0].list->v.n / (a[0].kind == AV_DICT ? 2 : 1));
  } else if (str_is(name, "sum") && n == 1 && a[0].kind == AV_LIST) {
    *out = av_int(0);
    for (int64_t i = 0; i < a[0].list->v.n && !*status; i++)
      if (!av_is_number(&a[0].list->v.v[i]))
        *status = script_fail(s, "a sum of what are no numbers");
      else
        *out = aten_number_op(&s->aten, '+', out, &a[0].list->v.v[i], s->at);
  } else if (str_is(name, "slice")) {
    *status = slice_list(s, a, n, out);
  } else if (str_is(name, "list") || str_is(name, "copy")) {
    AtenValue all[4] = {a[0]};
    *status = slice_list(s, all, 1, out);
  } else if ((str_is(name, "add") || str_is(name, "add_")) && n == 2 && a[1].list) {
    *status = join_lists(s, a, false, out);
  } else if (str_is(name, "mul") && n == 2 && a[1].kind == AV_INT) {
    *status = join_lists(s, a, true, out);
  } else if (str_is(name, "__contains__") && n == 2) {
    *status = contains(s, &a[0], &a[1], out);
  } else if ((str_is(name, "all") || str_is(name, "any")) && n == 1) {
    *status = quantified(s, &a[0], name.p[1] == 'l', out);
  } else if (str_is(name, "keys") || str_is(name, "values") || str_is(name, "items")) {
    *status = dict_part(s, &a[0], name.p[0] == 'k' ? 0 : name.p[0] == 'v' ? 1 : 2, out);
  } else if (str_is(name, "_set_item") && n == 3 && a[0].kind == AV_LIST && av_is_known(&a[1])) {
    int64_t i = a[1].i < 0 ? a[1].i + a[0].list->v.n : a[1].i;
    *status = change(s, &a[0]);
    if (!*status && (i < 0 || i >= a[0].list->v.n))
      *status = script_fail(s, "an item that is not there");
    if (!*status) a[0].list->v.v[i] = a[2];
  } else if ((str_is(name, "eq") || str_is(name, "ne")) && n == 2) {
    int same = same_value(&a[0], &a[1]);
    if (same < 0) *status = script_fail(s, "whether two lists are equal is not known");
    *out = av_bool((same == 1) == (name.p[0] == 'e'));
  } else {
    return false;
  }
  return true;
}

// ---- the rest ----

// A tensor of numbers: torch.tensor([1, 2]), torch.tensor(3.).
static tenon_status make_tensor(Script *s, const AtenValue *v, const AtenKeyword *kw, int nkw,
                                AtenValue *out) {
  DType t = 0;
  for (int k = 0; k < nkw; k++)
    if (str_is(kw[k].name, "dtype") && kw[k].value.kind == AV_INT &&
        !torch_scalar_type(kw[k].value.i, &t))
      return script_fail(s, "dtype %lld", (long long)kw[k].value.i);
  if (!v->list) {
    *out = av_tensor(s->arena, av_node(s->g, v, t));
    return graph_status(s->g);
  }
  int64_t n = v->list->v.n, one = 1;
  if (!n || n > 4096) return script_fail(s, "a tensor of %lld numbers", (long long)n);
  Node **part = arena_array(s->arena, Node *, n);
  if (!t) t = aten_promote(v->list->v.v, (int)n);
  for (int64_t i = 0; i < n; i++) {
    if (v->list->v.v[i].list) return script_fail(s, "a tensor of lists of lists");
    part[i] = N(s->g, reshape, av_node(s->g, &v->list->v.v[i], t), node_i64s(s->g, 1, &one));
  }
  *out = av_tensor(s->arena, bt_concat(s->g, 0, (int)n, part));
  return graph_status(s->g);
}

static bool other_call(Script *s, Str name, const AtenValue *a, int n, const AtenKeyword *kw,
                       int nkw, AtenValue *out, tenon_status *status) {
  *status = TENON_OK;
  if (str_is(name, "__is__") || str_is(name, "__isnot__")) {
    if (n != 2) return false;
    bool none = a[0].kind == AV_NONE || a[1].kind == AV_NONE;
    bool same = none ? a[0].kind == a[1].kind : same_value(&a[0], &a[1]) == 1;
    *out = av_bool(same == (name.n == 6));
  } else if (str_is(name, "__not__")) {
    AtenValue t;
    *status = script_truth(s, &a[0], &t);
    *out = av_bool(!t.i);
    if (!*status && t.node) *out = av_number(s->g, N(s->g, not, t.node), AV_BOOL);
  } else if (str_is(name, "len") && n == 1 && a[0].kind == AV_TENSOR) {
    *out = aten_size(&s->aten, a[0].box->node, 0);
  } else if (str_is(name, "len") && n == 1 && a[0].kind == AV_STR) {
    *out = av_int(a[0].s.n);
  } else if (str_is(name, "format") || str_is(name, "str")) {
    *out = av_str(n ? a[0].s : (Str){"", 0});
    if (!out->s.p) out->s = STR("?");
  } else if ((str_is(name, "eq") || str_is(name, "ne") || str_is(name, "add")) && n == 2 &&
             a[0].kind == AV_STR) {
    if (name.p[0] == 'a')
      *out = av_str(str_of(str_printf(s->arena, "%.*s%.*s", STR_ARG(a[0].s), STR_ARG(a[1].s))));
    else
      *out = av_bool((same_value(&a[0], &a[1]) == 1) == (name.p[0] == 'e'));
  } else if (str_is(name, "is_grad_enabled")) {
    *out = av_bool(true);  // keeps modules off their fused paths
  } else if (str_is(name, "is_autocast_enabled") || str_is(name, "is_scripting")) {
    *out = av_bool(str_is(name, "is_scripting"));
  } else if (str_is(name, "device") || str_is(name, "warn") || str_is(name, "manual_seed")) {
    *out = (AtenValue){0};
  } else if (str_is(name, "tensor") && n >= 1) {
    *status = make_tensor(s, &a[0], kw, nkw, out);
  } else if (str_is(name, "as_tensor") && n >= 1 && a[0].kind == AV_TENSOR) {
    *out = a[0];
  } else if (str_is(name, "IntImplicit") || str_is(name, "Int")) {
    *status = to_number(s, &a[0], AV_INT, out);
  } else if (str_is(name, "FloatImplicit") || str_is(name, "Float")) {
    *status = to_number(s, &a[0], AV_FLOAT, out);
  } else if (str_is(name, "__range_length") && n == 3) {
    AtenValue span = aten_number_op(&s->aten, '-', &a[1], &a[0], s->at), one = av_int(1),
              zero = av_int(0);
    AtenValue less = aten_number_op(&s->aten, '-', &a[2], &one, s->at);
    AtenValue sum = aten_number_op(&s->aten, '+', &span, &less, s->at);
    AtenValue count = aten_number_op(&s->aten, 'f', &sum, &a[2], s->at);
    *out = aten_number_op(&s->aten, '>', &count, &zero, s->at);
  } else if (str_is(name, "__derive_index") && n == 3) {
    AtenValue by = aten_number_op(&s->aten, '*', &a[0], &a[2], s->at);
    *out = aten_number_op(&s->aten, '+', &a[1], &by, s->at);
  } else {
    return false;
  }
  return true;
}

// An operator that changes its first operand: the same without the underscore, whose result takes
// the operand's place.
static tenon_status in_place(Script *s, const AtenValue *a, const AtenValue *result) {
  if (s->dynamic && aten_root(a[0].box)->node->id < s->mark)
    return script_fail(s,
                       "a tensor is changed where it depends on the model's inputs whether it is");
  aten_change(&s->aten, &a[0], result, s->at);
  return graph_status(s->g);
}

// Tensors of rank 0 as the numbers that they are: traced programs pass sizes so.
static const AtenValue *numbers_of(Script *s, const AtenValue *a, int n) {
  AtenValue *out = arena_array(s->arena, AtenValue, n + 1);
  for (int i = 0; i < n; i++) {
    out[i] = a[i];
    if (a[i].kind != AV_TENSOR || type_of(a[i].box->node)->rank != 0) continue;
    DType t = type_of(a[i].box->node)->dtype;
    AvKind kind = t == DT_BOOL ? AV_BOOL : dtype_is_int(t) ? AV_INT : AV_FLOAT;
    DType wide = t == DT_BOOL ? DT_BOOL : dtype_is_int(t) ? DT_I64 : DT_F64;
    out[i] = av_number(s->g, bt_cast(s->g, a[i].box->node, wide), kind);
  }
  return out;
}

tenon_status script_builtin(Script *s, Str name, const AtenValue *a, int n, const AtenKeyword *kw,
                            int nkw, AtenValue *out) {
  tenon_status status;
  *out = (AtenValue){0};
  for (int i = 0; i < n; i++)
    if (av_is_unknown(&a[i])) return script_fail(s, "a value that only one branch gives is used");
  if (!nkw && number_call(s, name, a, n, out, &status)) return status ? status : graph_status(s->g);
  if (list_call(s, name, a, n, out, &status)) return status;
  if (other_call(s, name, a, n, kw, nkw, out, &status)) return status;
  const AtenSchema *all = aten_overloads(&s->aten, name);
  bool changes = false;
  if (!all && name.n > 1 && name.p[name.n - 1] == '_') {
    all = aten_overloads(&s->aten, (Str){name.p, name.n - 1});
    changes = true;
  }
  AtenValue args[MOST_ARGS] = {{0}};
  for (int strict = 1; strict >= -1; strict--) {
    if (strict < 0) a = numbers_of(s, a, n);
    for (const AtenSchema *one = all; one; one = one->next) {
      if (n > MOST_ARGS || !aten_bind(one, s->arena, a, n, kw, nkw, strict > 0, args)) continue;
      aten_build(&s->aten, one, args, s->at, out);
      TRY(graph_status(s->g));
      if (changes && out->kind == AV_TENSOR && a[0].kind == AV_TENSOR) {
        TRY(in_place(s, a, out));
        *out = a[0];
      }
      return TENON_OK;
    }
  }
  if (all)
    return script_fail(s, "the arguments of torch.%.*s fit none of its forms", STR_ARG(name));
  frontend_unsupported(s->in, str_printf(s->arena, "torch.%.*s", STR_ARG(name)),
                       "no such row in the table of ATen operators", script_where(s, s->at));
  return script_fail(s, "torch.%.*s is not supported", STR_ARG(name));
}

bool script_knows(const Script *s, Str name) {
  static const char *const here[] = {"append",
                                     "extend",
                                     "len",
                                     "list",
                                     "copy",
                                     "__contains__",
                                     "keys",
                                     "values",
                                     "items",
                                     "_set_item",
                                     "pop",
                                     "get",
                                     "insert",
                                     "clear",
                                     "reverse",
                                     "__is__",
                                     "__isnot__",
                                     "__not__",
                                     "format",
                                     "str",
                                     "is_grad_enabled",
                                     "is_autocast_enabled",
                                     "is_scripting",
                                     "device",
                                     "warn",
                                     "manual_seed",
                                     "tensor",
                                     "as_tensor",
                                     "IntImplicit",
                                     "Int",
                                     "FloatImplicit",
                                     "Float",
                                     "__range_length",
                                     "__derive_index",
                                     "floordiv",
                                     "__and__",
                                     "__or__",
                                     "__xor__"};
  for (int64_t i = 0; i < ARRAY_LEN(here); i++)
    if (str_is(name, here[i])) return true;
  if (aten_overloads(&s->aten, name)) return true;
  return name.n > 1 && name.p[name.n - 1] == '_' &&
         aten_overloads(&s->aten, (Str){name.p, name.n - 1});
}

tenon_status script_prim(Script *s, Str name, const AtenValue *a, int n, AtenValue *out) {
  *out = (AtenValue){0};
  const AtenValue *x = n ? &a[0] : out;
  if (str_is(name, "dtype")) {
    DType t = x->kind == AV_TENSOR ? type_of(x->box->node)->dtype : 0;
    *out = av_int(torch_scalar_code(t));
  } else if (str_is(name, "int")) {
    return to_number(s, x, AV_INT, out);
  } else if (str_is(name, "float")) {
    return to_number(s, x, AV_FLOAT, out);
  } else if (str_is(name, "bool")) {
    return script_truth(s, x, out);
  } else if (str_is(name, "str") || str_is(name, "type")) {
    *out = av_str(str_is(name, "str") ? STR("?") : STR("cpu"));  // the type of a device
  } else if (str_is(name, "RaiseException")) {
    if (s->dynamic) return TENON_OK;  // the other branch is the one that counts
    return script_fail(s, "the model raises: %.*s", STR_ARG(x->s));
  } else if (str_is(name, "NumToTensor")) {
    *out = av_tensor(s->arena, av_node(s->g, x, 0));
  } else if (str_is(name, "getattr") && n == 2 && x->kind == AV_OBJECT) {
    return script_attr(s, x->object, a[1].s, out);
  } else if (str_is(name, "data") || str_is(name, "unchecked_unwrap_optional") ||
             str_is(name, "unchecked_cast")) {
    *out = n ? a[n - 1] : *x;
  } else if (str_is(name, "requires_grad")) {
    *out = av_bool(true);
  } else if (str_is(name, "min") || str_is(name, "max")) {
    if (n == 2)
      *out = aten_number_op(&s->aten, str_is(name, "min") ? '<' : '>', &a[0], &a[1], s->at);
  } else if (str_is(name, "shape")) {
    return script_builtin(s, STR("size"), a, n, NULL, 0, out);
  } else if (str_starts(name, "is_") || str_is(name, "device") || str_is(name, "layout") ||
             str_is(name, "Print")) {
    if (str_starts(name, "is_")) *out = av_bool(false);
  } else if (str_is(name, "abs")) {
    return script_builtin(s, name, a, n, NULL, 0, out);
  } else {
    return script_fail(s, "'%.*s' is not supported", STR_ARG(name));
  }
  return graph_status(s->g);
}
