// template_run.c -- statements of chat templates, macros, loops, and the entry of rendering.
//
// Variables live in slots of an activation, one for each call of what jinja2 compiles to a Python
// function (template_scope.c).  A macro sees the variables around its definition as they are when
// it is called.
//
// Guarantees: steps, output, memory and nesting stay within their limits; the template itself is
// not changed, so that threads share it.
#include "text/template_impl.h"

// ---- variables ----

static Act *act_new(Tpl *x, int nslots, Act *outer) {
  Act *act = tpl_new(x, Act);
  act->slot = tpl_array(x, Value, nslots);  // zeroed: V_MISSING
  act->outer = outer;
  return act;
}

static Value resolve(Tpl *x, Str name) {
  const Value *v = dict_get_str(x, x->exported, name);
  if (!v) v = dict_get_str(x, x->given, name);
  return v ? *v : fn_global(name);
}

void tpl_load(Tpl *x, Act *act, const Scope *s) {
  for (int64_t i = 0; i < s->n; i++) {
    const Load *l = &s->load[i];
    switch (l->kind) {
    case LOAD_PARAM: break;
    case LOAD_RESOLVE: act->slot[l->to] = resolve(x, l->name); break;
    case LOAD_ALIAS: act->slot[l->to] = *tpl_slot(act, l->from, l->up); break;
    case LOAD_UNDEF: act->slot[l->to] = v_missing(); break;
    }
  }
}

static void unload(Act *act, const Scope *s) {
  for (int64_t i = 0; i < s->n; i++) act->slot[s->load[i].to] = v_missing();
}

static void store_tuple(Tpl *x, Act *act, const TplNode *target, Value v) {
  int64_t n = target->v.n, got = 0;
  Iter *it = iter_of(x, v);
  Value *item = tpl_array(x, Value, n);
  for (Value one; iter_next(x, it, &one); item[got++] = one)
    if (got == n) tpl_fail(x, "too many values for %lld names", (long long)n);
  if (got < n) tpl_fail(x, "%lld values for %lld names", (long long)got, (long long)n);
  for (int64_t i = 0; i < n; i++) tpl_store(x, act, target->v.v[i], item[i]);
}

void tpl_store(Tpl *x, Act *act, const TplNode *target, Value v) {
  if (target->kind == N_TUPLE) {
    store_tuple(x, act, target, v);
    return;
  }
  Value *slot = tpl_slot(act, target->slot, target->up);
  if (target->kind == N_NSREF) {
    if (slot->kind != V_NS) tpl_fail(x, "an attribute can be set of a namespace only");
    dict_put(x, slot->d, v_str(x, target->attr), v);
    return;
  }
  *slot = v;
  if (target->flag) dict_put(x, x->exported, v_str(x, target->name), v);
}

// A namespace must be one before its value is computed.
static void check_namespaces(Tpl *x, Act *act, const TplNode *target) {
  if (target->kind == N_TUPLE)
    for (int64_t i = 0; i < target->v.n; i++) check_namespaces(x, act, target->v.v[i]);
  if (target->kind == N_NSREF && tpl_slot(act, target->slot, target->up)->kind != V_NS)
    tpl_fail(x, "an attribute can be set of a namespace only");
}

// ---- the variable `loop` ----

static Value loop_peek(Tpl *x, LoopVar *l) {
  if (l->after.kind == V_MISSING && !iter_next(x, l->it, &l->after)) l->after = v_missing();
  return l->after;
}

int64_t loop_length(Tpl *x, LoopVar *l) {
  if (l->length >= 0) return l->length;
  l->length = v_len(x, l->iterable);
  if (l->length >= 0) return l->length;
  Value rest = iter_rest(x, l->it);
  l->it = iter_of(x, rest);
  l->length = rest.l->n + l->index0 + 1 + (l->after.kind != V_MISSING);
  return l->length;
}

