// tiny_llm.h -- small language models for tests: named tensors of random numbers, written as a
// Hugging Face folder or as a GGUF file, and the logits that Tenon computes from a path.
#ifndef TENON_TESTS_SUPPORT_TINY_LLM_H
#define TENON_TESTS_SUPPORT_TINY_LLM_H

#include "models/llm.h"

typedef struct TinyTensor {
  const char *name;
  int rank;
  int64_t dims[3], n;
  float *data;
  const char *gguf;    // its name there; NULL: none
  int64_t heads;       // rows are permuted by head in GGUF, as converters do for Llama; 0: not
  const char *stored;  // the word of safetensors for another type than f32, of which `data` has the
  int64_t bytes;       // bytes; NULL: f32
} TinyTensor;
typedef struct TinyLlm {
  Arena arena;
  VEC(TinyTensor) t;
  uint64_t seed;
  StrBuf meta;  // of GGUF
  int64_t nmeta;
} TinyLlm;

void tiny_init(TinyLlm *m);
void tiny_free(TinyLlm *m);
// A tensor of numbers about `mean`, spread by `spread`; rank from the dims that are not 0.
TinyTensor *tiny_add(TinyLlm *m, const char *name, double mean, double spread, int64_t d0,
                     int64_t d1);
TinyTensor *tiny_addf(TinyLlm *m, double mean, double spread, int64_t d0, int64_t d1,
                      const char *fmt, ...) PRINTF(6, 7);
// Bytes of another type, whose word in safetensors is `stored`.
TinyTensor *tiny_raw(TinyLlm *m, const char *name, const char *stored, int64_t d0, int64_t d1,
                     const void *bytes, int64_t n);
const float *tiny_get(const TinyLlm *m, const char *fmt, ...) PRINTF(2, 3);
// Files in a folder of the test's own, whose path is returned.  More than one shard: with an index.
const char *tiny_folder(TinyLlm *m, const char *name, const char *config, int shards);
// A LoRA adapter as PEFT saves one.
const char *tiny_adapter(TinyLlm *m, const char *name, const char *config);
void tiny_meta_u32(TinyLlm *m, const char *key, uint32_t v);
void tiny_meta_f32(TinyLlm *m, const char *key, float v);
void tiny_meta_str(TinyLlm *m, const char *key, const char *v);
const char *tiny_gguf(TinyLlm *m, const char *name);
void tiny_write(const char *path, const void *bytes, int64_t n);

// Opens a path; the message is in d.
tenon_status tiny_open(const char *path, Diag *d, LlmModel **out);
// Logits of the plain graph in the interpreter, [n, vocab] from malloc; NULL: a test has failed.
float *tiny_logits(const char *path, const int32_t *ids, int64_t n, int64_t vocab);
// The same of a graph that is built otherwise, and how many nodes of an op it has.
float *tiny_logits_of(const char *path, const LlmBuildOptions *how, const int32_t *ids, int64_t n,
                      int64_t vocab, int op, int64_t *out_nodes);
// The largest difference of two rows of n numbers.
double tiny_difference(const float *a, const double *b, int64_t n);

#endif
