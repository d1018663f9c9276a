// read.c -- which of StableHLO's forms a file has, and reading it.
#include "frontends/stablehlo/internal.h"

static const char bytecode_magic[4] = {'M', 'L', '\xEF', 'R'};

static bool is_bytecode(Str s) { return s.n >= 4 && !memcmp(s.p, bytecode_magic, 4); }

// The text behind white space and comments.
static Str skip_comments(Str s) {
  while (s.n) {
    if (s.p[0] == ' ' || s.p[0] == '\n' || s.p[0] == '\t' || s.p[0] == '\r') {
      s = (Str){s.p + 1, s.n - 1};
    } else if (str_starts(s, "//")) {
      const char *nl = memchr(s.p, '\n', (size_t)s.n);
      s = nl ? (Str){nl, s.p + s.n - nl} : (Str){s.p + s.n, 0};
    } else {
      break;
    }
  }
  return s;
}

// A name behind a sigil and an equals sign: `#loc = `, `!t = `.
static bool is_alias(Str s) {
  int64_t i = 1;
  while (i < s.n && s.p[i] > ' ' && s.p[i] != '=' && s.p[i] < 0x7F) i++;
  if (i == 1) return false;
  while (i < s.n && s.p[i] == ' ') i++;
  return i < s.n && s.p[i] == '=';
}

static bool is_mlir_text(Str s) {
  static const char *const starts[] = {
      "module ",        "module@",      "module{",       "module\n", "\"builtin.module",
      "builtin.module", "func.func ",   "\"func.func\"", "func @",   "func private",
      "util.global ",   "\"stablehlo.", "stablehlo.",    "\"vhlo.",  "sdy.mesh "};
  Str rest = skip_comments(s);
  for (int i = 0; i < ARRAY_LEN(starts); i++)
    if (str_starts(rest, starts[i])) return true;
  return rest.n > 2 && (rest.p[0] == '#' || rest.p[0] == '!') && is_alias(rest);
}

bool mlir_is(Str s) { return is_bytecode(s) || is_mlir_text(s) || mlir_is_jax(s); }

tenon_status mlir_read(Arena *a, Str bytes, MlirFile *out, Diag *d) {
  if (is_bytecode(bytes))
    TRY(mlir_read_bytecode(a, bytes, out, d));
  else if (mlir_is_jax(bytes))
    TRY(mlir_read_jax(a, bytes, out, d));
  else
    TRY(mlir_read_text(a, bytes, out, d));
  return mlir_verify(a, out, d);
}
