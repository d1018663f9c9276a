// artifact.c -- writing a program to a file, and mapping it back.
//
// Reading goes from the outside in: the header by its CRC, the sections by theirs, the plan by its walk, and then
// program_check.  What passes is a program as good as the one that was written.
#include "runtime/artifact.h"

#include "base/crc.h"
#include "base/machine.h"
#include "base/process.h"

#include <stdio.h>

static const char magic[8] = {'\x89', 'T', 'E', 'N', 'O', 'N', '\n', '\x1a'};
enum { BYTE_ORDER = 0x01020304 };
const char *const artifact_section_name[SECTION_COUNT] = {"plan", "constants", "code"};

typedef struct Section {
  int64_t bytes;  // without what fills its last page
  uint32_t crc;   // crc32c_blocks
  uint32_t unused;
} Section;
typedef struct Header {
  char magic[8];
  uint32_t version, byte_order;
  int64_t file_bytes;
  Section section[SECTION_COUNT];
  char maker[32];
  uint32_t beside;  // 1: the constants are a file of their own
  uint32_t crc;     // of the page, with this field 0
} Header;
_Static_assert(sizeof(Header) == 112, "no padding");

static int64_t whole_pages(int64_t n) {
  return (n + ARTIFACT_PAGE - 1) / ARTIFACT_PAGE * ARTIFACT_PAGE;
}

// What a section takes in the artifact itself.
static int64_t pages_here(const Header *h, int section) {
  return h->beside && section == SECTION_CONSTANTS ? 0 : whole_pages(h->section[section].bytes);
}

bool artifact_is(const void *bytes, int64_t n) {
  return n >= (int64_t)sizeof magic && !memcmp(bytes, magic, sizeof magic);
}

// ---- writing ----

static uint32_t header_crc(const char *page) {
  Header h;
  memcpy(&h, page, sizeof h);
  h.crc = 0;
  uint32_t crc = crc32c(0, &h, sizeof h);
  return crc32c(crc, page + sizeof h, ARTIFACT_PAGE - (int64_t)sizeof h);
}

tenon_status artifact_parts(const Program *p, bool beside, Arena *a, Diag *d,
                            Str out[ARTIFACT_PARTS]) {
  if (p->invoke)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE,
                "a program of target '%s' has no code of its own to write down", p->target);
  StrBuf plan;
  strbuf_init(&plan, a);
  TRY(plan_encode(p, &plan, d));
  Str section[SECTION_COUNT] = {
      strbuf_str(&plan), {p->constants, p->constants_bytes}, {p->code, p->code_bytes}};
  Header h = {.version = ARTIFACT_VERSION,
              .byte_order = BYTE_ORDER,
              .file_bytes = ARTIFACT_PAGE,
              .beside = beside};
  memcpy(h.magic, magic, sizeof magic);
  snprintf(h.maker, sizeof h.maker, "%s", TENON_VERSION);
  Pool *pool = pool_create(0);
  for (int i = 0; i < SECTION_COUNT; i++) {
    h.section[i] = (Section){.bytes = section[i].n};
    h.section[i].crc = crc32c_blocks(section[i].p, section[i].n, pool);
    h.file_bytes += pages_here(&h, i);
  }
  pool_release(pool);
  char *page = arena_alloc(a, ARTIFACT_PAGE), *code = arena_alloc(a, whole_pages(p->code_bytes));
  char *zeros = arena_alloc(a, ARTIFACT_PAGE);
  memcpy(page, &h, sizeof h);
  h.crc = header_crc(page);
  memcpy(page, &h, sizeof h);
  if (p->code_bytes) memcpy(code, p->code, (size_t)p->code_bytes);
  out[0] = (Str){page, ARTIFACT_PAGE};
  out[1] = section[SECTION_PLAN];
  out[2] = (Str){zeros, whole_pages(out[1].n) - out[1].n};
  out[3] = beside ? (Str){0} : section[SECTION_CONSTANTS];
  out[4] = (Str){zeros, whole_pages(out[3].n) - out[3].n};
  out[5] = (Str){code, whole_pages(p->code_bytes)};
  return TENON_OK;
}

tenon_status artifact_write(const Program *p, const char *path, Diag *d) {
  Str part[ARTIFACT_PARTS];
  Arena a;
  arena_init(&a);
  Trap t;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) {
    t.status = artifact_parts(p, false, &a, d, part);
    if (!t.status) t.status = file_write_parts(path, part, ARTIFACT_PARTS, d);
  }
  trap_leave(&t);
  arena_deinit(&a);
  return t.status;
}

// ---- reading ----

static tenon_status damaged(Diag *d, const char *what) {
  return fail(d, TENON_EFORMAT, NOWHERE, "the file is damaged: %s", what);
}

