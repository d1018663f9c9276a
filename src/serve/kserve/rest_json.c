// rest_json.c -- requests and answers of inference in JSON (rest_json.h).
//
// The elements of an input may be most of a body, and a tree of them would take many times its
// size.  So the arrays of inputs[i].data are cut out first, in one walk over the text; the rest is
// small and becomes a tree.  The elements are then read where they stand.
#include "serve/kserve/rest_json.h"

#include "serve/limits.h"

// ---- cutting out the data ----
enum { LEVELS = 4 };  // the request, its inputs, an input, its data

typedef struct Level {
  char kind;        // '{' or '['
  Str key;          // of an object: the last one
  bool expect_key;  // of an object: a string is a key
  int64_t index;    // of an array
} Level;

typedef VEC(Str) StrVec;

typedef struct Cutter {
  const char *p, *end;
  int64_t depth;
  Level level[LEVELS];
  StrBuf rest;
  StrVec data;   // of each input, at most SERVE_TENSORS
  int64_t keep;  // text from here was not copied yet: an offset
  const char *text;
} Cutter;

// Behind the string that begins at c->p.
static Str skip_string(Cutter *c) {
  const char *from = ++c->p;
  while (c->p < c->end && *c->p != '"') c->p += *c->p == '\\' && c->end - c->p > 1 ? 2 : 1;
  Str s = {from, c->p - from};
  if (c->p < c->end) c->p++;
  return s;
}

static bool at_data(const Cutter *c) {
  const Level *l = c->level;
  return c->depth == 3 && l[0].kind == '{' && str_is(l[0].key, "inputs") && l[1].kind == '[' &&
         l[2].kind == '{' && str_is(l[2].key, "data") && !l[2].expect_key &&
         l[1].index < SERVE_TENSORS;
}

// The array at c->p goes to the data of its input, and `null` into the rest.
static void cut_array(Cutter *c) {
  const char *from = c->p;
  int64_t depth = 0;
  while (c->p < c->end) {
    char ch = *c->p;
    if (ch == '"') {
      (void)skip_string(c);
      continue;
    }
    c->p++;
    if (ch == '[') depth++;
    if (ch == ']' && !--depth) break;
  }
  while (c->data.n <= c->level[1].index) vec_push(c->rest.arena, &c->data, (Str){0});
  c->data.v[c->level[1].index] = (Str){from, c->p - from};
  strbuf_put(&c->rest, (Str){c->text + c->keep, from - c->text - c->keep});
  strbuf_puts(&c->rest, "null");
  c->keep = c->p - c->text;
}

static void open_level(Cutter *c, char kind) {
  if (c->depth < LEVELS) c->level[c->depth] = (Level){.kind = kind, .expect_key = kind == '{'};
  c->depth++;
  c->p++;
}

static void cut(Cutter *c) {
  while (c->p < c->end) {
    Level *l = c->depth >= 1 && c->depth <= LEVELS ? &c->level[c->depth - 1] : NULL;
    char ch = *c->p;
    if (ch == '"') {
      Str s = skip_string(c);
      if (l && l->kind == '{' && l->expect_key) l->key = s;
    } else if (ch == '[' && at_data(c)) {
      cut_array(c);
    } else if (ch == '{' || ch == '[') {
      open_level(c, ch);
    } else {
      if (ch == '}' || ch == ']') c->depth = MAX(c->depth - 1, 0);
      if (ch == ':' && l) l->expect_key = false;
      if (ch == ',' && l) {
        l->expect_key = l->kind == '{';
        l->index++;
      }
      c->p++;
    }
  }
  strbuf_put(&c->rest, (Str){c->text + c->keep, c->end - c->text - c->keep});
}

// ---- reading ----
typedef struct Body {
  Arena *arena;
  Str raw;       // behind the JSON
  int64_t used;  // of it
  StrVec data;
  Diag *diag;
} Body;

