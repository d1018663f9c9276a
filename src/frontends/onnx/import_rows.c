// import_rows.c -- which row or op record takes a foreign op.
#include "frontends/onnx/import.h"

static Str normal_domain(Str d) { return str_is(d, "ai.onnx") ? STR("") : d; }

static Str key_of(Arena *a, Str domain, Str op) {
  return str_of(str_printf(a, "%.*s:%.*s", STR_ARG(normal_domain(domain)), STR_ARG(op)));
}

static void add(Import *im, Str key, const ImportRow *row, const OpInfo *op) {
  RowList *l = arena_new(im->arena, RowList);
  *l = (RowList){row, op, strmap_get(&im->rows, key)};
  strmap_put(&im->rows, key, l);
}

// "com.microsoft.FusedMatMul" -> domain and op
static void split_onnx_name(const char *full, Str *domain, Str *op) {
  const char *dot = strrchr(full, '.');
  *domain = dot ? (Str){full, dot - full} : STR("");
  *op = str_of(dot ? dot + 1 : full);
}

void import_rows_init(Import *im) {
  strmap_init(&im->rows, im->arena);
  for (int i = 0; i < OP_COUNT; i++) {
    if (!op_table[i]->onnx) continue;
    Str domain, op;
    split_onnx_name(op_table[i]->onnx, &domain, &op);
    add(im, key_of(im->arena, domain, op), NULL, op_table[i]);
  }
  for (const ImportTable *const *t = onnx_tables; *t; t++)
    for (int64_t i = 0; i < (*t)->n; i++) {
      const ImportRow *r = &(*t)->row[i];
      add(im, key_of(im->arena, str_of(r->domain), str_of(r->op)), r, NULL);
    }
}

RowList *import_rows_find(Import *im, Str domain, Str op) {
  ArenaMark m = arena_mark(&im->g->scratch);
  RowList *l = strmap_get(&im->rows, key_of(&im->g->scratch, domain, op));
  arena_reset(&im->g->scratch, m);
  return l;
}

// Distance of two names, case being the least of differences.
static int64_t name_distance(Str a, Str b) {
  int64_t same = a.n == b.n;
  for (int64_t i = 0; same && i < a.n; i++) same = (a.p[i] | 32) == (b.p[i] | 32);
  return same ? 0 : str_distance(a, b);
}

const char *import_nearest(Str domain, Str op) {
  const char *best = NULL;
  int64_t best_distance = MAX(1, op.n / 3) + 1;
  domain = normal_domain(domain);
  for (int i = 0; i < OP_COUNT; i++) {
    if (!op_table[i]->onnx) continue;
    Str d, o;
    split_onnx_name(op_table[i]->onnx, &d, &o);
    int64_t distance = name_distance(o, op) + (str_eq(d, domain) ? 0 : str_eq(o, op) ? 0 : 1);
    if (distance < best_distance) {
      best_distance = distance;
      best = op_table[i]->onnx;
    }
  }
  return best;
}

int64_t import_opset(const Import *im, Str domain) {
  domain = normal_domain(domain);
  if (im->frame && im->frame->fn->opsets.n)
    for (int64_t i = 0; i < im->frame->fn->opsets.n; i++)
      if (str_eq(normal_domain(im->frame->fn->opsets.v[i].domain), domain))
        return im->frame->fn->opsets.v[i].version;
  for (int64_t i = 0; i < im->model->opsets.n; i++)
    if (str_eq(normal_domain(im->model->opsets.v[i].domain), domain))
      return im->model->opsets.v[i].version;
  return 0;
}
