// cmd_cache.c -- `tenon cache`: what is kept of compiled kernels, and making it less.
#include "cli/cli.h"

#include "base/cache.h"

static const char *age_text(NumText *b, int64_t seconds) {
  const char *unit = seconds < 120 ? "s" : seconds < 7200 ? "min" : seconds < 172800 ? "h" : "days";
  int64_t n = seconds < 120      ? seconds
              : seconds < 7200   ? seconds / 60
              : seconds < 172800 ? seconds / 3600
                                 : seconds / 86400;
  snprintf(b->s, sizeof b->s, "%lld %s", (long long)n, unit);
  return b->s;
}

static int64_t ndamaged(const CacheList *l) {
  int64_t n = 0;
  for (int64_t i = 0; i < l->n; i++) n += !l->file[i].whole;
  return n;
}

static void print_list(Cli *c, const char *folder, const CacheList *l) {
  NumText bytes, limit, age;
  say(c, "%s: %lld kernel%s, %s of at most %s\n", folder, (long long)l->n, l->n == 1 ? "" : "s",
      text_bytes(&bytes, l->bytes), text_bytes(&limit, cache_limit()));
  if (l->n)
    say(c, "last used %s ago, first %s\n", age_text(&age, l->file[0].seconds),
        age_text(&limit, l->file[l->n - 1].seconds));
  if (opt_given(c, OPT_cache_check))
    say(c, "%lld damaged or not to be trusted\n", (long long)ndamaged(l));
  if (l->nstray)
    say(c, "%lld being written, or left behind by a process that was killed\n",
        (long long)l->nstray);
}

static void json_list(Cli *c, const char *folder, bool used, const CacheList *l) {
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, &c->arena);
  json_init(&w, &b, false);
  json_begin_object(&w);
  json_key(&w, "folder");
  json_cstr(&w, folder);
  json_key(&w, "used");
  json_bool(&w, used);
  json_key(&w, "kernels");
  json_i64(&w, l->n);
  json_key(&w, "bytes");
  json_i64(&w, l->bytes);
  json_key(&w, "limit_bytes");
  json_i64(&w, cache_limit());
  json_key(&w, "left_behind");
  json_i64(&w, l->nstray);
  if (opt_given(c, OPT_cache_check)) {
    json_key(&w, "damaged");
    json_i64(&w, ndamaged(l));
  }
  json_end_object(&w);
  cli_print(&b);
}

static int prune(Cli *c, const char *folder, int64_t limit) {
  CachePruned p;
  NumText bytes;
  int rc = cli_exit_of(cache_prune(folder, limit, &c->arena, &c->diag, &p));
  if (rc) return rc;
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, &c->arena);
  json_init(&w, &b, false);
  json_begin_object(&w);
  json_key(&w, "folder");
  json_cstr(&w, folder);
  json_key(&w, "removed");
  json_i64(&w, p.n);
  json_key(&w, "removed_bytes");
  json_i64(&w, p.bytes);
  json_end_object(&w);
  if (opt_given(c, OPT_cache_json))
    cli_print(&b);
  else
    say(c, "%s: %lld file%s removed, %s\n", folder, (long long)p.n, p.n == 1 ? "" : "s",
        text_bytes(&bytes, p.bytes));
  return CLI_OK;
}

int cmd_cache(Cli *c) {
  const char *what = c->npos ? c->pos[0] : "list";
  char folder[4096];
  if (strcmp(what, "list") && strcmp(what, "prune") && strcmp(what, "clear"))
    return cli_usage(c, "cache: '%s' is none of list, prune, clear", what);
  if (!cache_folder(folder, sizeof folder))
    return cli_exit_of(
        fail(&c->diag, TENON_EIO, NOWHERE,
             "there is no cache: none of TENON_CACHE, XDG_CACHE_HOME and HOME is set"));
  if (!strcmp(what, "clear")) return prune(c, folder, 0);
  if (!strcmp(what, "prune")) return prune(c, folder, opt_int(c, OPT_cache_size, cache_limit()));
  CacheList l;
  bool usable = cache_usable(folder);  // a notice says why it is not
  int rc = cli_exit_of(cache_list(folder, opt_given(c, OPT_cache_check), &c->arena, &c->diag, &l));
  if (rc) return rc;
  if (opt_given(c, OPT_cache_json))
    json_list(c, folder, usable || !l.n, &l);
  else
    print_list(c, folder, &l);
  return CLI_OK;
}
