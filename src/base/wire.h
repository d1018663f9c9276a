// wire.h -- the protobuf wire format, read by tables.
//
// A message type is a constant table: one row for each field that we keep, saying its number, how
// it is written and where it goes in a C struct.  wire_decode fills the struct from the bytes;
// fields without a row are stepped over.  Strings and payloads stay slices of the input, so nothing
// large is copied.
//
// The input is not trusted.  Every length is checked against the message that encloses it, nesting
// is limited, and the structs of one input take at most a fixed multiple of its bytes
// (WIRE_GROWTH): arrays are counted before they are made, and a message type says how short a sound
// one can be.
#ifndef TENON_BASE_WIRE_H
#define TENON_BASE_WIRE_H

#include "base/base.h"

enum {
  WIRE_DEPTH =
      LIMIT_ONNX_DEPTH,   // messages within messages: some 64 sub-graphs, each three messages deep
  WIRE_GROUP_DEPTH = 64,  // groups (a dead feature of protobuf) within groups
  WIRE_MAX_FIELDS = 20,   // rows of one table
  WIRE_GROWTH = 64        // bytes of structs for one byte of input, at most
};

typedef struct WireMessage WireMessage;
typedef struct WireReader WireReader;

typedef enum {
  // One value; written twice, the last one counts.
  WF_INT,    // any varint type -> int64_t
  WF_ENUM,   // -> int (an enum of ours)
  WF_FLOAT,  // -> float
  WF_NAME,   // string -> Str; UTF-8 without NUL
  WF_TEXT,   // string -> Str; UTF-8
  WF_BYTES,  // -> Str
  // One message; written twice, an error (protobuf would merge the two, and no writer means that).
  WF_PART,     // in the struct at `at`
  WF_MESSAGE,  // a pointer at `at`
  // Many: a pointer at `at`, a count at `count_at`.
  WF_INTS,      // int64_t
  WF_FLOATS,    // float
  WF_NAMES,     // Str
  WF_SLICES,    // Str: bytes fields as they are
  WF_VARINTS,   // Str: runs of varints as they are written, packed or single
  WF_FIXED32S,  // Str: runs of 4-byte values
  WF_FIXED64S,  // Str: runs of 8-byte values
  WF_PARTS,     // structs
  WF_MESSAGES   // pointers to structs
} WireKind;

typedef struct WireField {
  const char *name;        // what messages call it
  const WireMessage *sub;  // WF_PART and so on
  uint16_t number;         // below 64
  uint16_t at, count_at;   // offsets in the struct
  uint8_t kind;            // WireKind
  uint32_t most;           // elements of a kind with many; 0: any number
} WireField;

// Called when a message has been read, with its bytes.  Bit n of `seen` tells that field n was
// there, with or without a row.
typedef tenon_status WireDone(WireReader *r, void *msg, Str body, uint64_t seen);

struct WireMessage {
  const char *name;  // the protobuf type
  const WireField *field;
  int nfields;
  int64_t size;         // of the struct
  int64_t least_bytes;  // no sound message is shorter
  int16_t name_at;      // offset of a Str that names it in messages; -1 none
  int16_t pos_at;       // offset of an int64_t that gets its place in the file; -1 none
  WireDone *done;       // may be NULL
};

// The messages being read, innermost first, for error texts.
typedef struct WireFrame {
  const struct WireFrame *up;
  const WireMessage *type;
  const char *label;
  int64_t index;  // -1: not one of many
  const void *msg;
} WireFrame;

struct WireReader {
  Arena *arena;
  Diag *diag;
  const uint8_t *base;  // start of the input: places in messages count from here
  const WireFrame *frame;
  int depth;
};

void wire_init(WireReader *r, Arena *a, Diag *d, Str bytes);
// Decodes all of `bytes` into `out`, a zeroed struct.  `label` names it in messages.  A WireDone
// may call it for a part of its message.
MUST_USE tenon_status wire_decode(WireReader *r, const WireMessage *type, const char *label,
                                  Str bytes, void *out);
// An error at a byte of the input, with the messages around it named.
tenon_status wire_fail(const WireReader *r, const void *place, const char *fmt, ...) PRINTF(3, 4);

// ---- one field after the other, for readers without a table ----
typedef enum {
  WT_VARINT = 0,
  WT_FIXED64 = 1,
  WT_BYTES = 2,
  WT_GROUP = 3,
  WT_END_GROUP = 4,
  WT_FIXED32 = 5
} WireType;

typedef struct WireItem {
  const uint8_t *start;
  uint32_t number;
  WireType type;   // WT_GROUP: a group, which was stepped over
  uint64_t value;  // varint, fixed
  Str body;        // the bytes of the value, for every type but groups
} WireItem;

typedef struct WireCursor {
  const uint8_t *at, *end;
} WireCursor;
// Reads one field and moves c->at, which is not c->end.
MUST_USE tenon_status wire_next(const WireReader *r, WireCursor *c, WireItem *out);

// ---- varints ----
// Reads one and moves *at; NULL, or what is wrong with it.
static inline const char *wire_varint(const uint8_t **at, const uint8_t *end, uint64_t *out) {
  const uint8_t *p = *at;
  uint64_t v = 0;
  for (int shift = 0; p < end; shift += 7) {
    uint8_t b = *p++;
    if (shift == 63 && b > 1)
      return b & 0x80 ? "number of more than 10 bytes" : "number of more than 64 bits";
    v |= (uint64_t)(b & 0x7f) << shift;
    if (!(b & 0x80)) {
      *at = p;
      *out = v;
      return NULL;
    }
  }
  return "the message ends inside a number";
}
int64_t wire_count_varints(Str run);  // how many end in the run

#endif
