// confine.c -- the program's own layers (confine.h).
//
// A driver of a GPU opens devices, starts helpers with rights of their own and writes caches that
// only it knows, so a command that may load one is not confined.  Neither is `doctor`, which asks
// other programs for their versions.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // memmem
#endif
#include "cli/confine.h"

#include "base/cache.h"
#include "base/platform.h"
#include "base/process.h"
#include "cli/compare/subject.h"
#include "runtime/artifact.h"

#include <elf.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { PATH_CAP = 4096 };

// ---- what commands need ----
enum {
  NEEDS_CODEGEN = 1,   // may start tenon-codegen
  NEEDS_CACHE = 2,     // writes into the cache's folder
  NEEDS_FOLDER = 4,    // without --output it writes into this folder
  NEEDS_PROGRAMS = 8,  // starts programs that the user has
  NEEDS_DRIVERS = 16,  // asks drivers what there is
  NEEDS_ITSELF = 32,   // may start this program again
  NEEDS_SOCKETS = 64,  // becomes a server
  COMPILES = NEEDS_CODEGEN | NEEDS_CACHE,
};
static const int needs_of[CMD_COUNT] = {
    [CMD_run] = COMPILES,
    [CMD_compile] = COMPILES | NEEDS_FOLDER,
    [CMD_bench] = COMPILES,
    [CMD_generate] = COMPILES,
    [CMD_chat] = COMPILES,
    [CMD_perplexity] = COMPILES,
    [CMD_embed] = COMPILES,
    [CMD_rerank] = COMPILES,
    [CMD_bench_llm] = COMPILES,
    [CMD_serve] = NEEDS_SOCKETS,
    [CMD_explain] = COMPILES,
    [CMD_verify] = COMPILES,
    [CMD_quantize] = COMPILES,
    [CMD_prune] = COMPILES,
    [CMD_tune] = NEEDS_SOCKETS,
    [CMD_conform] = COMPILES | NEEDS_PROGRAMS,
    [CMD_compare] = COMPILES | NEEDS_ITSELF,
    [CMD_cache] = NEEDS_CACHE,
    [CMD_graph] = NEEDS_FOLDER,
    [CMD_targets] = NEEDS_DRIVERS,
    [CMD_doctor] = NEEDS_DRIVERS | NEEDS_PROGRAMS | COMPILES,
};

// The values of a command's option by name; none where it has no such option.
static const OptionValue *option_of(const Cli *c, const char *name) {
  static const OptionValue none;
  for (int i = 0; i < OPT_COUNT; i++)
    if (cli_option[i].command == c->command && !strcmp(cli_option[i].name, name)) return &c->opt[i];
  return &none;
}

static bool has_option(const Cli *c, const char *name) {
  for (int i = 0; i < OPT_COUNT; i++)
    if (cli_option[i].command == c->command && !strcmp(cli_option[i].name, name)) return true;
  return false;
}

// One of the words of `text`, which commas separate, is `word`.
static bool has_word(const char *text, const char *word) {
  size_t n = strlen(word);
  for (const char *at = text; at; at = strchr(at, ',')) {
    at += *at == ',';
    if (!strncmp(at, word, n) && (!at[n] || at[n] == ',')) return true;
  }
  return false;
}

static bool names(const OptionValue *v, const char *word) {
  for (int64_t i = 0; i < v->count; i++)
    if (has_word(v->text[i], word)) return true;
  return false;
}

// A compiled model for a device loads its driver, whatever the command line says.  The header's
// page names the targets.
static bool reads_device_code(const Cli *c) {
  static Diag quiet;
  File f;
  diag_init(&quiet);
  if (c->npos < 1) return false;
  if (!strcmp(c->pos[0], "-")) return option_of(c, "compiled")->count;  // cannot be read twice
  if (file_open(c->pos[0], &f, &quiet)) return false;
  size_t n = (size_t)MIN(f.size, ARTIFACT_PAGE);
  bool is = artifact_is(f.bytes, f.size) &&
            (memmem(f.bytes, n, "opencl", 6) || memmem(f.bytes, n, "cuda", 4));
  file_close(&f);
  return is;
}

