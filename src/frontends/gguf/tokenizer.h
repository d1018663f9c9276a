// tokenizer.h -- the tokenizer in a GGUF file's metadata.
#ifndef TENON_FRONTENDS_GGUF_TOKENIZER_H
#define TENON_FRONTENDS_GGUF_TOKENIZER_H

#include "frontends/gguf/gguf.h"
#include "text/tokenizer.h"

// The value of a key; NULL: the file has none.
const GgufValue *gguf_find(const GgufFile *f, const char *key);
// What the metadata says of the tokenizer.  Strings are slices of the file.
MUST_USE tenon_status gguf_tokenizer(const GgufFile *f, Arena *a, Diag *d, TokenizerGguf *out);
// The tokenizer of a file's bytes; of a file on disk, which is closed again.
MUST_USE tenon_status gguf_tokenizer_bytes(Str bytes, const char *path, Arena *a, Diag *d,
                                           Tokenizer **out);
MUST_USE tenon_status gguf_tokenizer_load(const char *path, Arena *a, Diag *d, Tokenizer **out);

#endif
