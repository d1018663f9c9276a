// link.c -- compiled models as shared libraries and programs (link.h).
//
// An object file and a small C file are written next to the output and linked with the runtime archive, which is in this
// program's folder or in the lib folder next to it.
#include "cli/compile/link.h"

#include "base/machine.h"
#include "base/platform.h"
#include "targets/object.h"

#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static bool there(const char *path) { return !access(path, R_OK); }

// The first of the patterns that exists, with the folder of this program in front.
static const char *find_concurrent(Cli *c, const char *const *names, int n) {
  char self[4096];
  ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
  if (len <= 0) return NULL;
  self[len] = 0;
  char *slash = strrchr(self, '/');
  if (slash) *slash = 0;
  for (int i = 0; i < n; i++) {
    const char *path = str_printf(&c->arena, "%s/%s", self, names[i]);
    if (there(path)) return path;
  }
  return NULL;
}

static tenon_status run_compiler(Cli *c, const char *const *argv) {
  pid_t pid;
  int status = 0;
  int err = posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, environ);
  if (err)
    return fail(&c->diag, TENON_EUNSUPPORTED, NOWHERE,
                "the C compiler '%s', which links, cannot be started: %s", argv[0],
                error_text(err).s);
  while (waitpid(pid, &status, 0) < 0) continue;
  if (WIFEXITED(status) && !WEXITSTATUS(status)) return TENON_OK;
  return fail(&c->diag, TENON_EIO, NOWHERE, "'%s' could not link the model", argv[0]);
}

static tenon_status write_source(Cli *c, const Program *p, const char *symbol, bool shared,
                                 const char *path) {
  StrBuf b;
  strbuf_init(&b, &c->arena);
  strbuf_printf(&b, "const char %s_linked[] = \"" FILE_MARK_LINKED "\";\n", symbol);
  if (shared)
    TRY(object_header(p, symbol, HEADER_SOURCE, &b, &c->diag));
  else
    strbuf_printf(&b,
                  "#include \"tenon/aot.h\"\n"
                  "extern tenon_aot_model %s_model;\n"
                  "int tenon_aot_main(tenon_aot_model *m, int argc, char **argv);\n"
                  "const char *volatile %s_linked_at;\n"
                  "int main(int argc, char **argv) {\n"
                  "  %s_linked_at = %s_linked;\n"  // else the linker drops it
                  "  return tenon_aot_main(&%s_model, argc, argv);\n"
                  "}\n",
                  symbol, symbol, symbol, symbol, symbol);
  return file_write(path, b.p, b.n, &c->diag);
}

tenon_status link_program(Cli *c, const Program *p, const char *symbol, bool shared,
                          const char *weights, const char *path) {
  static const char *const archives[] = {
      "libtenon_runtime.a", "../lib/libtenon_runtime.a", "../lib64/libtenon_runtime.a",
      "../lib/x86_64-linux-gnu/libtenon_runtime.a", "../lib/aarch64-linux-gnu/libtenon_runtime.a"};
  static const char *const headers[] = {"../include/tenon/aot.h", "../../include/tenon/aot.h"};
  const char *archive = find_concurrent(c, archives, ARRAY_LEN(archives));
  const char *header = find_concurrent(c, headers, ARRAY_LEN(headers)), *cc = getenv("CC");
  if (!archive || !header)
    return fail(&c->diag, TENON_EUNSUPPORTED, NOWHERE,
                "libtenon_runtime.a or tenon/aot.h is not beside this program");
  Machine m;
  machine_host(&m);
  const char *object = str_printf(&c->arena, "%s.%ld.o", path, (long)getpid());
  const char *source = str_printf(&c->arena, "%s.%ld.c", path, (long)getpid());
  const char *include =
      str_printf(&c->arena, "-I%.*s", (int)(strlen(header) - strlen("/tenon/aot.h")), header);
  const char *argv[] = {cc && *cc ? cc : "cc",
                        "-O2",
                        "-fPIC",
                        shared ? "-shared" : "-pie",
                        include,
                        source,
                        object,
                        archive,
                        "-Wl,--gc-sections",
                        shared ? "-Wl,--exclude-libs,ALL" : "-s",
                        "-lm",
                        "-pthread",
                        "-o",
                        path,
                        NULL};
  tenon_status s = object_write(p, &m, symbol, weights, object, &c->diag);
  if (!s) s = write_source(c, p, symbol, shared, source);
  if (!s) s = run_compiler(c, argv);
  platform->unlink(object);
  platform->unlink(source);
  return s;
}