static int needs(const Cli *c) {
  int n = needs_of[c->command];
  const OptionValue *target = option_of(c, "target"), *emit = option_of(c, "emit");
  const char *model;
  if (names(target, "c") || names(emit, "so") || names(emit, "exe")) n |= NEEDS_PROGRAMS;
  if (c->command == CMD_compile && str_glob("*.so", opt_text(c, OPT_compile_output, "")))
    n |= NEEDS_PROGRAMS;  // a shared library by its name
  if (names(target, "opencl") || names(target, "cuda")) n |= NEEDS_DRIVERS;
  // compare starts Python for the word onnxruntime, which --python names.
  for (int64_t i = 0; c->command == CMD_compare && i < c->npos; i++)
    if (subject_is_onnxruntime(c->pos[i], &model)) n |= NEEDS_PROGRAMS;
  if (option_of(c, "report")->count) n |= NEEDS_ITSELF;
  bool any = !target->count || names(target, "auto");
  if (has_option(c, "target") && any && (system_has_accelerator() || reads_device_code(c)))
    n |= NEEDS_DRIVERS;
  if (option_of(c, "no_cache")->count) n &= ~NEEDS_CACHE;
  if (option_of(c, "output")->count) n &= ~NEEDS_FOLDER;
  return n;
}

// ---- files ----
typedef VEC(PathRule) PathList;

static void allow(Cli *c, PathList *l, const char *path, int may) {
  vec_push(&c->arena, l, ((PathRule){.path = path, .may = may}));
}

static void allow_folder_of(Cli *c, PathList *l, const char *path) {
  const char *slash = strrchr(path, '/');
  allow(c, l,
        !slash          ? "."
        : slash == path ? "/"
                        : str_copy(&c->arena, (Str){path, slash - path}),
        MAY_WRITE);
}

// A file is written beside its name and renamed, through links; a device, a pipe or a folder is
// written itself.
static void allow_output(Cli *c, PathList *l, const char *path) {
  char real[PATH_CAP];
  struct stat s;
  if (!strcmp(path, "-")) return;
  allow_folder_of(c, l, path);
  if (!platform->real_path(path, real, sizeof real))
    allow_folder_of(c, l, str_copy(&c->arena, str_of(real)));
  if (!stat(path, &s) && !S_ISREG(s.st_mode)) allow(c, l, path, MAY_WRITE);
}

static void allow_writes(Cli *c, PathList *l, int n) {
  static char cache[PATH_CAP];
  const char *temporary = getenv("TMPDIR");
  for (int64_t i = 0; i < c->files.n; i++)
    if (c->files.v[i].written) allow_output(c, l, c->files.v[i].path);
  if (n & NEEDS_FOLDER) allow(c, l, ".", MAY_WRITE);
  // The folder itself must be there to be named.
  if (n & NEEDS_CACHE && cache_folder(cache, sizeof cache) && !cache_make(cache))
    allow(c, l, cache, MAY_WRITE);
  allow(c, l, temporary && *temporary ? temporary : "/tmp", MAY_WRITE);
  allow(c, l, "/dev/null", MAY_WRITE);
  allow(c, l, "/dev/tty", MAY_WRITE);
}

// The program that loads another one: the kernel executes it, too.  False: a script, which may
// start anything.
static bool find_loader(Cli *c, const char *program, const char **out) {
  static Diag quiet;
  File f;
  Elf64_Ehdr e;
  diag_init(&quiet);
  if (file_open(program, &f, &quiet)) return false;
  bool elf = f.size >= (int64_t)sizeof e && !memcmp(f.bytes, ELFMAG, SELFMAG);
  if (elf) memcpy(&e, f.bytes, sizeof e);
  for (uint64_t i = 0; elf && i < e.e_phnum; i++) {
    Elf64_Phdr h;
    uint64_t at = e.e_phoff + i * sizeof h, size = (uint64_t)f.size;
    if (e.e_phentsize != sizeof h || at > size || size - at < sizeof h) break;
    memcpy(&h, f.bytes + at, sizeof h);
    if (h.p_type != PT_INTERP || h.p_offset > size || size - h.p_offset < h.p_filesz) continue;
    *out = str_copy(&c->arena, (Str){(const char *)f.bytes + h.p_offset, (int64_t)h.p_filesz});
  }
  file_close(&f);
  return elf;
}

