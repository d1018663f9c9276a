// onnx_mutate.h -- mutations of ONNX files that keep the wire format sound.
//
// A file is parsed into a tree of fields along the schema below, one field is changed, and the tree
// is written again, so that lengths stay right: numbers become interesting ones, names become those
// of other values, of operators or of attributes, and whole messages are doubled, dropped or
// moved.  Every other time, and where a file cannot be parsed, the bytes are changed as they are.
#ifndef TENON_TESTS_ONNX_MUTATE_H
#define TENON_TESTS_ONNX_MUTATE_H

#include "ir/opinfo.h"

#include <stdlib.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);

typedef enum {
  M_LEAF,
  M_MODEL,
  M_GRAPH,
  M_NODE,
  M_ATTR,
  M_TENSOR,
  M_SPARSE,
  M_VALUE,
  M_TYPE,
  M_TENSOR_TYPE,
  M_OF_TYPE,  // sequence, optional
  M_MAP_TYPE,
  M_SHAPE,
  M_DIM,
  M_OPSET,
  M_FUNCTION,
} Message;
static const struct {
  uint8_t in, field, is;
} mutate_schema[] = {
    {M_MODEL, 7, M_GRAPH},       {M_MODEL, 8, M_OPSET},    {M_MODEL, 25, M_FUNCTION},
    {M_GRAPH, 1, M_NODE},        {M_GRAPH, 5, M_TENSOR},   {M_GRAPH, 11, M_VALUE},
    {M_GRAPH, 12, M_VALUE},      {M_GRAPH, 13, M_VALUE},   {M_GRAPH, 15, M_SPARSE},
    {M_SPARSE, 1, M_TENSOR},     {M_SPARSE, 2, M_TENSOR},  {M_NODE, 5, M_ATTR},
    {M_ATTR, 5, M_TENSOR},       {M_ATTR, 6, M_GRAPH},     {M_ATTR, 10, M_TENSOR},
    {M_ATTR, 11, M_GRAPH},       {M_ATTR, 14, M_TYPE},     {M_VALUE, 2, M_TYPE},
    {M_TYPE, 1, M_TENSOR_TYPE},  {M_TYPE, 4, M_OF_TYPE},   {M_TYPE, 5, M_MAP_TYPE},
    {M_TYPE, 9, M_OF_TYPE},      {M_OF_TYPE, 1, M_TYPE},   {M_MAP_TYPE, 2, M_TYPE},
    {M_TENSOR_TYPE, 2, M_SHAPE}, {M_SHAPE, 1, M_DIM},      {M_FUNCTION, 7, M_NODE},
    {M_FUNCTION, 9, M_OPSET},    {M_FUNCTION, 11, M_ATTR},
};

enum { MUTATE_FIELDS = 1 << 14, MUTATE_DEPTH = 24 };
typedef struct Field {
  int32_t next, child;  // siblings; first of a message; -1 = none
  uint32_t number, wire;
  Message in, is;
  uint64_t value;  // varint and fixed
  const uint8_t *p;
  size_t n;  // bytes of a leaf
} Field;
static Field field[MUTATE_FIELDS];
static int32_t nfields;
static uint32_t mutate_seed;

static uint32_t mutate_random(uint32_t n) {
  mutate_seed = mutate_seed * 1664525u + 1013904223u;
  return n ? (mutate_seed >> 8) % n : 0;
}

// ---- apart ----

static bool take_varint(const uint8_t **p, const uint8_t *end, uint64_t *out) {
  *out = 0;
  for (int shift = 0; shift < 70 && *p < end; shift += 7) {
    uint8_t b = *(*p)++;
    if (shift < 64) *out |= (uint64_t)(b & 127) << shift;
    if (b < 128) return true;
  }
  return false;
}

static Message message_of(Message in, uint32_t number) {
  for (size_t i = 0; i < sizeof mutate_schema / sizeof *mutate_schema; i++)
    if (mutate_schema[i].in == in && mutate_schema[i].field == number)
      return (Message)mutate_schema[i].is;
  return M_LEAF;
}

