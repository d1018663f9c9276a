// options.c -- the option table made of options.def: values from text and to text.
#include "compile/options.h"

#include "base/limits.h"
#include "base/sha256.h"
#include "passes/passes.h"

#define RECORD OPTION_RECORD
#define KEY    OPTION_KEY
#define EXPERT OPTION_EXPERT
#define FRESH  OPTION_FRESH
#define SAME   OPTION_SAME
#define AT(id) (uint32_t) offsetof(CompileOptions, id)

const CompileOptionRow compile_option[COMPILE_OPTIONS] = {
#define OPTION_FLAG(id, ch, ma, he) {#id, OPTION_KIND_FLAG, ma, AT(id), 0, 0, 1, NULL, NULL, he},
#define OPTION_INT(id, ch, va, df, lo, hi, ma, he)                                                 \
  {#id, OPTION_KIND_INT, ma, AT(id), df, lo, hi, NULL, va, he},
#define OPTION_BYTES(id, ch, va, df, lo, ma, he)                                                   \
  {#id, OPTION_KIND_BYTES, ma, AT(id), df, lo, INT64_MAX, NULL, va, he},
#define OPTION_CHOICE(id, ch, va, wo, df, ma, he)                                                  \
  {#id, OPTION_KIND_CHOICE, ma, AT(id), df, 0, 0, wo, va, he},
#define OPTION_TEXT(id, ch, va, ma, he) {#id, OPTION_KIND_TEXT, ma, AT(id), 0, 0, 0, NULL, va, he},
#define OPTION_LIST(id, ch, va, ma, he) {#id, OPTION_KIND_LIST, ma, AT(id), 0, 0, 0, NULL, va, he},
#define OPTION_FILE(id, ch, va, ma, he) {#id, OPTION_KIND_FILE, ma, AT(id), 0, 0, 0, NULL, va, he},
#include "compile/options.def"
};

// Nobody adds an option without saying what becomes of the cache of programs.
#define SAYS(marks)                                                                                \
  _Static_assert(((marks) & (RECORD | FRESH | SAME)) != 0, "RECORD, FRESH or SAME: options.def");
#define OPTION_FLAG(id, ch, ma, he)                SAYS(ma)
#define OPTION_INT(id, ch, va, df, lo, hi, ma, he) SAYS(ma)
#define OPTION_BYTES(id, ch, va, df, lo, ma, he)   SAYS(ma)
#define OPTION_CHOICE(id, ch, va, wo, df, ma, he)  SAYS(ma)
#define OPTION_TEXT(id, ch, va, ma, he)            SAYS(ma)
#define OPTION_LIST(id, ch, va, ma, he)            SAYS(ma)
#define OPTION_FILE(id, ch, va, ma, he)            SAYS(ma)
#include "compile/options.def"

// Nor a field: this struct has those of the rows alone, and is as large.
typedef struct RowsAlone {
#define OPTION_FLAG(id, ...)   bool id;
#define OPTION_INT(id, ...)    int64_t id;
#define OPTION_BYTES(id, ...)  int64_t id;
#define OPTION_CHOICE(id, ...) int id;
#define OPTION_TEXT(id, ...)   const char *id;
#define OPTION_LIST(id, ...)   TextList id;
#define OPTION_FILE(id, ...)   OptionFile id;
#include "compile/options.def"
#define FIELD(mark, declaration, name) declaration;
#include "compile/fields.def"
} RowsAlone;
_Static_assert(sizeof(RowsAlone) == sizeof(CompileOptions), "a field is a row of fields.def");

const char *const compile_option_kind_name[] = {
    [OPTION_KIND_FLAG] = "flag",     [OPTION_KIND_INT] = "int",   [OPTION_KIND_BYTES] = "bytes",
    [OPTION_KIND_CHOICE] = "choice", [OPTION_KIND_TEXT] = "text", [OPTION_KIND_LIST] = "list",
    [OPTION_KIND_FILE] = "file"};

static void *field(const CompileOptions *o, const CompileOptionRow *r) {
  return (char *)(uintptr_t)o + r->offset;
}

void compile_defaults(CompileOptions *o) {
  *o = (CompileOptions){0};
  for (int i = 0; i < COMPILE_OPTIONS; i++) {
    const CompileOptionRow *r = &compile_option[i];
    switch (r->kind) {
    case OPTION_KIND_INT:
    case OPTION_KIND_BYTES: *(int64_t *)field(o, r) = r->dflt; break;
    case OPTION_KIND_CHOICE: *(int *)field(o, r) = (int)r->dflt; break;
    case OPTION_KIND_FLAG:
    case OPTION_KIND_TEXT:
    case OPTION_KIND_LIST:
    case OPTION_KIND_FILE: break;
    }
  }
}

// ---- from text ----

bool parse_scaled(const char *text, int64_t k, int64_t *out) {
  static const char units[] = "KMGT";
  Str s = str_of(text);
  const char *unit = s.n && s.p[s.n - 1] ? strchr(units, s.p[s.n - 1]) : NULL;
  if (unit) s.n--;
  if (!str_to_i64(s, out)) return false;
  for (const char *u = units; unit && u <= unit; u++)
    if (!ck_mul(*out, k, out)) return false;
  return true;
}

// The word at a position, of words with a space between; empty past the last.
static Str word_at(const char *words, int i) {
  while (i-- && *words) {
    words += strcspn(words, " ");
    words += *words == ' ';
  }
  return (Str){words, (int64_t)strcspn(words, " ")};
}

static tenon_status wrong(const CompileOptionRow *r, const char *value, const char *takes,
                          Diag *d) {
  return fail(d, TENON_EINVAL, NOWHERE, "--%s %s: it is %s", r->name, value, takes);
}

static tenon_status put_flag(void *f, const CompileOptionRow *r, const char *value, Diag *d) {
  bool on = !strcmp(value, "1") || !strcmp(value, "true");
  if (!on && strcmp(value, "0") && strcmp(value, "false")) return wrong(r, value, "1 or 0", d);
  *(bool *)f = on;
  return TENON_OK;
}

static tenon_status put_number(void *f, const CompileOptionRow *r, const char *value, Arena *a,
                               Diag *d) {
  int64_t n;
  bool number =
      r->kind == OPTION_KIND_BYTES ? parse_scaled(value, 1024, &n) : str_to_i64(str_of(value), &n);
  if (!number || n < r->least || n > r->most)
    return wrong(r, value,
                 r->most == INT64_MAX
                     ? str_printf(a, "a whole number from %lld up", (long long)r->least)
                     : str_printf(a, "a whole number from %lld to %lld", (long long)r->least,
                                  (long long)r->most),
                 d);
  *(int64_t *)f = n;
  return TENON_OK;
}

static tenon_status put_choice(void *f, const CompileOptionRow *r, const char *value, Arena *a,
                               Diag *d) {
  StrBuf b;
  int n = 0;
  for (; word_at(r->words, n).n; n++)
    if (str_is(word_at(r->words, n), value)) {
      *(int *)f = n;
      return TENON_OK;
    }
  const char **words = arena_array(a, const char *, n + 1);
  strbuf_init(&b, a);
  for (int i = 0; i < n; i++) {
    words[i] = str_copy(a, word_at(r->words, i));
    strbuf_printf(&b, "%s%s", !i ? "" : i == n - 1 ? " or " : ", ", words[i]);
  }
  strbuf_puts(&b, did_you_mean(str_of(value), words, n).s);
  return wrong(r, value, strbuf_text(&b), d);
}

static const char *hash_of(Str text, Arena *a) {
  Sha256 s;
  uint8_t hash[SHA256_BYTES];
  StrBuf b;
  sha256_init(&s);
  sha256_put(&s, text.p, text.n);
  sha256_end(&s, hash);
  strbuf_init(&b, a);
  strbuf_puts(&b, "sha256:");
  for (int i = 0; i < SHA256_BYTES; i++) strbuf_printf(&b, "%02x", hash[i]);
  return strbuf_text(&b);
}

// Read once, so that what is compiled is what the hash says.
static tenon_status put_file(OptionFile *f, const char *path, Arena *a, Diag *d) {
  File file;
  *f = (OptionFile){0};
  if (!strcmp(path, "none")) return TENON_OK;
  TRY(file_open(path, &file, d));
  int64_t limit = (int64_t)LIMIT_OPTION_FILE_MIB << 20, n = file.size;
  if (n <= limit) f->text = (Str){arena_dup(a, file.bytes, n), n};
  file_close(&file);
  if (n > limit)
    return fail(d, TENON_EINVAL, NOWHERE, "%s has %lld bytes; such a file has at most %lld", path,
                (long long)n, (long long)limit);
  f->path = str_copy(a, str_of(path));
  f->hash = hash_of(f->text, a);
  return TENON_OK;
}

tenon_status compile_option_put(CompileOptions *o, int id, const char *value, Arena *a, Diag *d) {
  const CompileOptionRow *r = &compile_option[id];
  void *f = field(o, r);
  switch (r->kind) {
  case OPTION_KIND_FLAG: return put_flag(f, r, value, d);
  case OPTION_KIND_INT:
  case OPTION_KIND_BYTES: return put_number(f, r, value, a, d);
  case OPTION_KIND_CHOICE: return put_choice(f, r, value, a, d);
  case OPTION_KIND_TEXT: *(const char **)f = str_copy(a, str_of(value)); return TENON_OK;
  case OPTION_KIND_FILE: return put_file(f, value, a, d);
  case OPTION_KIND_LIST: break;
  }
  TextList *l = f;
  const char **v = arena_array(a, const char *, l->n + 1);
  if (l->n) memcpy(v, l->v, (size_t)l->n * sizeof *v);
  v[l->n] = str_copy(a, str_of(value));
  *l = (TextList){v, l->n + 1};
  return TENON_OK;
}

// "fold-limit" and "fold_limit".
static bool same_name(const char *a, const char *b) {
  while (*a && (*a == *b || (*a == '-' && *b == '_'))) a++, b++;
  return !*a && !*b;
}

tenon_status compile_option_set(CompileOptions *o, const char *name, const char *value, Arena *a,
                                Diag *d) {
  const char *words[COMPILE_OPTIONS];
  for (int i = 0; i < COMPILE_OPTIONS; i++) {
    if (same_name(name, compile_option[i].name)) return compile_option_put(o, i, value, a, d);
    words[i] = compile_option[i].name;
  }
  return fail(d, TENON_EINVAL, NOWHERE, "there is no option '%s'%s", name,
              did_you_mean(str_of(name), words, COMPILE_OPTIONS).s);
}

static tenon_status check_passes(const CompileOptions *o, Diag *d) {
  OptOptions passes;
  opt_defaults(&passes);
  passes.disable = o->disable;
  passes.start_from = o->start_from;
  passes.stop_after = o->stop_after;
  passes.dump_after = o->dump_after;
  return passes_check_names(graph_passes, graph_npasses, &passes, d);
}

tenon_status compile_options_check(const CompileOptions *o, Diag *d) {
  TRY(check_passes(o, d));
  static const char *const word[] = {"f32", "tf32", "bf16", "f16"};
  const char *precision = word[o->precision];
  if (o->exact && o->fast)
    return fail(d, TENON_EINVAL, NOWHERE, "--exact and --fast exclude one another");
  if (o->exact && o->precision != PRECISION_F32)
    return fail(d, TENON_EINVAL, NOWHERE, "--exact and --precision %s exclude one another",
                precision);
  if (o->keep.n && o->precision != PRECISION_BF16 && o->precision != PRECISION_F16)
    return fail(d, TENON_EINVAL, NOWHERE, "--keep needs --precision bf16 or f16");
  if (o->tuned_strict && !o->tuned.path && !o->schedules)
    return fail(d, TENON_EINVAL, NOWHERE, "--tuned-strict needs --tuned FILE");
  return TENON_OK;
}

// ---- to text ----

typedef VEC(const char *) Texts;

static void add_value(Texts *out, const CompileOptionRow *r, Str value, Arena *a) {
  StrBuf b;
  strbuf_init(&b, a);
  strbuf_printf(&b, "%s=", r->name);
  strbuf_put(&b, value);
  vec_push(a, out, strbuf_text(&b));
}

static bool is_default(const CompileOptions *o, const CompileOptionRow *r) {
  const void *f = field(o, r);
  switch (r->kind) {
  case OPTION_KIND_FLAG: return !*(const bool *)f;
  case OPTION_KIND_INT:
  case OPTION_KIND_BYTES: return *(const int64_t *)f == r->dflt;
  case OPTION_KIND_CHOICE: return *(const int *)f == r->dflt;
  case OPTION_KIND_TEXT: return !*(const char *const *)f;
  case OPTION_KIND_FILE: return !((const OptionFile *)f)->path;
  case OPTION_KIND_LIST: break;
  }
  return !((const TextList *)f)->n;
}

static void add_values(Texts *out, const CompileOptions *o, const CompileOptionRow *r, Arena *a) {
  const void *f = field(o, r);
  if (is_default(o, r)) return;
  switch (r->kind) {
  case OPTION_KIND_FLAG: add_value(out, r, STR("1"), a); return;
  case OPTION_KIND_INT:
  case OPTION_KIND_BYTES:
    add_value(out, r, str_of(str_printf(a, "%lld", (long long)*(const int64_t *)f)), a);
    return;
  case OPTION_KIND_CHOICE: add_value(out, r, word_at(r->words, *(const int *)f), a); return;
  case OPTION_KIND_TEXT: add_value(out, r, str_of(*(const char *const *)f), a); return;
  case OPTION_KIND_FILE: add_value(out, r, str_of(((const OptionFile *)f)->hash), a); return;
  case OPTION_KIND_LIST: break;
  }
  const TextList *l = f;
  for (int64_t i = 0; i < l->n; i++) add_value(out, r, str_of(l->v[i]), a);
}

TextList compile_options_list(const CompileOptions *o, unsigned marks, Arena *a) {
  Texts all = {0};
  for (int i = 0; i < COMPILE_OPTIONS; i++)
    if (compile_option[i].marks & marks) add_values(&all, o, &compile_option[i], a);
  return (TextList){all.v, all.n};
}

// Each value after its length, so that no two lists have one text.
const char *compile_options_key(const CompileOptions *o, Arena *a) {
  StrBuf b;
  TextList l = compile_options_list(o, OPTION_KEY, a);
  strbuf_init(&b, a);
  for (int64_t i = 0; i < l.n; i++) strbuf_printf(&b, "%lld:%s", (long long)strlen(l.v[i]), l.v[i]);
  return strbuf_text(&b);
}

static bool is_given(const void *field, size_t bytes) {
  const char *p = field;
  for (size_t i = 0; i < bytes; i++)
    if (p[i]) return true;
  return false;
}

bool compile_options_kept(const CompileOptions *o) {
  for (int i = 0; i < COMPILE_OPTIONS; i++)
    if (compile_option[i].marks & OPTION_FRESH && !is_default(o, &compile_option[i])) return false;
#define FIELD_KEYED(name)
#define FIELD_SAME(name)
#define FIELD_FRESH(name)                                                                          \
  if (is_given(&o->name, sizeof o->name)) return false;
#define FIELD(mark, declaration, name) FIELD_##mark(name)
#include "compile/fields.def"
  return true;
}
