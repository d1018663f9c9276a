// cmd_cache.c -- `tenon cache`: what is kept of compiled kernels and programs, making it less, and
// archives of it.
#include "cli/files.h"

#include "base/cache.h"
#include "compile/program_cache.h"
#include "targets/llvm/codegen.h"

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

static const char *plural(int64_t n) { return n == 1 ? "" : "s"; }

// The model that a program was compiled from, as the entry has it; "?": it cannot be read.
static const char *title_of(Cli *c, const char *folder, const CacheFile *f) {
  File file;
  if (!cache_open(folder, f->name, &file)) return "?";
  Str name = program_entry_name((Str){(const char *)file.bytes, file.size});
  const char *text = name.n ? clean_text(&c->arena, str_copy(&c->arena, name)) : "?";
  file_close(&file);
  return text;
}

static void print_programs(Cli *c, const char *folder, const CacheList *l) {
  NumText bytes, age;
  for (int64_t i = 0; i < l->n; i++)
    if (l->file[i].program)
      say(c, "  program of %s, %s, last used %s ago\n", title_of(c, folder, &l->file[i]),
          text_bytes(&bytes, l->file[i].bytes), age_text(&age, l->file[i].seconds));
}

static void print_list(Cli *c, const char *folder, const CacheList *l) {
  NumText bytes, limit, age;
  int64_t nkernels = l->n - l->nprograms;
  say(c, "%s: %lld kernel%s and %lld program%s, %s of at most %s\n", folder, (long long)nkernels,
      plural(nkernels), (long long)l->nprograms, plural(l->nprograms), text_bytes(&bytes, l->bytes),
      text_bytes(&limit, cache_limit()));
  print_programs(c, folder, l);
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
  json_i64(&w, l->n - l->nprograms);
  json_key(&w, "programs");
  json_begin_array(&w);
  for (int64_t i = 0; i < l->n; i++) {
    if (!l->file[i].program) continue;
    json_begin_object(&w);
    json_key(&w, "model");
    json_cstr(&w, title_of(c, folder, &l->file[i]));
    json_key(&w, "bytes");
    json_i64(&w, l->file[i].bytes);
    json_end_object(&w);
  }
  json_end_array(&w);
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

// ---- archives ----

static void json_moved(Cli *c, const char *done, const CacheMoved *m) {
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, &c->arena);
  json_init(&w, &b, false);
  json_begin_object(&w);
  json_key(&w, done);
  json_i64(&w, m->n);
  json_key(&w, "programs");
  json_i64(&w, m->nprograms);
  json_key(&w, "bytes");
  json_i64(&w, m->bytes);
  json_key(&w, "already_there");
  json_i64(&w, m->there);
  json_key(&w, "other_version");
  json_i64(&w, m->other_version);
  json_key(&w, "other_cpu");
  json_i64(&w, m->other_machine);
  json_end_object(&w);
  cli_print(&b);
}

static void print_moved(Cli *c, const char *done, const char *to, const CacheMoved *m) {
  NumText bytes;
  if (opt_given(c, OPT_cache_json)) {
    json_moved(c, done, m);
    return;
  }
  int64_t nkernels = m->n - m->nprograms;
  say(c, "%s: %lld kernel%s and %lld program%s %s, %s\n", to, (long long)nkernels, plural(nkernels),
      (long long)m->nprograms, plural(m->nprograms), done, text_bytes(&bytes, m->bytes));
  if (m->there) say(c, "  %lld already there\n", (long long)m->there);
  if (m->other_version)
    say(c, "  %lld skipped: made by another version of Tenon\n", (long long)m->other_version);
  if (m->other_machine) say(c, "  %lld skipped: for another CPU\n", (long long)m->other_machine);
}

static int export_cache(Cli *c, const char *folder) {
  CacheMoved m;
  const char *path = opt_text(c, OPT_cache_output, NULL);
  if (!path) return cli_usage(c, "cache: export writes an archive: tenon cache export -o F");
  CacheList l;
  int rc = cli_exit_of(cache_list(folder, false, &c->arena, &c->diag, &l));
  for (int64_t i = 0; i < l.n && !rc; i++)
    if (files_input(c, str_printf(&c->arena, "%s/%s", folder, l.file[i].name), "the kernel"))
      rc = CLI_USAGE;
  if (!rc) rc = cli_exit_of(cache_export(folder, path, &c->arena, &c->diag, &m));
  if (!rc) print_moved(c, "exported", path, &m);
  return rc;
}

static int merge(Cli *c, const char *folder) {
  CacheMoved m;
  (void)folder;
  const char *path = opt_text(c, OPT_cache_output, NULL);
  if (!path || c->npos < 2)
    return cli_usage(c, "cache: merge makes one archive of several: tenon cache merge A B -o F");
  for (int64_t i = 1; i < c->npos; i++)
    if (files_input(c, c->pos[i], "the archive")) return CLI_USAGE;
  int rc = cli_exit_of(cache_merge(c->pos + 1, c->npos - 1, path, &c->arena, &c->diag, &m));
  if (!rc) print_moved(c, "merged", path, &m);
  return rc;
}

static int import_archives(Cli *c, const char *folder) {
  Codegen *codegen;
  if (c->npos < 2)
    return cli_usage(c, "cache: import takes archives: tenon cache import --trust F");
  if (!opt_given(c, OPT_cache_trust))
    return cli_usage(c,
                     "cache: %s holds machine code, which later runs execute as you; import it "
                     "with --trust, and only if you trust whoever made it",
                     c->pos[1]);
  int rc = cli_exit_of(codegen_shared(1, &c->diag, &codegen));
  if (rc) return rc;
  CacheMaker here = codegen_maker(codegen, &c->arena);
  here.compiler = program_compiler();
  CacheMoved sum = {0};
  for (int64_t i = 1; i < c->npos && !rc; i++) {
    CacheMoved m;
    rc = cli_exit_of(cache_import(c->pos[i], folder, &here, &c->arena, &c->diag, &m));
    sum.n += m.n;
    sum.nprograms += m.nprograms;
    sum.bytes += m.bytes;
    sum.there += m.there;
    sum.other_version += m.other_version;
    sum.other_machine += m.other_machine;
  }
  codegen_release(codegen);
  if (!rc) print_moved(c, "imported", folder, &sum);
  return rc;
}

// ---- the command ----

static int list(Cli *c, const char *folder) {
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

static int clear(Cli *c, const char *folder) { return prune(c, folder, 0); }

static int prune_to_size(Cli *c, const char *folder) {
  return prune(c, folder, opt_int(c, OPT_cache_size, cache_limit()));
}

int cmd_cache(Cli *c) {
  static const struct {
    const char *name;
    bool files;  // takes some
    int (*run)(Cli *c, const char *folder);
  } known[] = {
      {"list", false, list},           {"prune", false, prune_to_size},   {"clear", false, clear},
      {"export", false, export_cache}, {"import", true, import_archives}, {"merge", true, merge},
  };
  const char *what = c->npos ? c->pos[0] : "list";
  char folder[4096];
  if (!cache_folder(folder, sizeof folder))
    return cli_exit_of(
        fail(&c->diag, TENON_EIO, NOWHERE,
             "there is no cache: none of TENON_CACHE, XDG_CACHE_HOME and HOME is set"));
  for (int i = 0; i < ARRAY_LEN(known); i++) {
    if (strcmp(what, known[i].name)) continue;
    if (c->npos > 1 && !known[i].files) return cli_usage(c, "cache: %s takes no file", what);
    return known[i].run(c, folder);
  }
  return cli_usage(c, "cache: '%s' is none of list, prune, clear, export, import, merge", what);
}