static tenon_status read_header(const File *f, Diag *d, Header *h) {
  if (!artifact_is(f->bytes, f->size))
    return fail(d, TENON_EFORMAT, NOWHERE, "this is not a compiled model");
  if (f->size < ARTIFACT_PAGE) return damaged(d, "it ends within its header");
  memcpy(h, f->bytes, sizeof *h);
  if (h->byte_order != BYTE_ORDER)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "it was written on a machine of other byte order");
  if (h->version != ARTIFACT_VERSION)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE,
                "version %u of the format, where this runtime reads version %d: compile the model "
                "again",
                h->version, ARTIFACT_VERSION);
  if (header_crc((const char *)f->bytes) != h->crc) return damaged(d, "the header's checksum");
  if (h->maker[sizeof h->maker - 1]) return damaged(d, "the header has no maker");
  int64_t total = ARTIFACT_PAGE;
  for (int i = 0; i < SECTION_COUNT; i++)
    if (h->section[i].bytes < 0 || pages_here(h, i) > f->size ||
        !ck_add(total, pages_here(h, i), &total))
      return fail(d, TENON_EFORMAT, NOWHERE, "the file is cut short: its %s has %lld bytes",
                  artifact_section_name[i], (long long)h->section[i].bytes);
  if (h->file_bytes != f->size || total != f->size)
    return fail(d, TENON_EFORMAT, NOWHERE, "the file has %lld bytes, and should have %lld",
                (long long)f->size, (long long)h->file_bytes);
  return TENON_OK;
}

static bool all_zero(const uint8_t *p, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (p[i]) return false;
  return true;
}

// The constants' own file must be there exactly where the header says so.
static tenon_status check_weights(const Header *h, const File *weights, Diag *d) {
  if (!h->beside) return TENON_OK;
  if (!weights->bytes && h->section[SECTION_CONSTANTS].bytes)
    return fail(d, TENON_EINVAL, NOWHERE,
                "its weights are a file of their own, which was not given");
  if (weights->size == h->section[SECTION_CONSTANTS].bytes) return TENON_OK;
  return fail(d, TENON_EFORMAT, NOWHERE, "the file of weights has %lld bytes, and should have %lld",
              (long long)weights->size, (long long)h->section[SECTION_CONSTANTS].bytes);
}

static tenon_status check_sections(const File *f, const File *weights, const Header *h, Diag *d,
                                   Str *out) {
  int64_t at = ARTIFACT_PAGE;
  // Threads are worth starting for what takes them milliseconds.
  Pool *pool = f->size > 32 << 20 ? pool_create(0) : NULL;
  tenon_status s = TENON_OK;
  for (int i = 0; i < SECTION_COUNT && !s; i++) {
    bool beside = h->beside && i == SECTION_CONSTANTS;
    int64_t n = h->section[i].bytes, padded = beside ? n : whole_pages(n);
    const uint8_t *p = beside ? weights->bytes : f->bytes + at;
    out[i] = (Str){(const char *)p, n};
    if (crc32c_blocks(p, n, pool) != h->section[i].crc || !all_zero(p + n, padded - n))
      s = fail(d, TENON_EFORMAT, NOWHERE, "the file is damaged: the checksum of its %s",
               artifact_section_name[i]);
    at += pages_here(h, i);
  }
  pool_release(pool);
  return s;
}

static bool has_feature(Str features, Str one) {
  while (features.n) {
    const char *comma = memchr(features.p, ',', (size_t)features.n);
    Str item = {features.p, comma ? comma - features.p : features.n};
    if (str_eq(item, one)) return true;
    int64_t used = item.n + (comma != NULL);
    features = (Str){features.p + used, features.n - used};
  }
  return false;
}

// "TRIPLE +FEATURE,+FEATURE": the machine must be of that kind and have every one of them.
static tenon_status check_target(const Program *p, Diag *d) {
  Machine m;
  if (!p->target || !p->nkernels) return TENON_OK;
  machine_host(&m);
  const char *space = strchr(p->target, ' '), *dash = strchr(p->target, '-');
  int64_t arch = dash ? dash - p->target : (int64_t)strlen(p->target);
  if (strncmp(p->target, m.triple, (size_t)arch) || m.triple[arch] != '-')
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "it was compiled for %.*s, and this machine is %s",
                (int)arch, p->target, m.triple);
  char missing[256] = "";
  for (const char *at = space ? space + 1 : ""; *at;) {
    Str one = {at, (int64_t)strcspn(at, ",")};
    size_t n = strlen(missing);
    if (one.n > 1 && one.p[0] == '+' && !has_feature(str_of(m.features), one))
      snprintf(missing + n, sizeof missing - n, "%s%.*s", n ? ", " : "", (int)one.n - 1, one.p + 1);
    at += one.n + (at[one.n] == ',');
  }
  if (!missing[0]) return TENON_OK;
  return fail(
      d, TENON_EUNSUPPORTED, NOWHERE,
      "it was compiled for a CPU that has %s, which this one lacks: compile the model again",
      missing);
}

