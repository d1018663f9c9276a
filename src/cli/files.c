// files.c -- collects the files of a command line, and refuses what would destroy one of them
// (files.h).
//
// Files are told apart by device and inode; one that is not there yet by its folder's and its
// name.  Pipes, terminals and devices may be input and output at the same time.  A folder that is
// read stands for every file below it.
//
// What Tenon wrote says so: an artifact by its first bytes, ONNX by its producer, other formats by
// the words FILE_MARK near their start or at their end.  Raw weights have no room for a mark.
#include "cli/files.h"

#include "base/cache.h"
#include "base/npy.h"
#include "base/platform.h"
#include "lower/tuned.h"
#include "runtime/artifact.h"

#include <sys/stat.h>
#include <unistd.h>

enum { PATH_CAP = 4096, MARK_HEAD = 4096, MARK_TAIL = 64 };

// ---- which file ----

typedef struct FileId {
  bool known, there;
  dev_t dev;
  ino_t ino;         // of the file, or of its folder where it is not there
  const char *name;  // NULL where it is there
  mode_t mode;
} FileId;

static FileId id_of_stat(const struct stat *st) {
  return (FileId){
      .known = true, .there = true, .dev = st->st_dev, .ino = st->st_ino, .mode = st->st_mode};
}

static FileId id_of(Arena *a, const CliFile *f) {
  struct stat st;
  if (!strcmp(f->path, "-"))
    return fstat(f->written ? STDOUT_FILENO : STDIN_FILENO, &st) ? (FileId){0} : id_of_stat(&st);
  if (!stat(f->path, &st)) return id_of_stat(&st);
  const char *slash = strrchr(f->path, '/');
  const char *folder = !slash             ? "."
                       : slash == f->path ? "/"
                                          : str_copy(a, (Str){f->path, slash - f->path});
  if (stat(folder, &st)) return (FileId){0};
  return (FileId){.known = true,
                  .dev = st.st_dev,
                  .ino = st.st_ino,
                  .name = slash ? slash + 1 : f->path,
                  .mode = S_IFREG};
}

// What has contents that writing would replace; a folder stands for its files.
static bool keeps_contents(const FileId *id) {
  return id->known && (S_ISREG(id->mode) || S_ISBLK(id->mode) || S_ISDIR(id->mode));
}

static bool same_file(const FileId *a, const FileId *b) {
  return keeps_contents(a) && keeps_contents(b) && a->dev == b->dev && a->ino == b->ino &&
         a->there == b->there && (a->there || !strcmp(a->name, b->name));
}

// Whether a file that is there lies below a folder.
static bool lies_below(const char *path, const FileId *folder) {
  char real[PATH_CAP];
  struct stat st;
  if (!folder->there || !S_ISDIR(folder->mode) || !strcmp(path, "-") ||
      platform->real_path(path, real, sizeof real))
    return false;
  for (char *slash; (slash = strrchr(real, '/'));) {
    *slash = 0;
    if (!stat(*real ? real : "/", &st) && st.st_dev == folder->dev && st.st_ino == folder->ino)
      return true;
  }
  return false;
}

// ---- what Tenon wrote ----

static bool holds(Str s, const char *text) {
  int64_t n = (int64_t)strlen(text);
  for (int64_t i = 0; i + n <= s.n; i++)
    if (s.p[i] == *text && !memcmp(s.p + i, text, (size_t)n)) return true;
  return false;
}

// ModelProto begins with ir_version (one byte) and producer_name.
static bool is_our_onnx(Str s) {
  return s.n > 9 && s.p[0] == 8 && !memcmp(s.p + 2, "\x12\x05tenon", 7);
}

// A linked program says it among its constants, wherever the linker put them.
static bool is_elf(Str s) { return s.n > 4 && !memcmp(s.p, "\177ELF", 4); }

static bool is_our_json(Str s) {
  static const char start[] = "{" FILE_JSON_SPACES;
  return s.n >= (int64_t)sizeof start && !memcmp(s.p, start, sizeof start - 1) &&
         (s.p[sizeof start - 1] == '\n' || s.p[sizeof start - 1] == '}');
}

static bool is_ours(Str s) {
  Str head = {s.p, MIN(s.n, MARK_HEAD)};
  Str tail = {s.p + MAX(s.n - MARK_TAIL, 0), MIN(s.n, MARK_TAIL)};
  return artifact_is(s.p, s.n) || cache_is_archive(s) || is_our_onnx(s) || npy_is_ours(s) ||
         is_our_json(s) || tuned_is(s) || holds(tail, FILE_MARK) ||
         holds(is_elf(s) ? s : head, is_elf(s) ? FILE_MARK_LINKED : FILE_MARK);
}

bool file_replaceable(const char *path) {
  struct stat st;
  if (!strcmp(path, "-") || stat(path, &st) || !S_ISREG(st.st_mode) || !st.st_size) return true;
  File f;
  static Diag quiet;
  diag_init(&quiet);
  if (file_open(path, &f, &quiet)) return false;
  bool ours = is_ours((Str){(const char *)f.bytes, f.size});
  file_close(&f);
  return ours;
}

