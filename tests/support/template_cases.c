// template_cases.c -- graphs whose one kernel a template makes (template_cases.h).
#include "template_cases.h"

#include <stdlib.h>

#define ATTENTION(q, k, attrs)                                                                     \
  G("%q: f32[" q "], %k: f32[" k "], %v: f32[" k "]",                                              \
    "  %y = attention(%q, %k, %v)" attrs "\n  return %y\n")
#define CONV(x, w, attrs)                                                                          \
  G("%x: f32[" x "]",                                                                              \
    "!w f32[" w "]\n  %y = conv(%x, %w) channels_last=true" attrs "\n  return %y\n")

const TemplateCase template_cases[] = {
    {.name = "gemm", .text = MATMUL("29", "30", "50", "  return %p\n")},
    {.name = "gemm", .text = MATMUL("17", "20", "50", "  %y = gelu(%p)\n  return %y\n")},
    {.name = "gemm",
     .text = G("%x: f32[29, 60]", "~w f32[60, 100]\n  %p = mat_mul(%x, %w)\n  return %p\n"),
     .base = "index_list=true cols=16 unroll=1"},
    {.name = "gemm",
     .text = MATMUL("20", "30", "100", "  return %p\n"),
     .base = "stage_lhs=true item_panels=2"},
    {.name = "gemm",
     .text = MATMUL("41", "40", "70", "  return %p\n"),
     .base = "k_block=16 rows=6 cols=16 item_rows=24 item_panels=2 stage_lhs=false"},
    {.name = "gemm",
     .text = G("%x: f32[9, 33], %y: f32[33, 40]",
               "  %r = sin(%y)\n  %p = mat_mul(%x, %r)\n  return %p\n")},
    {.name = "gemm", .text = CONV("1, 9, 23, 3", "3, 3, 3, 20", " pads=[1, 1, 1, 1]")},
    {.name = "gemm",
     .text = CONV("2, 7, 9, 12", "3, 2, 12, 20", " pads=[1, 0, 1, 1] strides=[1, 2]")},
    {.name = "gemm",  // taps of a line in blocks
     .text = G("%x: f32[2, 5, 90]", "!w f32[20, 5, 31]\n  %c = conv(%x, %w) pads=[15, 15]\n"
                                    "  %y = relu(%c)\n  return %y\n"),
     .base = "tap_block=7 rows=6 unroll=2"},
    {.name = "gemm",
     .text = G("%x: u8[9, 32]", "!w i8[32, 24]\n  %p = mat_mul_integer(%x, %w)\n  return %p\n")},
    {.name = "conv_chain",
     .text = G("%x: f32[1, 6, 7, 5]",
               "!a f32[1, 1, 5, 32]\n!b f32[3, 3, 1, 32]\n!c f32[1, 1, 32, 12]\n"
               "  %e = conv(%x, %a) channels_last=true\n  %r = relu(%e)\n"
               "  %d = conv(%r, %b) channels_last=true group=32 pads=[1, 1, 1, 1]\n"
               "  %s = relu(%d)\n  %y = conv(%s, %c) channels_last=true\n  return %y\n")},
    {.name = "window",
     .text = G("%x: f32[1, 6, 18, 21]", "!w f32[12, 1, 3, 5]\n  %c = conv(%x, %w) group=6 "
                                        "pads=[1, 2, 1, 2] strides=[1, 2]\n  %y = relu(%c)\n"
                                        "  return %y\n")},
    {.name = "window",
     .text = G("%x: f32[2, 3, 20, 40]", "  %y = max_pool(%x) kernel_shape=[3, 3] pads=[1, 1, 1, 1]"
                                        " strides=[2, 2]\n  return %y\n")},
    {.name = "window",
     .text = G("%x: f32[1, 3, 12, 31]",
               "  %y = average_pool(%x) kernel_shape=[5, 3] pads=[2, 1, 2, 1]\n  return %y\n")},
    {.name = "resize",
     .text = G("%x: f32[2, 8, 9, 11]", "  %s = const i64[4] {2, 8, 20, 23}\n"
                                       "  %y = resize(%x, _, _, %s) mode=linear\n  return %y\n")},
    {.name = "resize",
     .text = G("%x: f32[1, 3, 9, 11]", "  %s = const f32[4] {1, 1, 2, 2}\n"
                                       "  %y = resize(%x, _, %s)\n  return %y\n")},
    {.name = "sample",
     .text = G("%x: f32[1, 3, 9, 11], %g: f32[1, 10, 20, 2]",
               "  %y = grid_sample(%x, %g)\n  return %y\n")},
    {.name = "winograd",
     .text = CONV("1, 8, 6, 17", "3, 3, 17, 20", " pads=[1, 1, 1, 1]"),
     .base = "tile=2 cols=8 item_rows=2",
     .tolerance = 1e-4},
    {.name = "attention", .text = ATTENTION("1, 1, 9, 8", "1, 1, 270, 8", "")},
    {.name = "attention", .text = ATTENTION("1, 2, 20, 4", "1, 1, 20, 4", " is_causal=true")},
    {.name = "attention",
     .text = G("%q: f32[1, 2, 5, 8], %k: f32[1, 2, 5, 8], %v: f32[1, 2, 5, 8], "
               "%o: f32[1, 2, 20, 8], %u: f32[1, 2, 20, 8]",
               "  %a:3 = attention(%q, %k, %v, _, %o, %u) is_causal=true\n  return %a.0\n")},
    {.name = "kv_append",
     .text = G("%x: f32[3, 2, 32, 8], %y: f32[4, 2, 8]",
               "  %s = const i32[4] {64, -1, 5, 95}\n  %k = kv_append(%x, %y, %s)\n  return %k\n")},
    {.name = "paged_attention",
     .text =
         G("%q: f32[41, 6, 20], %k: f32[12, 2, 32, 20], %v: f32[12, 2, 32, 37]",
           "  %s = const i32[41] "
           "{0,0,0,0,0,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}\n"
           "  %p = const i32[41] "
           "{3,4,5,90,6,250,251,252,253,254,255,256,257,258,259,260,261,262,263,264,265,266,267,"
           "268,269,270,271,272,273,274,275,276,277,278,279,280,281,282,283,284,285}\n"
           "  %t = const i32[2, 9] {9,8,7,-1,-1,-1,-1,-1,-1,0,1,2,3,4,5,6,10,11}\n"
           "  %y = paged_attention(%q, %k, %v, %s, %p, %t) window=200\n  return %y\n")},
    {.name = "paged_attention",
     .text = G("%q: f32[5, 6, 20], %k: i8[12, 2, 32, 20], %v: i8[12, 2, 32, 37], "
               "%a: f32[12, 2, 32, 1], %b: f32[12, 2, 32, 1]",
               "  %s = const i32[5] {0,1,0,1,0}\n  %p = const i32[5] {3,255,90,256,-1}\n"
               "  %t = const i32[2, 9] {9,8,7,-1,-1,-1,-1,-1,-1,0,1,2,3,4,5,6,10,11}\n"
               "  %y = paged_attention(%q, %k, %v, %s, %p, %t, _, _, %a, %b)\n  return %y\n")},
    {.name = "rnn",
     .text = G("%x: f32[20, 1, 6]", "!w f32[1, 36, 6]\n!r f32[1, 36, 9]\n"
                                    "  %l:3 = lstm(%x, %w, %r)\n  return %l.0\n"),
     .tolerance = 1e-3},
    {.name = "rnn",
     .text = G("%x: f32[5, 12, 6]", "!w f32[1, 36, 6]\n!r f32[1, 36, 9]\n"
                                    "  %l:3 = lstm(%x, %w, %r)\n  return %l.0, %l.2\n"),
     .tolerance = 1e-3},
    {.name = "rnn",
     .text = G("%x: f32[5, 12, 6]", "!w f32[2, 27, 6]\n!r f32[2, 27, 9]\n"
                                    "  %l:2 = gru(%x, %w, %r) direction=bidirectional\n"
                                    "  return %l.0, %l.1\n"),
     .tolerance = 1e-3},
    {.name = "int4_gemm",
     .text = G("%x: f32[30, 40]", "!w u8[70, 3, 8]\n!s f32[70, 3]\n"
                                  "  %y = mat_mul_n_bits(%x, %w, %s) bits=4\n  return %y\n")},
    {.name = "blocks",
     .text =
         G("%x: f32[30, 512]", "!r u8[70, 288]\n  %m = const u8[] {55}\n  %w = bit_and(%r, %m)\n"
                               "  %y = mat_mul_blocks(%x, %w) type=q4_0 k=512\n  return %y\n")},
    {.name = "blocks_gather",
     .text = G("%i: i64[6]", "!r u8[70, 288]\n  %m = const u8[] {55}\n  %w = bit_and(%r, %m)\n"
                             "  %y = gather_blocks(%w, %i) type=q4_0 k=512\n  return %y\n")},
    {.name = "blocks_quantize",
     .base = "blocks=2",
     .text = G("%x: f32[3, 640]", "  %y = quantize_blocks(%x)\n  return %y\n")},
    {.name = "grouped",
     .text = G("%x: f32[5, 40], %w: f32[3, 40, 48], %r: f32[5, 48]",
               "  %g = const i32[5] {2, -1, 0, 2, 1}\n  %m = grouped_mat_mul(%x, %w, %g)\n"
               "  %y = add(%m, %r)\n  return %y\n")},
    {.name = "scan",
     .text = G("%x: f32[7, 150]", "  %a = const i64[] {0}\n  %y = cum_sum(%x, %a)\n  return %y\n")},
    {.name = "topk",
     .text = G("%x: f32[3, 400]", "  %k = const i64[1] {5}\n  %y:2 = top_k(%x, %k)\n"
                                  "  return %y.0, %y.1\n")},
    {.name = "topk_lanes",
     .text = G("%x: f32[37, 29]", "  %k = const i64[1] {5}\n  %y:2 = top_k(%x, %k)\n"
                                  "  return %y.0, %y.1\n")},
    {.name = "topk_lanes",
     .text = G("%x: i64[n, 7, 19]", "  %k = const i64[1] {7}\n  %y:2 = top_k(%x, %k) axis=1 "
                                    "largest=false\n  return %y.0, %y.1\n")},
    {.name = "topk_lanes",  // more results than registers have room for
     .text = G("%x: f32[37, 41]", "  %k = const i64[1] {20}\n  %y:2 = top_k(%x, %k)\n"
                                  "  return %y.0, %y.1\n")},
    {.name = "scatter",
     .text = G("%x: f32[9, 4], %i: i64[1, 4], %u: f32[1, 4]",
               "  %y = scatter_elements(%x, %i, %u) axis=0\n  return %y\n")},
    {.name = "scatter",  // few updates: an item has a part of the data
     .text = G("%x: f32[140, 250], %i: i64[2, 70, 1], %u: f32[2, 70, 250]",
               "  %y = scatter_nd(%x, %i, %u) reduction=add\n  return %y\n")},
    {.name = "reduce", .text = G("%x: f32[7, 150]", "  %y = softmax(%x) axis=-1\n  return %y\n")},
    {.name = "reduce", .text = G("%x: f32[7, 150]", "  %y = softmax(%x) axis=0\n  return %y\n")},
    {.name = "reduce",  // several rows at once, whose lanes have guards
     .text = G("%x: f32[128, 9, 10]", "  %y = softmax(%x) axis=1\n  return %y\n")},
    {.name = "reduce",  // joined axes
     .text = G("%x: f32[13, 7, 25], %s: f32[7, 25]",
               "  %m = mul(%x, %s)\n  %a = const i64[1] {0}\n  %y = reduce_max(%m, %a)\n"
               "  return %y\n")},
    {.name = "reduce",  // kept in the result
     .text = G("%x: f32[2, 20000]", "  %y = softmax(%x) axis=-1\n  return %y\n")},
    {.name = "reduce",  // in pieces: a scale for each channel
     .text = G("%x: f32[2, 12, 5, 7], %s: f32[12], %b: f32[12]",
               "  %y = group_normalization(%x, %s, %b) num_groups=3\n  return %y\n")},
    {.name = "pointwise",
     .text = G("%x: f32[2, 40, 50]", "  %y = transpose(%x) perm=[0, 2, 1]\n  return %y\n")},
    {.name = "pointwise",
     .text = G("%x: f32[3, 5000], %z: f32[3, 70]",
               "  %c = concat(%x, %z) axis=1\n  %y = sin(%c)\n  return %y\n")},
    {.name = "pointwise",  // an empty part: the other one fills its axis, but not two axes
     .text = G("%x: f32[2, 40, 0], %z: f32[2, 40, 8]",
               "  %c = concat(%x, %z) axis=2\n  %y = sin(%c)\n  return %y\n")},
    {.name = "ragged_linear_attention",
     .text = G("%q: f32[5, 2, 8], %k: f32[5, 2, 8], %v: f32[5, 2, 24], %p: f32[3, 2, 8, 24], "
               "%d: f32[5, 2], %b: f32[5, 2]",
               "  %s = const i32[5] {2, 0, 2, 2, 1}\n"
               "  %y:2 = ragged_linear_attention(%q, %k, %v, %p, %s, %d, %b)\n"
               "  return %y.0, %y.1\n")},
    // thread blocks
    {.name = "kv_append_block",
     .groups = "64",
     .text = G("%x: f32[3, 2, 32, 40], %y: f32[4, 2, 40]",
               "  %s = const i32[4] {64, -1, 5, 95}\n  %k = kv_append(%x, %y, %s)\n  return %k\n")},
    {.name = "rnn_block",
     .groups = "64",
     .text = G("%x: f32[21, 2, 6]", "!w f32[2, 60, 6]\n!r f32[2, 60, 20]\n"
                                    "  %l:2 = gru(%x, %w, %r) direction=bidirectional\n"
                                    "  return %l.0, %l.1\n"),
     .tolerance = 1e-3},
    {.name = "paged_attention_block",
     .groups = "64",
     .text = G("%q: f32[5, 12, 20], %k: f32[12, 3, 32, 20], %v: f32[12, 3, 32, 36]",
               "  %s = const i32[5] {0,1,0,1,0}\n  %p = const i32[5] {3,255,90,256,-1}\n"
               "  %t = const i32[2, 9] {9,8,7,-1,-1,-1,-1,-1,-1,0,1,2,3,4,5,6,10,11}\n"
               "  %y = paged_attention(%q, %k, %v, %s, %p, %t) window=200\n  return %y\n")},
    {.name = "gemv", .groups = "64", .text = MATMUL("3", "320", "64", "  return %p\n")},
    {.name = "gemm_simt", .groups = "256", .text = MATMUL("70", "20", "70", "  return %p\n")},
    {.name = "gemm_simt", .groups = "64", .text = MATMUL("19", "35", "20", "  return %p\n")},
    {.name = "gemm_naive", .groups = "64", .text = MATMUL("3", "150", "50", "  return %p\n")},
    {.name = "depthwise",
     .groups = "64",
     .text = CONV("1, 9, 12, 16", "3, 3, 1, 16", " group=16 pads=[1, 1, 1, 1]")},
    {.name = "attention_simt",
     .groups = "64",
     .text = ATTENTION("1, 2, 21, 12", "1, 2, 70, 12", " is_causal=true")},
    {.name = "reduce_block",
     .groups = "64",
     .text = G("%x: f32[20, 128], %s: f32[128], %b: f32[128]",
               "  %y = layer_normalization(%x, %s, %b)\n  return %y\n")},
    {.name = "reduce_block",
     .groups = "64",
     .text = G("%x: f32[70, 40]", "  %y = softmax(%x) axis=0\n  return %y\n")},
    // rows in pieces, each of which a block's threads do not divide, of a concatenation
    {.name = "reduce_block",
     .groups = "64",
     .text = G("%x: f32[1, 7, 10, 20], %z: f32[1, 7, 10, 16], %s: f32[36], %b: f32[36]",
               "  %c = concat(%x, %z) axis=3\n  %y = group_normalization(%c, %s, %b) "
               "num_groups=3 channels_last=true\n  return %y\n")},
    {.name = "reduce_block",
     .groups = "64",
     .text = G("%x: f32[3, 19, 45]", "  %y = softmax(%x) axis=1\n  return %y\n")},
    {.name = "reduce_block",
     .groups = "64",
     .text = G("%x: f32[3, 3001]", "  %y = softmax(%x) axis=1\n  return %y\n")},
    {.name = "scan_block",
     .groups = "64",
     .text = G("%x: f32[3, 601]", "  %a = const i64[] {1}\n  %y = cum_sum(%x, %a)\n  return %y\n")},
    {.name = "scan_block",
     .groups = "64",
     .text =
         G("%x: f32[2, 300, 19]", "  %a = const i64[] {1}\n  %c = cum_sum(%x, %a) "
                                  "exclusive=true reverse=true\n  %y = sin(%c)\n  return %y\n")},
    {.name = "scan_block",
     .groups = "64",
     .text = G("%x: i64[70, 9]",
               "  %a = const i64[] {1}\n  %y = cum_prod(%x, %a) reverse=true\n  return %y\n")},
    {.name = "topk_block",
     .groups = "64",
     .text = G("%x: f32[3, 400]", "  %k = const i64[1] {5}\n  %y:2 = top_k(%x, %k)\n"
                                  "  return %y.0, %y.1\n")},
    {.name = "topk_block",
     .groups = "64",
     .text = G("%x: f32[5, 30, 3]", "  %k = const i64[1] {30}\n  %y:2 = top_k(%x, %k) axis=1 "
                                    "largest=false\n  return %y.0, %y.1\n")},
    {.name = "topk_block",
     .groups = "32",
     .text = G("%x: i64[2, 300]", "  %k = const i64[1] {7}\n  %y:2 = top_k(%x, %k)\n"
                                  "  return %y.0, %y.1\n"),
     .base = "size=32"},
    {.name = "scatter_block",
     .groups = "64",
     .text = G("%x: f32[9, 14], %i: i64[6, 11], %u: f32[6, 11]",
               "  %y = scatter_elements(%x, %i, %u) axis=0 reduction=add\n  return %y\n")},
    {.name = "scatter_block",
     .groups = "64",
     .text = G("%x: f32[5, 4, 40], %i: i64[3, 2, 2], %u: f32[3, 2, 40]",
               "  %y = scatter_nd(%x, %i, %u)\n  return %y\n")},
    {.name = "pointwise_block",
     .groups = "64",
     .text = G("%x: f32[300, 260]", "  %y = sin(%x)\n  return %y\n")},
    {.name = "pointwise_block",
     .groups = "64",
     .text = G("%x: f32[30, 26]",
               "  %s = sin(%x)\n  %n = const i64[3] {10, 3, 26}\n  %c = reshape(%s, %n)\n"
               "  %e = exp(%c)\n  return %s, %e\n")},
    {.name = "pointwise_block",
     .groups = "64",
     .text = G("%x: f32[2, 5, 130, 32], %c: f32[2, 130, 16], %s: f32[2, 130, 16]",
               "  %y = rotary_embedding(%x, %c, %s)\n  return %y\n"),
     .base = "vector=4 parts=2"},
    {.name = "pointwise_block",
     .groups = "64",
     .text = G("%x: f32[2, 3, 90, 40], %c: f32[2, 90, 8], %s: f32[2, 90, 8]",
               "  %y = rotary_embedding(%x, %c, %s) rotary_embedding_dim=16\n  return %y\n"),
     .base = "vector=4 parts=5"},
    {.name = "pointwise_block",
     .groups = "64",
     .text = G("%x: f32[300, 24], %y: f32[300, 8]",
               "  %j = concat(%x, %y) axis=-1\n  %e = sin(%j)\n  return %e\n"),
     .base = "vector=4 parts=4"},
    {.name = "pointwise_block",
     .groups = "64",
     .text = G("%x: f32[256, 256]", "  %y = transpose(%x) perm=[1, 0]\n  return %y\n")},
    {.name = "gemm_mma",
     .groups = "128",
     .tiles = "1",
     .text = G("%x: bf16[40, 32]", "!w bf16[32, 40]\n  %p = mat_mul(%x, %w)\n  return %p\n"),
     .tolerance = 1e-2},
    {.name = "attention_mma",
     .groups = "128",
     .tiles = "1",
     .text = G("%q: f16[1, 1, 9, 64], %k: f16[1, 1, 2, 64], %v: f16[1, 1, 2, 64]",
               "  %y = attention(%q, %k, %v)\n  return %y\n"),
     .tolerance = 1e-2},
    {.name = "attention_mma",
     .groups = "128",
     .tiles = "1",
     .text = G("%q: f16[1, 1, 9, 64], %k: f16[1, 1, 2, 64], %v: f16[1, 1, 2, 64]",
               "  %y = attention(%q, %k, %v)\n  return %y\n"),
     .base = "warpgroups=2 keys=128 stages=2",
     .tolerance = 1e-2},
};

