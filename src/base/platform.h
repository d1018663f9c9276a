// platform.h -- every call that leaves the process: memory, files, threads, time.
//
// One table, so that a test can put its own in place and make any call fail.  Nothing else in the
// library calls malloc, open, pthread_create or clock_gettime (a gate in CI greps for it).
#ifndef TENON_BASE_PLATFORM_H
#define TENON_BASE_PLATFORM_H

#include "base/base.h"

// Built with AddressSanitizer: memory is then laid out so that it sees more.
#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif

// A file of a folder: its name, bytes, and when it was last written or touched, in seconds.
typedef void FileFn(void *ctx, const char *name, int64_t bytes, int64_t seconds);
typedef void NameFn(void *ctx, const char *name);

typedef struct FileInfo {
  bool regular, folder;
  int mode;                            // permission bits
  int64_t owner, group, links, bytes;  // links: names that the file has; 0 once it is removed
} FileInfo;

enum { PAGE = 4096 };  // what offsets are rounded to: at least the system's, else map_over refuses

typedef struct Platform {
  // Memory.  `alloc` returns zeroed memory or NULL.  `free` gets the size that was asked for.
  void *(*alloc)(int64_t bytes);
  void (*free)(void *p, int64_t bytes);
  void (*trim)(void);   // gives free memory that the allocator keeps back to the system
  int64_t pages_from;   // a block of so many bytes has pages of its own, at a multiple of PAGE
  int64_t chunk_bytes;  // arenas ask for this much at least; 0: for each object apart, in a test
  // Files.  Each returns 0 or a positive errno value.
  int (*open_read)(const char *path, int *out_fd,
                   int64_t *out_size);                  // regular files only (else EINVAL)
  int (*map)(int fd, int64_t bytes, const void **out);  // read-only, private
  void (*unmap)(const void *p, int64_t bytes);
  // Whole pages of a mapped file once more, in place of those of a block that has its own (above).
  int (*map_over)(const void *from, int64_t bytes, void *to);
  void (*forget)(
      const void *p,
      int64_t bytes);  // pages of a mapped file that may leave memory; read again, they come back
  // A folder, to look into: links are followed.  A file of it by its own name: no link is, and
  // other files than regular ones are EINVAL.
  int (*open_folder)(const char *path, int *out_fd);
  int (*open_in)(int folder, const char *name, int *out_fd, int64_t *out_size);
  int (*info)(const char *path, FileInfo *out);  // links are followed
  int (*info_of)(int fd, FileInfo *out);
  // A new file, for writing; EEXIST when the name is taken, even by a link to nowhere.
  int (*create)(const char *path, int mode, int *out_fd);
  int (*open_write)(const char *path, bool follow, int *out_fd);  // one that is there, as it is
  // A lock on an open file.  It ends with the descriptor, however its process ends, and is seen by
  // every thread, process and container that opens the file.  EWOULDBLOCK: another has it.  Any
  // other error: this file system has no locks.
  int (*lock)(int fd);
  // At least one byte.  A limit or a closed pipe is an error (EFBIG, EPIPE), never a signal.
  int (*write)(int fd, const void *p, int64_t bytes, int64_t *out_done);
  int (*set_mode)(int fd, int mode);
  int (*set_owner)(int fd, int64_t owner, int64_t group);
  int (*sync)(int fd);  // until it is on the disk
  int (*sync_folder)(const char *path);
  int (*read)(int fd, void *p, int64_t bytes, int64_t *out_got);  // 0 at the end
  int (*close)(int fd);
  int (*rename)(const char *from, const char *to);
  int (*unlink)(const char *path);
  int (*real_path)(const char *path, char *out, int64_t cap);  // links resolved, NUL-terminated
  int (*read_link)(const char *path, char *out, int64_t cap);  // one step; EINVAL: it is no link
  int (*make_folder)(const char *path, int mode);              // one that is there already is fine
  int (*remove_folder)(const char *path);                      // an empty one; no link
  int (*list)(const char *folder, FileFn *fn, void *ctx);      // its regular files, in any order
  int (*names)(const char *folder, NameFn *fn, void *ctx);     // all its names, in any order
  int (*touch)(const char *path);                              // used now
  int64_t (*user)(void);                                       // whose rights we have
  uint64_t (*random_u64)(void);                                // for names: nobody can guess it
  // Threads.
  int (*thread_start)(void *(*fn)(void *), void *arg, void **out_thread);
  void (*thread_join)(void *thread);
  // Time, in nanoseconds from an arbitrary start; and that of files, in seconds.
  int64_t (*now)(void);
  int64_t (*file_time)(void);
} Platform;