static Value loop_cycle(Tpl *x, Value self, const Args *args) {
  if (!args->npos || args->nkw) tpl_fail(x, "loop.cycle needs items");
  return args->pos[self.loop->index0 % args->npos];
}

static Value loop_changed(Tpl *x, Value self, const Args *args) {
  LoopVar *l = self.loop;
  if (args->nkw) tpl_fail(x, "loop.changed takes no names");
  Value *v = tpl_array(x, Value, args->npos);
  if (args->npos) memcpy(v, args->pos, (size_t)args->npos * sizeof *v);
  Value now = v_items(x, V_TUPLE, v, args->npos);
  bool changed =
      !l->last_changed || !v_equal(x, (Value){.kind = V_TUPLE, .l = l->last_changed}, now);
  l->last_changed = now.l;
  return v_bool(changed);
}

static const FnRow loop_method[] = {
    {"cycle", "*", 0, NULL, loop_cycle},
    {"changed", "*", 0, NULL, loop_changed},
};

Value loop_attr(Tpl *x, LoopVar *l, Str name) {
  if (str_is(name, "index0")) return v_int(l->index0);
  if (str_is(name, "index")) return v_int(l->index0 + 1);
  if (str_is(name, "first")) return v_bool(l->index0 == 0);
  if (str_is(name, "last")) return v_bool(loop_peek(x, l).kind == V_MISSING);
  if (str_is(name, "length")) return v_int(loop_length(x, l));
  if (str_is(name, "revindex")) return v_int(loop_length(x, l) - l->index0);
  if (str_is(name, "revindex0")) return v_int(loop_length(x, l) - l->index0 - 1);
  if (str_is(name, "depth")) return v_int(1);
  if (str_is(name, "depth0")) return v_int(0);
  if (str_is(name, "previtem"))
    return l->index0 == 0 ? v_undef(x, "there is no previous item") : l->before;
  if (str_is(name, "nextitem")) {
    Value v = loop_peek(x, l);
    return v.kind == V_MISSING ? v_undef(x, "there is no next item") : v;
  }
  const FnRow *row = fn_find(loop_method, ARRAY_LEN(loop_method), name);
  if (!row) return v_missing();
  Method *m = tpl_new(x, Method);
  *m = (Method){{.kind = V_LOOP, .loop = l}, row};
  return (Value){.kind = V_METHOD, .method = m};
}

static bool loop_next(Tpl *x, LoopVar *l, Value *out) {
  if (l->after.kind != V_MISSING) {
    *out = l->after;
    l->after = v_missing();
  } else if (!iter_next(x, l->it, out)) {
    return false;
  }
  l->index0++;
  l->before = l->current;
  l->current = *out;
  return true;
}

// ---- loops ----

// `for x in y if c`: the filter is a function that yields what passes.
bool loop_filter_next(Tpl *x, Iter *it, Value *out) {
  const TplNode *n = it->loop;
  if (!it->started) {
    it->started = true;
    it->from = iter_of(x, it->source);
    tpl_load(x, it->act, &n->filter);
  }
  while (iter_next(x, it->from, out)) {
    tpl_store(x, it->act, n->d, *out);
    if (v_true(x, tpl_eval(x, it->act, n->c))) return true;
  }
  return false;
}

static Value loop_source(Tpl *x, Act *act, const TplNode *n) {
  Value v = tpl_eval(x, act, n->b);
  if (!n->c) return v;
  Iter *it = tpl_new(x, Iter);
  it->kind = ITER_LOOP_FILTER;
  it->source = v;
  it->loop = n;
  it->act = act_new(x, n->nfilter, act);
  return v_iter(it);
}

