// cmd_convert.c -- `tenon convert`: a model, or its weights alone, as a file that other programs
// read.
//
// The ending of the output's name decides.  Graphs are written by exporters/; of weights, packed
// ones are unpacked and views made dense.  A model with a graph gives its constants by name.
#include "cli/cli.h"
#include "cli/files.h"
#include "cli/opt.h"
#include "cli/run/overrides.h"

#include "api/model.h"
#include "base/npy.h"
#include "exporters/export.h"

static tenon_status constants_of(Cli *c, Model *m, Weights *out) {
  Graph *g = m->graph;
  NodeList order = body_order(g, g->main, &c->arena);
  weights_init(out, &c->arena);
  for (int64_t i = 0; i < order.n; i++) {
    const Node *n = order.v[i];
    const Type *t = type_of(n);
    if (n->op != OP_const || !n->name || t->dtype == DT_STRING) continue;
    Weight w = {.name = n->name, .dtype = t->dtype, .rank = t->rank, .n = n->data->n};
    for (int k = 0; k < t->rank; k++) w.dims[k] = t->dims[k]->value;
    const void *bytes;
    TRY(const_bytes(g, n, &bytes, &c->diag));
    w.data = bytes;
    if (!dtype_bytes(w.dtype, w.n, &w.bytes)) continue;
    weights_add(out, &c->arena, &w);
  }
  return TENON_OK;
}

// ---- safetensors ----

static const char *safe_name(DType t) {
  switch (t) {
  case DT_BOOL: return "BOOL";
  case DT_U8: return "U8";
  case DT_I8: return "I8";
  case DT_U16: return "U16";
  case DT_I16: return "I16";
  case DT_U32: return "U32";
  case DT_I32: return "I32";
  case DT_U64: return "U64";
  case DT_I64: return "I64";
  case DT_F16: return "F16";
  case DT_BF16: return "BF16";
  case DT_F32: return "F32";
  case DT_F64: return "F64";
  case DT_F8E4M3: return "F8_E4M3";
  case DT_F8E5M2: return "F8_E5M2";
  case DT_F8E8M0: return "F8_E8M0";
  case DT_C64: return "C64";
  default: return NULL;
  }
}

static tenon_status safetensors_header(Cli *c, const Weights *all, StrBuf *b) {
  JsonWriter w;
  int64_t at = 0;
  json_init(&w, b, true);
  json_begin_object(&w);
  json_key(&w, "__metadata__");
  json_begin_object(&w);
  json_key(&w, "generator");
  json_cstr(&w, FILE_MARK " " TENON_VERSION);
  json_end_object(&w);
  for (int64_t i = 0; i < all->v.n; i++) {
    const Weight *x = &all->v.v[i];
    int64_t bytes;
    if (!safe_name(x->dtype))
      return fail(&c->diag, TENON_EUNSUPPORTED, (Where){.node = x->name},
                  "safetensors has no type for %s", dtype_name(x->dtype));
    if (!dtype_bytes(x->dtype, x->n, &bytes) || bytes > INT64_MAX / 2 - at)
      return fail(&c->diag, TENON_EINVAL, (Where){.node = x->name}, "the sizes overflow");
    json_key(&w, x->name);
    json_begin_object(&w);
    json_key(&w, "dtype");
    json_cstr(&w, safe_name(x->dtype));
    json_key(&w, "shape");
    json_begin_array(&w);
    for (int k = 0; k < x->rank; k++) json_i64(&w, x->dims[k]);
    json_end_array(&w);
    json_key(&w, "data_offsets");
    json_begin_array(&w);
    json_i64(&w, at);
    json_i64(&w, at + bytes);
    json_end_array(&w);
    json_end_object(&w);
    at += bytes;
  }
  json_end_object(&w);
  while (b->n % 8) strbuf_putc(b, ' ');  // the data begins aligned
  return TENON_OK;
}

static tenon_status write_safetensors(Cli *c, const Weights *all, const char *path) {
  StrBuf b;
  strbuf_init(&b, &c->arena);
  TRY(safetensors_header(c, all, &b));
  uint8_t length[8];
  for (int i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)b.n >> (8 * i));
  Str *part = arena_array(&c->arena, Str, all->v.n + 2);
  part[0] = (Str){(const char *)length, 8};
  part[1] = strbuf_str(&b);
  for (int64_t i = 0; i < all->v.n; i++) {
    int64_t bytes = 0;
    (void)dtype_bytes(all->v.v[i].dtype, all->v.v[i].n, &bytes);
    part[i + 2] = (Str){weight_elements(&all->v.v[i], &c->arena), bytes};
  }
  return file_write_parts(path, part, (int)all->v.n + 2, &c->diag);
}