extern const Platform platform_posix;
extern const Platform *platform;  // what the library uses; a test may point it elsewhere

void *
mem_alloc(int64_t bytes);  // platform->alloc with the size checked: NULL when negative or refused
void mem_free(void *p, int64_t bytes);  // p may be NULL

// The words for an errno value, by value, for messages: error_text(err).s
typedef struct ErrorText {
  char s[128];
} ErrorText;
ErrorText error_text(int err);

// ---- whole files ----
// A file's bytes, mapped read-only (or, for the path "-", read from standard input into memory).
typedef struct File {
  const uint8_t *bytes;
  int64_t size;
  bool mapped;  // else bytes came from mem_alloc (size 0: bytes may be NULL)
} File;
MUST_USE tenon_status file_open(const char *path, File *out, Diag *d);
void file_close(File *f);
MUST_USE tenon_status file_map(int fd, int64_t size, const char *path, File *out, Diag *d);

// ---- the one writer of files (file_write.c) ---- Replaces a file as a whole: whoever reads it
// sees the old bytes or the new ones.  "-" is standard output.
MUST_USE tenon_status file_write(const char *path, const void *bytes, int64_t n, Diag *d);
// The same of parts that follow one another.
MUST_USE tenon_status file_write_parts(const char *path, const Str *part, int nparts, Diag *d);
// Two files that belong together: neither is replaced before both are on the disk.
MUST_USE tenon_status file_write_both(const char *const path[2], const Str bytes[2], Diag *d);
enum {
  WRITE_EXECUTABLE = 1,  // a program
  WRITE_PRIVATE = 2,     // nobody else may read or write it, whatever the mode of the old file
  // Neither synced nor are temporary files removed: for a cache whose files have a checksum, and
  // whose owner calls file_sweep.
  WRITE_CACHED = 4,
};
MUST_USE tenon_status file_write_as(const char *path, const Str *part, int nparts, int how,
                                    Diag *d);
// Removes temporary files of writers that were killed.  How many, and their bytes.
typedef struct FileSwept {
  int64_t n, bytes;
} FileSwept;
FileSwept file_sweep(const char *folder);
bool file_is_temporary(const char *name);  // the name of a file that is being written
// The first cap - 1 bytes of a file of the system's, ended by a NUL; "" where it cannot be read.
void file_small(const char *path, char *out, int64_t cap);
int fd_write(int fd, const void *p, int64_t n);  // all of it: 0 or an errno value

// ---- a folder for what another program writes (temp_folder.c) ---- Among the system's temporary
// files; nobody else can enter it.  Folders that killed processes left are removed first.
enum { TEMP_PATH = 4096 };
typedef struct TempFolder {
  char path[TEMP_PATH];  // empty: there is none
  int fd;
} TempFolder;
MUST_USE tenon_status temp_folder_make(TempFolder *out, Diag *d);
const char *temp_folder_file(const TempFolder *f, int id, Arena *a);  // a name in it; id from 1 up
void temp_folder_free(TempFolder *f);  // with all that has such a name

// ---- thread pool ---- parallel_for splits [0, n) into pieces of `grain` items, which the pool's
// threads and the caller take in turn.  Which thread runs a piece must not matter to the result.  A
// trap raised inside a piece is raised again in the caller once all threads have stopped.  A pool
// whose threads could not be started runs everything in the caller.  Nested calls run serially.
// NULL is a pool of the caller alone.
typedef struct Pool Pool;
typedef void PoolFn(void *ctx, int64_t begin, int64_t end);
Pool *pool_create(int nthreads);  // 0 = what affinity and cgroup allow; NULL when out of memory
void pool_release(Pool *p);
int pool_threads(const Pool *p);
void parallel_for(Pool *p, int64_t n, int64_t grain, PoolFn *fn, void *ctx);
void thread_pin(
    int index);  // to the index-th CPU that affinity allows; nothing where there are fewer
void thread_yield(void);
// How often this process was forked from one that had asked, counted from that one on.  Threads are
// not forked: whoever has some remembers the number and, at another, has them no more.
int process_forks(void);
int machine_cpus(void);     // that the process may run on, by its affinity
int machine_threads(void);  // CPUs that affinity and cgroup quota allow, at least 1
bool platform_allow_tiles(
    void);  // asks the system for AMX's registers; false: it has none, or refuses
int64_t machine_memory(void);  // bytes of memory and swap, or the cgroup's limit where that is less

#endif
