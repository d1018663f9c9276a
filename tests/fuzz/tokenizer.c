// tokenizer.c -- fuzz target: tokenizers of every format, and texts through those that load.
//
// The input is a file, and behind its last NUL byte a text.  What loads encodes the text and
// decodes the ids, at once and token by token, which must give the same.
#include "frontends/gguf/tokenizer.h"
#include "fuzz.h"

static Diag diag;

static void decode_twice(const Tokenizer *t, const TokenBuffer *ids, Arena *a) {
  StrBuf whole, parts;
  TokenStream s;
  strbuf_init(&whole, a);
  strbuf_init(&parts, a);
  if (tokenizer_decode(t, ids->id, ids->n, 0, &whole, &diag)) __builtin_trap();
  token_stream_init(&s, t, 0);
  for (int64_t i = 0; i < ids->n; i++) {
    if (token_stream_next(&s, ids->id[i], &parts, &diag)) __builtin_trap();
    if (!str_is_utf8((Str){strbuf_text(&parts), parts.n})) __builtin_trap();
  }
  token_stream_end(&s, &parts);
  if (!str_eq((Str){strbuf_text(&whole), whole.n}, (Str){strbuf_text(&parts), parts.n}))
    __builtin_trap();
}

static void use(const Tokenizer *t, Str text, Arena *a, TokenBuffer *ids) {
  for (int flags = 0; flags < 4; flags++) {
    ids->n = 0;
    if (tokenizer_encode(t, text, flags, ids, &diag)) continue;
    for (int64_t i = 0; i < ids->n; i++)
      if (ids->id[i] < 0 || ids->id[i] >= tokenizer_size(t)) __builtin_trap();
    decode_twice(t, ids, a);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_begin();
  Arena a;
  Trap trap;
  TokenBuffer ids = {0};
  arena_init(&a);
  a.limit = 200 << 20;
  diag_init(&diag);
  Str file = {(const char *)data, (int64_t)size},
      text = STR("Hello, w\xc3\xb6rld! <s> 123\xff\n\n x");
  while (file.n && file.p[file.n - 1]) file.n--;
  if (file.n) {
    text = (Str){(const char *)data + file.n, (int64_t)size - file.n};
    file.n--;
  } else {
    file.n = (int64_t)size;
  }
  trap_enter(&trap, &diag);
  if (setjmp(trap.env) == 0) {
    Tokenizer *t;
    bool gguf = file.n > 4 && !memcmp(file.p, "GGUF", 4);
    TokenizerOptions o = {.pre = "gpt2"};
    tenon_status s =
        gguf ? gguf_tokenizer_bytes((Str){(const char *)data, (int64_t)size}, "fuzz", &a, &diag, &t)
             : tokenizer_load_bytes(file, "fuzz", &o, &a, &diag, &t);
    if (!s) use(t, text, &a, &ids);
  }
  trap_leave(&trap);
  token_buffer_deinit(&ids);
  arena_deinit(&a);
  fuzz_end();
  return 0;
}
