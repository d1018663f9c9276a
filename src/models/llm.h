// llm.h -- language models: from a Hugging Face folder or a GGUF file to a graph of logits.
//
// llm_open reads what the files say (config.json, generation_config.json, *.safetensors with or
// without an index; or GGUF metadata and its tensor table), resolves every choice that
// distinguishes decoders into an LlmSpec, verifies it, and accounts for every tensor: what is
// missing, unexpected or wrongly shaped is named.  Weights stay mapped.  llm_build then makes the
// graph; it looks at the spec and never at the architecture's name.
//
// Architectures are rows (arch.def), and so are names of tensors (names.def) and keys of
// configurations (config.def).  Every key is used, known to be irrelevant, or refused by its name.
//
// What comes from files is untrusted: sizes are bounded by the spec's verifier before use, and
// depth and time of all that reads them are linear.
#ifndef TENON_MODELS_LLM_H
#define TENON_MODELS_LLM_H

#include "frontends/common/weights.h"
#include "ir/ir.h"
#include "eval/paged.h"

enum {
  LLM_LAYERS_MAX = 1024,   // most layers
  LLM_EXPERTS_MAX = 4096,  // most experts of a layer
  LLM_HEADS_MAX = 4096,
  LLM_ROPES_MAX = 2,      // tables of angles: of global and of windowed layers
  LLM_EOS_MAX = 32,       // tokens that end a text
  LLM_SIZE_MAX = 1 << 28  // most of any other size: of vocabulary, hidden size, context
};

// ---- what distinguishes one decoder from another ----
typedef enum { LLM_RMS, LLM_LAYER } LlmNorm;
// Norms of queries and keys: none; one weight for every head; a weight for each head; over all
// heads together.
typedef enum { LLM_QK_NONE, LLM_QK_HEAD, LLM_QK_HEADS, LLM_QK_WHOLE } LlmQkNorm;
typedef enum { LLM_ATTENTION, LLM_MLA, LLM_MAMBA2, LLM_GATED_DELTA } LlmMixer;
typedef enum { LLM_DENSE, LLM_MOE, LLM_NO_FFN } LlmFfn;
typedef enum { LLM_SILU, LLM_GELU, LLM_GELU_TANH, LLM_RELU, LLM_RELU2 } LlmAct;
// Scores of experts: a softmax over all of them, over the chosen ones, or each its sigmoid.
typedef enum { LLM_SOFTMAX, LLM_SOFTMAX_TOP, LLM_SIGMOID } LlmScore;
// How the groups of experts are ranked: by their best expert, or by the sum of their best two.
typedef enum { LLM_GROUP_MAX, LLM_GROUP_TOP2 } LlmGroupRank;
// A fused product of queries, keys and values: apart; one behind the other; by head (q k v of the
// first head, ...); by group (the queries of a KV head, its key, its value).
typedef enum { LLM_QKV_APART, LLM_QKV_CONCAT, LLM_QKV_BY_HEAD, LLM_QKV_BY_GROUP } LlmQkv;
// A fused product of gate and up: apart; one behind the other; alternating.
typedef enum { LLM_UP_APART, LLM_UP_CONCAT, LLM_UP_INTERLEAVED } LlmGateUp;
// What a classifier has in front of it: nothing; a product and tanh; a product and relu.
typedef enum { LLM_HEAD_PLAIN, LLM_HEAD_TANH, LLM_HEAD_RELU } LlmHead;
// How the rows of a text become one vector, where the files say so.
typedef enum { LLM_POOL_UNSAID, LLM_POOL_MEAN, LLM_POOL_FIRST, LLM_POOL_LAST } LlmPooling;

// Rotary positions: angle i of position p is p * inv_freq[i], and sines and cosines are multiplied
// by `factor`.
typedef struct LlmRope {
  int64_t dim;        // leading elements of a head that turn; 0: there is no such table
  bool interleaved;   // pairs are neighbours, not the two halves
  double factor;      // 1, or what a scaling of long contexts has
  float *inv_freq;    // [dim / 2]
  const char *about;  // "default", "llama3", "yarn", ...
} LlmRope;

typedef struct LlmLayer {
  LlmMixer mixer;
  LlmFfn ffn;
  int64_t window;  // of attention: keys that a token sees, itself included; 0: all
  int rope;        // index of a table; -1: no rotary positions
} LlmLayer;

