// weights.c -- constants of the target `c`: arrays in the source, or one weights file.
//
// Needs:      const_used says which constants the functions refer to; others are not written.
// Guarantees: every array reads back to the same bits.  Arrays and entries of the file begin at
//             multiples of 64 bytes, in the order of the program's constants.
#include "targets/c/emit.h"

#include <math.h>
#include <stdio.h>

enum { PER_LINE = 8 };

// f32 as numbers that read back to the same bits; where one is not finite, all as bits.
static bool all_finite(const float *v, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (!isfinite(v[i])) return false;
  return true;
}

static void put_f32(StrBuf *b, float v) {
  char s[40];
  snprintf(s, sizeof s, "%.9g", (double)v);
  strbuf_puts(b, s);
  if (!strpbrk(s, ".e")) strbuf_puts(b, ".0");
  strbuf_putc(b, 'f');
}

static void put_words(StrBuf *b, const char *data, int64_t n, int width) {
  for (int64_t i = 0; i < n; i++) {
    uint64_t word = 0;
    memcpy(&word, data + i * width, (size_t)width);
    strbuf_printf(b, "%s0x%llx%s",
                  i % PER_LINE ? ", "
                  : i          ? ",\n  "
                               : "  ",
                  (unsigned long long)word, width == 8 ? "u" : "");
  }
}

static void put_array(CModel *m, int32_t i, StrBuf *out) {
  const ProgConst *k = &m->p->constant[i];
  int bits = dtype_bits(k->dtype), width = bits >= 64 ? 8 : bits >= 8 ? bits / 8 : 1;
  int64_t n = MAX(k->bytes / width, 1);
  const void *data = m->whole[i] ? (const void *)m->whole[i] : k->data;
  bool real = k->dtype == DT_F32 && !m->whole[i] && all_finite(k->data, k->bytes / 4);
  const char *type = real         ? "float"
                     : width == 8 ? "uint64_t"
                     : width == 4 ? "uint32_t"
                     : width == 2 ? "uint16_t"
                                  : "uint8_t";
  strbuf_printf(out, "static const %s _Alignas(64) %s%sweights_%d[%lld] = { /* %s[", type,
                m->o->weights_attribute ? m->o->weights_attribute : "",
                m->o->weights_attribute ? " " : "", i, (long long)n,
                dtype_name(m->whole[i] ? DT_I32 : k->dtype));
  for (int32_t d = 0; d < k->rank; d++)
    strbuf_printf(out, "%s%lld", d ? ", " : "", (long long)k->dims[d]);
  strbuf_puts(out, "] */\n");
  if (!k->bytes) {
    strbuf_puts(out, "  0};\n");
    return;
  }
  if (real)
    for (int64_t j = 0; j < n; j++) {
      strbuf_puts(out, j % PER_LINE ? ", " : j ? ",\n  " : "  ");
      put_f32(out, ((const float *)k->data)[j]);
    }
  else
    put_words(out, data, n, width);
  strbuf_puts(out, "};\n");
}

static void put_external(CModel *m, int32_t i, StrBuf *out, StrBuf *external) {
  static const char zeros[64];
  const ProgConst *k = &m->p->constant[i];
  strbuf_printf(out, "#define weights_%d ((const void *)(tn_weights + %lld))\n", i,
                (long long)external->n);
  strbuf_put(external, (Str){m->whole[i] ? (const char *)m->whole[i] : k->data, k->bytes});
  strbuf_put(external, (Str){zeros, (64 - k->bytes % 64) % 64});
}

void c_weights(CModel *m, StrBuf *out, StrBuf *external) {
  for (int32_t i = 0; i < m->p->nconsts; i++) {
    if (!m->const_used[i]) continue;
    if (m->p->constant[i].dtype == DT_STRING) continue;
    if (m->o->external_weights)
      put_external(m, i, out, external);
    else
      put_array(m, i, out);
  }
}