static tenon_status write_npz(Cli *c, const Weights *all, const char *path) {
  NdArray *v = arena_array(&c->arena, NdArray, all->v.n + 1);
  for (int64_t i = 0; i < all->v.n; i++) {
    const Weight *w = &all->v.v[i];
    v[i] = (NdArray){.name = str_of(w->name), .dtype = w->dtype, .rank = w->rank, .n = w->n};
    memcpy(v[i].dims, w->dims, sizeof w->dims);
    v[i].data = weight_elements(w, &c->arena);
    (void)dtype_bytes(w->dtype, w->n, &v[i].bytes);
  }
  return npz_write(path, v, all->v.n, opt_given(c, OPT_convert_compress), &c->diag);
}

static tenon_status convert_weights(Cli *c, Model *m, const char *path) {
  Weights constants, *all = &m->import.weights;
  if (!all->v.n) {
    TRY(constants_of(c, m, &constants));
    all = &constants;
  }
  if (!all->v.n) return fail(&c->diag, TENON_EINVAL, NOWHERE, "the model holds no weights by name");
  if (str_ends(str_of(path), ".npz"))
    TRY(write_npz(c, all, path));
  else
    TRY(write_safetensors(c, all, path));
  say(c, "%s: %lld tensors\n", path, (long long)all->v.n);
  return TENON_OK;
}

// ---- graphs ----

// Rules are applied, but nothing is laid out or fused for a machine: no other program knows our
// kernels.
static tenon_status optimise(Cli *c, Graph *g, bool exact) {
  CompileOptions o;
  CompileReport made = {0};
  OptCall call = {
      .sibling_of = c->pos[0], .label = c->pos[0], .command = "tenon convert --optimised"};
  compile_defaults(&o);
  o.exact = exact;
  o.stop_after = "simplify-graph";
  opt_guard(&o, &call);
  return compile_graph(g, &o, COMPILE_OPTIMISE, &c->arena, &c->diag, &made);
}

static tenon_status add_external_data(void *ctx, const char *path) {
  Cli *c = ctx;
  if (!files_output(c, path, "the file of constants")) return TENON_OK;
  c->misused = true;
  return TENON_EINVAL;
}

static tenon_status convert_onnx(Cli *c, Model *m, const char *path) {
  Graph *g = m->graph;
  ExportOptions o = {.opset = opt_int(c, OPT_convert_opset, 0),
                     .external_data = add_external_data,
                     .external_data_ctx = c};
  TRY(model_need_supported(m, &c->diag));
  if (opt_given(c, OPT_convert_external)) o.external_from = 1;
  bool exact = opt_given(c, OPT_convert_exact);
  if (opt_given(c, OPT_convert_optimised) || exact) TRY(optimise(c, g, exact));
  TRY(export_onnx(g, path, &o, &c->diag));
  say(c, "%s: %lld nodes\n", path, (long long)graph_count_nodes(g));
  return TENON_OK;
}

// Shape arithmetic must be gone, since sizes are numbers there; so what changes no bit is done in
// any case.
static tenon_status convert_stablehlo(Cli *c, Model *m, const char *path) {
  TRY(model_need_supported(m, &c->diag));
  TRY(optimise(c, m->graph,
               opt_given(c, OPT_convert_exact) || !opt_given(c, OPT_convert_optimised)));
  TRY(export_stablehlo(m->graph, path, &c->diag));
  say(c, "%s: %lld nodes\n", path, (long long)graph_count_nodes(m->graph));
  return TENON_OK;
}

// What can be written, by the ending of the name.
static const struct {
  const char *ending;
  tenon_status (*fn)(Cli *c, Model *m, const char *path);
} formats[] = {{".onnx", convert_onnx},
               {".mlir", convert_stablehlo},
               {".npz", convert_weights},
               {".safetensors", convert_weights}};

int cmd_convert(Cli *c) {
  const char *path = opt_text(c, OPT_convert_output, NULL);
  if (!path) return cli_usage(c, "convert needs -o F.onnx, F.mlir, F.npz or F.safetensors");
  int64_t to = 0;
  while (to < ARRAY_LEN(formats) && !str_ends(str_of(path), formats[to].ending)) to++;
  if (to == ARRAY_LEN(formats))
    return cli_usage(c, "convert writes .onnx, .mlir, .npz and .safetensors, not '%s'", path);
  Model *m;
  ModelOptions o = {0};
  int rc = foreign_read(c, &c->opt[OPT_convert_type], &c->opt[OPT_convert_weights], &o);
  if (!rc) rc = fixed_read(c, &c->opt[OPT_convert_fix], &o);
  if (!rc) rc = cli_exit_of(open_fixed(c, c->pos[0], &o, &m));
  if (rc) return rc;
  rc = cli_exit_of(formats[to].fn(c, m, path));
  model_free(m);
  return rc;
}
