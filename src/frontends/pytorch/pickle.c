// pickle.c -- the restricted pickle machine (pytorch.h).
//
// A pickle may name any function and have it called; that is how it carries code.  This machine has
// opcodes that build containers, a list of names with a fixed meaning (names.c), and nothing else:
// a name that is not on the list ends the reading, and there is no other, laxer way in.  Values are
// in an arena; the stack and the memo hold pointers, so that the memory taken is in proportion to
// the pickle's bytes.
#include "frontends/pytorch/pickle.h"

#include <stdio.h>

enum { PROTOCOL_MAX = 5, LINE_MAX_BYTES = 65536 };

typedef struct Machine {
  PickleMachine m;  // what names may use
  const uint8_t *p;
  int64_t n, at, op_at;
  PickledVec stack;
  VEC(int64_t) marks;
  IntMap memo;
  int64_t memo_next;
} Machine;

tenon_status pickle_bad(PickleMachine *m, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  if (!m->status) {
    Where at = m->at;
    at.has_offset = true;
    at.offset = m->offset;
    m->status = failv(m->diag, TENON_EFORMAT, at, fmt, ap);
  }
  va_end(ap);
  return m->status;
}

Pickled *pickle_new(PickleMachine *m, PickleKind kind) {
  Pickled *v = arena_new(m->arena, Pickled);
  v->kind = kind;
  return v;
}

static void push(Machine *k, Pickled *v) { vec_push(k->m.arena, &k->stack, v); }

static int64_t floor_of(const Machine *k) { return k->marks.n ? k->marks.v[k->marks.n - 1] : 0; }

static Pickled *pop(Machine *k) {
  if (k->stack.n > floor_of(k)) return k->stack.v[--k->stack.n];
  pickle_bad(&k->m, "the stack is empty");
  return pickle_new(&k->m, PK_NONE);
}

static Pickled *top(Machine *k) {
  if (k->stack.n > floor_of(k)) return k->stack.v[k->stack.n - 1];
  pickle_bad(&k->m, "the stack is empty");
  return pickle_new(&k->m, PK_NONE);
}

// The items above the last mark, which goes away with them.
static PickledVec pop_mark(Machine *k) {
  PickledVec out = {0};
  if (!k->marks.n) {
    pickle_bad(&k->m, "there is no mark");
    return out;
  }
  int64_t from = k->marks.v[--k->marks.n];
  for (int64_t i = from; i < k->stack.n; i++) vec_push(k->m.arena, &out, k->stack.v[i]);
  k->stack.n = from;
  return out;
}

static uint64_t number(Machine *k, int bytes) {
  if (bytes > k->n - k->at) {
    pickle_bad(&k->m, "the pickle ends within an opcode");
    return 0;
  }
  uint64_t v = 0;
  for (int i = 0; i < bytes; i++) v |= (uint64_t)k->p[k->at + i] << (8 * i);
  k->at += bytes;
  return v;
}

static Str slice(Machine *k, uint64_t n) {
  if (k->m.status || n > (uint64_t)(k->n - k->at)) {
    pickle_bad(&k->m, "a string of %llu bytes, with %lld left", (unsigned long long)n,
               (long long)(k->n - k->at));
    return (Str){0};
  }
  Str s = {(const char *)k->p + k->at, (int64_t)n};
  k->at += (int64_t)n;
  return s;
}

static Str line(Machine *k) {
  int64_t left = MIN(k->n - k->at, LINE_MAX_BYTES);
  const uint8_t *from = k->p + k->at, *end = left ? memchr(from, '\n', (size_t)left) : NULL;
  if (!end) {
    pickle_bad(&k->m, "a line without an end");
    return (Str){0};
  }
  k->at += end - from + 1;
  return (Str){(const char *)from, end - from};
}

static void push_int(Machine *k, int64_t v, PickleKind kind) {
  Pickled *x = pickle_new(&k->m, kind);
  x->i = v;
  push(k, x);
}

static void push_str(Machine *k, Str s) {
  Pickled *x = pickle_new(&k->m, PK_STR);
  x->s = s;
  push(k, x);
}

static void push_items(Machine *k, PickleKind kind, PickledVec items) {
  Pickled *x = pickle_new(&k->m, kind);
  x->items = items;
  push(k, x);
}

