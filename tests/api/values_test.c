// values_test.c -- sequences, optionals and maps through the public interface, interpreted and
// compiled.
#include "test.h"

static tenon_error error;

static tenon_model *open_text(const char *text) {
  tenon_model *m = NULL;
  if (tenon_model_open_memory(text, strlen(text), NULL, &m, &error)) FAIL("%s", error.message);
  return m;
}

static tenon_value *floats(int64_t n, const float *v) {
  tenon_tensor t = {.data = (void *)v, .dtype = TENON_DTYPE_F32, .rank = 1, .shape = {n}};
  tenon_value *out = NULL;
  if (tenon_value_tensor(&t, &out, &error)) FAIL("%s", error.message);
  return out;
}

// Joins what a sequence holds, appends an item, tells whether an optional has one, and makes maps
// of rows.
static const char text[] = "graph @\"m\"(%xs: seq(f32[n]), %o: opt(f32[k]), %rows: f32[b, 2]) -> "
                           "(all: f32[?s], more: seq(f32[n]), has: bool[], "
                           "maps: seq(map(string, f32[]))) {\n"
                           "  %all = concat_from_sequence(%xs) axis=0\n"
                           "  %i = const i64[] {0}\n"
                           "  %first = sequence_at(%xs, %i)\n"
                           "  %more = sequence_insert(%xs, %first)\n"
                           "  %has = optional_has_element(%o)\n"
                           "  %maps = zip_map(%rows) classlabels_strings=[\"no\", \"yes\"]\n"
                           "  return %all, %more, %has, %maps\n"
                           "}\n";

static void check_results(tenon_value *const *out) {
  tenon_tensor t;
  REQUIRE(!tenon_value_view(out[0], &t));
  EXPECT_INT_EQ(t.shape[0], 5);
  EXPECT_INT_EQ(((float *)t.data)[4], 5);
  EXPECT_INT_EQ(tenon_value_kind(out[1]), TENON_KIND_SEQUENCE);
  EXPECT_INT_EQ(tenon_value_count(out[1]), 3);
  REQUIRE(!tenon_value_view(tenon_value_item(out[1], 2), &t));
  EXPECT_INT_EQ(t.shape[0], 2);
  EXPECT_INT_EQ(((float *)t.data)[1], 2);
  REQUIRE(!tenon_value_view(out[2], &t));
  EXPECT_INT_EQ(*(uint8_t *)t.data, 1);
  EXPECT_INT_EQ(tenon_value_count(out[3]), 2);
  const tenon_value *map = tenon_value_item(out[3], 1);
  EXPECT_INT_EQ(tenon_value_kind(map), TENON_KIND_MAP);
  REQUIRE(!tenon_value_view(tenon_value_item(map, 0), &t));
  const tenon_string *key = t.data;
  EXPECT_INT_EQ(key[1].size, 3);
  EXPECT(!memcmp(key[1].data, "yes", 3));
  REQUIRE(!tenon_value_view(tenon_value_item(map, 1), &t));
  EXPECT_INT_EQ(((float *)t.data)[1], 9);
}

typedef struct Given {
  tenon_value *item[2], *in[3];
} Given;

static Given give(void) {
  Given g = {.item = {floats(2, (float[]){1, 2}), floats(3, (float[]){3, 4, 5})}};
  if (tenon_value_sequence(TENON_DTYPE_F32, g.item, 2, &g.in[0], &error)) FAIL("%s", error.message);
  if (tenon_value_optional(TENON_DTYPE_F32, g.item[0], &g.in[1], &error)) FAIL("%s", error.message);
  tenon_tensor rows = {
      .data = (float[]){6, 7, 8, 9}, .dtype = TENON_DTYPE_F32, .rank = 2, .shape = {2, 2}};
  if (tenon_value_tensor(&rows, &g.in[2], &error)) FAIL("%s", error.message);
  return g;
}

static void release(Given *g) {
  for (int i = 0; i < 2; i++) tenon_value_release(g->item[i]);
  for (int i = 0; i < 3; i++) tenon_value_release(g->in[i]);
}

