// packet.h -- what the front and an engine of a model say to each other, in frames (worker.h).
//
// The engine sends ENGINE_READY with a Signature as JSON, or ENGINE_FAILED with the reason.  The
// front sends ENGINE_RUN with the inputs; its answer is ENGINE_DONE with the outputs, or
// ENGINE_ERROR with the reason.  Tensors lie at multiples of 16 bytes of the payload, and a payload
// is a multiple of 16 long, so that both sides use them in place.
#ifndef TENON_SERVE_KSERVE_PACKET_H
#define TENON_SERVE_KSERVE_PACKET_H

#include "serve/kserve/tensor.h"

enum { ENGINE_READY = 1, ENGINE_FAILED, ENGINE_RUN, ENGINE_DONE, ENGINE_ERROR };

typedef struct PacketTensor {
  int64_t index;  // of the model's inputs or outputs
  DType dtype;
  int rank;
  int64_t shape[TENON_MAX_RANK];
  int64_t bytes;
  const char *data;
} PacketTensor;

typedef struct Packet {
  int64_t ns;     // DONE: how long the run took
  int64_t nlist;  // RUN: the outputs that are wanted, none: all
  const int64_t *list;
  int64_t n;
  PacketTensor *tensor;
} Packet;

// The bytes of the payload, -1 when they are too many; tensor[i].data is not looked at.
int64_t packet_bytes(const Packet *p);
// Writes the head into `out` and gives in data[i] where tensor i's bytes go.
void packet_write(char *out, const Packet *p, char **data);
// Reads a payload; everything points into it or into `a`.  EFORMAT: it is none.
MUST_USE tenon_status packet_read(Arena *a, Str payload, Packet *out, Diag *d);

// ---- what a model takes and gives ----
typedef struct KsValue {
  const char *name;
  const KsType *type;
  int rank;                       // -1: any
  int64_t shape[TENON_MAX_RANK];  // -1: any size
} KsValue;

typedef struct KsSignature {
  int64_t ninputs, noutputs;
  KsValue *input, *output;
  bool rows;            // rows of dimension 0 are apart: requests may run together
  const char *why_not;  // `rows` is false though it was asked for; "" else
  const char *target;   // "cpu"
  int64_t bytes;        // that the process holds
} KsSignature;
void ks_signature_write(JsonWriter *w, const KsSignature *s);
MUST_USE tenon_status ks_signature_read(Arena *a, Str text, KsSignature *out, Diag *d);

#endif