static Flow exec_for(Tpl *x, Act *act, const TplNode *n) {
  LoopVar *l = tpl_new(x, LoopVar);
  bool other = true;
  Value source = loop_source(x, act, n);
  x->line = n->line;
  *l = (LoopVar){.it = iter_of(x, source), .iterable = source, .index0 = -1, .length = -1};
  for (Value item; n->flag ? loop_next(x, l, &item) : iter_next(x, l->it, &item);) {
    tpl_spend(x, 1);
    if (n->flag) act->slot[n->slot] = (Value){.kind = V_LOOP, .loop = l};
    tpl_store(x, act, n->a, item);
    tpl_load(x, act, &n->scope);
    Flow flow = tpl_exec(x, act, &n->v);
    if (flow == FLOW_BREAK) break;
    if (flow == FLOW_ON) other = false;
    x->line = n->line;
  }
  unload(act, &n->scope);
  if (!other || !n->w.n) return FLOW_ON;
  tpl_load(x, act, &n->other);
  Flow flow = tpl_exec(x, act, &n->w);
  unload(act, &n->other);
  return flow;
}

// ---- macros ----

// The value of a parameter given by name; it is taken out of `left`.
static Value take_keyword(const Args *args, bool *taken, Str name) {
  for (int64_t i = 0; i < args->nkw; i++) {
    if (taken[i] || !str_eq(args->name[i], name)) continue;
    taken[i] = true;
    return args->kw[i];
  }
  return v_missing();
}

static void rest_keywords(Tpl *x, const TplNode *n, Act *act, const Args *args, const bool *taken) {
  Dict *rest = n->kwargs ? dict_new(x) : NULL;
  for (int64_t i = 0; i < args->nkw; i++) {
    if (taken[i]) continue;
    if (!rest)
      tpl_fail(x, "the macro '%.*s' takes no argument '%.*s'", STR_ARG(n->name),
               STR_ARG(args->name[i]));
    dict_put(x, rest, v_str(x, args->name[i]), args->kw[i]);
  }
  if (rest) act->slot[n->kwargs_slot] = v_dict(rest);
}

static void rest_positions(Tpl *x, const TplNode *n, Act *act, const Args *args) {
  int64_t more = args->npos - n->w.n;
  if (!n->varargs) {
    if (more > 0)
      tpl_fail(x, "the macro '%.*s' takes at most %lld arguments", STR_ARG(n->name),
               (long long)n->w.n);
    return;
  }
  Value *v = tpl_array(x, Value, MAX(more, 0));
  if (more > 0) memcpy(v, args->pos + n->w.n, (size_t)more * sizeof *v);
  act->slot[n->varargs_slot] = v_items(x, V_TUPLE, v, MAX(more, 0));
}

static void bind_macro(Tpl *x, const TplNode *n, Act *act, const Args *args) {
  bool *taken = tpl_array(x, bool, args->nkw);
  for (int64_t i = 0; i < n->w.n; i++)
    act->slot[n->w.v[i]->slot] =
        i < args->npos ? args->pos[i] : take_keyword(args, taken, n->w.v[i]->name);
  if (n->caller && n->caller_slot >= 0) {
    Value caller = take_keyword(args, taken, STR("caller"));
    if (caller.kind == V_MISSING || caller.kind == V_NONE) caller = v_undef(x, "no caller defined");
    act->slot[n->caller_slot] = caller;
  }
  rest_keywords(x, n, act, args, taken);
  rest_positions(x, n, act, args);
}

static void bind_defaults(Tpl *x, const TplNode *n, Act *act) {
  for (int64_t i = 0; i < n->w.n; i++) {
    Value *slot = &act->slot[n->w.v[i]->slot];
    int64_t dflt = i - (n->w.n - n->u.n);
    if (slot->kind != V_MISSING) continue;
    if (dflt >= 0)
      *slot = tpl_eval(x, act, n->u.v[dflt]);
    else
      *slot = v_undef(x, str_printf(x->arena, "the parameter '%.*s' was not provided",
                                    STR_ARG(n->w.v[i]->name)));
  }
}

