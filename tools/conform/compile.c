// compile.c -- a test's graph, optimised, planned and compiled as the command asks.
#include "conform/conform.h"

#include "base/platform.h"
#include "cli/opt.h"
#include "runtime/artifact.h"
#include "runtime/session.h"
#include "runtime/speed.h"

#include <stdlib.h>
#include <unistd.h>

// Through a file and back; what is written again must have the same bytes.
static tenon_status through_artifact(Program **program, Arena *a, Diag *d) {
  const char *folder = getenv("TMPDIR");
  const char *path =
      str_printf(a, "%s/tenon-conform-%ld.tenon", folder ? folder : "/tmp", (long)getpid());
  Program *again = NULL;
  Str part[ARTIFACT_PARTS];
  tenon_status s = artifact_write(*program, path, d);
  if (!s) s = artifact_open(path, &(ArtifactLoad){.speed = driver_speed}, d, &again);
  platform->unlink(path);
  TRY(s);
  program_release(*program);
  *program = again;
  if (again->ndevices) program_use_devices(again);
  TRY(artifact_parts((const Program *const[]){again}, 1, false, a, d, part));
  int64_t at = 0;
  for (int i = 0; i < ARTIFACT_PARTS; at += part[i++].n)
    if (at + part[i].n > again->backing.size ||
        (part[i].n && memcmp(again->backing.bytes + at, part[i].p, (size_t)part[i].n)))
      return fail(d, TENON_EINTERNAL, NOWHERE, "the artifact changes when written again");
  return TENON_OK;
}

tenon_status conform_compile(const Case *c, const CaseOptions *o, Graph *g, Arena *a, Diag *d,
                             ConformBuilt *out) {
  CompileOptions compile = *o->compile;
  CompileReport made = {0};
  OptCall call = {NULL, c->name, str_printf(a, "tenon conform --target plan: %s", c->model)};
  opt_guard(&compile, &call);
  // The target is asked here, in the test's own process: a device that was opened before a fork
  // does not work after it.
  compile.target = o->target;
  compile.threads = 1;  // one process makes the code: the one that waits for us
  compile.cflags = "-O1 -march=native";
  TRY(compile_graph(g, &compile, COMPILE_OPTIMISE, a, d, &made));
  TRY(graph_verify(g, d));
  if (o->plan) TRY(compile_graph(g, &compile, COMPILE_PLAN, a, d, &made));
  out->plan = made.plan;
  if (!o->target) return TENON_OK;
  TRY(compile_graph(g, &compile, COMPILE_BUILD, a, d, &made));
  out->program = made.program;
  if (o->artifact) TRY(through_artifact(&out->program, a, d));
  return session_create(out->program, &(SessionOptions){.threads = o->threads}, d, &out->session);
}
