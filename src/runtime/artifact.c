// artifact.c -- mapping a program back from its file, and choosing among its variants.
//
// Reading goes from the outside in: the header by its CRC, the sections by theirs, the plan of the
// chosen variant by its walk, and then program_check.  What passes is a program as good as the one
// that was written.
#include "runtime/artifact_layout.h"

#include "base/crc.h"
#include "base/machine.h"
#include "base/process.h"

#include <stdio.h>

bool artifact_is(const void *bytes, int64_t n) {
  return n >= 8 && !memcmp(bytes, ARTIFACT_MAGIC, 8);
}

static tenon_status damaged(Diag *d, const char *what) {
  return fail(d, TENON_EFORMAT, NOWHERE, "the file is damaged: %s", what);
}

static const char *section_name(int i) {
  static const char *const shared[] = {"constants", "constants of other variants"};
  if (i < SECTION_VARIANTS) return shared[i];
  return (i - SECTION_VARIANTS) % 2 ? "code" : "plan";
}

static tenon_status check_names(const Header *h, Diag *d) {
  if (h->maker[sizeof h->maker - 1]) return damaged(d, "the header has no maker");
  if (h->nvariants < 1 || h->nvariants > ARTIFACT_VARIANTS)
    return damaged(d, "the number of its variants");
  for (uint32_t i = 0; i < h->nvariants; i++)
    if (!h->variant[i].target[0] || h->variant[i].target[TARGET_CAP - 1])
      return damaged(d, "a variant has no target");
  return TENON_OK;
}

static tenon_status read_header(const File *f, Diag *d, Header *h) {
  if (!artifact_is(f->bytes, f->size))
    return fail(d, TENON_EFORMAT, NOWHERE,
                "this is not a compiled model; to compile a model, use tenon.compile (Python), "
                "tenon_compile (C) or `tenon compile`");
  if (f->size < ARTIFACT_PAGE) return damaged(d, "it ends within its header");
  memcpy(h, f->bytes, sizeof *h);
  if (h->byte_order != BYTE_ORDER)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "it was written on a machine of other byte order");
  if (h->version != ARTIFACT_VERSION)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE,
                "version %u of the format, where this runtime reads version %d: compile the model "
                "again",
                h->version, ARTIFACT_VERSION);
  if (artifact_header_crc((const char *)f->bytes) != h->crc)
    return damaged(d, "the header's checksum");
  TRY(check_names(h, d));
  int64_t total = ARTIFACT_PAGE;
  for (int i = 0; i < artifact_nsections(h); i++) {
    int64_t bytes = artifact_section(h, i)->bytes;
    if (bytes < 0 || bytes > INT64_MAX - ARTIFACT_PAGE || pages_here(h, i) > f->size ||
        !ck_add(total, pages_here(h, i), &total))
      return fail(d, TENON_EFORMAT, NOWHERE, "the file is cut short: its %s has %lld bytes",
                  section_name(i), (long long)bytes);
  }
  if (h->file_bytes != f->size || total != f->size)
    return fail(d, TENON_EFORMAT, NOWHERE, "the file has %lld bytes, and should have %lld",
                (long long)f->size, (long long)h->file_bytes);
  return TENON_OK;
}

// The one place that decides whether a file is run.
static tenon_status check_trust(const ArtifactTrust *t, Diag *d) {
  if (!t) return TENON_OK;
  if (t->limited)
    return fail(d, TENON_EINVAL, NOWHERE,
                "this is a compiled model, a program that keeps no limits; run it without the "
                "--max options, or give the model that it was compiled from");
  if (t->said || (t->name && str_ends(str_of(t->name), ".tenon"))) return TENON_OK;
  return fail(d, TENON_EINVAL, NOWHERE,
              "this is a compiled model, a program: it runs only if its name ends in .tenon, or "
              "with --compiled (Python: compiled=True)");
}

static bool all_zero(const uint8_t *p, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (p[i]) return false;
  return true;
}

// The constants' own file must be there exactly where the header says so.
static tenon_status check_weights(const Header *h, const File *weights, Diag *d) {
  if (!h->external_weights) return TENON_OK;
  if (!weights->bytes && h->constants.bytes)
    return fail(d, TENON_EINVAL, NOWHERE,
                "its weights are a file of their own, which was not given");
  if (weights->size == h->constants.bytes) return TENON_OK;
  return fail(d, TENON_EFORMAT, NOWHERE, "the file of weights has %lld bytes, and should have %lld",
              (long long)weights->size, (long long)h->constants.bytes);
}

