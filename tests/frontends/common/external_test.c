// external_test.c -- external data: what locations are refused as text, and where links may lead.
#include "test.h"
#include "frontends/common/frontend.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static Diag diag;

static void graph_begin(Graph *g) {
  *g = (Graph){.diag = &diag};
  diag_init(&diag);
  arena_init(&g->arena);
  intern_init(&g->names, &g->arena);
}

static void graph_end(Graph *g) {
  for (int64_t i = 0; i < g->source.n; i++)
    if (g->source.v[i]->opened) file_close(&g->source.v[i]->file);
  arena_deinit(&g->arena);
}

// A folder with two folders in it: in/ (the model's) and out/.
static char root[200];
static void path_in(char *out, const char *name) { snprintf(out, 400, "%s/%s", root, name); }
static void write_file(const char *name, const char *text) {
  char path[400];
  path_in(path, name);
  FILE *f = fopen(path, "w");
  REQUIRE(f != NULL);
  fputs(text, f);
  fclose(f);
}
static void link_to(const char *target, const char *name) {
  char path[400];
  path_in(path, name);
  EXPECT_INT_EQ(symlink(target, path), 0);
}
static void folder(const char *name) {
  char path[400];
  path_in(path, name);
  EXPECT_INT_EQ(mkdir(path, 0700), 0);
}
static bool make_root(void) {
  snprintf(root, sizeof root, "%s/tenon-test-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
  if (!mkdtemp(root)) return false;
  folder("in");
  folder("out");
  write_file("in/model.onnx", "m");
  write_file("out/secret", "secret");
  return true;
}
static void remove_root(void) {
  char cmd[300];
  snprintf(cmd, sizeof cmd, "rm -rf '%s'", root);
  EXPECT_INT_EQ(system(cmd), 0);
}

// Opens `location` of the model root/`model`.
static tenon_status open_at(const char *model, Str location, char *content, int64_t cap) {
  Graph g;
  Source *s = NULL;
  char path[400];
  path_in(path, model);
  graph_begin(&g);
  Trap t;
  trap_enter(&t, &diag);
  content[0] = 0;
  if (setjmp(t.env) == 0) {
    t.status = external_open(&g, path, location, NOWHERE, &s);
    if (!t.status && s->opened) FAIL("opened before it was asked for");
    if (!t.status) t.status = source_open(s, &diag);
    if (!t.status) snprintf(content, (size_t)cap, "%.*s", (int)s->file.size, s->file.bytes);
  }
  trap_leave(&t);
  graph_end(&g);
  return t.status;
}
static void refused(const char *file, int line, Str location, tenon_status code, const char *part) {
  char content[100];
  tenon_status s = open_at("in/model.onnx", location, content, 100);
  test_status(file, line, location.n ? location.p : "", s, code);
  test_contains(file, line, "message", diag.text, part);
}
#define REFUSED(loc, code, part) refused(__FILE__, __LINE__, STR(loc), TENON_##code, part)

TEST(external_locations) {
  REQUIRE(make_root());
  REFUSED("", EINVAL, "is empty");
  REFUSED("/etc/passwd", EINVAL, "absolute");
  REFUSED("../out/secret", EINVAL, "climbs out");
  REFUSED("a/../../out/secret", EINVAL, "climbs out");
  REFUSED("./../out/secret", EINVAL, "climbs out");
  REFUSED("..", EINVAL, "climbs out");
  REFUSED(".", EINVAL, "names a folder");
  REFUSED("a/..", EINVAL, "names a folder");
  REFUSED("C:\\x", EINVAL, "backslash");
  REFUSED("C:/x", EINVAL, "names a drive");
  REFUSED("..\\out\\secret", EINVAL, "backslash");
  REFUSED("w.bin\0/../../x", EINVAL, "NUL");
  REFUSED("absent.bin", EIO, "which is not there");
  char longer[3000], content[10];
  memset(longer, 'a', sizeof longer);
  EXPECT_STATUS(open_at("in/model.onnx", (Str){longer, 3000}, content, 10), TENON_EINVAL);
  Graph g;
  Source *s;
  graph_begin(&g);
  EXPECT_STATUS(external_open(&g, NULL, STR("w.bin"), NOWHERE, &s), TENON_EINVAL);
  EXPECT_STATUS(external_open(&g, "-", STR("w.bin"), NOWHERE, &s), TENON_EINVAL);
  graph_end(&g);
  remove_root();
}

TEST(external_links) {
  REQUIRE(make_root());
  char content[100];
  folder("in/sub");
  folder("in-not");
  write_file("in/sub/w.bin", "weights");
  write_file("in-not/w.bin", "neighbour");
  link_to("sub/w.bin", "in/inner.bin");
  link_to("../out/secret", "in/final.bin");
  link_to("../out", "in/parent");
  link_to("../in-not/w.bin", "in/neighbour.bin");
  link_to("/dev/zero", "in/zero");
  link_to("/proc/self/mem", "in/mem");
  link_to("loop", "in/loop");
  EXPECT_STATUS(open_at("in/model.onnx", STR("sub/w.bin"), content, 100), TENON_OK);
  EXPECT_STR_EQ(content, "weights");
  EXPECT_STATUS(open_at("in/model.onnx", STR("sub/../sub//./w.bin"), content, 100), TENON_OK);
  EXPECT_STATUS(open_at("in/model.onnx", STR("inner.bin"), content, 100), TENON_OK);
  EXPECT_STR_EQ(content, "weights");
  REFUSED("final.bin", EINVAL, "leads out of the model's folder");
  REFUSED("parent/secret", EINVAL, "leads out");
  REFUSED("neighbour.bin", EINVAL, "leads out");
  REFUSED("zero", EINVAL, "leads out");
  REFUSED("mem", EINVAL, "leads out");
  REFUSED("loop", EIO, "");
  remove_root();
}

TEST(external_not_a_file) {
  REQUIRE(make_root());
  char fifo[400];
  path_in(fifo, "in/pipe");
  EXPECT_INT_EQ(mkfifo(fifo, 0600), 0);
  folder("in/folder");
  REFUSED("pipe", EIO, "not a regular file");
  REFUSED("folder", EIO, "not a regular file");
  remove_root();
}

// A model cache: links in one folder, the files under other names in another.
TEST(external_cache_of_links) {
  REQUIRE(make_root());
  char content[100];
  folder("blobs");
  write_file("blobs/aaaa", "m");
  write_file("blobs/bbbb", "weights");
  folder("snap");
  link_to("../blobs/aaaa", "snap/model.onnx");
  link_to("../blobs/bbbb", "snap/model.onnx_data");
  link_to("../out/secret", "snap/evil");
  EXPECT_STATUS(open_at("snap/model.onnx", STR("model.onnx_data"), content, 100), TENON_OK);
  EXPECT_STR_EQ(content, "weights");
  EXPECT_STATUS(open_at("snap/model.onnx", STR("evil"), content, 100), TENON_EINVAL);
  remove_root();
}

TEST(external_one_source_a_file) {
  REQUIRE(make_root());
  Graph g;
  Source *a, *b, *c;
  char path[400];
  path_in(path, "in/model.onnx");
  graph_begin(&g);
  EXPECT_STATUS(external_open(&g, path, STR("a.bin"), NOWHERE, &a), TENON_OK);
  EXPECT_STATUS(external_open(&g, path, STR("b.bin"), NOWHERE, &b), TENON_OK);
  EXPECT_STATUS(external_open(&g, path, STR("a.bin"), NOWHERE, &c), TENON_OK);
  EXPECT(a == c && a != b);
  EXPECT_INT_EQ(g.source.n, 2);
  EXPECT_STR_EQ(a->label, "a.bin");
  graph_end(&g);
  remove_root();
}
