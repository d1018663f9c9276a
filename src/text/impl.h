// impl.h -- what the files of text/ share: the parts of a tokenizer and the state of one encoding.
//
// Encoding is a pipeline.  Text is cut at added tokens (added.c), what is between them is
// normalised (normalise.c), cut again, split into pieces (pretoken.c), and each piece becomes ids
// by the model (bpe.c, unigram.c, wordpiece.c).  Steps are data that the readers make.
#ifndef TENON_TEXT_IMPL_H
#define TENON_TEXT_IMPL_H

#include "text/bytes.h"
#include "text/pattern.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

// ---- tables (vocab.c) ----
// Strings to ids.  Keys are by id and borrowed.
typedef struct TokenMap {
  const Str *key;
  struct TokenMapSlot {
    uint32_t hash;
    int32_t id;  // -1: empty
  } * slot;
  uint64_t mask;
} TokenMap;
// Of keys 0 ... n - 1; a key with p == NULL is left out.  Of equal keys the first counts, or with
// `last_wins` the last.
void token_map_init(TokenMap *m, const Str *key, int64_t n, bool last_wins, Arena *a);
int32_t token_map_get(const TokenMap *m, const uint8_t *p, int64_t n);  // -1: absent
uint32_t token_hash(const uint8_t *p, int64_t n);

// A trie of strings with values, breadth first: the children of a node follow one another.
typedef struct Trie {
  const struct TrieNode {
    int32_t child;    // the first
    int32_t value;    // -1: no string ends here
    uint16_t nchild;  //
    uint8_t label;    // the byte that leads here
  } * node;
  int64_t n;
  int32_t root[256];  // the child by byte; -1: none
} Trie;
// `value` of key i is i; of equal keys the first counts.  Keys with p == NULL or n == 0 are left
// out.
void trie_init(Trie *t, const Str *key, int64_t n, Arena *a);
int32_t trie_step(const Trie *t, int32_t node, uint8_t byte);  // node -1: the root; -1: none
// The value of the longest string at p, and its length; -1: none.
int32_t trie_longest(const Trie *t, const uint8_t *p, int64_t n, int64_t *out_bytes);

// ---- added tokens (added.c) ----
typedef struct AddedToken {
  int32_t id;
  Str text;  // as it is looked for
  bool special, single_word, lstrip, rstrip;
  bool normalised;  // looked for in normalised text
} AddedToken;
typedef struct AddedSet {
  const AddedToken *token;
  int64_t n;
  Trie trie;  // values are indexes of token
} AddedSet;

// ---- steps ----
typedef struct Charsmap Charsmap;  // normalise.c
typedef enum {
  NORM_FORM,           // `form`
  NORM_LOWER,          //
  NORM_STRIP,          // left, right
  NORM_STRIP_ACCENTS,  // drops marks
  NORM_PREPEND,        // `text`, unless the input is empty
  NORM_REPLACE,        // matches of `regex` by `text`
  NORM_SPACE_TO,       // ' ' by `text`: a Replace that needs no regex
  NORM_BERT_CLEAN,     // control characters out, white space to ' '
  NORM_BERT_CJK,       // spaces around ideographs
  NORM_NMT,            //
  NORM_CHARSMAP,       // SentencePiece's precompiled map
  NORM_SQUEEZE,        // SentencePiece's remove_extra_whitespaces
  NORM_BYTES           // bytes to the characters of byte-level BPE
} NormKind;
typedef struct NormStep {
  NormKind kind;
  UnicodeForm form;
  bool newest;  // NORM_FORM: by Unicode 16.0, else 9.0
  bool left, right;
  Str text;
  const Pattern *regex;
  const Charsmap *map;
} NormStep;
typedef enum {
  SPLIT_REMOVED,
  SPLIT_ISOLATED,
  SPLIT_WITH_PREVIOUS,
  SPLIT_WITH_NEXT,
  SPLIT_CONTIGUOUS
} SplitBehaviour;
typedef enum { PREPEND_NEVER, PREPEND_FIRST, PREPEND_ALWAYS } PrependScheme;
typedef enum {
  PRE_SPLIT,         // at matches of `regex`
  PRE_PREFIX_SPACE,  // ' ' in front, unless there is one
  PRE_METASPACE,     // ' ' to `text`, which `scheme` may put in front; split before each
  PRE_BYTES  // bytes to the characters of byte-level BPE; as the last step left to the model
} PreKind;
typedef struct PreStep {
  PreKind kind;
  const Pattern *regex;
  SplitBehaviour behaviour;
  bool invert, split;
  PrependScheme scheme;
  Str text;
} PreStep;