static tenon_status check_sections(const File *f, const File *weights, bool checked, Header *h,
                                   Diag *d, Str *out) {
  int64_t at = ARTIFACT_PAGE;
  // Threads are worth starting for what takes them milliseconds.
  Pool *pool = !checked && f->size > 32 << 20 ? pool_create(0) : NULL;
  tenon_status s = TENON_OK;
  for (int i = 0; i < artifact_nsections(h) && !s; i++) {
    bool external_weights = h->external_weights && i == SECTION_CONSTANTS;
    const Section *section = artifact_section(h, i);
    int64_t n = section->bytes, padded = external_weights ? n : whole_pages(n);
    const uint8_t *p = external_weights ? weights->bytes : f->bytes + at;
    out[i] = (Str){(const char *)p, n};
    bool whole = checked || crc32c_blocks(p, n, pool) == section->crc;
    if (!whole || !all_zero(p + n, padded - n))
      s = fail(d, TENON_EFORMAT, NOWHERE, "the file is damaged: the checksum of its %s",
               section_name(i));
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
  if (!p->target || !p->code_bytes) return TENON_OK;
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

// In place in the file, or a copy where that cannot be made executable.
static tenon_status place_code(Program *p, Str code, Diag *d) {
  p->code_bytes = 0;
  if (!code.n) return TENON_OK;
  if (p->listed) {
    p->code = code.p;
    p->code_bytes = code.n;
    return TENON_OK;
  }
  void *at = (void *)(uintptr_t)code.p;
  if (!p->backing.mapped || !code_allow(at, code.n)) at = code_map(code.p, code.n);
  if (!at) return fail(d, TENON_EIO, NOWHERE, "the system gives no memory for code");
  p->code = at;
  p->code_bytes = code.n;
  return TENON_OK;
}

// ---- one variant ----

typedef struct Reader {
  Program *p;
  const ArtifactLoad *o;
  Header h;
  Str section[SECTION_VARIANTS + 2 * ARTIFACT_VARIANTS];
} Reader;

static tenon_status load_variant(Reader *r, int i, Diag *d) {
  Program *p = r->p;
  Str code = r->section[SECTION_VARIANTS + 2 * i + 1], more = r->section[SECTION_MORE];
  TRY(plan_decode(p, r->section[SECTION_VARIANTS + 2 * i], r->o->find, d));
  p->code_bytes = code.n;
  TRY(check_target(p, d));
  p->constants = r->section[SECTION_CONSTANTS].p;
  p->constants_bytes = r->section[SECTION_CONSTANTS].n;
  // The others' constants follow on the next page.
  if (i && more.n) p->constants_bytes = more.p + more.n - p->constants;
  if ((uintptr_t)p->constants % 64)
    return fail(d, TENON_EINVAL, NOWHERE, "a compiled model must lie at a multiple of 64 bytes");
  TRY(place_constants(p, d));
  TRY(program_check(p, d));
  p->variant = i;
  return place_code(p, code, d);
}

// ---- which one ----

// What runs "cpu", or each of "cpu,opencl", how fast at most; 0 and a reason: not here.  A machine
// shared with others is asked once.
static double speed_of(const ArtifactLoad *o, const char *target, Arena *a, const char **why) {
  double best = 0, least = 0;
  int parts = 0;
  for (const char *at = target; *at; parts++) {
    const char *word = str_copy(a, (Str){at, (int64_t)strcspn(at, ",")});
    const char *reason = "this program has no drivers";
    Machine m;
    double speed = 0;
    if (!strcmp(word, "host")) {
      speed = 1;
    } else if (!strcmp(word, "cpu")) {
      machine_host(&m);
      speed = machine_speed(&m);
    } else if (o->speed) {
      speed = o->speed(word, &reason);
    }
    if (speed <= 0) {
      *why = str_printf(a, "%s: %s", word, reason);
      return 0;
    }
    best = MAX(best, speed);
    least = parts ? MIN(least, speed) : speed;
    at += strlen(word);
    at += *at == ',';
  }
  // Of two with the same best machine the one with another to help, if that is one of its own.
  return parts < 2 ? best : best * (least > SHARED_SPEED ? 1.01 : 0.99);
}

static bool has_driver(const char *target) {
  return strcmp(target, "cpu") != 0 && strcmp(target, "host") != 0;
}

static void ask_drivers(const Reader *r, double *speed) {
  for (int i = 0; i < (int)r->h.nvariants; i++)
    if (has_driver(r->h.variant[i].target))
      speed[i] = speed_of(r->o, r->h.variant[i].target, &r->p->arena, &r->p->why_not[i]);
}

// Drivers take long to start: with `ask_late` they are asked only if the CPU's variants fail.
static void ask_speeds(const Reader *r, bool drivers, double *speed) {
  for (int i = 0; i < (int)r->h.nvariants; i++) {
    if (!has_driver(r->h.variant[i].target))
      speed[i] = speed_of(r->o, r->h.variant[i].target, &r->p->arena, &r->p->why_not[i]);
    else if (!drivers)
      r->p->why_not[i] = "no machine but the CPU is seen here";
  }
  if (drivers) ask_drivers(r, speed);
}

// One variant is the whole model, several are alternatives: the next one where a machine cannot run
// it.
static tenon_status load_fastest(Reader *r, Diag *d) {
  Program *p = r->p;
  int n = (int)r->h.nvariants;
  double speed[ARTIFACT_VARIANTS] = {0};
  Diag *said = arena_new(&p->arena, Diag);
  p->why_not = arena_array(&p->arena, const char *, n);
  bool asked = n == 1 || !r->o->ask_late;
  ask_speeds(r, asked, speed);
  for (;;) {
    int best = 0;
    for (int i = 1; i < n; i++)
      if (speed[i] > speed[best]) best = i;
    if (speed[best] <= 0 && asked) break;
    if (speed[best] <= 0) {
      ask_drivers(r, speed);
      asked = true;
      continue;
    }
    diag_init(said);
    said->base = d->base;
    tenon_status s = load_variant(r, best, n == 1 ? d : said);
    for (int i = 0; i < n && !s; i++)
      if (i != best && !p->why_not[i]) p->why_not[i] = "it runs here, and another is faster";
    if (s != TENON_EUNSUPPORTED || n == 1) {
      if (s && n > 1) *d = *said;
      return s;
    }
    p->why_not[best] = str_copy(&p->arena, str_of(said->text));
    speed[best] = 0;
  }
  if (n == 1)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "it was compiled for %s, which is not here: %s",
                r->h.variant[0].target, p->why_not[0]);
  fail(d, TENON_EUNSUPPORTED, NOWHERE, "none of its variants runs here");
  for (int i = 0; i < n; i++)
    fail(d, TENON_EUNSUPPORTED, NOWHERE, "for %s: %s", r->h.variant[i].target, p->why_not[i]);
  return TENON_EUNSUPPORTED;
}

// The one that was asked for.
static tenon_status load_named(Reader *r, Diag *d) {
  Program *p = r->p;
  int n = (int)r->h.nvariants;
  StrBuf list;
  strbuf_init(&list, &p->arena);
  p->why_not = arena_array(&p->arena, const char *, n);
  for (int i = 0; i < n; i++) {
    const char *why, *target = r->h.variant[i].target;
    strbuf_printf(&list, "%s%s", i ? "; " : "", target);
    if (strcmp(target, r->o->target)) continue;
    for (int k = 0; k < n; k++) p->why_not[k] = k == i ? NULL : "another was asked for";
    if (speed_of(r->o, target, &p->arena, &why) > 0) return load_variant(r, i, d);
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "target %s is not here: %s", target, why);
  }
  return fail(d, TENON_EUNSUPPORTED, NOWHERE, "it was not compiled for %s, but for: %s",
              r->o->target, strbuf_text(&list));
}