static bool allow_program(Cli *c, PathList *l, const char *name) {
  char path[PATH_CAP];
  const char *loader = NULL;
  if (!process_find(name, path, sizeof path)) return true;
  if (!find_loader(c, path, &loader)) return false;
  allow(c, l, str_copy(&c->arena, str_of(path)), MAY_EXECUTE);
  if (loader) allow(c, l, loader, MAY_EXECUTE);
  return true;
}

// ---- system calls ----

#define REFUSE(name)                                                                               \
  { SYS_##name, CALL_REFUSE, -1, 0, 0, false }

static void refuse_calls(bool executes, Layer *out) {
  const CallRule rule[] = {
      REFUSE(socket),
      REFUSE(socketpair),
      REFUSE(ptrace),
      REFUSE(process_vm_readv),
      REFUSE(process_vm_writev),
      REFUSE(mount),
      REFUSE(umount2),
      REFUSE(setns),
      REFUSE(unshare),
      REFUSE(bpf),
      REFUSE(keyctl),
      REFUSE(add_key),
      REFUSE(init_module),
      REFUSE(finit_module),
#ifdef SYS_io_uring_setup
      REFUSE(io_uring_setup),  // opens sockets and files behind this filter
#endif
      REFUSE(execve),
      REFUSE(execveat),  // the last two: only where nothing is executed
  };
  confine_calls(rule, ARRAY_LEN(rule) - (executes ? 2 : 0), CALL_ALLOW, out);
}

// ---- all of it ----

static bool switched_off(void) {
  const char *value = getenv("TENON_CONFINE");
  return value && !strcmp(value, "0");
}

static void explain(Layers *out, int from, const char *why) {
  for (int i = from; i < LAYERS; i++) set_layer(&out->layer[i], false, "%s", why);
}

static void confine(Cli *c, int n, Layers *out) {
  PathList paths = {0};
  const char *watched = confine_watched();
  memset(out, 0, sizeof *out);
  if (switched_off() || n & (NEEDS_DRIVERS | NEEDS_SOCKETS)) {
    explain(out, 0,
            switched_off()      ? "TENON_CONFINE=0"
            : n & NEEDS_SOCKETS ? "it becomes another program"
                                : "a device's driver may be loaded");
    return;
  }
  explain(out, 0, "none are set: a model may need all of this machine");
  confine_no_new_privs(&out->layer[LAYER_NO_NEW_PRIVS]);
  if (watched) {
    explain(out, LAYER_RLIMITS, watched);
    return;
  }
  bool programs = n & NEEDS_PROGRAMS;
  allow_writes(c, &paths, n);
  if (n & NEEDS_CODEGEN && !programs && !allow_program(c, &paths, "tenon-codegen")) programs = true;
  if (n & NEEDS_ITSELF && !programs && !allow_program(c, &paths, "tenon")) programs = true;
  confine_files(
      &(FileRules){
          .write = true, .execute = !programs, .tcp = true, .path = paths.v, .npaths = paths.n},
      &out->layer[LAYER_LANDLOCK]);
  refuse_calls(programs || n & NEEDS_CODEGEN, &out->layer[LAYER_SECCOMP]);
  if (out->layer[LAYER_LANDLOCK].active)
    set_layer(&out->layer[LAYER_LANDLOCK], true,
              "ABI %d: writes outputs, cache and temporary files%s", landlock_abi(),
              programs ? "" : "; executes tenon-codegen");
  if (out->layer[LAYER_SECCOMP].active)
    set_layer(&out->layer[LAYER_SECCOMP], true, "no sockets, no ptrace, no mounts");
}

void cli_confine(Cli *c) {
  Layers layers;
  confine(c, needs(c), &layers);
}

void cli_confine_worker(Cli *c) {
  Layers layers;
  confine(c, NEEDS_CODEGEN, &layers);
}

void cli_confine_report(Cli *c, Layers *out) { confine(c, COMPILES, out); }