// ---- models ----
typedef enum { MODEL_BPE, MODEL_UNIGRAM, MODEL_WORDPIECE, MODEL_WORDLEVEL } ModelKind;
// Pairs of symbols to what they merge to, by rank.
typedef struct PairSlot {
  int32_t left, right;  // left -1: empty
  uint32_t rank;        // lower goes first
  int32_t id;
} PairSlot;
enum { CHAR_PAGES = 256 };
typedef struct Bpe {
  PairSlot *slot;
  uint64_t mask;
  uint64_t *filter;  // a bit for each pair by the high bits of its hash: small enough for a cache
  int filter_shift;
  int32_t *char_page[CHAR_PAGES];  // symbols of characters below U+10000; NULL: of none
  Str prefix, suffix;              // of symbols that continue a word, and of its last one
  int64_t longest;                 // bytes of the longest token
  bool ignore_merges;              // a piece that is a token is that token
  bool bytes;                      // symbols are bytes, else characters
  int32_t byte_id[256];
  // No merge joins a character other than this one to it, so text may be cut before it: empty where
  // some merge does, or where pieces are short anyway.
  Str cut;
} Bpe;
typedef struct Unigram {
  Trie trie;           // of model texts
  const float *score;  // [size]
  double unk_score, user_score;
  bool single;  // sums in float, as SentencePiece does; else double
} Unigram;

// ---- decoding ----
typedef enum {
  DECODE_PLAIN,      // pieces one after the other
  DECODE_METASPACE,  // the first piece without its word marks
  DECODE_STRIP,      // ... without up to `strip` spaces at the start
  DECODE_WORDS,      // WordPiece: a space before each piece but those that continue
  DECODE_SUFFIX,     // BPEDecoder: a suffix becomes a space, but at the end
  DECODE_JOIN        // no decoder: tokens with spaces between them
} DecodeKind;

struct Tokenizer {
  Arena *arena;
  const char *about;
  int64_t size;
  const Str *text;         // [size] as the vocabulary writes tokens; p == NULL: no such token
  const Str *piece;        // [size] the bytes that they stand for
  const Str *piece_first;  // [size] at the start of a text, where that differs; or NULL
  uint8_t *flag;           // [size] FLAG_...
  TokenMap by_text;        // all tokens by `text`
  TokenMap by_piece;       // by `piece`, for tokenizer_find

  AddedSet raw, normalised;  // tokens to find in the text, and in what the normalizers make of it
  NormStep *norm;
  int64_t nnorm;
  bool norm_whole;  // SentencePiece: normalizers see the text before it is cut at `normalised`
  PreStep *pre;
  int64_t npre;
  bool unmap;  // pieces come to the model as characters of byte-level BPE

  ModelKind kind;
  const Str *model;  // [nmodel] tokens as the model sees them, and symbols without a token
  int64_t nmodel;
  TokenMap vocab;  // by `model`
  Bpe bpe;
  Unigram unigram;
  Str word_prefix;     // WordPiece
  int64_t word_chars;  // ... characters of a word at most
  bool byte_fallback, fuse_unk;
  int32_t byte_token[256];  // of <0x00> ...; -1: none
  int32_t unk;              // of the model; -1: unknown characters are left out
  bool unk_is_error;        // the model says that there must be one