typedef struct LlmMoe {
  int64_t experts, top_k, size;  // size: of an expert's hidden layer
  LlmScore score;
  bool norm_top;  // the chosen scores are divided by their sum
  double scale;   // and multiplied
  bool bias;      // expert_bias joins the scores for the choice alone
  int64_t groups, top_groups;
  LlmGroupRank group_rank;
  double group_fill;  // score of the experts of other groups
  int64_t shared;     // size of the shared expert; 0: none
  bool shared_gate;   // its result is multiplied by a sigmoid of its own
  LlmGateUp gate_up;
  bool in_out;     // experts' matrices are [in, out]
  bool biases;     // of router and experts
  bool by_expert;  // a tensor for each expert, not one for all
} LlmMoe;

typedef struct LlmMla {
  int64_t q_rank, kv_rank, nope, rope;  // q_rank 0: queries have one product
} LlmMla;

// Of Mamba-2 and of gated delta rules: both are a causal convolution and a state per head.
typedef struct LlmRecurrent {
  int64_t heads, head_size;       // of values
  int64_t key_heads, state_size;  // of keys; of Mamba-2 groups of B and C, and their size
  int64_t conv;                   // taps
  bool conv_bias, bias;
  double dt_min, dt_max;
  double norm_epsilon;
  int64_t norm_groups;
} LlmRecurrent;

// How a quantiser packed matrices (quantization_config): int4 and other small integers in 32-bit
// words, with a scale and a zero for each group of a row, in three orders; or elements of 8 bits
// with a scale for each tile.
typedef enum {
  LLM_QUANT_NONE,
  LLM_QUANT_AWQ,
  LLM_QUANT_GPTQ,
  LLM_QUANT_PACKED,  // compressed-tensors
  LLM_QUANT_FP8,
  LLM_QUANT_INT8
} LlmQuantForm;
typedef struct LlmQuant {
  LlmQuantForm form;
  int64_t bits, group;            // of words; group 0: a whole row
  bool zeros_less;                // zeros are stored less 1
  bool symmetric;                 // ... or are not there: half of the range
  int64_t tile_rows, tile_k;      // of 8 bits; 0: all of them
  const char *scale, *inputs[2];  // ... names' ends: of the scales, and of tensors for activations
} LlmQuant;

typedef struct LlmArch LlmArch;
typedef struct LlmSpec {
  const char *name;    // of the architecture's row
  const LlmArch *row;  // arch.def
  bool gguf;           // read from GGUF
  int64_t vocab, hidden, layers, heads, kv_heads, head_size, value_size, ffn;
  int64_t context;    // most positions that the model was made for
  int64_t positions;  // rows of the table of learned positions; 0: none
  LlmNorm norm;
  double epsilon;
  bool norm_plus_one;  // weights are stored less 1
  bool norm_bias;      // of layer norms
  LlmQkNorm qk_norm;
  bool qk_norm_bias;
  bool embed_norm;  // of the embedding
  // Of a layer: before and after attention, before and after the feed-forward part.
  bool attn_norm, attn_post_norm, ffn_norm, ffn_post_norm;
  bool parallel;  // attention and feed-forward see the same x; without ffn_norm, one norm
  LlmQkv qkv;
  bool in_out;  // matrices of layers are [in, out]
  bool q_bias, kv_bias, o_bias, up_bias, down_bias, head_bias;
  bool q_gate;  // each head's query is followed by a gate of the attention's result
  bool sinks;   // a logit per head that joins the softmax's sum alone
  bool alibi;
  LlmAct act;
  bool gated;                   // act(gate) * up, else act(up)
  double act_limit, act_alpha;  // gpt-oss: clamps, and the factor in the sigmoid; limit 0: none
  LlmGateUp gate_up;
  double embed_scale, residual_scale, attention_scale, logits_scale;  // factors
  double attention_cap, logits_cap;                                   // soft caps; 0: none
  bool tied;                                                          // the head is the embedding
  bool encoder;             // tokens see those behind them, too; there are no logits
  bool base;                // a decoder without a head: no logits either
  bool norm_sum;            // norms behind both parts, each of the sum with what went in
  bool final_norm;          // ... of the last layer's result
  int64_t types;            // rows of the table of the halves of a pair; 0: none
  int64_t position_offset;  // row of the first position
  bool classify;            // there is a classifier: of the first row of an encoder, else the last
  int64_t labels;           // its scores
  LlmHead pooler;
  LlmRope rope[LLM_ROPES_MAX];
  LlmLayer *layer;  // [layers]
  LlmMoe moe;
  LlmMla mla;
  LlmRecurrent recurrent;
  LlmQuant quant;
} LlmSpec;

// What generation_config.json or the GGUF's tokenizer keys say; fields that are absent are -1.
typedef struct LlmGeneration {
  int64_t bos, pad, neos, eos[LLM_EOS_MAX];
  double temperature, top_p, min_p, repetition_penalty;
  int64_t top_k;
} LlmGeneration;