// A string constant is its strings one after another, each after its length.
static tenon_status decode_strings(Program *p, ProgConst *k, Diag *d) {
  int64_t n, left = k->bytes;
  const char *at = p->constants + k->offset;
  if (!shape_count(k->rank, k->dims, &n) || n > k->bytes / 8)
    return damaged(d, "a constant has too few strings");
  Str *s = arena_array(&p->arena, Str, MAX(n, 1));
  for (int64_t i = 0; i < n; i++) {
    if (left < 8) return damaged(d, "a string constant ends early");
    memcpy(&s[i].n, at, 8);
    if (s[i].n < 0 || s[i].n > left - 8) return damaged(d, "a string constant ends early");
    s[i].p = at + 8;
    at += 8 + s[i].n;
    left -= 8 + s[i].n;
  }
  k->data = s;
  return left ? damaged(d, "a string constant is too long") : TENON_OK;
}

static tenon_status place_constants(Program *p, Diag *d) {
  for (int32_t i = 0; i < p->nconsts; i++) {
    ProgConst *k = &p->constant[i];
    TRY(program_check_const(p, i, d));
    k->data = p->constants + k->offset;
    if (k->dtype == DT_STRING) TRY(decode_strings(p, k, d));
  }
  return TENON_OK;
}

static void unload_code(Program *p) {
  bool inside = (const uint8_t *)p->code >= p->backing.bytes &&
                (const uint8_t *)p->code < p->backing.bytes + p->backing.size;
  if (!inside) code_unmap((void *)(uintptr_t)p->code, p->code_bytes);
}

static void unload(Program *p) {
  unload_code(p);
  file_close(&p->backing);
  file_close(&p->weights);
}

// Where it lies in the file, or a copy where that cannot be made executable.
static tenon_status place_code(Program *p, Str code, Diag *d) {
  if (!code.n) return TENON_OK;
  void *at = (void *)(uintptr_t)code.p;
  if (!p->backing.mapped || !code_allow(at, code.n)) at = code_map(code.p, code.n);
  if (!at) return fail(d, TENON_EIO, NOWHERE, "the system gives no memory for code");
  p->code = at;
  p->code_bytes = code.n;
  return TENON_OK;
}

static tenon_status load(Program *p, EvalFind *find, Diag *d) {
  Header h;
  Str section[SECTION_COUNT];
  TRY(read_header(&p->backing, d, &h));
  TRY(check_weights(&h, &p->weights, d));
  TRY(check_sections(&p->backing, &p->weights, &h, d, section));
  TRY(plan_decode(p, section[SECTION_PLAN], find, d));
  TRY(check_target(p, d));
  p->constants = section[SECTION_CONSTANTS].p;
  p->constants_bytes = section[SECTION_CONSTANTS].n;
  if ((uintptr_t)p->constants % 64)
    return fail(d, TENON_EINVAL, NOWHERE, "a compiled model must lie at a multiple of 64 bytes");
  TRY(place_constants(p, d));
  p->code_bytes = section[SECTION_CODE].n;
  TRY(program_check(p, d));
  return place_code(p, section[SECTION_CODE], d);
}

// Both files are the program's from here on.
static tenon_status load_file(File *file, File *weights, void (*end)(Program *), EvalFind *find,
                              Diag *d, Program **out) {
  *out = NULL;
  Program *p = program_create();
  if (!p) {
    file_close(weights);
    return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  }
  p->backing = *file;
  p->weights = *weights;
  *file = *weights = (File){0};
  p->unload = end;
  Trap t;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) t.status = load(p, find, d);
  trap_leave(&t);
  if (t.status)
    program_release(p);
  else
    *out = p;
  return t.status;
}

tenon_status artifact_load(File *file, EvalFind *find, Diag *d, Program **out) {
  tenon_status s = load_file(file, &(File){0}, unload, find, d, out);
  file_close(file);  // where no program took it
  return s;
}

static void unload_memory(Program *p) {
  unload_code(p);
  file_close(&p->weights);
}

tenon_status artifact_load_memory(const void *bytes, int64_t n, const char *weights, EvalFind *find,
                                  Diag *d, Program **out) {
  File beside = {0};
  *out = NULL;
  if (weights) TRY(file_open(weights, &beside, d));
  return load_file(&(File){.bytes = bytes, .size = n}, &beside, unload_memory, find, d, out);
}

void artifact_info(const Program *p, ArtifactInfo *out) {
  Header h;
  memcpy(&h, p->backing.bytes, sizeof h);
  *out = (ArtifactInfo){.version = h.version,
                        .maker = (const char *)p->backing.bytes + offsetof(Header, maker),
                        .file_bytes = h.file_bytes};
  for (int i = 0; i < SECTION_COUNT; i++) out->section_bytes[i] = h.section[i].bytes;
}