static tenon_status load(Program *p, const ArtifactLoad *o, Diag *d) {
  Reader *r = arena_new(&p->arena, Reader);
  r->p = p;
  r->o = o;
  p->listed = o->listed;
  CHECK(o->at >= 0 && o->at <= p->backing.size, "an artifact begins in its file");
  p->backing_at = o->at;
  const File own = {.bytes = p->backing.bytes + o->at, .size = p->backing.size - o->at};
  TRY(read_header(&own, d, &r->h));
  TRY(check_trust(o->trust, d));
  TRY(check_weights(&r->h, &p->weights, d));
  TRY(check_sections(&own, &p->weights, o->checked, &r->h, d, r->section));
  return o->target && strcmp(o->target, "auto") ? load_named(r, d) : load_fastest(r, d);
}

// Both files are the program's from here on.
static tenon_status load_file(File *file, File *weights, void (*end)(Program *),
                              const ArtifactLoad *o, Diag *d, Program **out) {
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
  if (setjmp(t.env) == 0) t.status = load(p, o, d);
  trap_leave(&t);
  if (t.status)
    program_release(p);
  else
    *out = p;
  return t.status;
}

tenon_status artifact_load(File *file, const ArtifactLoad *o, Diag *d, Program **out) {
  tenon_status s = load_file(file, &(File){0}, unload, o, d, out);
  file_close(file);  // where no program took it
  return s;
}

static void unload_memory(Program *p) {
  unload_code(p);
  file_close(&p->weights);
}

tenon_status artifact_load_memory(const void *bytes, int64_t n, const char *weights,
                                  const ArtifactLoad *o, Diag *d, Program **out) {
  File external_weights = {0};
  *out = NULL;
  if (weights) TRY(file_open(weights, &external_weights, d));
  return load_file(&(File){.bytes = bytes, .size = n}, &external_weights, unload_memory, o, d, out);
}

void artifact_info(const Program *p, ArtifactInfo *out) {
  const Header *h = (const Header *)(const void *)(p->backing.bytes + p->backing_at);
  *out = (ArtifactInfo){.version = h->version,
                        .maker = h->maker,
                        .file_bytes = h->file_bytes,
                        .constants_bytes = h->constants.bytes + h->more.bytes,
                        .nvariants = (int)h->nvariants,
                        .chosen = p->variant};
  for (int i = 0; i < out->nvariants; i++)
    out->variant[i] = (ArtifactVariant){.target = h->variant[i].target,
                                        .plan_bytes = h->variant[i].plan.bytes,
                                        .code_bytes = h->variant[i].code.bytes,
                                        .why_not = p->why_not[i]};
}
