// overrides.c -- inputs that have a default in the model's file.
//
// An initializer that is also listed as an input is the input's default.  Such inputs are constants, as most files that list
// them mean it, unless the command line gives them: then the model is opened again with them as inputs.

#include "base/npy.h"
#include "cli/overrides.h"

static bool is_default(const Model *m, Str name) {
  for (int64_t i = 0; i < m->onnx.defaults.n; i++)
    if (str_is(name, m->onnx.defaults.v[i])) return true;
  return false;
}

typedef VEC(Str) Names;

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

tenon_status open_with_overrides(Cli *c, const char *path, const OptionValue *input,
                                 const char *inputs, Model **out) {
  TRY(model_open(path, &(ModelOptions){.compiled = true}, &c->diag, out));
  if (!(*out)->onnx.defaults.n) return TENON_OK;
  Names names = {0};
  for (int64_t i = 0; i < input->count; i++) {
    const char *equals = strchr(input->text[i], '=');
    Str name = {input->text[i], equals ? equals - input->text[i] : 0};
    if (is_default(*out, name)) vec_push(&c->arena, &names, name);
  }
  if (inputs) names_in(c, *out, inputs, &names);
  if (!names.n) return TENON_OK;
  model_free(*out);
  return model_open(path, &(ModelOptions){.given = {names.n, names.v}}, &c->diag, out);
}
