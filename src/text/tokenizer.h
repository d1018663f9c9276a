// tokenizer.h -- text to token ids and back, for language models.
//
// A Tokenizer is read from tokenizer.json, a model folder, a SentencePiece `.model`, a `.tiktoken`
// or Tekken file, or from the arrays of a GGUF file's metadata.  It is immutable: any number of
// threads may encode and decode with it at once.  It lives in the arena that it was read into, and
// refers to nothing else: the file's bytes may go.
//
// Text is bytes.  What is not valid UTF-8 is read as U+FFFD, one for each maximal part, as
// everybody's decoders do, before anything else happens.  NUL bytes are characters like others.
// Encoding takes time linear in the text, whatever the text is; memory that it takes is the
// caller's buffer and a scratch that is freed when it returns.
//
// Special tokens (control tokens such as <|im_start|>) are found in text only where the caller says
// so by TOKENIZE_PARSE_SPECIAL.  Without it a prompt cannot contain one.
#ifndef TENON_TEXT_TOKENIZER_H
#define TENON_TEXT_TOKENIZER_H

#include "base/base.h"

typedef struct Tokenizer Tokenizer;

// ---- reading ----
typedef struct TokenizerOptions {
  // The pre-tokenizer by the name that GGUF files give it ("llama-bpe", "qwen2").  Needed for a
  // `.tiktoken` file that is none of the published ones; elsewhere the file knows.  NULL: from the
  // file.
  const char *pre;
} TokenizerOptions;

// A file, by its content: tokenizer.json, Tekken JSON, `.model` or `.tiktoken`; or a folder that
// holds tokenizer.json or another of these, with tokenizer_config.json, special_tokens_map.json,
// generation_config.json and config.json looked up for the roles of special tokens.  `o` may be
// NULL.  What a file asks for and Tenon does not have is refused by name: TENON_EUNSUPPORTED.
MUST_USE tenon_status tokenizer_load(const char *path, const TokenizerOptions *o, Arena *a, Diag *d,
                                     Tokenizer **out);
// The same of bytes; `file` is the name in messages.
MUST_USE tenon_status tokenizer_load_bytes(Str bytes, const char *file, const TokenizerOptions *o,
                                           Arena *a, Diag *d, Tokenizer **out);

// What GGUF metadata says.  The caller fills it; frontends/gguf/tokenizer.h does so from a file.
// Absent arrays have n == 0, absent ids are -1, absent flags -1.
typedef struct TokenizerGguf {
  Str model;            // tokenizer.ggml.model: "gpt2", "llama", "bert", "t5"
  Str pre;              // tokenizer.ggml.pre
  int64_t n;            // vocabulary
  const Str *token;     // [n] tokenizer.ggml.tokens
  const float *score;   // [n], or NULL
  const int32_t *type;  // [n] TOKEN_NORMAL ..., or NULL
  int64_t nmerges;      //
  const Str *merge;     // [nmerges] "left right"
  Str charsmap;         // precompiled_charsmap, bytes
  int64_t bos, eos, eot, unk, sep, pad, cls, mask;
  int add_bos, add_eos, add_space_prefix, remove_extra_whitespaces, escape_whitespaces;
} TokenizerGguf;
// The values of tokenizer.ggml.token_type.
typedef enum {
  TOKEN_UNDEFINED,
  TOKEN_NORMAL,
  TOKEN_UNKNOWN,
  TOKEN_CONTROL,
  TOKEN_USER_DEFINED,
  TOKEN_UNUSED,
  TOKEN_BYTE
} TokenType;
void tokenizer_gguf_init(TokenizerGguf *g);  // all absent
MUST_USE tenon_status tokenizer_load_gguf(const TokenizerGguf *g, Arena *a, Diag *d,
                                          Tokenizer **out);

