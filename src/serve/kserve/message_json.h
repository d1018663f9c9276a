// message_json.h -- messages of gRPC from and to JSON, by the rows of messages.def.
//
// A method of gRPC is answered by the handler of its REST route: its request becomes the body of
// that route, and the body of the answer its response.  So neither has rules of its own.
#ifndef TENON_SERVE_KSERVE_MESSAGE_JSON_H
#define TENON_SERVE_KSERVE_MESSAGE_JSON_H

#include "base/json.h"
#include "base/proto.h"

typedef enum KsMessage {
#define KS_MESSAGE(name) KS_##name,
#define KS_FIELD(message, number, kind, many, name, sub)
#include "serve/kserve/messages.def"
#undef KS_MESSAGE
#undef KS_FIELD
} KsMessage;

// Numbers of fields: KS_ModelInferRequest_model_name and so on.
enum {
#define KS_MESSAGE(name)
#define KS_FIELD(message, number, kind, many, name, sub) KS_##message##_##name = (number),
#include "serve/kserve/messages.def"
#undef KS_MESSAGE
#undef KS_FIELD
};

// Reads a message and writes it as an object.  Bytes become base64.  EFORMAT: it is none.
MUST_USE tenon_status ks_message_to_json(Arena *a, KsMessage m, Str bytes, JsonWriter *w, Diag *d);
// Writes the fields of an object that the message has; others are left out.
void ks_message_from_json(Proto *p, KsMessage m, const Json *object);

#endif
