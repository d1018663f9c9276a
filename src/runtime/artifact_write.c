// artifact_write.c -- programs to a file (artifact.h).
//
// Constants of equal bytes are written once, whichever variants use them: first all of the first
// variant, then those of the others that are not among them.
#include "runtime/artifact_layout.h"

#include "base/crc.h"

#include <stdio.h>

uint32_t artifact_header_crc(const char *page) {
  Header h;
  memcpy(&h, page, sizeof h);
  h.crc = 0;
  uint32_t crc = crc32c(0, &h, sizeof h);
  return crc32c(crc, page + sizeof h, ARTIFACT_PAGE - (int64_t)sizeof h);
}

const char *program_target(const Program *p, Arena *a) {
  bool here = !p->ndevices;
  if (here) return p->nkernels ? "cpu" : "host";
  StrBuf b;
  strbuf_init(&b, a);
  for (int32_t i = 0; i < p->nkernels; i++) here |= !p->kernel[i].device;
  if (here) strbuf_puts(&b, "cpu");
  for (int32_t i = 1; i < p->ndevices; i++)
    strbuf_printf(&b, "%s%s", b.n ? "," : "", p->device[i].driver);
  return strbuf_text(&b);
}

// ---- constants that variants share ----

typedef struct Shared {
  Arena *arena;
  StrMap at;    // bytes -> offset, 1 higher
  int64_t end;  // of the first variant's, in whole pages
  StrBuf more;
} Shared;

static Str bytes_of(const Program *p, const ProgConst *k) {
  return (Str){p->constants + k->offset, k->bytes};
}

static void note_constant(Shared *s, Str bytes, int64_t offset) {
  // A device needs more than whole elements.
  if (bytes.n && offset % 64 == 0 && !strmap_has(&s->at, bytes))
    strmap_put(&s->at, bytes, (void *)(uintptr_t)(offset + 1));
}

// The program with its constants where they are in the file; `p` itself is not changed.
static const Program *share(Shared *s, const Program *p) {
  Program *view = arena_dup(s->arena, p, (int64_t)sizeof *p);
  ProgConst *list = arena_array(s->arena, ProgConst, MAX(p->nconsts, 1));
  for (int32_t i = 0; i < p->nconsts; i++) {
    Str bytes = bytes_of(p, &p->constant[i]);
    list[i] = p->constant[i];
    uintptr_t known = bytes.n ? (uintptr_t)strmap_get(&s->at, bytes) : 1;
    if (!known) {
      while (s->more.n % 64) strbuf_putc(&s->more, 0);
      note_constant(s, bytes, s->end + s->more.n);
      known = (uintptr_t)(s->end + s->more.n + 1);
      strbuf_put(&s->more, bytes);
    }
    list[i].offset = (int64_t)known - 1;
  }
  view->constant = list;
  return view;
}

// ---- the parts ----

typedef struct Writer {
  Arena *arena;
  Header h;
  Str section[SECTION_VARIANTS + 2 * ARTIFACT_VARIANTS];
} Writer;

// The program with the code that a file may have: never quick code.
static tenon_status settled(const Program *p, Arena *a, Diag *d, const Program **out) {
  *out = p;
  if (!p->settle) return TENON_OK;
  TRY(p->settle(p, d));
  const ProgCode *to = atomic_load(&p->swapped);
  Program *view = arena_dup(a, p, (int64_t)sizeof *p);
  view->code = to->code;
  view->code_bytes = to->code_bytes;
  view->kernel = arena_dup(a, p->kernel, p->nkernels * (int64_t)sizeof *p->kernel);
  for (int32_t i = 0; i < p->nkernels; i++) view->kernel[i].entry = to->entry[i];
  *out = view;
  return TENON_OK;
}

