// foreign.c -- operators of the user's own, in a run that knows them.
#include "eval/foreign.h"

tenon_status eval_foreign(Eval *e) {
  const foreign_attrs *at = e->attrs;
  if (!e->run->foreign)
    return eval_fail(e, TENON_EUNSUPPORTED, "nobody says what operator %.*s does", STR_ARG(at->op));
  return e->run->foreign(e->run->foreign_ctx, e);
}