const int template_ncases = ARRAY_LEN(template_cases);

// Numbers whose sums are rounded; bytes are whole.
static double number_at(int64_t i, DType t) {
  int64_t v = (i * 7919 + i / 13 * 31) % 1013;
  return dtype_is_float(t) ? (double)v / 997 - 0.45 : (double)(v % 100);
}

void template_case_fill(Value *v) {
  for (int64_t i = 0; i < v->n; i++)
    val_put_f64(v, i, v->dtype == DT_I64 ? (double)(i % 4) : number_at(i, v->dtype));
}

// The text with its constants written out.
const char *template_case_text(Arena *a, const char *text) {
  StrBuf b;
  strbuf_init(&b, a);
  while (*text) {
    int64_t line = (int64_t)strcspn(text, "\n"), n = 1, last = 1;
    if (*text != '!' && *text != '~') {
      strbuf_put(&b, (Str){text, line + (text[line] != 0)});
    } else {
      const char *type = strchr(text, ' ') + 1, *dims = strchr(type, '[');
      bool floats = *type == 'f' || *type == 'b';
      for (const char *p = dims; *p != ']';) {
        n *= last = strtol(p + 1, (char **)&p, 10);
      }
      strbuf_printf(&b, "  %%%.*s = const %.*s {", (int)(type - text - 2), text + 1,
                    (int)(text + line - type), type);
      for (int64_t i = 0; i < n; i++) {
        bool zero = *text == '~' && (i / last + i % last / 16) % 3;
        double v = zero ? 0 : number_at(i + 7, floats ? DT_F32 : DT_U8);
        strbuf_printf(&b, "%s%.9g", i ? ", " : "", v);
      }
      strbuf_puts(&b, "}\n");
    }
    text += line + (text[line] != 0);
  }
  return strbuf_text(&b);
}