static tenon_status add_variants(Writer *w, const Program *const *given, int n, Diag *d) {
  const Program *p[ARTIFACT_VARIANTS];
  for (int i = 0; i < n; i++) TRY(settled(given[i], w->arena, d, &p[i]));
  Shared s = {.arena = w->arena, .end = whole_pages(p[0]->constants_bytes)};
  strbuf_init(&s.more, w->arena);
  strmap_init(&s.at, w->arena);
  for (int32_t i = 0; n > 1 && i < p[0]->nconsts; i++)
    note_constant(&s, bytes_of(p[0], &p[0]->constant[i]), p[0]->constant[i].offset);
  for (int i = 0; i < n; i++) {
    const char *target = program_target(p[i], w->arena);
    StrBuf *plan = arena_new(w->arena, StrBuf);
    strbuf_init(plan, w->arena);
    if (p[i]->invoke)
      return fail(d, TENON_EUNSUPPORTED, NOWHERE,
                  "a program of target '%s' has no code of its own to write down", p[i]->target);
    for (int k = 0; k < i; k++)
      if (!strcmp(w->h.variant[k].target, target))
        return fail(d, TENON_EINVAL, NOWHERE, "two variants are for target %s", target);
    if (strlen(target) >= TARGET_CAP)
      return fail(d, TENON_EUNSUPPORTED, NOWHERE, "too many devices: %s", target);
    snprintf(w->h.variant[i].target, TARGET_CAP, "%s", target);
    TRY(plan_encode(i ? share(&s, p[i]) : p[i], plan, d));
    w->section[SECTION_VARIANTS + 2 * i] = strbuf_str(plan);
    w->section[SECTION_VARIANTS + 2 * i + 1] = (Str){p[i]->code, p[i]->code_bytes};
  }
  w->section[SECTION_CONSTANTS] = (Str){p[0]->constants, p[0]->constants_bytes};
  w->section[SECTION_MORE] = strbuf_str(&s.more);
  return TENON_OK;
}

static void put_header(Writer *w, bool external_weights, char *page) {
  Header *h = &w->h;
  h->version = ARTIFACT_VERSION;
  h->byte_order = BYTE_ORDER;
  h->file_bytes = ARTIFACT_PAGE;
  h->external_weights = external_weights;
  memcpy(h->magic, ARTIFACT_MAGIC, sizeof h->magic);
  snprintf(h->maker, sizeof h->maker, "%s", TENON_VERSION);
  Pool *pool = pool_create(0);
  for (int i = 0; i < artifact_nsections(h); i++) {
    Section *s = artifact_section(h, i);
    *s = (Section){.bytes = w->section[i].n};
    s->crc = crc32c_blocks(w->section[i].p, w->section[i].n, pool);
    h->file_bytes += pages_here(h, i);
  }
  pool_release(pool);
  memcpy(page, h, sizeof *h);
  h->crc = artifact_header_crc(page);
  memcpy(page, h, sizeof *h);
}

tenon_status artifact_parts(const Program *const *variant, int n, bool external_weights, Arena *a,
                            Diag *d, Str out[ARTIFACT_PARTS]) {
  Writer *w = arena_new(a, Writer);
  w->arena = a;
  if (n < 1 || n > ARTIFACT_VARIANTS || (external_weights && n > 1))
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "%d variants in one file, must be 1 to %d", n,
                external_weights ? 1 : ARTIFACT_VARIANTS);
  w->h.nvariants = (uint32_t)n;
  TRY(add_variants(w, variant, n, d));
  char *page = arena_alloc(a, ARTIFACT_PAGE), *zeros = arena_alloc(a, ARTIFACT_PAGE);
  put_header(w, external_weights, page);
  memset(out, 0, ARTIFACT_PARTS * sizeof *out);
  int at = 0;
  out[at++] = (Str){page, ARTIFACT_PAGE};
  for (int i = 0; i < artifact_nsections(&w->h); i++) {
    if (external_weights && i == SECTION_CONSTANTS) continue;
    out[at++] = w->section[i];
    out[at++] = (Str){zeros, whole_pages(w->section[i].n) - w->section[i].n};
  }
  return TENON_OK;
}

tenon_status artifact_write_all(const Program *const *variant, int n, const char *path, Diag *d) {
  Str part[ARTIFACT_PARTS];
  Arena a;
  arena_init(&a);
  Trap t;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) {
    at_work_part("writing", path, -1);
    t.status = artifact_parts(variant, n, false, &a, d, part);
    if (!t.status) t.status = file_write_parts(path, part, ARTIFACT_PARTS, d);
  }
  trap_leave(&t);
  arena_deinit(&a);
  return t.status;
}

tenon_status artifact_write(const Program *p, const char *path, Diag *d) {
  return artifact_write_all(&p, 1, path, d);
}
