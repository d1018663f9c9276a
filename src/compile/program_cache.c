// program_cache.c -- programs in the cache (program_cache.h).
//
// An entry is a head, the model's name, the warnings, zeros up to a page of the file, and the
// artifact, whose constants and code are used where they are mapped.
#include "compile/program_cache.h"

#include "compile/declined.h"
#include "compile/graph_hash.h"
#include "eval/table.h"
#include "runtime/artifact.h"
#include "targets/upgrade.h"

#include <stdio.h>

enum { ENTRY_VERSION = 1, NAME_MOST = 200, FOLDER_CAP = 4096 };

// ---- the key ----

extern const char program_sources[];  // "tenon 0123...": cmake/source_id.cmake writes it

Str program_compiler(void) { return str_of(program_sources); }

// Each after its length, so that no two lists are one text.
static void put_part(StrBuf *b, Str s) {
  strbuf_printf(b, "%lld:", (long long)s.n);
  strbuf_put(b, s);
  strbuf_putc(b, '\n');
}

// The machine's name is in the maker's line; schedules also follow from its caches.
static void put_machine(StrBuf *b) {
  Machine m;
  machine_host(&m);
  strbuf_printf(b, "vector %d has %x fma %d f16 %d round %d l1 %lld l2 %lld l3 %lld\n",
                m.vector_bytes, (unsigned)m.has, m.has_fma, m.has_f16, m.has_round,
                (long long)m.l1_bytes, (long long)m.l2_bytes, (long long)m.l3_bytes);
}

static void put_sizes(StrBuf *b, const DimBinding *s) {
  for (int32_t i = 0; s && i < s->n; i++)
    if (s->known[i]) strbuf_printf(b, "size %d is %lld\n", (int)i, (long long)s->value[i]);
}

static void put_hash(StrBuf *b, const uint8_t hash[SHA256_BYTES]) {
  for (int i = 0; i < SHA256_BYTES; i++) strbuf_printf(b, "%02x", hash[i]);
  strbuf_putc(b, '\n');
}

// The last part of the path.
static const char *name_of(const Graph *g, const char *path, Arena *a) {
  const char *name = path ? path : g->main->name;
  if (!name || !*name) return "model";
  const char *slash = strrchr(name, '/');
  if (slash && slash[1]) name = slash + 1;
  return str_copy(a, (Str){name, MIN((int64_t)strlen(name), NAME_MOST)});
}

ProgramKey program_key(Graph *g, const CompileOptions *o, const char *path, Arena *a) {
  ProgramKey none = {0};
  uint8_t hash[SHA256_BYTES];
  CacheMaker maker;
  StrBuf b;
  char folder[FOLDER_CAP];
  if (!o->target || !o->target->maker || !compile_options_kept(o) || target_is_tampered())
    return none;
  if (!cache_folder(folder, sizeof folder) || !o->target->maker(o->threads, a, &maker)) return none;
  if (!graph_hash(g, cache_program_limit(), a, hash)) return none;
  maker.compiler = program_compiler();
  strbuf_init(&b, a);
  cache_put_maker(&b, &maker);
  put_machine(&b);
  put_hash(&b, hash);
  put_part(&b, str_of(o->target->name));
  put_sizes(&b, o->sizes);
  TextList l = compile_options_list(o, OPTION_RECORD, a);
  for (int64_t i = 0; i < l.n; i++) put_part(&b, str_of(l.v[i]));
  return (ProgramKey){str_copy(a, str_of(folder)), strbuf_str(&b), name_of(g, path, a)};
}

// ---- an entry ----

typedef struct EntryHead {
  uint32_t version, nwarnings;
  int64_t name_bytes, warning_bytes;  // each warning ends with a NUL
  int64_t artifact;                   // where it begins in the entry
} EntryHead;