  const int32_t *before, *after, *between;  // TOKENIZE_ADD_SPECIAL; between: of the texts of a pair
  int64_t nbefore, nafter, nbetween;
  bool pairs, pair_types;  // there is a form for pairs; its second half is of type 1

  DecodeKind decode;
  bool byte_each;  // each byte that is not UTF-8 becomes U+FFFD, not each maximal part
  int64_t strip;
  bool clean_up, fused;
  int32_t role[TOKEN_ROLES];
};
enum {
  FLAG_SPECIAL = 1,
  FLAG_ADDED = 2,
  FLAG_BYTE = 4,       // <0x00>: `piece` is that byte
  FLAG_CONTINUES = 8,  // WordPiece: no space before it
  FLAG_UNUSED = 16,
  FLAG_END = 32,    // ends a generation
  FLAG_SPACE = 64,  // DECODE_SUFFIX: a space follows
  FLAG_MODEL = 128  // the model can produce it, besides being added or not
};

// ---- one encoding ----
enum { CACHE_KEY = 26, CACHE_IDS = 8 };
typedef struct CacheSlot {
  uint32_t hash;
  uint8_t bytes, nids;  // bytes 0: empty
  uint8_t key[CACHE_KEY];
  int32_t id[CACHE_IDS];
} CacheSlot;
typedef struct BpeWork {
  int32_t *id, *prev, *next, *merged;
  uint32_t *start, *rank;
  uint64_t *heap;
  int64_t n, cap, nheap;
  void *memory;
  int64_t bytes;
} BpeWork;
typedef struct Encoder {
  const Tokenizer *t;
  TokenBuffer *out;
  int flags;
  Bytes valid, norm[2], step[LIMIT_TOKENIZER_STEPS], word;
  UnicodeScratch unicode;
  BpeWork work, pair, next;
  Bytes lattice;
  CacheSlot *cache;
  uint64_t cache_mask;
  int64_t cache_bytes;
  int64_t regex_work, regex_limit;
  bool at_start;  // the piece begins the text
  bool last_unk;  // the last id of this piece is of unknown characters
} Encoder;
void encoder_put(Encoder *e, int32_t id);
void encoder_unknown(Encoder *e, const uint8_t *p, int64_t n);  // a character without a token
void encoder_piece(Encoder *e, Str piece);                      // by the model

// Steps: from `in` to e->norm, and from a piece to the model.
Str normalise(Encoder *e, const NormStep *step, int64_t n, Str in);
void pretokenise(Encoder *e, Str text, int64_t step);
// Calls `other` for what is between the tokens of `set`, which it emits.
typedef void TextFn(Encoder *e, Str text, bool at_start);
void added_split(Encoder *e, const AddedSet *set, Str text, bool at_start, TextFn *other);

void bpe_encode(Encoder *e, Str piece);
void unigram_encode(Encoder *e, Str piece);
void wordpiece_encode(Encoder *e, Str piece);
void bpe_work_free(BpeWork *w);

// ---- for readers ----
typedef struct Merge {
  int32_t left, right, id;
  uint32_t rank;
} Merge;
// Fills t->bpe of merges; of equal pairs the last counts.
void bpe_init(Tokenizer *t, const Merge *merge, int64_t n);
// All merges that a vocabulary allows: of any two tokens or characters whose joined bytes are a
// token.  rank_of gives the token's rank; `takes` (may be NULL) says which tokens take part.
// Characters that are no tokens get ids from t->size on, in t->model.
void bpe_init_ranks(Tokenizer *t, const uint32_t *rank, const bool *takes);
void bpe_find_cut(Tokenizer *t, Str mark);
const Charsmap *charsmap_read(Str bytes, Arena *a, Diag *d, tenon_status *out);

