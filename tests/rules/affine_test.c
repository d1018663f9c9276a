// affine_test.c -- which integer tensors are base + strides times indices, and what the form is.
#include "rules/affine.h"
#include "test.h"

static void print_form(StrBuf *b, Graph *g, const Node *n) {
  Affine f;
  if (!node_affine(g, n, &f)) {
    strbuf_puts(b, "none");
    return;
  }
  ie_print(b, f.base);
  for (int i = 0; i < f.rank; i++) {
    strbuf_puts(b, i ? ", " : "; ");
    ie_print(b, f.stride[i]);
  }
  if (affine_counts(g, &f, type_of(n))) strbuf_puts(b, " counts");
}

TEST(affine_forms_of_index_tensors) {
  static const struct {
    const char *body, *form;  // of %r: base; strides
  } row[] = {
      {"%r = const i64[4] {3, 5, 7, 9}", "3; 2"},
      {"%r = const i64[4] {0, 1, 2, 3}", "0; 1 counts"},
      {"%r = const i64[4] {1, 2, 3, 4}", "1; 1"},
      {"%r = const i64[4] {0, 1, 2, 4}", "none"},
      {"%r = const i64[2, 3] {0, 1, 2, 3, 4, 5}", "0; 3, 1 counts"},
      {"%r = const i64[2, 3] {0, 1, 2, 4, 5, 6}", "0; 4, 1"},
      {"%r = const i64[1, 3] {0, 1, 2}", "0; 0, 1 counts"},
      {"%r = const i64[2, 1, 3] {0, 1, 2, 3, 4, 5}", "0; 3, 0, 1 counts"},
      {"%r = const i64[] {7}", "7"},
      {"%r = const i64[0] {}", "none"},
      // what does not fit in 64 bits
      {"%r = const i64[2] {-9223372036854775807, 9223372036854775807}", "none"},
      {"%r = const i64[3] {0, 4611686018427387904, -9223372036854775808}", "none"},
      {"%r = const i64[3] {9223372036854775800, 9223372036854775805, 9223372036854775802}", "none"},
      // ranges
      {"%r = range(%zero, %n, %one)", "0; 1 counts"},
      {"%r = range(%one, %n, %one)", "1; 1"},
      {"%r = range(%x, %n, %one)", "none"},
      {"%a = const i64[] {0} %b = const i64[] {9} %r = range(%a, %b, %x)", "none"},
      // axes of size 1 come and go
      {"%a = range(%zero, %n, %one) %s = const i64[2] {-1, 1} %r = reshape(%a, %s)",
       "0; 1, 0 counts"},
      {"%a = const i64[1] {5} %s = const i64[0] {} %r = reshape(%a, %s)", "5"},
      {"%m = add(%n, %one) %a = range(%n, %m, %one) %s = const i64[0] {} %r = reshape(%a, %s)",
       "n"},
      {"%a = const i64[4] {0, 1, 2, 3} %s = const i64[2] {2, 2} %r = reshape(%a, %s)",
       "0; 2, 1 counts"},
      {"%a = range(%zero, %n, %one) %s = const i64[2] {-1, 1} %c = reshape(%a, %s) "
       "%m = const i64[] {4} %d = mul(%c, %m) %e = const i64[4] {0, 1, 2, 3} %r = add(%d, %e)",
       "0; 4, 1 counts"},
      {"%a = range(%zero, %n, %one) %m = const i64[] {3} %r = sub(%m, %a)", "3; -1"},
      {"%a = range(%zero, %n, %one) %r = mul(%a, %a)", "none"},
      {"%a = range(%zero, %n, %one) %r = cast(%a) to=i32", "0; 1 counts"},
      {"%r = neg(%x)", "none"},
  };
  for (int i = 0; i < ARRAY_LEN(row); i++) {
    static Diag d;
    Graph *g = NULL;
    char text[1024];
    StrBuf b;
    diag_init(&d);
    snprintf(text, sizeof text,
             "graph(%%x: i64[], %%y: f32[n]) {\n %%zero = const i64[] {0} %%one = const i64[] {1} "
             "%%sh = shape(%%y) %%n = gather(%%sh, %%zero)\n %s\n return %%r\n}\n",
             row[i].body);
    if (graph_parse(str_of(text), NULL, &d, &g)) FAIL("%s\n%s", d.text, text);
    REQUIRE(g);
    strbuf_init(&b, &g->arena);
    print_form(&b, g, g->main->result[0]);
    if (strcmp(strbuf_text(&b), row[i].form))
      FAIL("%s: %s, not %s", row[i].body, strbuf_text(&b), row[i].form);
    graph_free(g);
  }
}