static void push_long(Machine *k, uint64_t n) {
  Str s = slice(k, n);
  if (k->m.status) return;
  if (s.n > 8) {
    pickle_bad(&k->m, "an integer of %lld bytes", (long long)s.n);
    return;
  }
  uint64_t v = s.n && (s.p[s.n - 1] & 0x80) ? ~(uint64_t)0 : 0;
  for (int64_t i = s.n; i-- > 0;) v = v << 8 | (uint8_t)s.p[i];
  push_int(k, (int64_t)v, PK_INT);
}

static void push_line_int(Machine *k, bool is_long) {
  Str s = line(k);
  if (is_long && s.n && s.p[s.n - 1] == 'L') s.n--;
  int64_t v;
  if (!is_long && (str_is(s, "00") || str_is(s, "01"))) {
    push_int(k, s.p[1] == '1', PK_BOOL);
  } else if (!k->m.status && str_to_i64(s, &v)) {
    push_int(k, v, PK_INT);
  } else {
    pickle_bad(&k->m, "'%.*s' is no integer", STR_ARG(s));
  }
}

static void push_double(Machine *k) {
  uint64_t bits = 0;
  for (int i = 0; i < 8 && !k->m.status; i++) bits = bits << 8 | number(k, 1);
  Pickled *x = pickle_new(&k->m, PK_FLOAT);
  memcpy(&x->f, &bits, sizeof x->f);
  push(k, x);
}

static void put_memo(Machine *k, uint64_t index) {
  intmap_put(&k->memo, index, (uint64_t)(uintptr_t)top(k));
}

static void get_memo(Machine *k, uint64_t index) {
  uint64_t v;
  if (intmap_get(&k->memo, index, &v))
    push(k, (Pickled *)(uintptr_t)v);
  else
    pickle_bad(&k->m, "nothing was kept as number %llu", (unsigned long long)index);
}

static void append_to(Machine *k, PickleKind kind, PickledVec items) {
  Pickled *to = top(k);
  bool pairs = kind == PK_DICT;
  if (k->m.status) return;
  if (to->kind != kind || (pairs && items.n % 2)) {
    pickle_bad(&k->m, pairs ? "items for what is no dictionary" : "items for what is no list");
    return;
  }
  for (int64_t i = 0; i < items.n; i++) vec_push(k->m.arena, &to->items, items.v[i]);
}

static void append_popped(Machine *k, PickleKind kind, int n) {
  PickledVec items = {0};
  Pickled *second = n > 1 ? pop(k) : NULL, *first = pop(k);
  vec_push(k->m.arena, &items, first);
  if (second) vec_push(k->m.arena, &items, second);
  append_to(k, kind, items);
}

static void tuple_of(Machine *k, int n) {
  PickledVec items = {0};
  Pickled *v[3] = {0};
  for (int i = n; i-- > 0;) v[i] = pop(k);
  for (int i = 0; i < n; i++) vec_push(k->m.arena, &items, v[i]);
  push_items(k, PK_TUPLE, items);
}

static void push_global(Machine *k, Str module, Str name) {
  if (!k->m.status) push(k, pickle_name(&k->m, module, name));
}

static void stack_global(Machine *k) {
  Pickled *name = pop(k), *module = pop(k);
  if (name->kind != PK_STR || module->kind != PK_STR)
    pickle_bad(&k->m, "a name that is no text");
  else
    push_global(k, module->s, name->s);
}

static void reduce(Machine *k, bool new_object) {
  Pickled *args = pop(k), *fn = pop(k);
  if (k->m.status) return;
  if (fn->kind != PK_GLOBAL || args->kind != PK_TUPLE)
    pickle_bad(&k->m, "a call of what is no listed name");
  else
    push(k, pickle_apply(&k->m, fn, args, new_object));
}

static void build(Machine *k) {
  Pickled *state = pop(k), *to = top(k);
  if (k->m.status) return;
  if (to->kind == PK_OBJECT && !to->state)
    to->state = state;
  else if (to->kind != PK_DICT &&
           to->kind != PK_TENSOR)  // attributes of these say nothing about data
    pickle_bad(&k->m, "a state for what has none");
}

static void step_text(Machine *k, uint8_t op) {
  switch (op) {
  case 'X':
  case 'T':
  case 'B': push_str(k, slice(k, number(k, 4))); break;
  case 'U':
  case 'C':
  case 0x8c: push_str(k, slice(k, number(k, 1))); break;
  case 0x8d:
  case 0x8e: push_str(k, slice(k, number(k, 8))); break;
  case 'V':
  case 'S': push_str(k, line(k)); break;
  case 'c': {
    Str module = line(k), name = line(k);
    push_global(k, module, name);
    break;
  }
  case 0x93: stack_global(k); break;
  default: pickle_bad(&k->m, "the opcode 0x%02x, which is not known", op); break;
  }
}