Value macro_call(Tpl *x, const Macro *m, const Args *args) {
  const TplNode *n = m->node;
  Act *act = act_new(x, n->nslots, m->outer);
  Buf body = {0}, *out = x->out;
  tpl_enter(x);
  bind_macro(x, n, act, args);
  tpl_load(x, act, &n->scope);
  bind_defaults(x, n, act);
  x->out = &body;
  (void)tpl_exec(x, act, &n->v);
  x->out = out;
  tpl_leave(x);
  return buf_value(x, &body);
}

static Value make_macro(Tpl *x, Act *act, const TplNode *n) {
  Macro *m = tpl_new(x, Macro);
  *m = (Macro){n, act};
  return (Value){.kind = V_MACRO, .macro = m};
}

static void exec_macro(Tpl *x, Act *act, const TplNode *n) {
  Value v = make_macro(x, act, n);
  *tpl_slot(act, n->slot, n->up) = v;
  if (n->flag) dict_put(x, x->exported, v_str(x, n->name), v);
}

static void exec_call(Tpl *x, Act *act, const TplNode *n) {
  Value caller = make_macro(x, act, n);
  if (n->a)
    put_str(x, x->out, tpl_call_node(x, act, n->a, &caller));
  else
    put_str(x, x->out, macro_call(x, caller.macro, &(Args){0}));
}

// ---- other statements ----

static Flow exec_if(Tpl *x, Act *act, const TplNode *n) {
  if (v_true(x, tpl_eval(x, act, n->a))) return tpl_exec(x, act, &n->v);
  for (int64_t i = 0; i < n->u.n; i++)
    if (v_true(x, tpl_eval(x, act, n->u.v[i]->a))) return tpl_exec(x, act, &n->u.v[i]->v);
  return tpl_exec(x, act, &n->w);
}

// Filters of a block from the innermost on; the first one's value is the text of the block.
static Value block_filters(Tpl *x, Act *act, const TplNode *n, Value text) {
  if (!n) return text;
  tpl_enter(x);
  Value v = tpl_filter(x, act, n, block_filters(x, act, n->a, text));
  tpl_leave(x);
  return v;
}

static Flow exec_block(Tpl *x, Act *act, const TplNode *n) {
  Buf body = {0}, *out = x->out;
  bool set = n->kind == N_SETBLOCK;
  tpl_load(x, act, &n->scope);
  x->out = &body;
  Flow flow = tpl_exec(x, act, &n->v);
  x->out = out;
  if (flow != FLOW_ON) return flow;
  Value v = block_filters(x, act, set ? n->b : n->a, buf_value(x, &body));
  if (set)
    tpl_store(x, act, n->a, v);
  else
    put_str(x, out, v);
  unload(act, &n->scope);
  return FLOW_ON;
}

static Flow exec_with(Tpl *x, Act *act, const TplNode *n) {
  tpl_load(x, act, &n->scope);
  for (int64_t i = 0; i < n->w.n; i++) tpl_store(x, act, n->w.v[i], tpl_eval(x, act, n->u.v[i]));
  Flow flow = tpl_exec(x, act, &n->v);
  if (flow == FLOW_ON) unload(act, &n->scope);
  return flow;
}

static void exec_output(Tpl *x, Act *act, const TplNode *n) {
  for (int64_t i = 0; i < n->v.n; i++) {
    Value v = tpl_eval(x, act, n->v.v[i]);
    x->line = n->v.v[i]->line;
    put_str(x, x->out, v);
  }
}

static void exec_set(Tpl *x, Act *act, const TplNode *n) {
  check_namespaces(x, act, n->a);
  Value v = tpl_eval(x, act, n->b);
  x->line = n->line;
  tpl_store(x, act, n->a, v);
}

