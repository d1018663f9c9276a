// runner.c -- registers every tests/text/FOLDER/NAME.tir as the test tir_FOLDER.NAME, and runs it
// (text.h).
#include "text/text.h"

#include "base/platform.h"
#include "test.h"

#include <dirent.h>
#include <stdlib.h>

enum { MAX_FILES = 500, MAX_PATH_LENGTH = 300, MAX_NAME = 80 };

static struct TextTest {
  Test test;
  char path[MAX_PATH_LENGTH], group[MAX_NAME + 8], name[MAX_NAME];
} found[MAX_FILES];
static int nfound;

// ---- one file ----

static Str read_whole(const char *path, Arena *a) {
  StrBuf b;
  strbuf_init(&b, a);
  FILE *f = fopen(path, "rb");
  char part[4096];
  for (size_t n; f && (n = fread(part, 1, sizeof part, f)) > 0;)
    strbuf_put(&b, (Str){part, (int64_t)n});
  if (f) fclose(f);
  return (Str){strbuf_text(&b), b.n};
}

// The line on which the graph begins.
static int graph_line(const TextSection *s) {
  int line = s->first;
  for (int64_t i = 0; i < s->text.n; i++) {
    bool begins = !i || s->text.p[i - 1] == '\n';
    if (begins && str_starts((Str){s->text.p + i, s->text.n - i}, "graph")) return line;
    line += s->text.p[i] == '\n';
  }
  return s->first;
}

// How to see the same output by hand.
static void put_command(const TextFile *f, const TextSection *s, const TextRun *r, StrBuf *why) {
  int last = s->first - 1;
  for (int64_t i = 0; i < s->text.n; i++) last += s->text.p[i] == '\n';
  strbuf_printf(why, "  by hand: sed -n %d,%dp %s | tenon inspect --optimised --text -O%d",
                s->first, last, f->path + strlen(TENON_SOURCE_DIR "/"), r->opt.level);
  if (r->exact) strbuf_puts(why, " --exact");
  if (r->fast) strbuf_puts(why, " --fast");
  if (r->opt.start_from) strbuf_printf(why, " --start-from %s", r->opt.start_from);
  if (r->opt.stop_after) strbuf_printf(why, " --stop-after %s", r->opt.stop_after);
  if (r->opt.disable) strbuf_printf(why, " --disable %s", r->opt.disable);
  strbuf_puts(why, " -");
}

static void failed(const TextFile *f, const TextSection *s, const TextRun *r, int line,
                   StrBuf *why) {
  put_command(f, s, r, why);
  test_failed(f->path + strlen(TENON_SOURCE_DIR "/"), line, "%s", strbuf_text(why));
}

static void run_section(const TextFile *f, const TextSection *s, bool update, Arena *a,
                        TextOutput *out) {
  for (int64_t i = 0; i < s->run.n; i++) {
    const TextRun *r = &s->run.v[i];
    Str prefix = str_of(r->prefix);
    StrBuf why;
    int line = graph_line(s);
    strbuf_init(&why, a);
    if (!text_section_run(f, s, r, a, &out[i], &why)) failed(f, s, r, line, &why);
    if (!out[i].all.n) continue;
    strbuf_init(&why, a);
    if (!check_output(&s->check, prefix, out[i].all, a, &line, &why)) failed(f, s, r, line, &why);
    for (int64_t k = 0; k < s->generated.n && !update; k++) {
      strbuf_init(&why, a);
      line = s->generated.v[k].line;
      if (str_eq(s->generated.v[k].prefix, prefix) &&
          !check_generated(&s->check, prefix, out[i].graph, a, &line, &why))
        failed(f, s, r, line, &why);
    }
  }
}

static void run_file(const char *path, bool update, Arena *a) {
  TextFile f;
  StrBuf why, now;
  Diag d;
  int line = 0;
  diag_init(&d);
  strbuf_init(&why, a);
  strbuf_init(&now, a);
  if (!text_file_read(path, read_whole(path, a), a, &f, &line, &why)) {
    test_failed(path + strlen(TENON_SOURCE_DIR "/"), line, "%s", strbuf_text(&why));
    return;
  }
  bool ran = true;
  TextOutput **out = arena_array(a, TextOutput *, f.section.n);
  for (int64_t i = 0; i < f.section.n; i++) {
    const TextSection *s = &f.section.v[i];
    out[i] = arena_array(a, TextOutput, s->run.n);
    run_section(&f, s, update, a, out[i]);
    for (int64_t k = 0; k < s->run.n; k++) ran &= out[i][k].all.n > 0;
  }
  if (!update || !ran) return;
  text_file_update(&f, out, &now);
  if (str_eq(strbuf_str(&now), f.text)) return;
  if (file_write(path, now.p, now.n, &d)) FAIL("%s", d.text);
  printf("updated %s\n", path + strlen(TENON_SOURCE_DIR "/"));
}

// ---- all files ----

static void run_text_test(void) {
  Arena a;
  arena_init(&a);
  run_file(((const struct TextTest *)test_running())->path, test_update(), &a);
  arena_deinit(&a);
}

static void add_file(const char *folder, const char *file) {
  size_t n = strlen(file);
  if (n < 5 || strcmp(file + n - 4, ".tir")) return;
  CHECK(nfound < MAX_FILES && n < MAX_NAME, "room for the text tests");
  struct TextTest *t = &found[nfound++];
  snprintf(t->path, sizeof t->path, TENON_SOURCE_DIR "/tests/text/%s/%s", folder, file);
  snprintf(t->group, sizeof t->group, "tir_%s", folder);
  snprintf(t->name, sizeof t->name, "%.*s", (int)n - 4, file);
}

static int by_name(const void *a, const void *b) {
  const struct TextTest *x = a, *y = b;
  return strcmp(x->path, y->path);
}

static void each_entry(const char *path, void (*fn)(const char *folder, const char *name),
                       const char *folder) {
  DIR *dir = opendir(path);
  for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir))
    if (e->d_name[0] != '.') fn(folder, e->d_name);
  if (dir) closedir(dir);
}

static void add_folder(const char *none, const char *folder) {
  char path[MAX_PATH_LENGTH];
  (void)none;
  snprintf(path, sizeof path, TENON_SOURCE_DIR "/tests/text/%s", folder);
  if (strlen(folder) < MAX_NAME) each_entry(path, add_file, folder);
}

__attribute__((constructor)) static void add_text_tests(void) {
  each_entry(TENON_SOURCE_DIR "/tests/text", add_folder, NULL);
  qsort(found, (size_t)nfound, sizeof *found, by_name);
  for (int i = 0; i < nfound; i++) {
    struct TextTest *t = &found[i];
    t->test = (Test){.name = t->name, .file = t->group, .line = i, .run = run_text_test};
    test_register(&t->test);
  }
}