// False: the entry is none of this version.
static bool read_head(Str entry, EntryHead *h) {
  int64_t texts;
  if (entry.n < (int64_t)sizeof *h) return false;
  memcpy(h, entry.p, sizeof *h);
  return h->version == ENTRY_VERSION && h->name_bytes >= 0 && h->warning_bytes >= 0 &&
         ck_add(h->name_bytes, h->warning_bytes, &texts) && texts <= entry.n - (int64_t)sizeof *h &&
         h->artifact >= (int64_t)sizeof *h + texts && h->artifact <= entry.n;
}

Str program_entry_name(Str file) {
  EntryHead h;
  Str code = cache_program(file);
  return read_head(code, &h) ? (Str){code.p + sizeof h, h.name_bytes} : (Str){0};
}

static bool read_warnings(Str entry, const EntryHead *h, Arena *a, TextList *out) {
  const char *at = entry.p + sizeof *h + h->name_bytes, *end = at + h->warning_bytes;
  VEC(const char *) all = {0};
  while (at < end) {
    const char *stop = memchr(at, 0, (size_t)(end - at));
    if (!stop) return false;
    vec_push(a, &all, str_copy(a, (Str){at, stop - at}));
    at = stop + 1;
  }
  *out = (TextList){all.v, all.n};
  return all.n == h->nwarnings;
}

// ---- finding ----

typedef struct Found {
  File file;
  Program *program;
  TextList warning;
} Found;

// In memory that outlives a raised error.
static tenon_status find(const ProgramKey *k, Arena *a, Diag *d, Found *out) {
  Str entry;
  EntryHead h;
  if (!cache_find_program(k->folder, k->text, &out->file, &entry)) return TENON_EIO;
  if (!read_head(entry, &h) || !read_warnings(entry, &h, a, &out->warning)) return TENON_EFORMAT;
  int64_t at = entry.p - (const char *)out->file.bytes + h.artifact;
  ArtifactLoad how = {.find = eval_find, .at = at, .checked = true};
  return artifact_load(&out->file, &how, d, &out->program);
}

bool program_find(const ProgramKey *k, Arena *a, CompileReport *r) {
  Diag *quiet = diag_unread();
  Found f = {0};
  Trap t;
  if (!k->folder) return false;
  trap_enter(&t, quiet);
  if (setjmp(t.env) == 0) t.status = find(k, a, quiet, &f);
  trap_leave(&t);
  if (t.status) {
    file_close(&f.file);
    return false;
  }
  *r = (CompileReport){
      .done = COMPILE_BUILD, .program = f.program, .found = true, .warning = f.warning};
  return true;
}

// ---- keeping ----

typedef struct ProgramKeeper {
  Program *program;
  Arena arena;
  ProgramKey key;
  TextList warning;
  void *thread;
  int forks;  // of the process that has it
} ProgramKeeper;

// The entry in one piece, since one checksum is over all of it.
static tenon_status make_entry(const ProgramKeeper *k, Arena *a, Diag *d, Str *out) {
  EntryHead h = {.version = ENTRY_VERSION, .nwarnings = (uint32_t)k->warning.n};
  Str part[ARTIFACT_PARTS], name = str_of(k->key.name);
  const Program *p = k->program;
  int64_t before = cache_offset(k->key.text), total = 0;
  TRY(artifact_parts(&p, 1, false, a, d, part));
  for (int i = 0; i < ARTIFACT_PARTS; i++) total += part[i].n;
  h.name_bytes = name.n;
  for (int64_t i = 0; i < k->warning.n; i++)
    h.warning_bytes += (int64_t)strlen(k->warning.v[i]) + 1;
  int64_t texts = before + (int64_t)sizeof h + h.name_bytes + h.warning_bytes;
  h.artifact = (texts + ARTIFACT_PAGE - 1) / ARTIFACT_PAGE * ARTIFACT_PAGE - before;
  if (h.artifact + total > cache_program_limit())
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "a program of %lld bytes", (long long)total);
  char *all = arena_alloc(a, h.artifact + total), *at = all;
  memcpy(at, &h, sizeof h);
  memcpy(at += sizeof h, name.p, (size_t)name.n);
  at += name.n;
  for (int64_t i = 0; i < k->warning.n; i++) {
    size_t n = strlen(k->warning.v[i]) + 1;
    memcpy(at, k->warning.v[i], n);
    at += n;
  }
  at = all + h.artifact;
  for (int i = 0; i < ARTIFACT_PARTS; i++) {
    if (part[i].n) memcpy(at, part[i].p, (size_t)part[i].n);
    at += part[i].n;
  }
  *out = (Str){all, h.artifact + total};
  return TENON_OK;
}

