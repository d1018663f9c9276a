// arch.h -- rows of architectures, roles and names of tensors, keys of configurations.
#ifndef TENON_MODELS_ARCH_H
#define TENON_MODELS_ARCH_H

#include "frontends/common/frontend.h"
#include "models/llm.h"

// ---- roles and names ----
typedef enum {
#define ROLE(name, place, doc) LLM_ROLE_##name,
#include "models/roles.def"
#undef ROLE
  LLM_ROLES
} LlmRole;
typedef enum { LLM_WEIGHT, LLM_BIAS, LLM_PARTS, LLM_BOTH = LLM_PARTS } LlmPart;
typedef enum { LLM_OF_MODEL, LLM_OF_LAYER, LLM_OF_EXPERTS } LlmPlace;
typedef struct LlmRoleInfo {
  const char *name, *doc;
  LlmPlace place;
} LlmRoleInfo;
extern const LlmRoleInfo llm_role[LLM_ROLES];

typedef enum {
  NAMES_NONE,
  NAMES_LLAMA,
  NAMES_MIXTRAL,
  NAMES_SANDWICH,
  NAMES_GLM4,
  NAMES_STABLELM,
  NAMES_STARCODER2,
  NAMES_PHI2,
  NAMES_GPTOSS,
  NAMES_QWEN3NEXT,
  NAMES_GPT2,
  NAMES_NEOX,
  NAMES_BLOOM,
  NAMES_FALCON2,
  NAMES_MAMBA2,
  NAMES_BERT,
  NAMES_ROBERTA,
  NAMES_DISTILBERT,
  NAMES_GGUF,
  NAMES_GGUF_POST,
  NAMES_GGUF_FALCON2,
  NAMES_GGUF_BERT
} LlmNames;
typedef struct LlmNameRow {
  LlmNames family;
  LlmRole role;
  LlmPart part;
  const char *pattern;
} LlmNameRow;
extern const LlmNameRow llm_names[];  // ends with NAMES_NONE

// ---- keys of configurations ----
typedef enum {
#define KEY(name, neutral, doc)      CFG_##name,
#define ALIAS(other, name)           // another spelling of a key
#define IRRELEVANT(name, doc)        // no influence on logits
#define REFUSED(name, neutral, doc)  // changes logits in a way that is not built
#include "models/config.def"
#undef KEY
#undef ALIAS
#undef IRRELEVANT
#undef REFUSED
  CFG_KEYS
} CfgKey;

// ---- architectures ----
// Where norms are: before both parts; behind both; before and behind; attention and feed-forward
// part in parallel behind one norm, or behind two.
typedef enum {
  BLOCK_PRE,
  BLOCK_POST,
  BLOCK_SANDWICH,
  BLOCK_PARALLEL,
  BLOCK_PARALLEL2,
  BLOCK_SUM,   // behind both, of the sum with what went in
  BLOCK_MIXER  // one norm and a mixer, no feed-forward part
} LlmBlock;
// Which layers have a window, where the configuration does not list them.
typedef enum {
  WINDOW_NONE,
  WINDOW_ALL,         // every layer
  WINDOW_PATTERN,     // all but every nth layer (sliding_window_pattern, or the row's)
  WINDOW_FROM_LAYER,  // those from max_window_layers on
  WINDOW_NO_ROPE      // those without rotary positions
} LlmWindows;
// Which layers have rotary positions.
typedef enum {
  ROPE_NONE,
  ROPE_ALL,
  ROPE_WINDOWED,         // those with a window
  ROPE_WINDOWED_HYBRID,  // ... all where no layer has one
  ROPE_LISTED            // no_rope_layers, or all but every nth
} LlmRopes;
// Experts.
typedef enum { MOE_NONE, MOE_MIXTRAL, MOE_QWEN, MOE_DEEPSEEK, MOE_GPTOSS } LlmMoeKind;

// A bias: never, always, or as a key of the configuration says.
typedef struct LlmBias {
  bool always;
  int key;  // CFG_*, used where `keyed`
  bool keyed, fallback;
} LlmBias;
#define BIAS_ALWAYS                                                                                \
  { .always = true }
