// confine_probe.c -- preloaded into tenon by confine_test.py: tries, when the program ends, what it
// should no longer be able to do.
//
// PROBE names the file for results: a line `WORD ERRNO` for each attempt, 0 where it succeeded.  It
// is opened before the program is confined.  PROBE_WRITE has paths to create, PROBE_REMOVE paths to
// remove, separated by ':'.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int out = -1;

static int create(const char *path) {
  int fd = open(path, O_CREAT | O_WRONLY, 0600);
  if (fd < 0) return errno;
  close(fd);
  return 0;
}

static int remove_path(const char *path) { return unlink(path) ? errno : 0; }

static void each(const char *what, const char *list, int (*try)(const char *)) {
  char copy[8192];
  if (!list || strlen(list) >= sizeof copy) return;
  strcpy(copy, list);
  for (char *at = strtok(copy, ":"); at; at = strtok(NULL, ":"))
    dprintf(out, "%s:%s %d\n", what, at, try(at));
}

static int open_socket(int domain) {
  int fd = socket(domain, SOCK_STREAM, 0);
  if (fd < 0) return errno;
  close(fd);
  return 0;
}

static int execute(const char *path) {
  char *argv[] = {(char *)path, NULL}, *none[] = {NULL};
  pid_t pid;
  int err = posix_spawn(&pid, path, NULL, NULL, argv, none);
  if (!err) waitpid(pid, NULL, 0);
  return err;
}

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("PROBE");
  if (path && !strcmp(program_invocation_short_name, "tenon"))
    out = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
}

__attribute__((destructor)) static void end(void) {
  if (out < 0) return;
  each("write", getenv("PROBE_WRITE"), create);
  each("remove", getenv("PROBE_REMOVE"), remove_path);
  dprintf(out, "inet %d\n", open_socket(AF_INET));
  dprintf(out, "unix %d\n", open_socket(AF_UNIX));
  dprintf(out, "exec %d\n", execute("/bin/true"));
}
