// cache.h -- code of kernels and whole programs on disk, found by what they were made from.
//
// One file for each kernel or program, named by a hash of its key; the file has the whole key, so
// that two keys of one hash are told apart.  A file appears at once, complete (written under
// another name, then renamed), and what is damaged counts as absent; so any number of processes may
// use a folder, and any may be killed.
#ifndef TENON_BASE_CACHE_H
#define TENON_BASE_CACHE_H

#include "base/platform.h"

#define CACHE_LIMIT                                                                                \
  ((int64_t)512 << 20)  // bytes of a folder, unless TENON_CACHE_MAX says otherwise

// TENON_CACHE, or tenon in XDG_CACHE_HOME, or in .cache of the home folder.  False: none of these
// is set.
bool cache_folder(char *out, int64_t cap);
int64_t cache_limit(void);

// TENON_CACHE_PATH: a list of folders, separated by `:`, that are only read, as those of an image
// or a wheel are.  What our own folder does not have is looked for in them, in order.  Each belongs
// to our user or to root, and nobody else may write to it.

// A key begins with what made the code and the machine that it is for, a line each, so that an
// archive of entries can be judged without knowing how they are made.
typedef struct CacheMaker {
  Str maker,
      machine;   // "tenon-codegen 0123...", "x86_64-pc-linux-gnu znver4 +avx2,..."; no line breaks
  Str compiler;  // of programs, their third line: the sources of passes and lowering, "tenon
                 // 4567..."
} CacheMaker;
void cache_put_maker(StrBuf *key, const CacheMaker *m);

// A folder, or a file of it, counts as absent unless it belongs to our user and nobody else may
// write to it.  A notice says so once (notice.h).
bool cache_usable(const char *folder);  // it is there, and ours alone
int cache_make(const char *folder);  // with the folders above it; one that is there stays as it is:
                                     // 0 or an errno value
// Any file of the folder: mapped; replaced, in a folder that is made where there is none.
bool cache_open(const char *folder, const char *name, File *out);
bool cache_write(const char *folder, const char *name, const Str *part, int nparts);

// What is found lies in the file, which is then the caller's to close.  `*entry` is stored with it.
bool cache_find(const char *folder, Str key, File *file, Str *out, int64_t *entry);
// A cache that cannot be written is no error: nothing is kept then.
bool cache_store(const char *folder, Str key, Str code, int64_t entry);

// A whole program, which its maker reads (compile/program_cache.h).  It begins at any offset of its
// file: who wants pages puts as many bytes before them as cache_offset says.
bool cache_find_program(const char *folder, Str key, File *file, Str *out);
bool cache_store_program(const char *folder, Str key, Str program);
Str cache_program(Str file);    // of a file's bytes, unchecked; empty: it is no program
int64_t cache_offset(Str key);  // of an entry's code in its file
// Programs are large, and can be made of kernels in a fraction of a second.  So all of them take at
// most half of the folder, and one of them at most an eighth: the kernels stay.
int64_t cache_program_limit(void);

typedef struct CacheFile {
  char name[80];
  int64_t bytes, seconds;  // since it was last used
  bool whole;              // cache_list with `check`: it can be used
  bool program;            // a whole one; else a kernel
} CacheFile;
typedef struct CacheList {
  CacheFile *file;  // the one used last first
  int64_t n, bytes;
  int64_t nprograms;  // of the n
  int64_t nstray;     // files that are being written, or whose process was killed
} CacheList;
// `check` reads every file.  An absent folder is an empty one.
MUST_USE tenon_status cache_list(const char *folder, bool check, Arena *a, Diag *d, CacheList *out);
typedef struct CachePruned {
  int64_t n, bytes;
} CachePruned;
// Removes what was used longest ago until at most `limit` bytes are left, of programs half of it,
// and what killed processes left behind.  Refuses a folder of another user.
MUST_USE tenon_status cache_prune(const char *folder, int64_t limit, Arena *a, Diag *d,
                                  CachePruned *out);
// ---- archives: entries of a cache in one file ----
//
// An archive is code: whoever imports one runs what is in it.  It is checked as a whole before the
// first entry is stored.
typedef struct CacheMoved {
  int64_t n, bytes;       // entries that were written
  int64_t nprograms;      // of the n
  int64_t there;          // that the folder or archive had already
  int64_t other_version;  // made by another version of Tenon or LLVM
  int64_t other_machine;  // for another CPU
} CacheMoved;
bool cache_is_archive(Str bytes);
// All whole entries of the folder, in the order of their names: equal caches give equal bytes.
MUST_USE tenon_status cache_export(const char *folder, const char *path, Arena *a, Diag *d,
                                   CacheMoved *out);
// Kernels and programs for CPUs are left out unless they were made by `here`; those for devices are
// taken.
MUST_USE tenon_status cache_import(const char *path, const char *folder, const CacheMaker *here,
                                   Arena *a, Diag *d, CacheMoved *out);
MUST_USE tenon_status cache_merge(const char *const *from, int64_t n, const char *path, Arena *a,
                                  Diag *d, CacheMoved *out);

// Whoever stores calls it: prunes to cache_limit(), at most every ten seconds, since it looks at
// each file.
void cache_tidy(const char *folder);

#endif
