// frontend.c -- StableHLO as a row of the table of readers, and what a file says about itself.
#include "frontends/stablehlo/import.h"

static void add_attrs(Imported *in, const MlirModule *m) {
  for (int64_t i = 0; i < m->nattrs; i++) {
    const MlirAttr *v = m->attrs[i].value;
    if (!strcmp(m->attrs[i].name, "sym_name")) continue;
    if (v->kind == MA_INT)
      frontend_fact(in, m->attrs[i].name, "%lld", (long long)v->i);
    else if (mlir_word(v, NULL))
      frontend_fact(in, m->attrs[i].name, "%.200s", v->text);
  }
}

static void add_facts(Imported *in, const MlirFile *f) {
  const MlirModule *m = f->modules[0];
  const MlirFunc *main = mlir_main(m);
  if (f->nmodules > 1)
    frontend_fact(in, "parts", "%lld, of which the first is read", (long long)f->nmodules);
  if (*m->name) frontend_fact(in, "module", "%.200s", m->name);
  if (main) frontend_fact(in, "function", "@%.200s of %lld", main->name, (long long)m->nfuncs);
  if (f->form != MLIR_TEXT) frontend_fact(in, "bytecode version", "%lld", (long long)f->version);
  if (f->jax) {
    frontend_fact(in, "exported as", "%.200s", f->jax->name);
    frontend_fact(in, "platforms", "%.200s", f->jax->platforms);
    frontend_fact(in, "calling convention", "%lld", (long long)f->jax->calling_convention);
  }
  add_attrs(in, m);
}

static tenon_status import_file(Imported *in, Diag *d) {
  TRY(hlo_import_frontend(in, d));
  const MlirFile *f = in->file;
  if (f && f->nmodules) add_facts(in, f);
  return TENON_OK;
}

const Frontend frontend_stablehlo = {
    .name = "stablehlo",
    .doc = "StableHLO: MLIR text, portable bytecode (VHLO), jax.export files",
    .is = mlir_is,
    .import = import_file,
    .ops = hlo_ops};