// The characters of byte-level BPE (GPT-2's bytes_to_unicode).
uint32_t byte_to_char(uint8_t byte);
int char_to_byte(uint32_t c);  // -1: none
// The bytes that such characters stand for; p == NULL: some character is none.
Str bytes_of_chars(Str text, Arena *a);

// How tokens become what they stand for, one after the other.
typedef enum {
  DEC_REPLACE,   // `from` by `to`
  DEC_STRIP,     // up to `start` times `from` at the start, `stop` at the end
  DEC_BYTES,     // characters of byte-level BPE to bytes
  DEC_FALLBACK,  // <0x0A> to its byte
  DEC_WORDS,     // `from` at the start says that a word continues
  DEC_SUFFIX     // `from` ends a word
} DecodeStepKind;
typedef struct DecodeStep {
  DecodeStepKind kind;
  Str from, to;
  int64_t start, stop;
} DecodeStep;

// Growing description of a tokenizer, that build_finish checks and completes.
typedef struct TokenizerBuild {
  Tokenizer *t;
  Arena *arena;
  Diag *diag;
  const char *file;
  int64_t ntokens;  // ids that have a token
  VEC(Str) text;
  VEC(uint8_t) flag;
  VEC(AddedToken) added;
  VEC(NormStep) norm;
  VEC(PreStep) pre;
  VEC(DecodeStep) decode;
  VEC(int32_t) before, after, between;
  bool byte_level;  // tokens are written in the characters of byte-level BPE
  Str word_mark;    // what stands for a space in tokens; empty: nothing does
} TokenizerBuild;
void build_init(TokenizerBuild *b, const char *file, Arena *a, Diag *d);
tenon_status build_fail(TokenizerBuild *b, tenon_status code, const char *fmt, ...) PRINTF(3, 4);
// Token `id` with this text; ids may come in any order.
MUST_USE tenon_status build_token(TokenizerBuild *b, int64_t id, Str text, uint8_t flags);
void build_tokens_done(TokenizerBuild *b);  // t->size, text, model and vocab are there behind it
int32_t build_find(const TokenizerBuild *b, Str text);  // behind build_tokens_done
MUST_USE tenon_status build_norm(TokenizerBuild *b, NormStep s);
MUST_USE tenon_status build_pre(TokenizerBuild *b, PreStep s);
MUST_USE tenon_status build_decode(TokenizerBuild *b, DecodeStep s);
MUST_USE tenon_status build_regex(TokenizerBuild *b, Str pattern, const Pattern **out);
MUST_USE tenon_status build_split(TokenizerBuild *b, Str pattern, SplitBehaviour how, bool invert);
// The pre-tokenizer of a name of pre.def.
MUST_USE tenon_status build_pre_named(TokenizerBuild *b, Str name, bool *out_bos);
Str build_gpt2_pattern(void);
int build_byte_of(Str token);  // of "<0x0A>"; -1: it is none
MUST_USE tenon_status build_finish(TokenizerBuild *b, const char *kind, Tokenizer **out);
// A SentencePiece model, which says what a GGUF file says.
MUST_USE tenon_status sentencepiece_load(const TokenizerGguf *g, const char *file, bool unigram,
                                         Arena *a, Diag *d, Tokenizer **out);
bool base64_decode(Str s, Arena *a, Str *out);  // false: it is none
void tokenizer_guess_roles(Tokenizer *t);       // of special tokens that nobody named
void encoder_free(Encoder *e);

MUST_USE tenon_status read_json(Str bytes, const char *file, Arena *a, Diag *d, Tokenizer **out);
MUST_USE tenon_status read_sentencepiece(Str bytes, const char *file, Arena *a, Diag *d,
                                         Tokenizer **out);
MUST_USE tenon_status read_tiktoken(Str bytes, const char *file, const char *pre, Arena *a, Diag *d,
                                    Tokenizer **out);
MUST_USE tenon_status read_tekken(Str bytes, const char *file, Arena *a, Diag *d, Tokenizer **out);

#endif
