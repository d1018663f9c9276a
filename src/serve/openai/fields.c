// fields.c -- the JSON of a request by fields (fields.h).
#include "serve/openai/fields.h"

typedef struct Row {
  const char *name;
  bool is_int;
  int64_t least_int, most_int;
  double least, most;
} Row;

enum { INT = 1, REAL = 0 };
static const Row row[] = {
#define SERVE_LIMIT(name, least, value, most, unit, what, beyond)
#define SERVE_FIELD(name, kind, least, most, what)                                                 \
  {#name, (kind) == INT, (int64_t)(least), (int64_t)(most), (double)(least), (double)(most)},
#include "serve/limits.def"
#undef SERVE_LIMIT
#undef SERVE_FIELD
};

static const Row *row_of(const char *name) {
  for (int64_t i = 0; i < ARRAY_LEN(row); i++)
    if (!strcmp(row[i].name, name)) return &row[i];
  CHECK(false, "%s is no row of limits.def", name);
  return NULL;
}

void field_wrong(Fields *f, const char *param, const char *fmt, ...) {
  va_list ap;
  if (f->why) return;
  va_start(ap, fmt);
  f->why = str_vprintf(&f->x->arena, fmt, ap);
  va_end(ap);
  f->param = param;
}

bool fields_begin(Fields *f, HttpExchange *x) {
  Diag d;
  *f = (Fields){.x = x};
  diag_init(&d);
  if (json_parse(&x->arena, x->body, &d, &f->root)) {
    http_fail(x, 400, "the body is not JSON: %s", d.text);
    return false;
  }
  if (f->root.kind != JSON_OBJECT) {
    http_fail(x, 400, "the body is not a JSON object");
    return false;
  }
  f->read = arena_array(&x->arena, bool, f->root.n + 1);
  return true;
}

bool fields_end(Fields *f) {
  for (int64_t i = 0; i < f->root.n && !f->why; i++)
    if (!f->read[i] && f->root.item[i].kind != JSON_NULL)
      field_wrong(f, str_copy(&f->x->arena, f->root.key[i]), "unrecognized request argument: %.*s",
                  STR_ARG(f->root.key[i]));
  if (f->why) http_fail_as(f->x, 400, f->param, NULL, f->why);
  return !f->why;
}

const Json *field(Fields *f, const char *name) {
  for (int64_t i = 0; i < f->root.n; i++) {
    if (!str_is(f->root.key[i], name)) continue;
    f->read[i] = true;
    return f->root.item[i].kind == JSON_NULL ? NULL : &f->root.item[i];
  }
  return NULL;
}

const Json *field_of(Fields *f, const char *name, JsonKind kind, const char *what) {
  const Json *v = field(f, name);
  if (!v || v->kind == kind) return v;
  field_wrong(f, name, "'%s' is not %s", name, what);
  return NULL;
}

bool field_int(Fields *f, const char *name, int64_t *out) {
  const Row *r = row_of(name);
  const Json *v = field(f, name);
  if (!v) return false;
  if (v->kind != JSON_INT || v->i < r->least_int || v->i > r->most_int) {
    field_wrong(f, name, "'%s' is not an integer from %lld to %lld", name, (long long)r->least_int,
                (long long)r->most_int);
    return false;
  }
  *out = v->i;
  return true;
}

bool field_real(Fields *f, const char *name, double *out) {
  const Row *r = row_of(name);
  const Json *v = field(f, name);
  if (!v) return false;
  if ((v->kind != JSON_INT && v->kind != JSON_FLOAT) || !(v->f >= r->least && v->f <= r->most)) {
    field_wrong(f, name, "'%s' is not a number from %g to %g", name, r->least, r->most);
    return false;
  }
  *out = v->f;
  return true;
}

bool field_bool(Fields *f, const char *name) {
  const Json *v = field_of(f, name, JSON_BOOL, "true or false");
  return v && v->b;
}

Str field_text(Fields *f, const char *name) {
  const Json *v = field_of(f, name, JSON_STRING, "a string");
  return v ? v->s : (Str){0};
}

void fields_ignore(Fields *f, const char *const *names) {
  for (; *names; names++) (void)field(f, *names);
}
