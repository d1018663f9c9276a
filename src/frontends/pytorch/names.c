// names.c -- the names that a pickle of PyTorch's may use, and what each means here.
//
// The list is all there is: no name outside of it has a meaning, so nothing that a file says can be
// run.
#include "frontends/pytorch/pickle.h"

typedef enum {
  NAME_DICT,       // OrderedDict, defaultdict
  NAME_LIST,       // set, list, tuple: of its argument
  NAME_TENSOR,     // _rebuild_tensor, _v2
  NAME_TENSOR_V3,  // with a dtype of its own
  NAME_PARAMETER,  // the first argument
  NAME_FIRST,      // likewise: restore_type_tag, build_intlist, ...
  NAME_FROM_TYPE,  // _rebuild_from_type_v2(function, type, arguments, state)
  NAME_NOTHING,    // torch.device, torch.Size's like: of no interest
  NAME_STORAGE,
  NAME_DTYPE,
  NAME_CLASS,  // of the archive's own code
  NAME_QUANTISED
} PickleName;

static const struct {
  const char *module, *name;
  PickleName what;
} names[] = {
    {"collections", "OrderedDict", NAME_DICT},
    {"collections", "defaultdict", NAME_DICT},
    {"__builtin__", "set", NAME_LIST},
    {"builtins", "set", NAME_LIST},
    {"__builtin__", "list", NAME_LIST},
    {"builtins", "list", NAME_LIST},
    {"__builtin__", "dict", NAME_DICT},
    {"builtins", "dict", NAME_DICT},
    {"torch", "Size", NAME_LIST},
    {"torch", "device", NAME_NOTHING},
    {"torch", "Tensor", NAME_NOTHING},
    {"torch.nn.parameter", "Parameter", NAME_NOTHING},
    {"torch._utils", "_rebuild_tensor", NAME_TENSOR},
    {"torch._utils", "_rebuild_tensor_v2", NAME_TENSOR},
    {"torch._utils", "_rebuild_tensor_v3", NAME_TENSOR_V3},
    {"torch._utils", "_rebuild_parameter", NAME_PARAMETER},
    {"torch._utils", "_rebuild_parameter_with_state", NAME_PARAMETER},
    {"torch._utils", "_rebuild_qtensor", NAME_QUANTISED},
    {"torch._tensor", "_rebuild_from_type_v2", NAME_FROM_TYPE},
    {"torch.jit._pickle", "build_intlist", NAME_FIRST},
    {"torch.jit._pickle", "build_doublelist", NAME_FIRST},
    {"torch.jit._pickle", "build_boollist", NAME_FIRST},
    {"torch.jit._pickle", "build_tensorlist", NAME_FIRST},
    {"torch.jit._pickle", "restore_type_tag", NAME_FIRST},
    {"_codecs", "encode", NAME_FIRST},
};

static const struct {
  const char *name, *storage;
  DType dtype;
  int code;  // PyTorch's ScalarType
} dtypes[] = {
    {"uint8", "ByteStorage", DT_U8, 0},
    {"int8", "CharStorage", DT_I8, 1},
    {"int16", "ShortStorage", DT_I16, 2},
    {"int32", "IntStorage", DT_I32, 3},
    {"int64", "LongStorage", DT_I64, 4},
    {"float16", "HalfStorage", DT_F16, 5},
    {"float32", "FloatStorage", DT_F32, 6},
    {"float64", "DoubleStorage", DT_F64, 7},
    {"complex64", "ComplexFloatStorage", DT_C64, 9},
    {"complex128", "ComplexDoubleStorage", DT_C128, 10},
    {"bool", "BoolStorage", DT_BOOL, 11},
    {"bfloat16", "BFloat16Storage", DT_BF16, 15},
    {"float8_e5m2", "", DT_F8E5M2, 23},
    {"float8_e4m3fn", "", DT_F8E4M3, 24},
    {"float8_e5m2fnuz", "", DT_F8E5M2Z, 25},
    {"float8_e4m3fnuz", "", DT_F8E4M3Z, 26},
    {"uint16", "", DT_U16, 27},
    {"uint32", "", DT_U32, 28},
    {"uint64", "", DT_U64, 29},
    {"float8_e8m0fnu", "", DT_F8E8M0, 44},
    {"int", "", DT_I32, 3},
    {"long", "", DT_I64, 4},
    {"half", "", DT_F16, 5},
    {"float", "", DT_F32, 6},
    {"double", "", DT_F64, 7},
};