static void step_number(Machine *k, uint8_t op) {
  switch (op) {
  case 'N': push(k, pickle_new(&k->m, PK_NONE)); break;
  case 0x88: push_int(k, 1, PK_BOOL); break;
  case 0x89: push_int(k, 0, PK_BOOL); break;
  case 'J': push_int(k, (int32_t)number(k, 4), PK_INT); break;
  case 'K': push_int(k, (int64_t)number(k, 1), PK_INT); break;
  case 'M': push_int(k, (int64_t)number(k, 2), PK_INT); break;
  case 0x8a: push_long(k, number(k, 1)); break;
  case 0x8b: push_long(k, number(k, 4)); break;
  case 'I': push_line_int(k, false); break;
  case 'L': push_line_int(k, true); break;
  case 'G': push_double(k); break;
  case 'q': put_memo(k, number(k, 1)); break;
  case 'r': put_memo(k, number(k, 4)); break;
  case 0x94: put_memo(k, (uint64_t)k->memo_next++); break;
  case 'h': get_memo(k, number(k, 1)); break;
  case 'j': get_memo(k, number(k, 4)); break;
  default: step_text(k, op); break;
  }
}

static void step(Machine *k, uint8_t op) {
  PickledVec none = {0};
  switch (op) {
  case 0x80:
    if (number(k, 1) > PROTOCOL_MAX) pickle_bad(&k->m, "a protocol above %d", PROTOCOL_MAX);
    break;
  case 0x95: number(k, 8); break;  // a frame: only a hint for buffers
  case '(': vec_push(k->m.arena, &k->marks, k->stack.n); break;
  case '0':
  case '1':
    if (op == '0' && k->stack.n > floor_of(k))
      pop(k);
    else
      pop_mark(k);
    break;
  case '2': push(k, top(k)); break;
  case ')': push_items(k, PK_TUPLE, none); break;
  case 't': push_items(k, PK_TUPLE, pop_mark(k)); break;
  case 0x85: tuple_of(k, 1); break;
  case 0x86: tuple_of(k, 2); break;
  case 0x87: tuple_of(k, 3); break;
  case ']':
  case 0x8f: push_items(k, PK_LIST, none); break;
  case 'l':
  case 0x91: push_items(k, PK_LIST, pop_mark(k)); break;
  case 'a': append_popped(k, PK_LIST, 1); break;
  case 'e':
  case 0x90: append_to(k, PK_LIST, pop_mark(k)); break;
  case '}': push_items(k, PK_DICT, none); break;
  case 'd': push_items(k, PK_DICT, none), append_to(k, PK_DICT, none); break;
  case 's': append_popped(k, PK_DICT, 2); break;
  case 'u': append_to(k, PK_DICT, pop_mark(k)); break;
  case 'Q': push(k, pickle_persistent(&k->m, pop(k))); break;
  case 'R': reduce(k, false); break;
  case 0x81: reduce(k, true); break;
  case 'b': build(k); break;
  default: step_number(k, op); break;
  }
}

tenon_status pickle_read(const Pickle *p, Str bytes, int64_t *used, Pickled **out) {
  Machine *k = arena_new(p->arena, Machine);
  k->m = (PickleMachine){.arena = p->arena, .diag = p->diag, .at = p->at, .code = p->code};
  k->p = (const uint8_t *)bytes.p;
  k->n = bytes.n;
  intmap_init(&k->memo, p->arena);
  for (;;) {
    k->m.offset = k->at;
    if (k->at == k->n) return pickle_bad(&k->m, "the pickle has no end");
    uint8_t op = k->p[k->at++];
    if (op == '.') break;
    step(k, op);
    if (k->m.status) return k->m.status;
  }
  if (k->marks.n || k->stack.n != 1) return pickle_bad(&k->m, "the pickle ends with a full stack");
  if (used) *used = k->at;
  *out = k->stack.v[0];
  return TENON_OK;
}

const Pickled *pickle_get(const Pickled *v, const char *key) {
  if (v && v->kind == PK_OBJECT) v = v->state;
  if (!v || v->kind != PK_DICT) return NULL;
  for (int64_t i = 0; i + 1 < v->items.n; i += 2)
    if (v->items.v[i]->kind == PK_STR && str_is(v->items.v[i]->s, key)) return v->items.v[i + 1];
  return NULL;
}