// The fields of a message as a list; false: not sound.
static bool take_apart(const uint8_t *p, const uint8_t *end, Message in, int depth,
                       int32_t *first) {
  *first = -1;
  while (p < end) {
    uint64_t key, n;
    if (nfields == MUTATE_FIELDS || !take_varint(&p, end, &key)) return false;
    int32_t at = nfields++;
    Field *f = &field[at];
    *f =
        (Field){.next = -1, .child = -1, .number = (uint32_t)(key >> 3), .wire = key & 7, .in = in};
    *first = *first < 0 ? at : *first;
    if (f->wire == 0) {
      if (!take_varint(&p, end, &f->value)) return false;
    } else if (f->wire == 1 || f->wire == 5) {
      size_t size = f->wire == 1 ? 8 : 4;
      if ((size_t)(end - p) < size) return false;
      memcpy(&f->value, p, size);
      p += size;
    } else if (f->wire == 2) {
      if (!take_varint(&p, end, &n) || n > (uint64_t)(end - p)) return false;
      f->p = p;
      f->n = (size_t)n;
      f->is = message_of(in, f->number);
      p += n;
      if (f->is && (depth == MUTATE_DEPTH || !take_apart(f->p, p, f->is, depth + 1, &f->child)))
        return false;
      f = &field[at];
    } else {
      return false;
    }
    if (p < end) f->next = nfields;
  }
  return true;
}

// ---- together ----

static size_t varint_size(uint64_t v) {
  size_t n = 1;
  while (v >>= 7) n++;
  return n;
}
static size_t list_size(int32_t at);
static size_t content_size(const Field *f) { return f->is ? list_size(f->child) : f->n; }
static size_t list_size(int32_t at) {
  size_t sum = 0;
  for (; at >= 0; at = field[at].next) {
    const Field *f = &field[at];
    sum += varint_size((uint64_t)f->number << 3);
    size_t own = f->wire == 2   ? content_size(f)
                 : f->wire == 0 ? varint_size(f->value)
                 : f->wire == 1 ? 8
                                : 4;
    sum += own + (f->wire == 2 ? varint_size(own) : 0);
  }
  return sum;
}

static uint8_t *put_varint(uint8_t *p, uint64_t v) {
  for (; v >= 128; v >>= 7) *p++ = (uint8_t)(v | 128);
  *p++ = (uint8_t)v;
  return p;
}
static uint8_t *put_list(uint8_t *p, int32_t at) {
  for (; at >= 0; at = field[at].next) {
    const Field *f = &field[at];
    p = put_varint(p, (uint64_t)f->number << 3 | f->wire);
    if (f->wire == 0) {
      p = put_varint(p, f->value);
    } else if (f->wire != 2) {
      memcpy(p, &f->value, f->wire == 1 ? 8 : 4);
      p += f->wire == 1 ? 8 : 4;
    } else {
      p = put_varint(p, content_size(f));
      if (f->is)
        p = put_list(p, f->child);
      else if (f->n)
        memcpy(p, f->p, f->n), p += f->n;
    }
  }
  return p;
}

// ---- changes ----

static uint64_t number_near(uint64_t v) {
  static const int64_t some[] = {0,
                                 1,
                                 2,
                                 3,
                                 4,
                                 5,
                                 6,
                                 7,
                                 8,
                                 9,
                                 10,
                                 11,
                                 12,
                                 13,
                                 14,
                                 15,
                                 16,
                                 17,
                                 18,
                                 21,
                                 22,
                                 23,
                                 64,
                                 100,
                                 1000,
                                 65536,
                                 1 << 20,
                                 -1,
                                 -2,
                                 -3,
                                 -1000,
                                 1 << 24,
                                 1 << 30,
                                 INT32_MAX,
                                 INT32_MIN,
                                 INT64_MAX,
                                 INT64_MIN,
                                 (int64_t)1 << 32,
                                 (int64_t)1 << 40,
                                 (int64_t)1 << 62};
  switch (mutate_random(4)) {
  case 0: return v + 1;
  case 1: return v - 1;
  default: return (uint64_t)some[mutate_random(sizeof some / sizeof *some)];
  }
}