// ---- the rules ----

static bool is_forced(const Cli *c) {
  for (int i = 0; i < OPT_COUNT; i++)
    if (cli_option[i].command == c->command && !strcmp(cli_option[i].name, "force"))
      return opt_given(c, i);
  return false;
}

static const char *shown(const CliFile *f) {
  return strcmp(f->path, "-") ? f->path : f->written ? "standard output" : "standard input";
}

static int refuse_same(Cli *c, const CliFile *out, const CliFile *other) {
  const char *command = command_name(&cli_command[c->command]);
  if (other->written)
    return cli_usage(c, "%s: '%s' is the file of two outputs, %s and %s; give each its own",
                     command, shown(out), other->what, out->what);
  return cli_usage(c, "%s: %s '%s' is also an input, %s '%s'; give the output another name",
                   command, out->what, shown(out), other->what, shown(other));
}

static bool clash(Cli *c, const CliFile *out, const FileId *id, const CliFile *other) {
  FileId it = id_of(&c->arena, other);
  return same_file(id, &it) || (!other->written && id->there && lies_below(out->path, &it));
}

// An output against everything that was named before it, and every input.
static int check_output(Cli *c, const CliFile *out) {
  FileId id = id_of(&c->arena, out);
  for (int64_t i = 0; i < c->files.n; i++) {
    const CliFile *f = &c->files.v[i];
    if (f != out && !(f->written && f > out) && clash(c, out, &id, f))
      return refuse_same(c, out, f);
  }
  if (!is_forced(c) && !file_replaceable(out->path))
    return cli_usage(c,
                     "%s: %s '%s' is there already, and nothing in it says that Tenon wrote it; "
                     "--force replaces it",
                     command_name(&cli_command[c->command]), out->what, out->path);
  return CLI_OK;
}

// What is printed may go into a file, too.  Whoever opened it decides about its contents, unless it
// is an input.
static int check_streams(Cli *c, const CliFile *in) {
  static const struct {
    int fd;
    const char *name;
  } stream[] = {{STDOUT_FILENO, "standard output"}, {STDERR_FILENO, "standard error"}};
  FileId other = id_of(&c->arena, in);
  for (int s = 0; s < ARRAY_LEN(stream); s++) {
    struct stat st;
    if (fstat(stream[s].fd, &st)) continue;
    FileId id = id_of_stat(&st);
    if (same_file(&id, &other))
      return cli_usage(c, "%s: %s goes into an input, %s '%s'",
                       command_name(&cli_command[c->command]), stream[s].name, in->what, shown(in));
  }
  return CLI_OK;
}

// ---- collecting ----

static void add(Cli *c, const char *path, const char *what, bool written) {
  vec_push(&c->arena, &c->files, ((CliFile){.path = path, .what = what, .written = written}));
}

static void add_option(Cli *c, int id) {
  const OptionRow *o = &cli_option[id];
  const OptionValue *v = &c->opt[id];
  bool named = o->value && !strncmp(o->value, "NAME=", 5);
  const char *what = str_printf(&c->arena, "--%s", option_name(o));
  // Of an option that is given several times and takes one value, the last counts.
  for (int64_t i = o->kind == OK_LIST ? 0 : MAX(v->count - 1, 0); i < v->count; i++) {
    const char *path = v->text[i], *equals = named ? strchr(path, '=') : NULL;
    add(c, equals ? equals + 1 : path, what, !strcmp(o->complete, COMPLETE_WRITES));
  }
}

int files_declare(Cli *c) {
  const CommandRow *row = &cli_command[c->command];
  for (int64_t i = 0; i < c->npos && completes_files(row->complete); i++)
    add(c, c->pos[i], row->args, !strcmp(row->complete, COMPLETE_WRITES));
  for (int i = 0; i < OPT_COUNT; i++)
    if (cli_option[i].command == c->command && completes_files(cli_option[i].complete))
      add_option(c, i);
  int rc = CLI_OK;
  for (int64_t i = 0; i < c->files.n && !rc; i++) {
    const CliFile *f = &c->files.v[i];
    rc = f->written ? check_output(c, f) : check_streams(c, f);
  }
  return rc;
}

int files_output(Cli *c, const char *path, const char *what) {
  add(c, path, what, true);
  return check_output(c, &c->files.v[c->files.n - 1]);
}

tenon_status files_input(Cli *c, const char *path, const char *what) {
  add(c, path, what, false);
  const CliFile *in = &c->files.v[c->files.n - 1];
  int rc = check_streams(c, in);
  for (int64_t i = 0; i < c->files.n && !rc; i++) {
    const CliFile *out = &c->files.v[i];
    if (!out->written) continue;
    FileId id = id_of(&c->arena, out);
    if (clash(c, out, &id, in)) rc = refuse_same(c, out, in);
  }
  if (!rc) return TENON_OK;
  c->misused = true;
  return TENON_EINVAL;
}
