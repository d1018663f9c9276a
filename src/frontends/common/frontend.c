// frontend.c -- the table of readers, and what they share (frontend.h).
#include "frontends/common/frontend.h"

// In order of certainty: a magic number first, protobuf, which has none, last.
const Frontend *const frontends[] = {
    &frontend_stablehlo,  // before text: both may begin with a comment
    &frontend_text,      &frontend_gguf, &frontend_tflite,
    &frontend_pytorch,   &frontend_npz,  &frontend_safetensors,
    &frontend_index,     &frontend_onnx, NULL};

const Frontend *frontend_of(Str bytes) {
  for (int i = 0; frontends[i]; i++)
    if (frontends[i]->is(bytes)) return frontends[i];
  return &frontend_onnx;
}

const Frontend *frontend_find(const char *name) {
  for (int i = 0; frontends[i]; i++)
    if (!strcmp(frontends[i]->name, name)) return frontends[i];
  return NULL;
}

tenon_status frontend_begin(Imported *in, Diag *d) {
  TRY(graph_create(d, &in->graph));
  Graph *g = in->graph;
  g->custom = in->custom;
  g->arena.limit = g->scratch.limit = in->memory_limit;
  g->dims.fixed = in->fixed;
  g->dims.nfixed = in->nfixed;
  Source *s = arena_new(&g->arena, Source);
  s->label = in->path ? str_copy(&g->arena, str_of(in->path)) : "<memory>";
  s->file = (File){.bytes = (const uint8_t *)in->bytes.p, .size = in->bytes.n};
  s->opened = true;  // by the caller, who also closes it
  vec_push(&g->arena, &g->source, s);
  weights_init(&in->weights, &g->arena);
  return TENON_OK;
}

void frontend_no_graph(Imported *in, const char *why) {
  Graph *g = in->graph;
  g->main = body_new(g, "main", 0, NULL, 0, NULL);
  g->body.n--;  // main is not among the bodies of control flow
  in->empty = why;
}

void frontend_fact(Imported *in, const char *key, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  ModelFact f = {str_copy(&in->graph->arena, str_of(key)), str_vprintf(&in->graph->arena, fmt, ap)};
  va_end(ap);
  vec_push(&in->graph->arena, &in->facts, f);
}

void frontend_unsupported(Imported *in, const char *op, const char *why, const char *node) {
  for (int64_t i = 0; i < in->unsupported.n; i++)
    if (!strcmp(in->unsupported.v[i].op, op)) {
      in->unsupported.v[i].count++;
      return;
    }
  Arena *a = &in->graph->arena;
  Unsupported u = {str_copy(a, str_of(op)), why, str_copy(a, str_of(node ? node : "")), 1};
  vec_push(a, &in->unsupported, u);
}

const InputType *frontend_type(const Imported *in, Str name, int64_t position) {
  for (int64_t i = 0; i < in->ntypes; i++) {
    int64_t at;
    if (str_eq(in->types[i].name, name)) return &in->types[i];
    if (str_to_i64(in->types[i].name, &at) && at == position) return &in->types[i];
  }
  return NULL;
}

const Type *frontend_type_of(Graph *g, const InputType *t) {
  Dim dims[MAX_RANK];
  for (int i = 0; i < t->rank; i++)
    dims[i] = t->dim[i].symbol.n ? ie_sym(&g->dims, t->dim[i].symbol, 0, INT64_MAX)
                                 : ie_const(&g->dims, t->dim[i].size);
  return type_tensor(g, t->dtype, t->rank, dims);
}

static Str trimmed(Str s) {
  while (s.n && (s.p[0] == ' ' || s.p[0] == '\t')) s = (Str){s.p + 1, s.n - 1};
  while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t')) s.n--;
  return s;
}

static bool is_symbol(Str s) {
  for (int64_t i = 0; i < s.n; i++) {
    char c = s.p[i];
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (!letter && !(i && c >= '0' && c <= '9')) return false;
  }
  return s.n > 0;
}

static bool parse_dims(Str s, InputType *out) {
  for (int64_t i = 0, start = 0; i <= s.n; i++) {
    if (i < s.n && s.p[i] != ',' && s.p[i] != 'x') continue;
    // "batch" has no x; sizes such as 1x3x224 may be joined by one
    if (i < s.n && s.p[i] == 'x' && !(i > start && s.p[i - 1] >= '0' && s.p[i - 1] <= '9'))
      continue;
    Str part = trimmed((Str){s.p + start, i - start});
    start = i + 1;
    if (out->rank == MAX_RANK) return false;
    if (str_to_i64(part, &out->dim[out->rank].size)) {
      if (out->dim[out->rank].size < 0) return false;
    } else if (is_symbol(part)) {
      out->dim[out->rank].symbol = part;
    } else {
      return false;
    }
    out->rank++;
  }
  return true;
}

bool input_type_parse(Str text, InputType *out) {
  *out = (InputType){0};
  const char *equals = text.n ? memchr(text.p, '=', (size_t)text.n) : NULL;
  if (!equals || equals == text.p) return false;
  out->name = trimmed((Str){text.p, equals - text.p});
  Str rest = trimmed((Str){equals + 1, text.p + text.n - equals - 1});
  int64_t number;
  if (str_to_i64(rest, &number)) {
    out->dtype = DT_I64;
    out->known = out->fixed = true;
    out->value = (double)number;
    return true;
  }
  const char *open = rest.n ? memchr(rest.p, '[', (size_t)rest.n) : NULL;
  if (!open) return dtype_parse(rest, &out->dtype);  // a scalar
  if (rest.p[rest.n - 1] != ']') return false;
  if (!dtype_parse(trimmed((Str){rest.p, open - rest.p}), &out->dtype)) return false;
  Str dims = trimmed((Str){open + 1, rest.p + rest.n - 1 - (open + 1)});
  return !dims.n || parse_dims(dims, out);
}
