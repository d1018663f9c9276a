// budget.h -- what a compilation or a run may take: memory and processor time, and what took it.
//
// Every byte of mem_alloc is counted, for the process as a whole.  A ceiling belongs to a thread:
// while one is set, what would make the process hold more is refused, and mem_alloc returns NULL.
// So threads with ceilings of their own need no locks, and count what others hold.  Processor time
// is that of the thread which compiles, and of the processes that make code for it.
#ifndef TENON_BASE_BUDGET_H
#define TENON_BASE_BUDGET_H

#include "base/base.h"

int64_t mem_used(void);  // bytes that the process holds
// Sets the thread's ceiling and returns the one before; 0: none.
int64_t mem_ceiling(int64_t bytes);
int64_t mem_left(void);  // below the ceiling; INT64_MAX: there is none
// What the thread is working on, for messages: the name of a node or a kernel, which lives as long
// as it is set; NULL: nothing.
void budget_subject(const char *name);

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
// Where work failed for want of memory because of a ceiling: puts the node and the limit into the
// message.
void budget_explain(Diag *d);
// Takes the limits back, and explains; gives `s`.
tenon_status budget_end(Budget *b, tenon_status s, Diag *d);
// The limits of a thread, for others that do a part of its work.
typedef struct BudgetShare {
  int64_t ceiling, time_left, allowed;
  const char *subject;
} BudgetShare;
BudgetShare budget_share(void);
void budget_take(BudgetShare s);
// Raises ENOMEM, with the subject and the limit, once the processor time is spent.  Cheap enough
// for every node.
void budget_check(void);
void budget_spend(int64_t nanoseconds);  // by another process, for this process's work

#endif
