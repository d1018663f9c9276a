// wire.c -- decode protobuf messages by tables.
//
// Each message is walked twice.  The first walk checks the form of every field, stores single
// values and counts the many-valued ones; then the arrays are made, each exactly as long as needed;
// the second walk fills them and goes down into sub-messages.  A sub-message's bytes are only
// stepped over in the first walk, so the whole takes time linear in the input (times two), whatever
// its shape.  Single values come first so that an error inside a sub-message can name what encloses
// it, in whatever order it was written.
//
// Needs:      a Trap set by the caller, for memory.
// Guarantees: no byte outside the input is read; depth and memory are bounded (wire.h).
// Does not:   keep unknown fields, or know ONNX.
#include "base/wire.h"

#include <stdio.h>

// Messages of memory name parts of the graph and what encloses them; what lies deeper is too many.
enum { GRAPH_DEPTH = 2 };

// How each kind is written: singly, and packed where it may be.
static const struct {
  WireType type;
  bool packs;
} form[] = {
    [WF_INT] = {WT_VARINT, false},      [WF_ENUM] = {WT_VARINT, false},
    [WF_FLOAT] = {WT_FIXED32, false},   [WF_NAME] = {WT_BYTES, false},
    [WF_TEXT] = {WT_BYTES, false},      [WF_BYTES] = {WT_BYTES, false},
    [WF_PART] = {WT_BYTES, false},      [WF_MESSAGE] = {WT_BYTES, false},
    [WF_INTS] = {WT_VARINT, true},      [WF_FLOATS] = {WT_FIXED32, true},
    [WF_NAMES] = {WT_BYTES, false},     [WF_SLICES] = {WT_BYTES, false},
    [WF_VARINTS] = {WT_VARINT, true},   [WF_FIXED32S] = {WT_FIXED32, true},
    [WF_FIXED64S] = {WT_FIXED64, true}, [WF_PARTS] = {WT_BYTES, false},
    [WF_MESSAGES] = {WT_BYTES, false},
};

static const char *const type_text[] = {"a varint", "8 bytes",     "bytes with a length",
                                        "a group",  "a group end", "4 bytes"};

// ---- messages ----

// A name cut to a readable length, at a character's start.
static Str cut(Str s) {
  if (s.n <= 60) return s;
  int64_t n = 60;
  while (n > 0 && ((uint8_t)s.p[n] & 0xc0) == 0x80) n--;
  return (Str){s.p, n};
}

// "attribute 2 'axis' of node 3 'conv1' of graph 'g': " into text; "" at the top.
static void describe_place(const WireFrame *f, char *text, int64_t cap) {
  int64_t n = 0;
  text[0] = 0;
  for (const char *sep = ""; f && f->label && n < cap - 1; f = f->up, sep = " of ") {
    n += snprintf(text + n, (size_t)(cap - n), "%s%s", sep, f->label);
    if (n < cap - 1 && f->index >= 0)
      n += snprintf(text + n, (size_t)(cap - n), " %lld", (long long)f->index);
    if (n < cap - 1 && f->type->name_at >= 0) {
      Str name;
      memcpy(&name, (const char *)f->msg + f->type->name_at, sizeof name);
      name = cut(name);
      if (name.n) n += snprintf(text + n, (size_t)(cap - n), " '%.*s'", STR_ARG(name));
    }
  }
}

tenon_status wire_fail(const WireReader *r, const void *place, const char *fmt, ...) {
  char where[400], text[600];
  describe_place(r->frame, where, (int64_t)sizeof where);
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  Where at = {.offset = (const uint8_t *)place - r->base, .has_offset = true};
  return fail(r->diag, TENON_EFORMAT, at, "%s%s%s", where, where[0] ? ": " : "", text);
}

// ---- fields ----

int64_t wire_count_varints(Str run) {
  int64_t n = 0;
  for (int64_t i = 0; i < run.n; i++) n += !((uint8_t)run.p[i] & 0x80);
  return n;
}

static tenon_status read_tag(const WireReader *r, WireCursor *c, WireItem *out) {
  uint64_t tag = 0;
  out->start = c->at;
  const char *wrong = wire_varint(&c->at, c->end, &tag);
  if (wrong) return wire_fail(r, out->start, "field tag: %s", wrong);
  if (tag >> 3 == 0)
    return wire_fail(r, out->start, "field number 0, which protobuf does not have");
  if (tag >> 32)
    return wire_fail(r, out->start, "field number %llu, beyond protobuf's largest",
                     (unsigned long long)(tag >> 3));
  if ((tag & 7) > WT_FIXED32)
    return wire_fail(r, out->start, "field %u has wire type %u, which protobuf does not have",
                     (unsigned)(tag >> 3), (unsigned)(tag & 7));
  out->number = (uint32_t)(tag >> 3);
  out->type = (WireType)(tag & 7);
  return TENON_OK;
}

