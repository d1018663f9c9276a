// infer_test.c -- shapes that models compute with tensors come out as expressions over the inputs'
// symbols.
//
// Each case is a graph in text whose results' types are left to inference; the type of the last
// result is compared.  A second table holds graphs that must be refused, with a part of the
// message.
#include "ir/ir.h"
#include "test.h"

// Parses `head { lines return }` and writes the last result's type, or the message of a failure.
static tenon_status infer_text(const char *head, const char *lines, char *out, size_t cap) {
  static Diag d;
  diag_init(&d);
  Graph *g = NULL;
  Arena a;
  arena_init(&a);
  Trap t;
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) {
    const char *text = str_printf(&a, "graph @\"g\"(%s) {\n%s}\n", head, lines);
    t.status = graph_parse(str_of(text), "g.tir", &d, &g);
    if (!t.status) {
      StrBuf b;
      strbuf_init(&b, &a);
      type_print(&b, type_of(g->main->result[g->main->nresults - 1]));
      snprintf(out, cap, "%s", strbuf_text(&b));
    }
  }
  trap_leave(&t);
  if (t.status) snprintf(out, cap, "%s", d.text);
  graph_free(g);
  arena_deinit(&a);
  return t.status;
}

#define C(name, list) "%" #name " = const i64" list "\n"
static const struct {
  const char *head, *lines, *type;
} chains[] = {
    // view(batch, seq, heads, -1)
    {"%x: f32[batch, seq, 768]",
     "%s = shape(%x)\n" C(i0, "[] {0}") C(i1, "[] {1}") C(a, "[1] {0}") C(h, "[1] {12}")
         C(r, "[1] {-1}") "%b = gather(%s, %i0)\n%t = gather(%s, %i1)\n%bu = unsqueeze(%b, "
                          "%a)\n%tu = unsqueeze(%t, %a)\n"
                          "%n = concat(%bu, %tu, %h, %r)\n%y = reshape(%x, %n)\nreturn %y\n",
     "f32[batch, seq, 12, 64]"},
    // flattened and back
    {"%x: f32[batch, seq, 768]",
     C(f, "[2] {-1, 768}") "%m = reshape(%x, %f)\n%s = shape(%x) end=2\n" C(
         r, "[1] {-1}") "%n = concat(%s, %r)\n%y = reshape(%m, %n)\nreturn %m, %y\n",
     "f32[batch, seq, 768]"},
    // sums of symbols cancel as wholes
    {"%x: f32[b, t, 8], %p: f32[b, past, 8]",
     "%k = concat(%p, %x) axis=1\n%s = shape(%k) end=2\n" C(
         r, "[2] {2, -1}") "%n = concat(%s, %r)\n%y = reshape(%k, %n)\nreturn %y\n",
     "f32[b, past + t, 2, 4]"},
    // a table cut to the sequence's length, added to the sequence
    {"%x: f32[batch, seq, 8], %table: f32[1, 512, 8]",
     "%s = shape(%x)\n" C(one, "[1] {1}")
         C(z, "[1] {0}") "%e = gather(%s, %one)\n%c = slice(%table, %z, %e, %one)\n%y = add(%x, "
                         "%c)\nreturn %y\n",
     "f32[batch, seq, 8]"},
    // expand(-1, seq) as exporters write it
    {"%m: f32[batch, 1, 1, seq]",
     "%s = shape(%m)\n" C(three, "[1] {3}") "%t = gather(%s, %three)\n" C(r, "[1] {-1}")
         C(u, "[1] {1}") "%w = concat(%r, %u, %t, %r)\n%ws = shape(%w)\n%ones = "
                         "constant_of_shape(%ws, %u)\n%minus = mul(%ones, %r)\n"
                         "%eq = eq(%w, %minus)\n%n = where(%eq, %ones, %w)\n%y = expand(%m, "
                         "%n)\nreturn %y\n",
     "f32[batch, 1, seq, seq]"},
    // (size - 1) / 8 + 1 as an exporter that knows no ceiling writes it
    {"%x: f32[b, t]",
     "%s = shape(%x) start=1\n" C(o, "[1] {1}")
         C(e, "[1] {8}") "%l = sub(%s, %o)\n%q = div(%l, %e)\n%n = add(%q, %o)\n%y = expand(%o, "
                         "%n)\nreturn %y\n",
     "i64[floor(max(0, t - 1)/8) + 1]"},
    // backward from a place
    {"%x: f32[b, t]",
     C(s, "[2] {-3, 119}") C(e, "[2] {-9223372036854775808, -9223372036854775808}")
         C(a, "[2] {0, 1}") C(d, "[2] {-1, -2}") "%y = slice(%x, %s, %e, %a, %d)\nreturn %y\n",
     "f32[min(b, max(1, b - 2)), floor((min(120, t) + 1)/2)]"},
    // positions
    {"%x: i64[b, t]",
     "%s = shape(%x) start=1\n" C(q, "[0] {}") C(z, "[] {0}")
         C(o, "[] {1}") "%l = reshape(%s, %q)\n%y = range(%z, %l, %o)\nreturn %y\n",
     "i64[t]"},
    // halves, by slices with steps and ends from the size
    {"%x: f32[b, 2]",
     C(z, "[1] {0}") C(e, "[1] {9223372036854775807}")
         C(two, "[1] {2}") "%y = slice(%x, %z, %e, %z, %two)\nreturn %y\n",
     "f32[floor((b + 1)/2), 2]"},
    // the sizes of a reversed shape
    {"%x: f32[a, b, c]",
     "%s = shape(%x)\n" C(l, "[1] {-1}") C(e, "[1] {-9223372036854775807}")
         C(z, "[1] {0}") "%r = slice(%s, %l, %e, %z, %l)\n%y = constant_of_shape(%r)\nreturn %y\n",
     "f32[c, b, a]"},
    // the product of the sizes
    {"%x: f32[a, b, 4]",
     C(q, "[1] {-1}") "%s = shape(%x)\n%p = reduce_prod(%s)\n%n = reshape(%p, %q)\n"
                      "%y = constant_of_shape(%n)\nreturn %y\n",
     "f32[4*a*b]"},
    // padding by a size that is computed
    {"%x: f32[b, t]",
     "%s = shape(%x)\n" C(z, "[1] {0}")
         C(o, "[1] {1}") "%t = gather(%s, %o)\n%p = concat(%z, %z, %z, %t)\n"
                         "%y = pad(%x, %p)\nreturn %y\n",
     "f32[b, 2*t]"},
    // parts of an axis that divides
    {"%x: f32[b, 6]", "%p:3 = split(%x) axis=1\nreturn %p.2\n", "f32[b, 2]"},
};