bool torch_dtype(Str name, DType *out) {
  if (str_starts(name, "torch.")) name = (Str){name.p + 6, name.n - 6};
  for (int64_t i = 0; i < ARRAY_LEN(dtypes); i++)
    if (str_is(name, dtypes[i].name) || (*dtypes[i].storage && str_is(name, dtypes[i].storage))) {
      *out = dtypes[i].dtype;
      return true;
    }
  return false;
}

bool torch_scalar_type(int64_t code, DType *out) {
  for (int64_t i = 0; i < ARRAY_LEN(dtypes); i++)
    if (dtypes[i].code == code) {
      *out = dtypes[i].dtype;
      return true;
    }
  return false;
}

int64_t torch_scalar_code(DType t) {
  for (int64_t i = 0; i < ARRAY_LEN(dtypes); i++)
    if (dtypes[i].dtype == t) return dtypes[i].code;
  return -1;
}

static Pickled *named(PickleMachine *m, PickleName what, Str name) {
  Pickled *v = pickle_new(m, PK_GLOBAL);
  v->i = (int64_t)what;
  v->s = name;
  return v;
}

Pickled *pickle_name(PickleMachine *m, Str module, Str name) {
  for (int64_t i = 0; i < ARRAY_LEN(names); i++)
    if (str_is(module, names[i].module) && str_is(name, names[i].name))
      return named(m, names[i].what, name);
  bool storages = str_is(module, "torch") || str_is(module, "torch.storage");
  DType t;
  if (storages &&
      (str_is(name, "UntypedStorage") || (str_ends(name, "Storage") && torch_dtype(name, &t))))
    return named(m, NAME_STORAGE, name);
  if (str_is(module, "torch") && torch_dtype(name, &t)) return named(m, NAME_DTYPE, name);
  if (m->code && (str_is(module, "__torch__") || str_starts(module, "__torch__.")))
    return named(m, NAME_CLASS,
                 str_of(str_printf(m->arena, "%.*s.%.*s", STR_ARG(module), STR_ARG(name))));
  pickle_bad(m, "the name '%.*s.%.*s' is not one that a file of tensors needs; nothing is run",
             STR_ARG(module), STR_ARG(name));
  return pickle_new(m, PK_NONE);
}

// ---- storages and tensors ----

static bool is_int(const Pickled *v) { return v->kind == PK_INT; }

Pickled *pickle_persistent(PickleMachine *m, Pickled *id) {
  Pickled *s = pickle_new(m, PK_STORAGE);
  const PickledVec *t = &id->items;
  bool fine = id->kind == PK_TUPLE && (t->n == 5 || t->n == 6) && t->v[0]->kind == PK_STR &&
              str_is(t->v[0]->s, "storage") && t->v[1]->kind == PK_GLOBAL &&
              t->v[1]->i == (int64_t)NAME_STORAGE && is_int(t->v[4]) && t->v[4]->i >= 0;
  bool keyed = fine && (t->v[2]->kind == PK_STR || is_int(t->v[2]));
  if (!keyed || (t->n == 6 && t->v[5]->kind != PK_NONE)) {
    pickle_bad(m, "a reference that is no storage");
    return s;
  }
  s->s = t->v[2]->kind == PK_STR ? t->v[2]->s
                                 : str_of(str_printf(m->arena, "%lld", (long long)t->v[2]->i));
  s->i = t->v[4]->i;
  if (!torch_dtype(t->v[1]->s, &s->dtype))
    s->dtype = DT_U8;  // bytes, of a type that the tensor says
  return s;
}

static bool take_sizes(const Pickled *v, int64_t *out, int *rank) {
  if ((v->kind != PK_TUPLE && v->kind != PK_LIST) || v->items.n > MAX_RANK) return false;
  *rank = (int)v->items.n;
  for (int i = 0; i < *rank; i++) {
    if (!is_int(v->items.v[i]) || v->items.v[i]->i < 0) return false;
    out[i] = v->items.v[i]->i;
  }
  return true;
}