static tenon_status read_fixed(const WireReader *r, WireCursor *c, int64_t bytes, WireItem *out) {
  if (c->end - c->at < bytes)
    return wire_fail(r, out->start,
                     "field %u: %lld bytes run past the end of the message (%lld left)",
                     out->number, (long long)bytes, (long long)(c->end - c->at));
  out->value = 0;
  memcpy(&out->value, c->at, (size_t)bytes);
  c->at += bytes;
  return TENON_OK;
}

static tenon_status read_length(const WireReader *r, WireCursor *c, WireItem *out) {
  uint64_t n = 0;
  const uint8_t *place = c->at;
  const char *wrong = wire_varint(&c->at, c->end, &n);
  if (wrong) return wire_fail(r, place, "length of field %u: %s", out->number, wrong);
  if (n > (uint64_t)(c->end - c->at))
    return wire_fail(r, place,
                     "field %u: length %llu runs past the end of the message (%lld bytes left)",
                     out->number, (unsigned long long)n, (long long)(c->end - c->at));
  out->body = (Str){(const char *)c->at, (int64_t)n};
  c->at += n;
  return TENON_OK;
}

static tenon_status read_plain(const WireReader *r, WireCursor *c, WireItem *out) {
  const uint8_t *from = c->at;
  switch (out->type) {
  case WT_VARINT: {
    const char *wrong = wire_varint(&c->at, c->end, &out->value);
    if (wrong) return wire_fail(r, from, "field %u: %s", out->number, wrong);
    break;
  }
  case WT_FIXED64: TRY(read_fixed(r, c, 8, out)); break;
  case WT_FIXED32: TRY(read_fixed(r, c, 4, out)); break;
  case WT_BYTES: return read_length(r, c, out);
  case WT_GROUP:
  case WT_END_GROUP: break;  // the caller's
  }
  out->body = (Str){(const char *)from, c->at - from};
  return TENON_OK;
}

// Steps over a group whose start has been read.
static tenon_status skip_group(const WireReader *r, WireCursor *c, const WireItem *start) {
  uint32_t open[WIRE_GROUP_DEPTH];
  int depth = 0;
  open[depth++] = start->number;
  while (depth > 0) {
    if (c->at == c->end)
      return wire_fail(r, start->start, "group %u is never ended", start->number);
    WireItem it;
    TRY(read_tag(r, c, &it));
    if (it.type == WT_END_GROUP) {
      if (it.number != open[depth - 1])
        return wire_fail(r, it.start, "group %u ends inside group %u", it.number, open[depth - 1]);
      depth--;
    } else if (it.type == WT_GROUP) {
      if (depth == WIRE_GROUP_DEPTH)
        return wire_fail(r, it.start, "groups nest more than %d deep", WIRE_GROUP_DEPTH);
      open[depth++] = it.number;
    } else {
      TRY(read_plain(r, c, &it));
    }
  }
  return TENON_OK;
}

tenon_status wire_next(const WireReader *r, WireCursor *c, WireItem *out) {
  TRY(read_tag(r, c, out));
  if (out->type == WT_END_GROUP)
    return wire_fail(r, out->start, "group %u ends, but was never started", out->number);
  if (out->type == WT_GROUP) return skip_group(r, c, out);
  return read_plain(r, c, out);
}

// The row of a field, -1 when there is none.  Writers repeat fields in runs, so `hint` mostly hits.
static int find_field(const WireMessage *m, uint32_t number, int hint) {
  if (hint < m->nfields && m->field[hint].number == number) return hint;
  for (int i = 0; i < m->nfields; i++)
    if (m->field[i].number == number) return i;
  return -1;
}

// ---- first walk ----

static tenon_status check_text(const WireReader *r, const WireField *f, Str s) {
  if (!str_is_utf8(s)) return wire_fail(r, s.p, "%s is not UTF-8", f->name);
  if (f->kind != WF_TEXT && s.n && memchr(s.p, 0, (size_t)s.n))
    return wire_fail(r, s.p, "%s holds a NUL character", f->name);
  return TENON_OK;
}