static tenon_status bad(const Body *b, const char *fmt, ...) PRINTF(2, 3);
static tenon_status bad(const Body *b, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  tenon_status s = failv(b->diag, TENON_EINVAL, NOWHERE, fmt, ap);
  va_end(ap);
  return s;
}

static const Json *parameter(const Json *of, const char *key) {
  const Json *p = json_get(of, "parameters");
  return p ? json_get(p, key) : NULL;
}

static Str text_of(const Json *j) { return j && j->kind == JSON_STRING ? j->s : (Str){0}; }

// 0 where there is none, -1 where it is no whole number.
static int64_t int_of(const Json *j) { return !j ? 0 : j->kind == JSON_INT ? j->i : -1; }

static tenon_status check_parameters(const Body *b, const Json *of, const char *where) {
  const Json *p = json_get(of, "parameters");
  if (p && p->kind != JSON_OBJECT && p->kind != JSON_NULL)
    return bad(b, "'parameters' of %s is no object", where);
  if (parameter(of, "shared_memory_region")) return infer_shared_memory(where, b->diag);
  return TENON_OK;
}

static tenon_status read_shape(const Body *b, const Json *shape, KsTensor *t) {
  TRY(infer_read_rank(t, shape && shape->kind == JSON_ARRAY ? shape->n : -1, b->diag));
  for (int64_t k = 0; k < shape->n; k++) {
    if (shape->item[k].kind != JSON_INT)
      return bad(b, "'shape' of input '%.*s' holds what is no whole number", STR_ARG(t->name));
    t->shape[k] = shape->item[k].i;
  }
  return ks_count(t, b->diag);
}

static tenon_status read_raw(Body *b, const Json *size, KsTensor *t) {
  if (size->kind != JSON_INT || size->i < 0 || size->i > b->raw.n - b->used)
    return bad(b, "binary_data_size of input '%.*s' is not within the %lld bytes that are left",
               STR_ARG(t->name), (long long)(b->raw.n - b->used));
  t->data = (Str){b->raw.p + b->used, size->i};
  b->used += size->i;
  return ks_check_data(t, b->diag);
}

static tenon_status read_input(Body *b, const Json *j, int64_t i, KsTensor *t) {
  const Json *name = json_get(j, "name"), *type = json_get(j, "datatype"),
             *data = json_get(j, "data"), *size = parameter(j, "binary_data_size");
  TRY(check_parameters(b, j, "an input"));
  TRY(infer_read_input(t, i, text_of(name), text_of(type), b->diag));
  TRY(read_shape(b, json_get(j, "shape"), t));
  if (size && data) return bad(b, "input '%.*s' has both data and bytes", STR_ARG(t->name));
  if (size) return read_raw(b, size, t);
  if (!data || data->kind != JSON_NULL || i >= b->data.n || !b->data.v[i].p)
    return bad(b, "'data' of input '%.*s' is no array", STR_ARG(t->name));
  return ks_read_json(b->arena, b->data.v[i], t, b->diag);
}

static tenon_status read_output(const Body *b, const Json *j, int64_t i, InferOutput *out) {
  const Json *name = json_get(j, "name"), *binary = parameter(j, "binary_data"),
             *class = parameter(j, "classification");
  TRY(check_parameters(b, j, "an output"));
  TRY(infer_read_output(out, i, text_of(name), int_of(class), b->diag));
  if (binary && binary->kind != JSON_BOOL) return bad(b, "binary_data is neither true nor false");
  if (binary) out->binary = binary->b;
  return TENON_OK;
}