static void write_entry(const ProgramKeeper *k) {
  Diag *quiet = diag_unread();
  Str entry;
  Arena a;
  Trap t;
  arena_init(&a);
  trap_enter(&t, quiet);
  if (setjmp(t.env) == 0) {
    t.status = make_entry(k, &a, quiet, &entry);
    if (!t.status && cache_store_program(k->key.folder, k->key.text, entry))
      cache_tidy(k->key.folder);
  }
  trap_leave(&t);
  arena_deinit(&a);
}

static void *run_keeper(void *ctx) {
  const ProgramKeeper *k = ctx;
  if (upgrade_wait(k->program)) write_entry(k);
  return NULL;
}

// Quick code that is still being replaced is not waited for.
static void stop_keeper(Program *p) {
  ProgramKeeper *k = p->keeper;
  if (k->forks != process_forks()) return;
  upgrade_cancel(p);
  if (k->thread) platform->thread_join(k->thread);
  arena_deinit(&k->arena);
  mem_free(k, (int64_t)sizeof *k);
}

// By whoever holds the program alone: nobody else may release it meanwhile.
void program_wait_kept(Program *p) {
  ProgramKeeper *k = p->keeper;
  if (!k || !k->thread || k->forks != process_forks()) return;
  platform->thread_join(k->thread);
  k->thread = NULL;
}

static void copy_key(ProgramKeeper *k, const ProgramKey *key, const CompileReport *r) {
  Arena *a = &k->arena;
  k->key = (ProgramKey){str_copy(a, str_of(key->folder)),
                        {arena_dup(a, key->text.p, key->text.n), key->text.n},
                        str_copy(a, str_of(key->name))};
  k->warning = compile_warnings(r, a);
}

void program_keep(const ProgramKey *key, const CompileOptions *o, const CompileReport *r) {
  Diag *quiet = diag_unread();
  Program *p = r->program;
  int64_t bytes;
  if (!key->folder || r->found || !p) return;
  if (!ck_add(p->constants_bytes, p->code_bytes, &bytes) || bytes > cache_program_limit()) return;
  if (r->target.quick && (o->tier != TIER_AUTO || !p->upgrade)) return;
  ProgramKeeper *k = mem_alloc((int64_t)sizeof *k);
  if (!k) return;
  *k = (ProgramKeeper){.program = p, .forks = process_forks()};
  arena_init(&k->arena);
  p->keeper = k;
  p->stop_keeper = stop_keeper;
  Trap t;
  trap_enter(&t, quiet);
  if (setjmp(t.env) == 0) {
    copy_key(k, key, r);
    t.status = platform->thread_start(run_keeper, k, &k->thread) ? TENON_EIO : TENON_OK;
  }
  trap_leave(&t);
}

tenon_status compile_program(Graph *g, const CompileOptions *o, const char *path, Arena *a, Diag *d,
                             CompileReport *r) {
  TRY(compile_options_check(o, d));
  ProgramKey key = program_key(g, o, path, a);
  if (key.folder) TRY(watch_step(o->watch, d, "load", key.name, 0, 1));
  if (program_find(&key, a, r)) return TENON_OK;
  TRY(compile_graph(g, o, COMPILE_BUILD, a, d, r));
  program_keep(&key, o, r);
  return TENON_OK;
}