static Str op_name_for(uint32_t i) {
  const char *z = op_table[i % OP_COUNT]->onnx;
  if (!z) return STR("Identity");
  const char *dot = strrchr(z, '.');
  return str_of(dot ? dot + 1 : z);
}

static Str attribute_name_for(uint32_t i) {
  const OpInfo *op = op_table[i % OP_COUNT];
  return op->nattrs ? str_of(op->attrs[mutate_random(op->nattrs)].name) : STR("axis");
}

// A name that takes the place of another: one from the same kind of field, or one with a meaning.
static void change_text(Field *f, uint8_t *memory, size_t capacity) {
  bool names_op = f->in == M_NODE && f->number == 4, names_attr = f->in == M_ATTR && f->number == 1;
  Str s =
      names_op ? op_name_for(mutate_random(1 << 20)) : attribute_name_for(mutate_random(1 << 20));
  if ((names_op || names_attr) && mutate_random(8)) {
    f->p = (const uint8_t *)s.p;
    f->n = (size_t)s.n;
    return;
  }
  bool raw = (f->in == M_TENSOR && f->number == 9) || !mutate_random(8);
  if (raw && f->n <= capacity / 2) {
    memcpy(memory, f->p, f->n);
    f->n = LLVMFuzzerMutate(memory, f->n, capacity);
    f->p = memory;
    return;
  }
  int32_t start = (int32_t)mutate_random((uint32_t)nfields);
  for (int32_t i = 0; i < nfields; i++) {
    const Field *o = &field[(start + i) % nfields];
    if (o == f || o->wire != 2 || o->is || o->n > 256 || (o->in == M_TENSOR && o->number == 9))
      continue;
    f->p = o->p;
    f->n = o->n;
    return;
  }
}

// The link that points to a field, so that it can be taken out or put in front of.
static int32_t *link_to(int32_t at, int32_t *first) {
  if (*first == at) return first;
  for (int32_t i = 0; i < nfields; i++) {
    if (field[i].next == at) return &field[i].next;
    if (field[i].child == at) return &field[i].child;
  }
  return NULL;
}

static void change_place(int32_t at, int32_t *first) {
  int32_t *link = link_to(at, first), to = (int32_t)mutate_random((uint32_t)nfields);
  if (!link) return;
  if (mutate_random(2) == 0) {
    *link = field[at].next;  // dropped
    return;
  }
  if (nfields == MUTATE_FIELDS) return;
  // Doubled: the copy, bytes as they were, goes beside itself or to another place that holds the
  // same.
  if (mutate_random(2) && field[to].in == field[at].in) link = link_to(to, first);
  if (!link) return;
  int32_t copy = nfields++;
  field[copy] = field[at];
  field[copy].is = M_LEAF;  // not the children: they must not come to hold themselves
  field[copy].child = -1;
  field[copy].next = *link;
  *link = copy;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
  static uint8_t memory[1 << 16];
  int32_t first;
  mutate_seed = seed;
  nfields = 0;
  if (mutate_random(3) == 0 || !take_apart(data, data + size, M_MODEL, 0, &first) || !nfields)
    return LLVMFuzzerMutate(data, size, max);
  uint32_t changes = 1 + mutate_random(3);
  for (uint32_t i = 0; i < changes; i++) {
    int32_t at = (int32_t)mutate_random((uint32_t)nfields);
    Field *f = &field[at];
    if (mutate_random(4) == 0)
      change_place(at, &first);
    else if (f->wire == 2 && !f->is)
      change_text(f, memory, i ? 0 : sizeof memory);
    else if (f->wire != 2)
      f->value = number_near(f->value);
    else
      change_place(at, &first);
  }
  size_t total = list_size(first);
  if (total > max || total == 0) return LLVMFuzzerMutate(data, size, max);
  uint8_t *out = malloc(total);
  if (!out) return LLVMFuzzerMutate(data, size, max);
  put_list(out, first);
  memcpy(data, out, total);
  free(out);
  return total;
}

#endif