// A tensor that is conjugated or negated whenever it is read: what is stored are other numbers.
static bool is_lazy(const Pickled *metadata) {
  if (metadata->kind != PK_DICT) return false;
  for (int64_t i = 0; i + 1 < metadata->items.n; i += 2)
    if (metadata->items.v[i + 1]->kind == PK_BOOL && metadata->items.v[i + 1]->i) return true;
  return false;
}

static Pickled *make_tensor(PickleMachine *m, const Pickled *args, bool v3) {
  Pickled *t = pickle_new(m, PK_TENSOR);
  const PickledVec *a = &args->items;
  int strides = 0;
  bool fine = a->n >= (v3 ? 7 : 4) && a->v[0]->kind == PK_STORAGE && is_int(a->v[1]) &&
              a->v[1]->i >= 0 && take_sizes(a->v[2], t->dims, &t->rank) &&
              take_sizes(a->v[3], t->strides, &strides) && strides == t->rank;
  if (!fine || !shape_count(t->rank, t->dims, &t->n)) {
    pickle_bad(m, "a tensor whose storage, offset, sizes and strides are none");
    return t;
  }
  t->state = a->v[0];
  t->offset = a->v[1]->i;
  t->dtype = t->state->dtype;
  if (v3 && (a->v[6]->kind != PK_GLOBAL || !torch_dtype(a->v[6]->s, &t->dtype)))
    pickle_bad(m, "a tensor whose dtype is none");
  if (a->n > (v3 ? 7 : 6) && is_lazy(a->v[v3 ? 7 : 6]))
    pickle_bad(m, "a tensor that is conjugated or negated only when it is read: save what "
                  "resolve_conj() or resolve_neg() gives");
  return t;
}

static Pickled *make_dict(PickleMachine *m, const Pickled *args) {
  Pickled *d = pickle_new(m, PK_DICT);
  if (!args->items.n || args->items.v[0]->kind != PK_LIST) return d;
  const PickledVec *pairs = &args->items.v[0]->items;
  for (int64_t i = 0; i < pairs->n; i++) {
    const Pickled *p = pairs->v[i];
    if ((p->kind != PK_TUPLE && p->kind != PK_LIST) || p->items.n != 2) {
      pickle_bad(m, "a dictionary of what are no pairs");
      return d;
    }
    vec_push(m->arena, &d->items, p->items.v[0]);
    vec_push(m->arena, &d->items, p->items.v[1]);
  }
  return d;
}

static Pickled *first_of(PickleMachine *m, const Pickled *args) {
  if (args->items.n) return args->items.v[0];
  pickle_bad(m, "an argument is missing");
  return pickle_new(m, PK_NONE);
}

Pickled *pickle_apply(PickleMachine *m, const Pickled *fn, Pickled *args, bool new_object) {
  switch ((PickleName)fn->i) {
  case NAME_DICT: return make_dict(m, args);
  case NAME_LIST: {
    if (!args->items.n) return pickle_new(m, PK_LIST);
    Pickled *v = first_of(m, args);
    if (v->kind != PK_LIST && v->kind != PK_TUPLE) pickle_bad(m, "a list of what is none");
    return v;
  }
  case NAME_TENSOR: return make_tensor(m, args, false);
  case NAME_TENSOR_V3: return make_tensor(m, args, true);
  case NAME_PARAMETER:
  case NAME_FIRST: return first_of(m, args);
  case NAME_FROM_TYPE:
    if (args->items.n >= 3 && args->items.v[0]->kind == PK_GLOBAL &&
        (args->items.v[0]->i == NAME_TENSOR || args->items.v[0]->i == NAME_TENSOR_V3) &&
        args->items.v[2]->kind == PK_TUPLE)
      return make_tensor(m, args->items.v[2], args->items.v[0]->i == NAME_TENSOR_V3);
    break;
  case NAME_NOTHING: return pickle_new(m, PK_NONE);
  case NAME_CLASS:
    if (new_object) {
      Pickled *o = pickle_new(m, PK_OBJECT);
      o->s = fn->s;
      return o;
    }
    break;
  case NAME_QUANTISED:
    m->status = fail(m->diag, TENON_EUNSUPPORTED, m->at, "the file holds quantised tensors");
    return pickle_new(m, PK_NONE);
  case NAME_STORAGE:
  case NAME_DTYPE: break;
  }
  pickle_bad(m, "'%.*s' cannot be used so", STR_ARG(fn->s));
  return pickle_new(m, PK_NONE);
}
