// jax.c -- jax.export files: a FlatBuffer around portable bytecode.
//
// Of the table only what describes the program is read: its name, the platforms it was exported
// for, the version of the calling convention, the bytecode.  How arguments are nested in Python's
// containers stays there: the module's function takes them flat, in order.
#include "frontends/common/flatbuffer.h"
#include "frontends/stablehlo/internal.h"

enum { FIELD_NAME = 1, FIELD_PLATFORMS = 9, FIELD_MODULE = 13, FIELD_CALLING = 14 };

static Fb view_of(Str s, Diag *d) { return (Fb){(const uint8_t *)s.p, s.n, d, TENON_OK}; }

static Str module_of(const FbTable *t) {
  FbVector v = fb_vector(t, FIELD_MODULE, 1);
  return (Str){(const char *)t->fb->p + v.at, v.n};
}

bool mlir_is_jax(Str s) {
  Diag quiet;
  diag_init(&quiet);
  Fb fb = view_of(s, &quiet);
  FbTable root = fb_root(&fb);
  Str module = module_of(&root);
  return module.n >= 4 && !memcmp(module.p, "ML\xEFR", 4);
}

static const char *platforms(Arena *a, const FbTable *root) {
  enum { SHOWN = 8 };
  StrBuf b;
  FbVector v = fb_vector(root, FIELD_PLATFORMS, 4);
  strbuf_init(&b, a);
  for (int64_t i = 0; i < MIN(v.n, SHOWN); i++) {
    Str name = fb_str_at(&v, i);
    strbuf_printf(&b, "%s%.*s", i ? ", " : "", STR_ARG(name));
  }
  return strbuf_text(&b);
}

tenon_status mlir_read_jax(Arena *a, Str bytes, MlirFile *out, Diag *d) {
  Fb fb = view_of(bytes, d);
  FbTable root = fb_root(&fb);
  Str module = module_of(&root), name = fb_str(&root, FIELD_NAME);
  JaxExport *jax = arena_new(a, JaxExport);
  *jax = (JaxExport){str_copy(a, name), platforms(a, &root), fb_u16(&root, FIELD_CALLING, 0)};
  if (fb.status) return fb.status;
  // The name is what the file ends with: where it is whole, so is the rest.
  if (!fb_is_set(&root, FIELD_NAME) || bytes.n % 4)
    return fail(d, TENON_EFORMAT, (Where){.offset = bytes.n, .has_offset = true},
                "a jax.export file that is cut off");
  tenon_status s = mlir_read_bytecode(a, module, out, d);
  if (s) {
    diag_note(d, "in the module of a jax.export file, which begins at byte %lld",
              (long long)(module.p - bytes.p));
    return s;
  }
  out->jax = jax;
  out->form = MLIR_JAX_EXPORT;
  return TENON_OK;
}
