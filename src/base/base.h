// base.h -- what every file of Tenon stands on: status, diagnostics, checked sizes, arenas,
// vectors, strings, maps, interning, and the one non-local exit.
//
// Memory.  Compiler objects live in arenas and are freed together.  An arena never returns NULL:
// when the allocator table refuses, or an arena's byte limit is passed, it raises the innermost
// Trap of the thread, which is set at an API entry (or in the worker loop of the thread pool).  So
// code between an entry and the failing allocation needs no clean-up of its own, provided that it
// owns nothing outside an arena, a Run's list of values or another object that the entry releases.
//
// Errors.  The user or the world is wrong: return a status, message in the Diag (`fail`).  We are
// wrong: CHECK.  A graph under construction: the graph's own sticky error (ir.h).
#ifndef TENON_BASE_BASE_H
#define TENON_BASE_BASE_H

#include "base/limits.h"
#include "tenon/tenon.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define MUST_USE          __attribute__((warn_unused_result))
#define NORETURN          __attribute__((noreturn))
#define ARRAY_LEN(a)      ((int64_t)(sizeof(a) / sizeof((a)[0])))
#define MIN(a, b)         ((a) < (b) ? (a) : (b))
#define MAX(a, b)         ((a) > (b) ? (a) : (b))

// ---- checked sizes: true when the result fits, as the compiler's builtins the other way round
// ----
static inline bool ck_add(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_add_overflow(a, b, out);
}
static inline bool ck_sub(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_sub_overflow(a, b, out);
}
static inline bool ck_mul(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_mul_overflow(a, b, out);
}

