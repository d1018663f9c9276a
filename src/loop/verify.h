// verify.h -- what the files of the verifier share.
#ifndef TENON_LOOP_VERIFY_H
#define TENON_LOOP_VERIFY_H

#include "loop/impl.h"
#include "loop/prove.h"

// ---- digits (digits.c) ---- A loop variable that floor divisions and remainders split is written
// as a sum of digits, each a symbol of its own: i = n*(H*W) + h*W + w.  Expressions over digits are
// polynomials, which proofs need.
enum { DIGITS_MAX = 8 };
typedef struct Digits {
  Dim sym, extent;        // of the variable
  int n;                  // 1: the variable is its own digit
  Dim unit[DIGITS_MAX];   // what one of a digit counts: 1, W, H*W
  Dim digit[DIGITS_MAX];  // symbols; 0 where the extent is 1
  Dim size[DIGITS_MAX];   // their extents
} Digits;
typedef struct DigitMap {
  Dim items;  // extent of the parallel loop
  IntPool *pool;
  Arena *arena;
  VEC(Digits) var;
  IntMap of;    // slot -> position + 1
  IntMap seen;  // id -> collected
  IntMap done;  // id -> rewritten
} DigitMap;
void digits_init(DigitMap *m, IntPool *pool, Arena *a);
void digits_var(DigitMap *m, Dim sym, Dim extent);  // before what uses it
void digits_collect(DigitMap *m, Dim e);            // notes how the variables are split
void digits_settle(DigitMap *m);                    // makes the symbols; all was collected
Dim digits_apply(DigitMap *m, Dim e);               // over digits
const Digits *digits_of(const DigitMap *m, Dim sym);

// ---- the verifier (verify.c) ----
// Proofs are tried twice: over the variables as they are, and over their digits.
typedef enum { AS_WRITTEN, AS_DIGITS, NFORMS } Form;
typedef struct Claim {  // how a digit of the work item is read off the elements of a buffer
  int n;
  Dim part[24];
} Claim;
enum { CLAIMS_MAX = 8 };
typedef struct Claims {
  int n;
  Claim v[CLAIMS_MAX];
} Claims;
typedef struct Disjoint {  // of one buffer, in one form
  bool seen, lost;         // lost: the form shows nothing for this buffer
  Claims claims[DIGITS_MAX];
} Disjoint;

typedef struct Verifier {
  const LoopKernel *k;
  Diag *d;
  Arena *arena;
  IntPool *pool;
  Prover p[NFORMS];
  DigitMap digits;
  IntMap sym;                  // slot -> 1: defined; or the guard that it is
  IntMap loop;                 // slot -> kind of the loop
  bool *defined, *live;        // by variable
  VEC(int32_t) vars;           // live ones, in order of definition
  const LoopStmt *stmt;        // the one that is looked at
  const Digits *item;          // of the parallel loop
  Disjoint *disjoint;          // by buffer and form
  int64_t threads;             // of a thread block; 0: there are none
  Dim thread;                  // the variable of the thread loop around; NULL: none
  int64_t outside[NFORMS];     // symbols that were opened before the thread loop around
  bool *stored;                // by buffer: the thread loop stores to it
  Disjoint *threads_disjoint;  // as `disjoint`, in one thread loop
  IntMap checked;              // node -> statement: was looked at
  uint64_t nstmts;
  int depth, nesting, vectors, reduces;
  bool parallel;
} Verifier;
tenon_status verify_fail(Verifier *v, const char *fmt, ...) PRINTF(2, 3);
const char *verify_text(Verifier *v, Dim e);

// ---- races (verify_race.c) ---- One access to memory that several write, its guards in scope; the
// index in each form.  Work items are disjoint in results, threads in whatever their loop stores
// to.
MUST_USE tenon_status verify_race(Verifier *v, int32_t buffer, const Dim *index, const char *what);

#endif
