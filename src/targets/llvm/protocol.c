// protocol.c -- encodes and decodes the headers of requests and replies (protocol.h).
//
// Needs:      both ends run on one machine: numbers are in its byte order.
// Guarantees: a header of another version, or with a length that is negative or above
//             PROTOCOL_TEXT_MAX or PROTOCOL_REPLY_MAX, is refused.  Bodies are not copied: texts
//             point into the caller's memory.
#include "targets/llvm/protocol.h"

enum { REQUEST_MAGIC = 0x51524E54, REPLY_MAGIC = 0x50524E54 };  // "TNRQ", "TNRP"

typedef struct Header {
  uint32_t magic, version, code, quick;
  int64_t entry, len[PROTOCOL_PARTS];
} Header;
_Static_assert(sizeof(Header) == PROTOCOL_HEADER, "no padding");

static bool lengths_ok(const Header *h, int n, const int64_t *most, int64_t *size) {
  *size = 0;
  for (int i = 0; i < PROTOCOL_PARTS; i++) {
    if (h->len[i] < 0 || h->len[i] > (i < n ? most[i] : 0)) return false;
    *size += h->len[i];
  }
  return true;
}

void request_header(const CodeRequest *r, uint8_t out[PROTOCOL_HEADER]) {
  Header h = {REQUEST_MAGIC,
              PROTOCOL_VERSION,
              (uint32_t)r->kind,
              r->quick,
              0,
              {r->triple.n, r->cpu.n, r->features.n, r->symbol.n, r->kernel.n}};
  memcpy(out, &h, sizeof h);
}

bool request_parse(const uint8_t in[PROTOCOL_HEADER], CodeRequest *out, int64_t *size) {
  static const int64_t most[] = {64, 64, 512, 256, PROTOCOL_TEXT_MAX};
  Header h;
  memcpy(&h, in, sizeof h);
  *out = (CodeRequest){0};
  if (h.magic != REQUEST_MAGIC || h.version != PROTOCOL_VERSION || h.code >= CODE_KINDS ||
      h.quick > 1)
    return false;
  if (!lengths_ok(&h, 5, most, size)) return false;
  *out = (CodeRequest){.kind = (CodeKind)h.code,
                       .quick = h.quick,
                       .triple.n = h.len[0],
                       .cpu.n = h.len[1],
                       .features.n = h.len[2],
                       .symbol.n = h.len[3],
                       .kernel.n = h.len[4]};
  return true;
}

static const char *take(Str *s, const char *at) {
  s->p = at;
  return at + s->n;
}

void request_body(CodeRequest *r, const char *body) {
  take(&r->kernel, take(&r->symbol, take(&r->features, take(&r->cpu, take(&r->triple, body)))));
}

void reply_header(const CodeReply *r, uint8_t out[PROTOCOL_HEADER]) {
  Header h = {REPLY_MAGIC, PROTOCOL_VERSION, (uint32_t)r->status,
              0,           r->entry,         {r->message.n, r->bytes.n}};
  memcpy(out, &h, sizeof h);
}

bool reply_parse(const uint8_t in[PROTOCOL_HEADER], CodeReply *out, int64_t *size) {
  static const int64_t most[] = {1 << 16, PROTOCOL_REPLY_MAX};
  Header h;
  memcpy(&h, in, sizeof h);
  *out = (CodeReply){0};
  if (h.magic != REPLY_MAGIC || h.version != PROTOCOL_VERSION || h.code > TENON_EINTERNAL)
    return false;
  if (!lengths_ok(&h, 2, most, size)) return false;
  if (h.entry < 0 || (h.len[1] ? h.entry >= h.len[1] : h.entry != 0)) return false;
  *out = (CodeReply){
      .status = (tenon_status)h.code, .message.n = h.len[0], .bytes.n = h.len[1], .entry = h.entry};
  return true;
}

void reply_body(CodeReply *r, const char *body) { take(&r->bytes, take(&r->message, body)); }
