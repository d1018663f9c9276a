// adapter.h -- LoRA adapters: low-rank changes of a model's products, apart from its weights.
//
// A graph with room for adapters (LlmBuildOptions.adapters) has two states for each product of a
// layer, lora_a.L.ROLE [adapters, in, rank] and lora_b.L.ROLE [adapters, rank, out], and an input
// that says which adapter a row has: y += (x A) B.  Nobody but llm_adapter_put writes them.  An
// adapter of a lower rank, or without a change of a product, has zeros there.
//
// A file is one of PEFT (a folder with adapter_config.json and adapter_model.safetensors) or a GGUF
// file.  It is untrusted: every tensor is one of a known product and has its shape, every key of
// the configuration is used, irrelevant or refused by name, and every number is finite.
#ifndef TENON_MODELS_ADAPTER_H
#define TENON_MODELS_ADAPTER_H

#include "base/json.h"
#include "models/arch.h"

enum { LLM_RANK_MAX = 1024, LLM_ADAPTERS_MAX = 256 };

// A product that an adapter can change.
typedef struct LlmTarget {
  int64_t layer, in, out;
  LlmRole role;
} LlmTarget;
typedef struct LlmTargets {
  LlmTarget *v;
  int64_t n;
} LlmTargets;
// In order of layers, in the arena.
LlmTargets llm_targets(const LlmModel *m, Arena *a);
// Whether the product of this role of a layer is one; where `out` is not NULL, which.
bool llm_target(const LlmModel *m, LlmRole role, int64_t layer, LlmTarget *out);
// The name of a state of the graph: letter 'a' or 'b'.
const char *llm_adapter_state(Arena *a, char letter, const LlmTarget *t);
// Bytes of the states of one adapter, all targets together.
int64_t llm_adapter_bytes(const LlmModel *m, int64_t rank);

// What a file says of one product: A is [rank, in], B [out, rank].
typedef struct LlmPair {
  const Weight *a, *b;  // NULL: the product is not changed
  double scale;
} LlmPair;

typedef struct LlmAdapter {
  Arena arena;
  Imported in;
  File file, text;
  bool gguf;
  int64_t rank;  // the greatest
  LlmTargets target;
  LlmPair *pair;  // by target
} LlmAdapter;

// Reads and checks all of an adapter for the model; sets a trap of its own.  Model NULL: only the
// files are read, and of the result only the rank counts.
MUST_USE tenon_status llm_adapter_open(const LlmModel *m, const char *path, Diag *d,
                                       LlmAdapter **out);
void llm_adapter_close(LlmAdapter *l);  // NULL is fine; before the model's
// The factors of a target as states of `rank` have them: a [in, rank], b [rank, out], of which b is
// multiplied by the adapter's own scale and by `scale`.  Needs a Trap.
void llm_adapter_put(LlmAdapter *l, const LlmModel *m, int64_t target, int64_t rank, float scale,
                     float *a, float *b);

// ---- names (weights.c) ----
enum { LLM_NAME_BYTES = 256 };
// The name of a role's tensor in files of one form; false: it has none.
bool llm_name_in(const LlmModel *m, bool gguf, LlmRole role, LlmPart part, int64_t layer,
                 char out[LLM_NAME_BYTES]);

// ---- configurations (adapter_config.c) ----
// How the scale of a product follows from an adapter's files.
typedef struct LlmAdapterConfig {
  double alpha;                // 0, of GGUF: the scale is 1
  int64_t rank;                // of PEFT: what tensors must have; 0: as they have it
  bool root;                   // divided by the root of the rank, not by the rank
  const Json *ranks, *alphas;  // of PEFT: by names of products, which are patterns
} LlmAdapterConfig;
MUST_USE tenon_status llm_adapter_config(Arena *a, Str text, Diag *d, LlmAdapterConfig *out);
MUST_USE tenon_status llm_adapter_metadata(const LlmModel *m, const struct GgufFile *f, Diag *d,
                                           LlmAdapterConfig *out);
// The rank and alpha of the product of this name.
MUST_USE tenon_status llm_adapter_of(const LlmAdapterConfig *c, const char *name, Diag *d,
                                     int64_t *rank, double *alpha);

#endif