static tenon_status store_single(const WireReader *r, const WireField *f, const WireItem *it,
                                 void *msg) {
  char *to = (char *)msg + f->at;
  switch ((WireKind)f->kind) {
  case WF_INT: memcpy(to, &it->value, sizeof(int64_t)); break;
  case WF_ENUM: {
    int64_t v = (int64_t)it->value;
    if (v < 0 || v > 255)
      return wire_fail(r, it->start, "%s is %lld, which is none of its values", f->name,
                       (long long)v);
    int small = (int)v;
    memcpy(to, &small, sizeof small);
    break;
  }
  case WF_FLOAT: memcpy(to, &it->value, sizeof(float)); break;
  case WF_NAME:
  case WF_TEXT: TRY(check_text(r, f, it->body)); __attribute__((fallthrough));
  case WF_BYTES: memcpy(to, &it->body, sizeof it->body); break;
  default: CHECK(false, "field %s is not a single value", f->name);
  }
  return TENON_OK;
}

// How many elements one written field adds to its array.
static tenon_status count_elements(const WireReader *r, const WireField *f, const WireItem *it,
                                   int64_t *count) {
  bool packed = it->type == WT_BYTES && form[f->kind].packs;
  int64_t add = 1;
  if (packed && f->kind == WF_INTS) {
    add = wire_count_varints(it->body);
    if (it->body.n && (uint8_t)it->body.p[it->body.n - 1] & 0x80)
      return wire_fail(r, it->start, "%s: the list ends inside a number", f->name);
  } else if (packed && form[f->kind].type != WT_VARINT) {
    int64_t each = form[f->kind].type == WT_FIXED64 ? 8 : 4;
    if (it->body.n % each)
      return wire_fail(r, it->start, "%s: %lld bytes are not a whole number of %lld-byte values",
                       f->name, (long long)it->body.n, (long long)each);
    if (f->kind == WF_FLOATS) add = it->body.n / each;
  }
  if (f->sub && f->kind != WF_PART && it->body.n < f->sub->least_bytes)
    return wire_fail(r, it->start, "%s %lld has %lld bytes, too few for any %s", f->name,
                     (long long)*count, (long long)it->body.n, f->sub->name);
  *count += add;  // at most the bytes of the input
  if (f->most && *count > f->most)
    return wire_fail(r, it->start, "more than %u of %s", f->most, f->name);
  return TENON_OK;
}

static tenon_status check_form(const WireReader *r, const WireField *f, const WireItem *it) {
  if (it->type == form[f->kind].type || (form[f->kind].packs && it->type == WT_BYTES))
    return TENON_OK;
  return wire_fail(r, it->start, "%s (field %u) is written as %s, not as %s", f->name, it->number,
                   type_text[it->type], type_text[form[f->kind].type]);
}

static tenon_status walk_singles(const WireReader *r, const WireMessage *m, WireCursor c, void *msg,
                                 int64_t *count, uint64_t *seen, bool *again) {
  int i = 0;
  while (c.at < c.end) {
    WireItem it;
    TRY(wire_next(r, &c, &it));
    int found = find_field(m, it.number, i);
    uint64_t bit = it.number < 64 ? (uint64_t)1 << it.number : 0;
    bool repeated = *seen & bit;
    *seen |= bit;
    if (found < 0) continue;
    i = found;
    const WireField *f = &m->field[i];
    TRY(check_form(r, f, &it));
    if (f->kind < WF_PART) {
      TRY(store_single(r, f, &it, msg));
      continue;
    }
    if (f->kind <= WF_MESSAGE && repeated)
      return wire_fail(r, it.start, "%s is given twice", f->name);
    TRY(count_elements(r, f, &it, &count[i]));
    *again = true;
  }
  return TENON_OK;
}

// ---- second walk ----

static int64_t element_size(const WireField *f) {
  switch ((WireKind)f->kind) {
  case WF_INTS: return (int64_t)sizeof(int64_t);
  case WF_FLOATS: return (int64_t)sizeof(float);
  case WF_PARTS: return f->sub->size;
  case WF_MESSAGES: return (int64_t)sizeof(void *);
  default: return (int64_t)sizeof(Str);
  }
}

static void make_arrays(WireReader *r, const WireMessage *m, const int64_t *count, void *msg,
                        char **next) {
  for (int i = 0; i < m->nfields; i++) {
    const WireField *f = &m->field[i];
    next[i] = NULL;
    if (f->kind <= WF_MESSAGE || count[i] == 0) continue;
    next[i] = arena_alloc_array(r->arena, count[i], element_size(f));
    memcpy((char *)msg + f->at, &next[i], sizeof next[i]);
    memcpy((char *)msg + f->count_at, &count[i], sizeof count[i]);
  }
}

