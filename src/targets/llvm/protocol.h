// protocol.h -- what goes through the pipe between the library and tenon-codegen.
//
// A request is a header of fixed size and then its texts; so is a reply.  Numbers are in the
// machine's byte order: both ends run on one machine.  Every length is checked before anything is
// allocated for it.
#ifndef TENON_TARGETS_LLVM_PROTOCOL_H
#define TENON_TARGETS_LLVM_PROTOCOL_H

#include "base/base.h"

typedef enum {
  CODE_IMAGE,    // machine code and its constants, without relocations: maps anywhere at a page's
                 // start
  CODE_CHECKED,  // the same, where each access is checked first: one outside its buffer ends the
                 // kernel
  CODE_OBJECT,   // an ELF object that defines the symbol
  CODE_ASM,
  CODE_LLVM,  // LLVM's own text, before code generation
  CODE_KINDS
} CodeKind;

enum {
  PROTOCOL_VERSION = 2,
  PROTOCOL_HEADER = 64,  // bytes of a header
  PROTOCOL_PARTS = 5,
};
#define PROTOCOL_TEXT_MAX  ((int64_t)64 << 20)
#define PROTOCOL_REPLY_MAX ((int64_t)1 << 30)

typedef struct CodeRequest {
  CodeKind kind;
  bool quick;                 // by fewer passes: the same bits from code that may be slower
  Str triple, cpu, features;  // as machine_make takes them
  Str symbol;                 // name of the entry
  Str kernel;                 // its text: loop_print
} CodeRequest;

typedef struct CodeReply {
  tenon_status status;
  Str message;    // why not, when status is not TENON_OK
  Str bytes;      // what was asked for
  int64_t entry;  // CODE_IMAGE: where the entry lies in it
} CodeReply;

// Headers as bytes.  `size` gets what follows the header, in bytes.  Reading gives false for what
// is no header of this version; the texts then point into `body` once `*_body` was called with all
// of it.
void request_header(const CodeRequest *r, uint8_t out[PROTOCOL_HEADER]);
bool request_parse(const uint8_t in[PROTOCOL_HEADER], CodeRequest *out, int64_t *size);
void request_body(CodeRequest *r, const char *body);
void reply_header(const CodeReply *r, uint8_t out[PROTOCOL_HEADER]);
bool reply_parse(const uint8_t in[PROTOCOL_HEADER], CodeReply *out, int64_t *size);
void reply_body(CodeReply *r, const char *body);

#endif