static tenon_status read_lists(Body *b, const Json *j, InferRequest *out) {
  const Json *in = json_get(j, "inputs"), *outs = json_get(j, "outputs");
  if (!in || in->kind != JSON_ARRAY || in->n > SERVE_TENSORS)
    return bad(b, "'inputs' is no list of at most %d tensors", SERVE_TENSORS);
  if (outs && (outs->kind != JSON_ARRAY || outs->n > SERVE_TENSORS))
    return bad(b, "'outputs' is no list of at most %d outputs", SERVE_TENSORS);
  out->ninputs = in->n;
  out->input = arena_array(b->arena, KsTensor, in->n + 1);
  for (int64_t i = 0; i < in->n; i++) TRY(read_input(b, &in->item[i], i, &out->input[i]));
  out->noutputs = outs ? outs->n : 0;
  out->output = arena_array(b->arena, InferOutput, out->noutputs + 1);
  for (int64_t i = 0; i < out->noutputs; i++)
    TRY(read_output(b, &outs->item[i], i, &out->output[i]));
  if (b->used != b->raw.n)
    return bad(b, "%lld bytes behind the JSON belong to no input", (long long)(b->raw.n - b->used));
  return TENON_OK;
}

tenon_status rest_read(Arena *a, Str body, int64_t json, InferRequest *out, Diag *d) {
  Json j;
  if (!body.p) body = STR("");  // a request without a body
  Cutter c = {.p = body.p, .end = body.p + json, .text = body.p};
  *out = (InferRequest){0};
  strbuf_init(&c.rest, a);
  cut(&c);
  Body b = {.arena = a, .raw = {body.p + json, body.n - json}, .data = c.data, .diag = d};
  TRY(json_parse(a, strbuf_str(&c.rest), d, &j));
  if (j.kind != JSON_OBJECT) return bad(&b, "the request is no object of JSON");
  TRY(check_parameters(&b, &j, "the request"));
  const Json *id = json_get(&j, "id"), *binary = parameter(&j, "binary_data_output"),
             *timeout = parameter(&j, "timeout");
  if (id && id->kind != JSON_STRING) return bad(&b, "'id' is no text");
  if (id) out->id = id->s;
  if (binary && binary->kind != JSON_BOOL)
    return bad(&b, "binary_data_output is neither true nor false");
  out->binary = binary && binary->b;
  TRY(infer_read_timeout(out, int_of(timeout), d));
  return read_lists(&b, &j, out);
}

// ---- writing ----
static bool is_binary(const InferRequest *r, int64_t i) {
  return r->noutputs && r->output[i].binary >= 0 ? r->output[i].binary : r->binary;
}

static void write_output(JsonWriter *w, const KsTensor *t, bool binary) {
  json_begin_object(w);
  json_key(w, "name");
  json_str(w, t->name);
  json_key(w, "datatype");
  json_cstr(w, t->type->name);
  json_key(w, "shape");
  json_begin_array(w);
  for (int k = 0; k < t->rank; k++) json_i64(w, t->shape[k]);
  json_end_array(w);
  if (binary) {
    json_key(w, "parameters");
    json_begin_object(w);
    json_key(w, "binary_data_size");
    json_i64(w, t->data.n);
    json_end_object(w);
  } else {
    json_key(w, "data");
    ks_write_json(w, t);
  }
  json_end_object(w);
}

Str rest_write(Arena *a, const InferRequest *r, const Model *m, const InferResult *result,
               int64_t *json_bytes) {
  StrBuf b;
  JsonWriter w;
  int64_t count;
  const KsTensor *t = infer_outputs(a, r, result, &count);
  bool raw = false;
  strbuf_init(&b, a);
  json_init(&w, &b, true);
  json_begin_object(&w);
  json_key(&w, "model_name");
  json_cstr(&w, m->name);
  json_key(&w, "model_version");
  json_cstr(&w, m->version);
  if (r->id.n) {
    json_key(&w, "id");
    json_str(&w, r->id);
  }
  json_key(&w, "outputs");
  json_begin_array(&w);
  for (int64_t i = 0; i < count; i++) {
    write_output(&w, &t[i], is_binary(r, i));
    raw |= is_binary(r, i);
  }
  json_end_array(&w);
  json_end_object(&w);
  *json_bytes = raw ? b.n : -1;
  for (int64_t i = 0; i < count; i++)
    if (is_binary(r, i)) strbuf_put(&b, t[i].data);
  return strbuf_str(&b);
}
