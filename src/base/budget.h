// budget.h -- what a compilation or a run may take: memory and processor time, and what took it.
//
// Every block of mem_alloc is counted, with what the allocator adds to it (mem_taken), for the
// process as a whole.  A ceiling belongs to a thread: while one is set, what would make the process
// hold more is refused, and mem_alloc returns NULL.  So threads with ceilings of their own need no
// locks, and count what others hold.  Processor time is that of the thread which compiles, and of
// the processes that make code for it.
#ifndef TENON_BASE_BUDGET_H
#define TENON_BASE_BUDGET_H

#include "base/base.h"

int64_t mem_used(void);  // bytes that the process holds
// What a block of so many bytes takes: the allocator's own words and what aligning leaves unused.
int64_t mem_taken(int64_t bytes);
// Sets the thread's ceiling and returns the one before; 0: none.
int64_t mem_ceiling(int64_t bytes);
int64_t mem_left(void);  // below the ceiling; INT64_MAX: there is none
// The limit because of which mem_alloc refused memory since the last call; 0: it did not.  For the
// message of the failure (failv).
int64_t budget_refused(void);

typedef struct Budget {
  int64_t was_ceiling, was_limit, was_until, seconds, fold_bytes, fold_ops;  // that held before
} Budget;
// A limit for the work up to budget_end, within those that hold already, of a model whose weights
// have so many bytes.
void budget_begin(Budget *b, int64_t bytes, int64_t seconds, int64_t weights);
// What folding may still take of its sums over the work (LIMIT_FOLD_MIB, LIMIT_FOLD_MEGA_OPS), and
// what it took.
void budget_fold_left(int64_t *out_bytes, int64_t *out_ops);
void budget_fold(int64_t bytes, int64_t ops);
void budget_end(Budget *b);  // takes the limits back
// The limits of a thread and what it is at work on, for others that do a part of its work.
typedef struct BudgetShare {
  int64_t ceiling, limit, time_left, allowed;
  AtWork work;
} BudgetShare;
BudgetShare budget_share(void);
void budget_take(BudgetShare s);
// Raises ENOMEM, with the node at work and the limit, once the processor time is spent.  Cheap
// enough for every node.
void budget_check(void);
void budget_spend(int64_t nanoseconds);  // by another process, for this process's work

#endif
