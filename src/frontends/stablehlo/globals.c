// globals.c -- constants that a module keeps outside of its functions (IREE's util.global) are
// constants where they are read.
//
// util.global.load and util.global.load.indirect become stablehlo.constant; util.global.address,
// which has no other use, goes.  A global without a value, or one that is stored to, stays as it
// is: the importer refuses it by name.
#include "frontends/stablehlo/internal.h"

static void find_globals(const MlirModule *m, StrMap *globals) {
  for (int64_t i = 0; i < m->nothers; i++) {
    const MlirOp *op = m->others[i];
    const MlirAttr *value = mlir_attr(op, "initial_value");
    const char *name = mlir_word(mlir_attr(op, "sym_name"), NULL);
    if (!strcmp(op->name, "util.global") && name && value && value->kind == MA_DENSE)
      strmap_put(globals, str_of(name), (void *)(uintptr_t)value);
  }
}

static const MlirAttr *loaded(const MlirOp *op, const StrMap *globals) {
  const MlirOp *from = op;
  if (!strcmp(op->name, "util.global.load.indirect") && op->noperands == 1)
    from = op->operands[0]->op;
  else if (strcmp(op->name, "util.global.load"))
    return NULL;
  const char *name = from ? mlir_word(mlir_attr(from, "global"), NULL) : NULL;
  const MlirAttr *value = name ? strmap_get(globals, str_of(name)) : NULL;
  bool fits = value && op->nresults == 1 && mlir_type_eq(value->type, op->results[0]->type);
  return fits ? value : NULL;
}

void mlir_inline_globals(Arena *a, MlirModule *m) {
  StrMap globals;
  strmap_init(&globals, a);
  find_globals(m, &globals);
  if (!globals.n) return;
  for (int64_t i = 0; i < m->nfuncs; i++) {
    MlirBlock *b = (MlirBlock *)(uintptr_t)m->funcs[i]->body;
    if (!b) continue;
    MlirOp **kept = arena_array(a, MlirOp *, MAX(b->nops, 1));
    int64_t n = 0;
    for (int64_t k = 0; k < b->nops; k++) {
      MlirOp *op = b->ops[k];
      const MlirAttr *value = loaded(op, &globals);
      if (value) {
        MlirField *f = arena_new(a, MlirField);
        *f = (MlirField){"value", value};
        op->name = "stablehlo.constant";
        op->noperands = 0;
        op->attrs = f;
        op->nattrs = 1;
      }
      if (strcmp(op->name, "util.global.address")) kept[n++] = op;
    }
    b->ops = kept;
    b->nops = n;
  }
}