static tenon_status decode(WireReader *r, const WireMessage *m, const char *label, int64_t index,
                           Str body, void *msg);

static tenon_status unpack_ints(const WireReader *r, const WireField *f, const WireItem *it,
                                char **next) {
  const uint8_t *at = (const uint8_t *)it->body.p, *end = at + it->body.n;
  while (at < end) {
    uint64_t v = 0;
    const uint8_t *place = at;
    const char *wrong = wire_varint(&at, end, &v);
    if (wrong) return wire_fail(r, place, "%s: %s", f->name, wrong);
    memcpy(*next, &v, sizeof v);
    *next += sizeof v;
  }
  return TENON_OK;
}

static tenon_status fill(WireReader *r, const WireField *f, const WireItem *it, int64_t index,
                         void *msg, char **next) {
  void *to;
  switch ((WireKind)f->kind) {
  case WF_PART: return decode(r, f->sub, f->name, -1, it->body, (char *)msg + f->at);
  case WF_MESSAGE:
    to = arena_alloc(r->arena, f->sub->size);
    memcpy((char *)msg + f->at, &to, sizeof to);
    return decode(r, f->sub, f->name, -1, it->body, to);
  case WF_PARTS:
    to = *next;
    *next += f->sub->size;
    return decode(r, f->sub, f->name, index, it->body, to);
  case WF_MESSAGES:
    to = arena_alloc(r->arena, f->sub->size);
    memcpy(*next, &to, sizeof to);
    *next += sizeof to;
    return decode(r, f->sub, f->name, index, it->body, to);
  case WF_INTS: return unpack_ints(r, f, it, next);
  case WF_FLOATS:
    if (it->body.n == 0) return TENON_OK;
    memcpy(*next, it->body.p, (size_t)it->body.n);
    *next += it->body.n;
    return TENON_OK;
  case WF_NAMES: TRY(check_text(r, f, it->body)); __attribute__((fallthrough));
  case WF_SLICES:
  case WF_VARINTS:
  case WF_FIXED32S:
  case WF_FIXED64S:
    memcpy(*next, &it->body, sizeof it->body);
    *next += sizeof it->body;
    return TENON_OK;
  default: return TENON_OK;  // stored by the first walk
  }
}

static tenon_status walk_rest(WireReader *r, const WireMessage *m, WireCursor c, void *msg,
                              char **next) {
  int64_t index[WIRE_MAX_FIELDS] = {0};
  int i = 0;
  while (c.at < c.end) {
    WireItem it;
    TRY(wire_next(r, &c, &it));
    int found = find_field(m, it.number, i);
    if (found < 0) continue;
    i = found;
    TRY(fill(r, &m->field[i], &it, index[i]++, msg, &next[i]));
  }
  return TENON_OK;
}

static tenon_status decode(WireReader *r, const WireMessage *m, const char *label, int64_t index,
                           Str body, void *msg) {
  if (r->depth == WIRE_DEPTH)
    return wire_fail(r, body.p, "messages nest more than %d deep (about %d sub-graphs)", WIRE_DEPTH,
                     WIRE_DEPTH / 3);
  CHECK(m->nfields <= WIRE_MAX_FIELDS, "%s has %d fields", m->name, m->nfields);
  WireFrame frame = {.up = r->frame, .type = m, .label = label, .index = index, .msg = msg};
  r->frame = &frame;
  if (index >= 0 && r->depth <= GRAPH_DEPTH) at_work_part("reading", label, index);
  r->depth++;
  int64_t count[WIRE_MAX_FIELDS] = {0};
  uint64_t seen = 0;
  bool again = false;
  const uint8_t *p = (const uint8_t *)body.p;
  WireCursor c = {p, p + body.n};
  if (m->pos_at >= 0) {
    int64_t pos = p - r->base;
    memcpy((char *)msg + m->pos_at, &pos, sizeof pos);
  }
  TRY(walk_singles(r, m, c, msg, count, &seen, &again));
  if (again) {
    char *next[WIRE_MAX_FIELDS];
    make_arrays(r, m, count, msg, next);
    TRY(walk_rest(r, m, c, msg, next));
  }
  if (m->done) TRY(m->done(r, msg, body, seen));
  r->frame = frame.up;
  r->depth--;
  return TENON_OK;
}

void wire_init(WireReader *r, Arena *a, Diag *d, Str bytes) {
  *r = (WireReader){.arena = a, .diag = d, .base = (const uint8_t *)bytes.p};
}

tenon_status wire_decode(WireReader *r, const WireMessage *type, const char *label, Str bytes,
                         void *out) {
  return decode(r, type, label, -1, bytes, out);
}
