// link.c -- compiled models as shared libraries and programs (link.h).
//
// An object file and a small C file are linked with the runtime archive, which is in this program's
// folder or in the lib folder next to it.  The C compiler works in a temporary folder, and
// file_write puts the finished file in its place.  So whatever stops the compiler or this program,
// the output is the old file or the new one.
#include "cli/compile/link.h"

#include "base/machine.h"
#include "base/platform.h"
#include "base/process.h"
#include "cli/compile/installed.h"
#include "targets/object.h"

#include <stdlib.h>

static tenon_status run_compiler(Cli *c, const char *const *argv) {
  int status = 0, err = process_run(argv, &status);
  if (err)
    return fail(&c->diag, TENON_EUNSUPPORTED, NOWHERE,
                "the C compiler '%s', which links, cannot be started: %s", argv[0],
                error_text(err).s);
  if (!status) return TENON_OK;
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

typedef struct Link {
  Cli *cli;
  const Program *program;
  const char *symbol, *weights, *path, *archive, *include;
  bool shared;
  TempFolder folder;
} Link;

static tenon_status put_in_place(const Link *l, const char *made) {
  File f;
  TRY(file_open(made, &f, &l->cli->diag));
  Str part = {(const char *)f.bytes, f.size};
  tenon_status s = file_write_as(l->path, &part, 1, WRITE_EXECUTABLE, &l->cli->diag);
  file_close(&f);
  return s;
}

static tenon_status link_in_folder(const Link *l) {
  Cli *c = l->cli;
  const char *cc = getenv("CC"), *source = temp_folder_file(&l->folder, 1, &c->arena);
  const char *object = temp_folder_file(&l->folder, 2, &c->arena);
  const char *made = temp_folder_file(&l->folder, 3, &c->arena);
  const char *include = str_printf(&c->arena, "-I%s", l->include);
  const char *argv[] = {cc && *cc ? cc : "cc",
                        "-O2",
                        "-fPIC",
                        l->shared ? "-shared" : "-pie",
                        include,
                        "-x",
                        "c",
                        source,
                        "-x",
                        "none",
                        object,
                        l->archive,
                        "-Wl,--gc-sections",
                        l->shared ? "-Wl,--exclude-libs,ALL" : "-s",
                        "-lm",
                        "-pthread",
                        "-o",
                        made,
                        NULL};
  Machine m;
  machine_host(&m);
  TRY(object_write(l->program, &m, l->symbol, l->weights, object, &c->diag));
  TRY(write_source(c, l->program, l->symbol, l->shared, source));
  TRY(run_compiler(c, argv));
  return put_in_place(l, made);
}

static tenon_status link_and_clean(Link *l) {
  Trap t;
  TRY(temp_folder_make(&l->folder, &l->cli->diag));
  trap_enter(&t, &l->cli->diag);
  if (setjmp(t.env) == 0) t.status = link_in_folder(l);
  trap_leave(&t);
  temp_folder_free(&l->folder);
  return t.status;
}

tenon_status link_program(Cli *c, const Program *p, const char *symbol, bool shared,
                          const char *weights, const char *path) {
  Installed in = installed_find(c);
  if (!in.runtime || !in.include)
    return fail(&c->diag, TENON_EUNSUPPORTED, NOWHERE,
                "libtenon_runtime.a or tenon/aot.h is not beside this program");
  Link *l = arena_new(&c->arena, Link);
  *l = (Link){.cli = c,
              .program = p,
              .symbol = symbol,
              .weights = weights,
              .path = path,
              .archive = in.runtime,
              .include = in.include,
              .shared = shared};
  return link_and_clean(l);
}