// ---- facts ----
int64_t tokenizer_size(const Tokenizer *t);       // ids are 0 ... size - 1; some may be unused
const char *tokenizer_about(const Tokenizer *t);  // "byte-level BPE, 49152 tokens"
typedef enum {
  TOKEN_BOS,
  TOKEN_EOS,
  TOKEN_EOT,  // end of turn: <|im_end|>, <|eot_id|>, <end_of_turn>
  TOKEN_UNK,
  TOKEN_PAD,
  TOKEN_SEP,
  TOKEN_CLS,
  TOKEN_MASK,
  TOKEN_ROLES
} TokenRole;
int32_t tokenizer_id(const Tokenizer *t, TokenRole role);  // -1: it has none
// True for every id that ends a generation: eos, eot, and those of generation_config.json.
bool tokenizer_is_end(const Tokenizer *t, int32_t id);
bool tokenizer_is_special(const Tokenizer *t, int32_t id);  // a control token; false out of range
// The id of a token by its text: special and added ones as written, others as the bytes they stand
// for.  -1: there is none.
int32_t tokenizer_find(const Tokenizer *t, Str text);
// The bytes that one token stands for within text, special ones as written.  Word-initial space of
// SentencePiece is ' '.  Empty for ids out of range or without a meaning.  Lives with the
// tokenizer.
Str tokenizer_piece(const Tokenizer *t, int32_t id);

// ---- encoding ----
// A growable list of ids.  Zero it before its first use; it may be used again for any number of
// texts.  It owns its memory.
typedef struct TokenBuffer {
  int32_t *id;
  int64_t n, cap;
} TokenBuffer;
void token_buffer_deinit(TokenBuffer *b);  // leaves it empty and usable

enum {
  TOKENIZE_ADD_SPECIAL = 1,    // what the model expects around a text: bos, eos, [CLS], [SEP]
  TOKENIZE_PARSE_SPECIAL = 2,  // find special tokens that are written in the text
};
// Appends the ids of `text` to `out`.  On an error `out` keeps what it had before.  Needs no Trap:
// TENON_ENOMEM is returned, TENON_EINVAL for a text over the limit (LIMIT_TOKENIZER_TEXT).
MUST_USE tenon_status tokenizer_encode(const Tokenizer *t, Str text, int flags, TokenBuffer *out,
                                       Diag *d);

// The same of two texts that a model reads together, with what it expects around and between them.
// *out_second is where the type of tokens changes: the second text's first one, or 0 where the
// form has one type.  TENON_EUNSUPPORTED: the tokenizer has no form for pairs.
MUST_USE tenon_status tokenizer_encode_pair(const Tokenizer *t, Str first, Str second,
                                            TokenBuffer *out, int64_t *out_second, Diag *d);
// Takes tokens out of the end of what tokenizer_encode or _pair made with TOKENIZE_ADD_SPECIAL,
// those around the text left out, until `most` are left or `from` is reached.
void tokenizer_cut(const Tokenizer *t, TokenBuffer *b, int64_t most, int64_t from);

// ---- decoding ----
enum {
  DETOKENIZE_SKIP_SPECIAL = 1,  // leave special tokens out
  DETOKENIZE_RAW = 2,           // the bytes as they are; else what is not UTF-8 becomes U+FFFD
  DETOKENIZE_CONTINUE = 4,      // the text goes on from an earlier one: keep the first word's space
};
// Appends the text of ids to `out`.  Ids out of range: TENON_EINVAL.  Allocates in out's arena.
MUST_USE tenon_status tokenizer_decode(const Tokenizer *t, const int32_t *id, int64_t n, int flags,
                                       StrBuf *out, Diag *d);

// Decodes token by token.  What was given out so far is always whole UTF-8 characters, and all that
// was given out, with the rest, is what tokenizer_decode gives for all ids at once.
// On the caller's stack; owns nothing.
typedef struct TokenStream {
  const Tokenizer *t;
  int flags;
  bool begun;        // a token's text was seen
  uint8_t held[16];  // the beginning of a character, or of a run of bytes
  int nheld;
  int64_t state;  // of the decoder
} TokenStream;
void token_stream_init(TokenStream *s, const Tokenizer *t, int flags);
// Appends what became certain with this token; may be nothing.
MUST_USE tenon_status token_stream_next(TokenStream *s, int32_t id, StrBuf *out, Diag *d);
void token_stream_end(TokenStream *s, StrBuf *out);  // the rest: U+FFFD for a cut character

#endif