// The greatest common divisor, not negative; of 0 and x it is x.
static inline uint64_t gcd_u64(uint64_t a, uint64_t b) {
  while (b) {
    uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}
static inline int64_t gcd_i64(int64_t a, int64_t b) {
  return (int64_t)gcd_u64(a < 0 ? 0 - (uint64_t)a : (uint64_t)a,
                          b < 0 ? 0 - (uint64_t)b : (uint64_t)b);
}

// What a file that Tenon writes says of itself, near its start or at its end, where its format has
// no field for it.  A linked program says the second: an object of ours inside it does not make it
// ours.
#define FILE_MARK "made by Tenon"
// Ends a message about bytes that a file should have and has not.
#define CUT_OFF ": was the download cut off?"
// Behind the first brace of JSON whose keys are the user's, where no key is left for the mark.
#define FILE_JSON_SPACES "                        "
#define FILE_MARK_LINKED "linked and " FILE_MARK

// ---- string slices: not NUL-terminated unless made by intern or str_copy ----
typedef struct Str {
  const char *p;
  int64_t n;
} Str;
#define STR(literal) ((Str){(literal), (int64_t)sizeof(literal) - 1})
#define STR_ARG(s)   (int)MIN((s).n, 1000), (s).p  // for "%.*s"; long names are cut in messages
static inline Str str_of(const char *z) { return (Str){z, (int64_t)strlen(z)}; }
static inline bool str_eq(Str a, Str b) {
  return a.n == b.n && (a.n == 0 || !memcmp(a.p, b.p, (size_t)a.n));
}
static inline bool str_is(Str a, const char *z) { return str_eq(a, str_of(z)); }
int str_cmp(Str a, Str b);  // bytewise order
bool str_starts(Str s, const char *prefix);
bool str_ends(Str s, const char *suffix);
bool str_to_i64(Str s, int64_t *out);  // whole string, decimal, range checked
bool str_is_utf8(Str s);               // well-formed, shortest forms, no surrogates
int64_t str_distance(Str a, Str b);    // edit distance
// The word that was meant: one that differs by a few letters, else one of which a part begins
// alike; NULL: none.  NULL words are passed over.
const char *str_nearest(Str word, const char *const *words, int64_t n);
typedef struct HintText {
  char s[96];
} HintText;
// "; did you mean 'WORD'?", or "" where no word is near or the nearest is too long.
HintText did_you_mean(Str word, const char *const *words, int64_t n);
bool str_glob(const char *pattern, const char *text);  // * and ? only

// ---- diagnostics ---- Where a message points.  Any field may be empty; those that are set are
// printed in front of the text: `model.onnx: node 'conv1' (Conv): ...`, `graph.tir:3:7: ...`,
// `model.onnx: byte 1234: ...`.
typedef struct Where {
  const char *file, *node, *op;
  int64_t offset;  // byte position in `file`, when has_offset
  bool has_offset;
  int line, column;  // from 1; 0 = none
} Where;

// The caller's place for messages.  Fixed size, so that reporting never allocates; a longer text is
// cut.
typedef struct Diag {
  tenon_status status;  // the first failure's
  Where base;  // fills fields that a message's own Where leaves empty (the model's file name)
  int64_t len;
  char text[TENON_ERROR_CAPACITY];
} Diag;

void diag_init(Diag *d);
// For findings that nobody reads: the thread's own, new at each call.  A Diag is large: where it is
// no function's own, a thread pays for one.
Diag *diag_unread(void);
// Appends one line to the diagnostics and returns `code`, so that an error is one statement.
tenon_status fail(Diag *d, tenon_status code, Where at, const char *fmt, ...) PRINTF(4, 5);
tenon_status failv(Diag *d, tenon_status code, Where at, const char *fmt, va_list ap) PRINTF(4, 0);
// Appends lines of another Diag as they are, unless they are the last ones already.
tenon_status diag_again(Diag *d, tenon_status code, const char *text);
void diag_note(Diag *d, const char *fmt, ...) PRINTF(2, 3);  // a further indented line
// Text for people that holds names out of a file: what is not printable UTF-8 becomes '?', in
// place.
void text_clean(char *p, int64_t n);
const char *status_name(tenon_status s);  // "invalid", "unsupported", ...

#define NOWHERE ((Where){0})
#define TRY(e)                                                                                     \
  do {                                                                                             \
    tenon_status s_ = (e);                                                                         \
    if (s_) return s_;                                                                             \
  } while (0)

// ---- at work ----
// What the thread works on, for messages of work that memory or a limit ended: such a message that
// names no node takes it from here (failv).
typedef struct AtWork {
  const char *doing, *what;  // "pass", "fold-constants"; "reading", "initializer"
  int64_t index;             // of `what`; -1: none
  const char *step;          // a node whose name outlives the trap around; NULL: `node`
  char node[96];             // the beginning of a name; "": none
} AtWork;
AtWork at_work(void);
void at_work_set(AtWork w);
const char *at_work_name(void);  // of the node; "": none
// `doing` and `what` outlive the trap around; no node is known so far.
void at_work_part(const char *doing, const char *what, int64_t index);
void at_work_node(const char *name);  // within that part; copied, since graphs come and go
void at_work_step(const char *name);  // the same for each step of a run: not copied

// ---- the non-local exit ----
// Pattern, at an API entry only:
//   Trap t;
//   trap_enter(&t, diag);
//   if (setjmp(t.env) == 0) t.status = work(...);
//   trap_leave(&t);            // always reached; release what the entry owns, then
//   return t.status;
typedef struct Trap {
  jmp_buf env;
  struct Trap *outer;
  Diag *diag;
  tenon_status status;
  struct Arena
      *scoped;  // arenas of functions below, innermost first: freed when one of them raises
  AtWork work;  // at trap_enter, and again behind trap_leave
} Trap;
void trap_enter(Trap *t, Diag *d);
void trap_leave(Trap *t);
NORETURN void trap_raise(tenon_status code, const char *fmt, ...) PRINTF(2, 3);
// Raises what an inner trap caught: its message as it is, and once where both share a Diag.
NORETURN void trap_again(tenon_status code, const char *text);
NORETURN void check_failed(const char *file, int line, const char *cond, const char *fmt, ...)
    PRINTF(4, 5);
// An invariant of ours.  Aborts in test builds (TENON_ABORT_ON_CHECK), else TENON_EINTERNAL at the
// entry.
#define CHECK(cond, ...)                                                                           \
  do {                                                                                             \
    if (__builtin_expect(!(cond), 0)) check_failed(__FILE__, __LINE__, #cond, __VA_ARGS__);        \
  } while (0)

// ---- arenas ----
typedef struct ArenaChunk ArenaChunk;
typedef struct Arena {
  ArenaChunk *head;
  char *at, *end;        // free part of the head chunk
  int64_t total, limit;  // bytes taken from the allocator; limit 0 = none
  struct Arena *outer;   // of a scoped one: the next of its trap's list
  bool scoped;
} Arena;
typedef struct ArenaMark {
  ArenaChunk *head;
  char *at;
} ArenaMark;
void arena_init(Arena *a);
// For an arena on the stack of a function that may be left by a raised error: that frees it, too.
// The innermost one must be freed first.
void arena_init_scoped(Arena *a);
void arena_leave_scope(Arena *a);  // part of arena_deinit
void arena_deinit(Arena *a);
void *arena_alloc(Arena *a, int64_t bytes);  // zeroed, 16-byte aligned; raises ENOMEM
void *arena_alloc_array(Arena *a, int64_t n, int64_t elem_bytes);  // product checked
void *arena_dup(Arena *a, const void *p, int64_t bytes);
ArenaMark arena_mark(Arena *a);
void arena_reset(Arena *a, ArenaMark m);
void arena_clear(Arena *a);  // everything in it is gone; its first chunk stays for what follows
#define arena_new(a, T)      ((T *)arena_alloc((a), (int64_t)sizeof(T)))
#define arena_array(a, T, n) ((T *)arena_alloc_array((a), (n), (int64_t)sizeof(T)))

char *str_copy(Arena *a, Str s);  // NUL-terminated
char *str_printf(Arena *a, const char *fmt, ...) PRINTF(2, 3);
char *str_vprintf(Arena *a, const char *fmt, va_list ap) PRINTF(2, 0);

// ---- vectors: a struct of pointer, count, capacity in an arena ----
#define VEC(T)                                                                                     \
  struct {                                                                                         \
    T *v;                                                                                          \
    int64_t n, cap;                                                                                \
  }
#define vec_push(a, vec, item)                                                                     \
  do {                                                                                             \
    if ((vec)->n == (vec)->cap)                                                                    \
      (vec)->v = vec_grow((a), (vec)->v, (vec)->n, &(vec)->cap, (int64_t)sizeof(*(vec)->v));       \
    (vec)->v[(vec)->n++] = (item);                                                                 \
  } while (0)
void *vec_grow(Arena *a, void *old, int64_t n, int64_t *cap, int64_t elem_bytes);

// ---- growing text ----
typedef struct StrBuf {
  Arena *arena;
  char *p;  // NUL-terminated once anything was written; strbuf_text gives "" before
  int64_t n, cap;
} StrBuf;
void strbuf_init(StrBuf *b, Arena *a);
void strbuf_put(StrBuf *b, Str s);
void strbuf_puts(StrBuf *b, const char *z);
void strbuf_putc(StrBuf *b, char c);
void strbuf_printf(StrBuf *b, const char *fmt, ...) PRINTF(2, 3);
const char *strbuf_text(const StrBuf *b);
static inline Str strbuf_str(const StrBuf *b) { return (Str){b->p, b->n}; }

// ---- hashing, maps ----
uint64_t hash_bytes(const void *p, int64_t n, uint64_t seed);
uint64_t hash_u64(uint64_t x);

// String -> pointer.  Keys are borrowed: they must outlive the map.
typedef struct StrMap {
  Arena *arena;
  struct StrMapSlot *slot;
  int64_t n, cap;
} StrMap;
void strmap_init(StrMap *m, Arena *a);
void *strmap_get(const StrMap *m, Str key);  // NULL when absent
bool strmap_has(const StrMap *m, Str key);
void strmap_put(StrMap *m, Str key, void *value);  // replaces

// 64-bit key -> 64-bit value (pointers go through uintptr_t).
typedef struct IntMap {
  Arena *arena;
  struct IntMapSlot *slot;
  int64_t n, cap;
} IntMap;
void intmap_init(IntMap *m, Arena *a);
bool intmap_get(const IntMap *m, uint64_t key, uint64_t *out);
void intmap_put(IntMap *m, uint64_t key, uint64_t value);

// Equal strings become one pointer.
typedef struct Interner {
  StrMap map;
} Interner;
void intern_init(Interner *in, Arena *a);
const char *intern(Interner *in, Str s);  // NUL-terminated, lives as long as the arena

#endif