TEST(shape_chains) {
  for (int64_t i = 0; i < ARRAY_LEN(chains); i++) {
    char got[TENON_ERROR_CAPACITY];
    infer_text(chains[i].head, chains[i].lines, got, sizeof got);
    if (strcmp(got, chains[i].type))
      test_failed(__FILE__, __LINE__, "chain %d gives %s, not %s", (int)i, got, chains[i].type);
  }
}

static const struct {
  const char *head, *lines, *part;
} refused[] = {
    {"%x: f32[2, 3]", C(s, "[2] {-1, -1}") "%y = reshape(%x, %s)\nreturn %y\n", "more than one -1"},
    {"%x: f32[2, 3]", C(s, "[2] {4, 2}") "%y = reshape(%x, %s)\nreturn %y\n", "6 and 8"},
    {"%x: f32[2, 3]",
     C(s,
       "[1] {2}") "%y = unsqueeze(%x, %s)\n%z = squeeze(%y, %s)\n%w = squeeze(%z, %s)\nreturn %w\n",
     "axis 2"},
    {"%x: f32[2, 3]", "%y = transpose(%x) perm=[0, 0]\nreturn %y\n", "twice"},
    {"%x: f32[2, 3], %y: f32[3, 3]", "%z = concat(%x, %y) axis=1\nreturn %z\n", "2 and 3"},
    {"%x: f32[2, 3]", C(i, "[1] {5}") "%y = gather(%x, %i)\nreturn %y\n", "index 5"},
    {"%x: f32[2, 3]", C(s, "[1] {0}") C(e, "[1] {1}") "%y = slice(%x, %s, %e, %s, %s)\nreturn %y\n",
     "step 0"},
    {"%x: f32[2, 3]", C(k, "[1] {4}") "%y:2 = top_k(%x, %k)\nreturn %y.0\n", "larger than axis 1"},
    {"%x: f32[1, 6, 2, 2]", "%y = depth_to_space(%x) blocksize=2\nreturn %y\n", "blocksize"},
    {"%x: f32[2, 3]", C(a, "[2] {1, -1}") "%y = reduce_sum(%x, %a)\nreturn %y\n", "twice"},
    // operands that the evaluation refuses: not only when the model runs
    {"%x: f32[2, 3, 4, 8], %c: f32[9, 3], %p: i64[2, 4]",
     "%y = rotary_embedding(%x, %c, %c, %p)\nreturn %y\n", "angles of a position"},
    {"%x: f32[2, 3, 4, 8], %c: f32[9, 4], %p: i64[3, 4]",
     "%y = rotary_embedding(%x, %c, %c, %p)\nreturn %y\n", "positions and tokens"},
    {"%x: f32[2, 4, 24], %c: f32[3, 4, 4]",
     "%y = rotary_embedding(%x, %c, %c) num_heads=3\nreturn %y\n", "batch of a cache"},
    {"%x: f32[2, 4, 24], %c: f32[2, 5, 4]",
     "%y = rotary_embedding(%x, %c, %c) num_heads=3\nreturn %y\n", "positions of a cache"},
    {"%q: f32[2, 2, 3, 4], %k: f32[2, 2, 6, 4], %n: i64[3]",
     "%y = attention(%q, %k, %k, _, _, _, %n)\nreturn %y\n", "nonpad_kv_seqlen"},
    {"%q: f32[2, 3, 8], %k: f32[2, 3, 6], %v: f32[2, 3, 6]",
     "%y:2 = linear_attention(%q, %k, %v) q_num_heads=2 kv_num_heads=2 "
     "update_rule=linear\nreturn %y.0\n",
     "width of keys"},
    {"%q: f32[2, 3, 8], %k: f32[2, 4, 8], %v: f32[2, 3, 6]",
     "%y:2 = linear_attention(%q, %k, %v) q_num_heads=2 kv_num_heads=2 "
     "update_rule=linear\nreturn %y.0\n",
     "length of the query"},
    {"%q: f32[2, 3, 8], %k: f32[2, 3, 8], %v: f32[2, 3, 6], %p: f32[2, 2, 3, 3]",
     "%y:2 = linear_attention(%q, %k, %v, %p) q_num_heads=2 kv_num_heads=2 "
     "update_rule=linear\nreturn %y.0\n",
     "past_state"},
    {"%a: i8[3, 4], %s: f32[2], %z: i8[2], %b: i8[4, 3], %t: f32[], %y: i8[]",
     "%r = q_linear_mat_mul(%a, %s, %z, %b, %t, %y, %t, %y)\nreturn %r\n", "numbers and rows"},
    {"%a: i8[3, 4], %s: f32[2], %z: i8[], %b: i8[4, 3], %t: f32[], %y: i8[2]",
     "%r = q_linear_mat_mul(%a, %t, %z, %b, %s, %y, %t, %z)\nreturn %r\n", "numbers and columns"},
    {"%x: f32[1, 2, 4, 9], %w: f32[3, 2, 2, 2], %o: f32[1, 8, 3, 3]",
     "%y = deform_conv(%x, %w, %o)\nreturn %y\n", "offsets and result"},
    {"%x: f32[1, 2, 4, 4], %w: f32[3, 2, 2, 2], %o: f32[1, 6, 3, 3]",
     "%y = deform_conv(%x, %w, %o)\nreturn %y\n", "offsets of all taps"},
    {"%x: f32[1, 5, 6]",
     C(i, "[2] {5, 5}") C(b, "[2] {1, 5}") "%y = col2im(%x, %i, %b)\nreturn %y\n",
     "columns and places"},
    {"%x: f32[1, 6, 5]",
     C(i, "[2] {5, 5}") C(b, "[2] {1, 5}") "%y = col2im(%x, %i, %b)\nreturn %y\n",
     "no whole blocks"},
};

TEST(shape_errors) {
  for (int64_t i = 0; i < ARRAY_LEN(refused); i++) {
    char got[TENON_ERROR_CAPACITY];
    tenon_status s = infer_text(refused[i].head, refused[i].lines, got, sizeof got);
    if (s != TENON_EINVAL || !strstr(got, refused[i].part))
      test_failed(__FILE__, __LINE__, "case %d: '%s' lacks '%s'", (int)i, got, refused[i].part);
  }
}
