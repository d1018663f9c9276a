// overrides.c -- inputs that have a default in the model's file, and sizes that are fixed.
//
// An initializer that is also listed as an input is the input's default.  Such inputs are
// constants, as most files that list them mean it, unless the command line gives them: then the
// model is opened again with them as inputs.

#include "base/npy.h"
#include "cli/inputs.h"
#include "cli/open.h"
#include "cli/run/overrides.h"

static bool is_default(const Model *m, Str name) {
  for (int64_t i = 0; i < m->import.defaults.n; i++)
    if (str_is(name, m->import.defaults.v[i])) return true;
  return false;
}

typedef VEC(Str) Names;
typedef VEC(InputType) TypeVec;

// Names in an archive; one that cannot be read is left to whoever reads its arrays.
static void names_in(Cli *c, const Model *m, const char *path, Names *out) {
  static Diag quiet;
  diag_init(&quiet);
  File f;
  if (!strcmp(path, "-") || file_open(path, &f, &quiet)) return;
  NdArrayList list;
  if (!npz_read(&c->arena, (Str){(const char *)f.bytes, f.size}, &quiet, &list))
    for (int64_t i = 0; i < list.n; i++)
      if (is_default(m, list.v[i].name))
        vec_push(&c->arena, out, ((Str){str_copy(&c->arena, list.v[i].name), list.v[i].name.n}));
  file_close(&f);
}

int fixed_read(Cli *c, const OptionValue *fix, ModelOptions *o) {
  o->fixed = arena_array(&c->arena, IntFixed, MAX(fix->count, 1));
  o->nfixed = fix->count;
  for (int64_t i = 0; i < fix->count; i++) {
    const char *name, *text;
    int64_t size;
    if (!opt_split(c, fix->text[i], &name, &text) || !str_to_i64(str_of(text), &size) || size < 0)
      return cli_usage(c, "--fix takes NAME=N with a size, not '%s'", fix->text[i]);
    o->fixed[i] = (IntFixed){.name = str_of(name), .value = size};
  }
  return CLI_OK;
}

int foreign_read(Cli *c, const OptionValue *type, const OptionValue *weights, ModelOptions *o) {
  InputType *types = arena_array(&c->arena, InputType, MAX(type->count, 1));
  for (int64_t i = 0; i < type->count; i++)
    if (!input_type_parse(str_of(type->text[i]), &types[i]))
      return cli_usage(c, "--type takes NAME=TYPE such as x=f32[1,3,224,224], not '%s'",
                       type->text[i]);
  o->types = types;
  o->ntypes = type->count;
  if (weights->count) o->weights = weights->text[weights->count - 1];
  return CLI_OK;
}

tenon_status open_fixed(Cli *c, const char *path, const ModelOptions *o, Model **out) {
  TRY(cli_open(c, path, o, &c->diag, out));
  for (int64_t i = 0; i < o->nfixed; i++) {
    if (o->fixed[i].used) continue;
    HintText hint = dim_hint((*out)->graph, o->fixed[i].name, &c->arena);
    const char *why = (*out)->program ? ": it is compiled already"
                      : *hint.s       ? hint.s
                                      : "; `tenon inspect` lists them";
    fail(&c->diag, TENON_EINVAL, NOWHERE, "--fix: %s has no symbolic dimension '%s'%s", path,
         o->fixed[i].name.p, why);
    model_free(*out);
    *out = NULL;
    c->misused = true;
    return TENON_EINVAL;
  }
  return TENON_OK;
}

// The arrays that are given for inputs say what the inputs are, too.
static void add_type(Cli *c, TypeVec *out, Str name, const NdArray *v) {
  InputType t = {.name = name, .dtype = v->dtype, .rank = v->rank};
  if (!v->dtype || v->rank > MAX_RANK) return;
  for (int i = 0; i < v->rank; i++) t.dim[i].size = v->dims[i];
  t.known = !v->rank && (dtype_is_int(v->dtype) || v->dtype == DT_BOOL);
  if (t.known) t.value = get_f64(v->dtype, v->data, 0);
  vec_push(&c->arena, out, t);
}

static void types_of_inputs(Cli *c, const OptionValue *input, const char *inputs, TypeVec *out) {
  static Diag quiet;  // what cannot be read is reported by whoever reads the arrays
  FileList files = {0};
  NdArrayList list;
  diag_init(&quiet);
  for (int64_t i = 0; i < input->count; i++) {
    const char *equals = strchr(input->text[i], '=');
    if (equals && !arrays_read(&c->arena, equals + 1, &files, &quiet, &list) && list.n == 1)
      add_type(c, out, (Str){input->text[i], equals - input->text[i]}, &list.v[0]);
  }
  if (inputs && strcmp(inputs, "-") != 0 && !arrays_read(&c->arena, inputs, &files, &quiet, &list))
    for (int64_t i = 0; i < list.n; i++)
      add_type(c, out, str_of(str_copy(&c->arena, list.v[i].name)), &list.v[i]);
  for (int64_t i = 0; i < files.n; i++) file_close(&files.v[i]);
}

tenon_status open_with_overrides(Cli *c, const char *path, const OptionValue *input,
                                 const char *inputs, ModelOptions o, Model **out) {
  o.compiled = COMPILED_RUN;
  TRY(open_fixed(c, path, &o, out));
  if ((*out)->import.wants_types) {
    TypeVec types = {0};
    for (int64_t i = 0; i < o.ntypes; i++) vec_push(&c->arena, &types, o.types[i]);
    types_of_inputs(c, input, inputs, &types);
    if (types.n == o.ntypes) return TENON_OK;  // nothing new: the model says what it needs
    model_free(*out);
    o.types = types.v;
    o.ntypes = types.n;
    TRY(open_fixed(c, path, &o, out));
  }
  if (!(*out)->import.defaults.n) return TENON_OK;
  Names names = {0};
  for (int64_t i = 0; i < input->count; i++) {
    const char *equals = strchr(input->text[i], '=');
    Str name = {input->text[i], equals ? equals - input->text[i] : 0};
    if (is_default(*out, name)) vec_push(&c->arena, &names, name);
  }
  if (inputs) names_in(c, *out, inputs, &names);
  if (!names.n) return TENON_OK;
  model_free(*out);
  o.compiled = COMPILED_REFUSED;
  o.given = (Strs){names.n, names.v};
  return open_fixed(c, path, &o, out);
}