// ---- open models ----
struct GgufFile;
typedef struct LlmFiles LlmFiles;
typedef struct LlmModel {
  Arena arena;  // of all that follows
  LlmSpec spec;
  LlmGeneration generation;
  LlmPooling pooling;
  const char *path;    // as given
  const char *folder;  // of a folder: where tokenizer.json and the template are; NULL: a GGUF file
  const struct GgufFile *gguf;  // metadata with tokenizer and template; NULL: a folder
  const Weights *weights;       // every tensor of the files, by its name there
  int64_t weight_bytes;         // in the files' types, each tensor once
  int64_t
      token_bytes;  // ... that decoding a token reads: of the embedding one row, of experts top_k
  LlmFiles *files;
} LlmModel;

typedef struct LlmOpenOptions {
  int64_t context;  // longest sequence that will be run; 0: the model's own.  Scalings of rotary
                    // positions that depend on the length take this one, so that results never
                    // depend on a batch
  int64_t memory_limit;  // bytes that tables may take; 0: none
} LlmOpenOptions;

// True where a path is a folder with config.json, or a GGUF file: llm_open reads it, or says what
// is wrong with it.
bool llm_is_model(const char *path);
bool llm_is_folder(const char *path);
// Sets a trap of its own.  NULL options: all defaults.
MUST_USE tenon_status llm_open(const char *path, const LlmOpenOptions *o, Diag *d, LlmModel **out);
void llm_close(LlmModel *m);  // NULL is fine; after all graphs that were built from it

// ---- graphs ----
// LLM_PLAIN: one sequence as a whole.  Input ids i32[T]; result logits f32[T, V].
// LLM_PAGED: rows are tokens of any sequences.  Inputs ids, pos, seq, slot i32[T], table i32[S, P],
//   out i32[R]; then for each layer L with attention the states k.L [N, H, 32, D] and v.L
//   [N, H, 32, Dv], written in place.  Result: logits f32[R, V].
//   With recurrent layers also the inputs from and to, i32[S], behind `out`: sequence s goes on
//   from slot from[s] of the states (-1: zeros) and leaves its own in slot to[s].  Such a layer has
//   the states c.L (rows that its convolution still needs) and s.L, of M slots, whose next versions
//   are further results.
//   With `embed` also the input pick i32[E], rows whose hidden states are wanted, behind them all,
//   and the result hidden f32[E, hidden size]; with a classifier scores f32[E, labels], too.
//   With `adapters` also the input adapter i32[T] behind them all, each row's adapter (-1: none),
//   and states that hold them (adapter.h).
// Encoders: LLM_PLAIN gives hidden f32[T, hidden size].  LLM_PAGED has inputs ids, pos, seq, slot,
//   table, last, type, pick: row t sees its sequence's keys up to position last[t], so all rows of
//   a sequence are in one step, and what is in its pages does not outlive the step.
typedef enum { LLM_PLAIN, LLM_PAGED } LlmForm;
// What products take of their activations where weights are in ggml's block types.
typedef enum { LLM_ACTIVATIONS_F32, LLM_ACTIVATIONS_INT8 } LlmActivations;
typedef struct LlmBuildOptions {
  LlmForm form;
  DType kv;  // of the states: DT_F32 (0, too), DT_F16, DT_BF16, or DT_I8 with a scale for each head
             // of a token, in the states k_scale.L and v_scale.L [N, H, 32, 1]
  LlmActivations activations;
  bool in_place;           // products read matrices of 16 bits as the files have them; else their
                           // casts to f32, which compilers fold
  bool hidden;             // the result is the last layer's normed hidden state instead of logits
  bool embed;              // of LLM_PAGED: hidden states of chosen rows; encoders always
  int64_t adapters, rank;  // of LLM_PAGED: room for so many, of at most this rank
} LlmBuildOptions;
// Builds into an empty graph (graph_create); errors are the graph's.  Weights are constants that
// point into the mapped files, so the model must outlive the graph.
MUST_USE tenon_status llm_build(const LlmModel *m, const LlmBuildOptions *o, Graph *g);

// True where there are no logits: encoders, and decoders without a head.
bool llm_headless(const LlmSpec *s);
// Bytes of KV cache that one page of a paged graph takes, all layers together.
int64_t llm_page_bytes(const LlmSpec *s, DType kv);
// Bytes of one sequence's state, all recurrent layers together; 0: there are none.
int64_t llm_state_bytes(const LlmSpec *s);
// What the model is, a line at a time, for `tenon inspect`: text lives for the call.
typedef void LlmFactFn(void *ctx, const char *key, const char *text);
void llm_facts(const LlmModel *m, LlmFactFn *fn, void *ctx);

#endif