static Flow exec_node(Tpl *x, Act *act, const TplNode *n) {
  switch ((NodeKind)n->kind) {
  case N_OUTPUT: exec_output(x, act, n); return FLOW_ON;
  case N_FOR: return exec_for(x, act, n);
  case N_IF: return exec_if(x, act, n);
  case N_SET: exec_set(x, act, n); return FLOW_ON;
  case N_SETBLOCK:
  case N_FILTERBLOCK: return exec_block(x, act, n);
  case N_MACRO: exec_macro(x, act, n); return FLOW_ON;
  case N_CALLBLOCK: exec_call(x, act, n); return FLOW_ON;
  case N_WITH: return exec_with(x, act, n);
  case N_BREAK: return FLOW_BREAK;
  case N_CONTINUE: return FLOW_CONTINUE;
  default: CHECK(false, "an expression as a statement"); return FLOW_ON;
  }
}

Flow tpl_exec(Tpl *x, Act *act, const NodeList *body) {
  Flow flow = FLOW_ON;
  tpl_enter(x);
  for (int64_t i = 0; i < body->n && flow == FLOW_ON; i++) {
    tpl_spend(x, 1);
    x->line = body->v[i]->line;
    flow = exec_node(x, act, body->v[i]);
  }
  tpl_leave(x);
  return flow;
}

// ---- the entry ----

static void give(Tpl *x, const char *name, const Json *j) {
  dict_put(x, x->given, v_cstr(x, name), j ? v_from_json(x, j) : v_none());
}

static Str render(Tpl *x, const ChatTemplate *t, const TemplateInput *in) {
  Buf out = {0};
  x->exported = dict_new(x);
  x->given = dict_new(x);
  if (in->messages) give(x, "messages", in->messages);
  give(x, "tools", in->tools);
  give(x, "documents", NULL);
  if (in->extra && in->extra->kind != JSON_OBJECT) tpl_fail(x, "the variables are not an object");
  for (int64_t i = 0; in->extra && i < in->extra->n; i++)
    dict_put(x, x->given, v_str(x, in->extra->key[i]), v_from_json(x, &in->extra->item[i]));
  Act *act = act_new(x, t->nslots, NULL);
  x->out = &out;
  tpl_load(x, act, &t->scope);
  (void)tpl_exec(x, act, &t->body);
  return (Str){out.n ? out.p : "", out.n};
}

static int64_t limit_of(int64_t given, int64_t dflt) { return given > 0 ? given : dflt; }

tenon_status template_render(const ChatTemplate *t, const TemplateInput *in, Arena *a, Diag *d,
                             TemplateResult *out) {
  Trap trap;
  Diag *inner = arena_new(a, Diag);
  Tpl *x = arena_new(a, Tpl);
  *out = (TemplateResult){0};
  diag_init(inner);
  *x = (Tpl){.arena = a,
             .steps = limit_of(in->limits.steps, (int64_t)LIMIT_TEMPLATE_MEGA_STEPS * 1000000),
             .most_output =
                 limit_of(in->limits.output_bytes, (int64_t)LIMIT_TEMPLATE_OUTPUT_MIB << 20),
             .memory = limit_of(in->limits.memory_bytes, (int64_t)LIMIT_TEMPLATE_MIB << 20),
             .now = in->now,
             .line = 1};
  trap_enter(&trap, inner);
  if (setjmp(trap.env) == 0) out->text = render(x, t, in);
  trap_leave(&trap);
  if (!trap.status) return TENON_OK;
  out->text = (Str){0};
  out->line = x->line;
  out->end = x->message ? x->end : trap.status == TENON_ENOMEM ? TEMPLATE_LIMIT : TEMPLATE_BROKEN;
  out->message = str_of(x->message ? x->message : str_copy(a, str_of(inner->text)));
  if (!x->message) return diag_again(d, trap.status, inner->text);
  return fail(d, x->status, (Where){.file = t->name, .line = x->line}, "%s%s",
              x->end == TEMPLATE_REFUSED ? "the template refuses these messages: " : "",
              x->message);
}