#define BIAS_KEY(k, dflt)                                                                          \
  { .key = CFG_##k, .keyed = true, .fallback = dflt }

enum { LLM_HF_CLASSES = 4, LLM_GGUF_NAMES = 2 };
struct LlmArch {
  const char *name, *doc;
  const char *hf[LLM_HF_CLASSES];    // class names of config.json's `architectures`
  const char *gguf[LLM_GGUF_NAMES];  // general.architecture
  LlmNames names, names_base, names_gguf;
  LlmNorm norm;
  LlmBlock block;
  bool plus_one;  // of norms, in Hugging Face's files
  bool norm_bias;
  double epsilon;  // where the file has none
  LlmQkNorm qk_norm;
  LlmBias q_bias, kv_bias, o_bias, up_bias, down_bias, head_bias;
  LlmQkv qkv;     // in Hugging Face's files
  bool qkv_gguf;  // one tensor in GGUF
  LlmGateUp gate_up;
  bool in_out;
  LlmAct act;
  bool gated;
  bool act_from_key;  // hidden_act and its like choose
  LlmRopes ropes;
  double theta, local_theta;
  double partial;  // part of a head that turns, where no key says it; 0: all
  bool interleaved, interleaved_gguf;
  LlmWindows windows;
  int pattern;
  bool window_switch;  // use_sliding_window must be true
  bool tied;           // where no key says it
  bool embed_sqrt;     // the embedding times sqrt(hidden size)
  bool embed_norm;
  bool learned_positions;
  LlmMoeKind moe;
  LlmMixer mixer;
  bool q_gate, sinks, alibi;
  bool encoder;     // tokens see those behind them, too; it generates nothing
  bool pad_offset;  // positions are counted from pad_token_id + 1
  bool types;       // a table of the two halves of a pair
  LlmHead pooler;   // what is in front of a classifier
};
extern const LlmArch llm_arch[];
extern const int llm_narch;
// What a class computes, by the end of its name.
typedef enum { LLM_CLASS_LOGITS, LLM_CLASS_BASE, LLM_CLASS_SCORES } LlmClass;
const LlmArch *llm_arch_of_class(Str name, LlmClass *out);  // NULL: none
const LlmArch *llm_arch_of_gguf(Str name);                  // the first of that name; NULL: none

// ---- from files to a spec ---- Each fills what the tensors do not decide.
MUST_USE tenon_status llm_spec_of_config(Arena *a, Str config, const LlmOpenOptions *o, Diag *d,
                                         LlmSpec *out);
MUST_USE tenon_status llm_spec_of_gguf(LlmModel *m, const LlmOpenOptions *o, Diag *d);
MUST_USE tenon_status llm_generation_of(Str text, Diag *d, Arena *a, LlmGeneration *out);
void llm_generation_none(LlmGeneration *out);
// Sizes are positive, bounded and fit one another.
MUST_USE tenon_status llm_spec_verify(const LlmSpec *s, Diag *d);

// ---- rotary positions (rope.c) ----
typedef enum {
  ROPE_DEFAULT,
  ROPE_LINEAR,
  ROPE_DYNAMIC,
  ROPE_YARN,
  ROPE_LLAMA3,
  ROPE_LONGROPE,
  ROPE_TYPES
} LlmRopeType;
extern const char *const llm_rope_name[ROPE_TYPES];
typedef struct LlmRopeScaling {
  LlmRopeType type;
  double theta, factor;
  double attention_factor;  // < 0: follows from the type
  double original;          // context of training; 0: the model's
  double beta_fast, beta_slow, mscale, mscale_all_dim, low_freq, high_freq;
  bool truncate;
  int64_t nlong, nshort;
  const double *long_factor, *short_factor;
} LlmRopeScaling;
void llm_rope_scaling_init(LlmRopeScaling *r, double theta);
// Fills a table; `length` is the longest sequence, `context` the model's.
MUST_USE tenon_status llm_rope_fill(Arena *a, const LlmRopeScaling *r, int64_t dim, int64_t context,
                                    int64_t length, Diag *d, LlmRope *out);
// What MLA's scores are multiplied by besides.
double llm_rope_mla_scale(const LlmRopeScaling *r);

// ---- tensors of a model ----
// Every weight that the spec asks for, by layer, role and part; those by expert are arrays.
typedef struct LlmSlot {
  const Weight *w;          // NULL: there is none
  const Weight *const *by;  // [n] tensors to be stacked; else NULL
  int64_t n;
} LlmSlot;
typedef struct LlmSlots {
  LlmSlot model[LLM_ROLES][LLM_PARTS];
  LlmSlot (*layer)[LLM_ROLES][LLM_PARTS];  // [layers]
} LlmSlots;
struct LlmFiles {
  Imported in;  // of the reader of the weights: its graph has the sources of all files but `file`
  File file;    // the GGUF file, the index, or the one file of weights
  File text;    // while a small file is read
  LlmSlots slots;
};
// True where a tensor of that name is in the files.
bool llm_has(const LlmModel *m, LlmRole role, LlmPart part, int64_t layer);
// Finds what the spec asks for and checks shapes; names what is missing, unexpected or wrong.
MUST_USE tenon_status llm_find_weights(LlmModel *m, Diag *d);
const LlmSlot *llm_slot(const LlmModel *m, LlmRole role, LlmPart part, int64_t layer);

#endif
