// routes.c -- all tables of routes, and which row a path belongs to.
#include "serve/http.h"
#include "serve/routes.h"

const HttpRoute *const http_tables[] = {
    chat_routes, completion_routes, vector_routes, response_routes,  model_list_routes,
    text_routes, metrics_routes,    page_routes,   operation_routes, kserve_routes,
    NULL};

// The next segment of a path behind its slash; false: none is left.
static bool segment(Str *path, Str *out) {
  if (!path->n) return false;
  const char *p = path->p + 1, *end = path->p + path->n;
  const char *slash = p < end ? memchr(p, '/', (size_t)(end - p)) : NULL;
  *out = (Str){p, (slash ? slash : end) - p};
  *path = (Str){slash ? slash : end, slash ? end - slash : 0};
  return true;
}

// Most rows differ before their first `{}`.
static bool begins(Str path, const char *pattern) {
  int64_t i = 0;
  while (pattern[i] && pattern[i] != '{' && i < path.n && path.p[i] == pattern[i]) i++;
  return pattern[i] == '{' || (!pattern[i] && i == path.n);
}

static bool fits(HttpExchange *x, Str path, const char *pattern) {
  if (!begins(path, pattern)) return false;
  Str form = str_of(pattern), have, want;
  int args = 0;
  while (segment(&form, &want)) {
    if (!segment(&path, &have)) return false;
    if (!str_is(want, "{}")) {
      if (!str_eq(want, have)) return false;
      continue;
    }
    if (args == HTTP_ARGS || !have.n) return false;
    x->arg[args] = http_decode(&x->arena, have, false);
    if (!x->arg[args].p || !str_is_utf8(x->arg[args])) return false;
    args++;
  }
  return !path.n;
}

const HttpRoute *http_route(HttpExchange *x, Str path, HttpMethod method, int *out_methods) {
  int64_t slashes = 0;
  *out_methods = 0;
  for (int64_t i = 0; i < path.n; i++) slashes += path.p[i] == '/';
  if (slashes > SERVE_PATH_SEGMENTS) return NULL;
  const HttpRoute *found = NULL;
  for (int64_t t = 0; http_tables[t] && !found; t++)
    for (const HttpRoute *r = http_tables[t]; r->path && !found; r++) {
      if (!fits(x, path, r->path)) continue;
      *out_methods |= r->methods;
      if (r->methods & (int)method) found = r;
    }
  return found;
}