TEST(values_go_through_a_run) {
  tenon_model *m = open_text(text);
  REQUIRE(m);
  Given g = give();
  tenon_value *out[4] = {0};
  if (tenon_run_values(m, g.in, 3, out, 4, NULL, &error)) FAIL("%s", error.message);
  check_results(out);
  for (int i = 0; i < 4; i++) tenon_value_release(out[i]);
  // What an optional holds may be given for it.
  tenon_value *bare[] = {g.in[0], g.item[0], g.in[2]};
  if (tenon_run_values(m, bare, 3, out, 4, NULL, &error)) FAIL("%s", error.message);
  check_results(out);
  for (int i = 0; i < 4; i++) tenon_value_release(out[i]);
  // A tensor is no sequence; the outputs stay as they were.
  tenon_value *wrong[] = {g.item[0], g.in[1], g.in[2]}, *mark[4] = {g.item[0]};
  EXPECT_STATUS(tenon_run_values(m, wrong, 3, mark, 4, NULL, &error), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "'xs' (input): it is a tensor, a sequence is needed: seq(f32[n])");
  EXPECT(mark[0] == g.item[0]);
  tenon_value *absent[] = {g.in[0], NULL, g.in[2]};
  EXPECT_STATUS(tenon_run_values(m, absent, 3, out, 4, NULL, &error), TENON_EINVAL);
  release(&g);
  tenon_model_close(m);
}

TEST(values_go_through_a_session) {
  tenon_model *m = open_text(text);
  REQUIRE(m);
  tenon_options o = {.struct_size = sizeof o, .target = "ref"};
  tenon_program *p = NULL;
  tenon_session *s = NULL;
  if (tenon_compile(m, &o, &p, &error)) FAIL("%s", error.message);
  if (tenon_session_create(p, NULL, &s, &error)) FAIL("%s", error.message);
  REQUIRE(s);
  Given g = give();
  for (int k = 0; k < 2; k++) {
    tenon_value *out[4] = {0};
    if (tenon_session_run_values(s, g.in, 3, out, 4, NULL, &error)) FAIL("%s", error.message);
    check_results(out);
    for (int i = 0; i < 4; i++) tenon_value_release(out[i]);
  }
  tenon_value *wrong[] = {g.item[0], g.in[1], g.in[2]}, *out[4];
  EXPECT_STATUS(tenon_session_run_values(s, wrong, 3, out, 4, NULL, &error), TENON_EINVAL);
  tenon_tensor t[3] = {{0}}, y[4] = {{0}};
  EXPECT_STATUS(tenon_session_run(s, t, 3, y, 4, NULL, &error), TENON_EUNSUPPORTED);
  EXPECT_CONTAINS(error.message, "tenon_session_run_values");
  release(&g);
  tenon_session_release(s);
  tenon_program_release(p);
  tenon_model_close(m);
}

TEST(values_that_cannot_be) {
  tenon_value *a = floats(1, (float[]){1}), *b = floats(2, (float[]){1, 2}), *seq, *v = NULL;
  REQUIRE(!tenon_value_sequence(0, &a, 1, &seq, &error));
  EXPECT_STATUS(tenon_value_sequence(0, (tenon_value *[]){a, seq}, 2, &v, &error), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "item 1 is a sequence, item 0 a tensor");
  EXPECT_STATUS(tenon_value_map(a, b, &v, &error), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "the keys of a map");
  tenon_tensor keys = {
      .data = (int64_t[]){4, 5}, .dtype = TENON_DTYPE_I64, .rank = 1, .shape = {2}};
  tenon_value *k = NULL;
  REQUIRE(!tenon_value_tensor(&keys, &k, &error));
  EXPECT_STATUS(tenon_value_map(k, a, &v, &error), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "one for each of 2 keys");
  EXPECT_STATUS(tenon_value_sequence((tenon_dtype)99, NULL, 0, &v, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_value_sequence(0, NULL, 1, &v, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_value_tensor(
                    &(tenon_tensor){.dtype = TENON_DTYPE_F32, .rank = 1, .shape = {3}}, &v, &error),
                TENON_EINVAL);
  EXPECT(!v);
  // Nested as deep as can be, and once more.
  tenon_value *deep = tenon_value_retain(a);
  tenon_status s = TENON_OK;
  int depth = 1;
  while (!s) {
    tenon_value *next = NULL;
    s = tenon_value_sequence(0, &deep, 1, &next, &error);
    if (s) break;
    tenon_value_release(deep);
    deep = next;
    depth++;
  }
  EXPECT_INT_EQ(depth, 16);
  EXPECT_STATUS(s, TENON_EINVAL);
  EXPECT_INT_EQ(tenon_value_kind(NULL), 0);
  EXPECT_INT_EQ(tenon_value_count(NULL), 0);
  EXPECT(!tenon_value_item(a, 0) && !tenon_value_item(NULL, 0));
  tenon_value_release(deep);
  tenon_value_release(seq);
  tenon_value_release(k);
  tenon_value_release(a);
  tenon_value_release(b);
}
