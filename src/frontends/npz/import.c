// import.c -- archives of NumPy arrays (.npz) as files of weights.
#include "frontends/common/frontend.h"

#include "base/npy.h"

static bool is_zip(Str s) { return s.n >= 4 && !memcmp(s.p, "PK", 2); }

static tenon_status import_npz(Imported *in, Diag *d) {
  TRY(frontend_begin(in, d));
  Graph *g = in->graph;
  NdArrayList list;
  TRY(npz_read(&g->arena, in->bytes, d, &list));
  for (int64_t i = 0; i < list.n; i++) {
    const NdArray *v = &list.v[i];
    // NumPy has no name for bf16: two bytes without a type are that.  One byte may be any of the
    // 8-bit floats.
    DType t = v->void_bytes == 2 ? DT_BF16 : v->dtype;
    if (v->void_bytes == 1)
      vec_push(&g->arena, &in->warnings,
               str_printf(&g->arena, "the array '%.*s' has bytes without a type: it is left out",
                          STR_ARG(v->name)));
    if (!t || t == DT_STRING || v->rank > MAX_RANK) continue;  // nothing that a graph computes with
    Weight w = {.name = str_copy(&g->arena, v->name),
                .dtype = t,
                .rank = v->rank,
                .n = v->n,
                .data = v->data,
                .bytes = v->bytes};
    memcpy(w.dims, v->dims, (size_t)v->rank * sizeof *w.dims);
    if (!weights_add(&in->weights, &g->arena, &w))
      return fail(d, TENON_EFORMAT, NOWHERE, "the array '%s' is there twice", w.name);
  }
  in->about = "NumPy archive";
  frontend_no_graph(
      in, "the archive holds arrays alone, and no graph; give it as --weights to a model");
  return TENON_OK;
}

const Frontend frontend_npz = {
    .name = "npz", .doc = "NumPy archives: weights by name", .is = is_zip, .import = import_npz};
