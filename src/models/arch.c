// arch.c -- the tables of architectures, roles and names (arch.h).
#include "models/arch.h"

const LlmArch llm_arch[] = {
#define ARCH(id, about, ...) {.name = #id, .doc = (about), __VA_ARGS__},
#include "models/arch.def"
};
const int llm_narch = (int)ARRAY_LEN(llm_arch);

#define M LLM_OF_MODEL
#define L LLM_OF_LAYER
#define E LLM_OF_EXPERTS
const LlmRoleInfo llm_role[LLM_ROLES] = {
#define ROLE(id, where, about) {.name = #id, .doc = (about), .place = (where)},
#include "models/roles.def"
#undef ROLE
};
#undef M
#undef L
#undef E

const LlmNameRow llm_names[] = {
#define NAME(family, role, part, pattern) {NAMES_##family, LLM_ROLE_##role, LLM_##part, pattern},
#include "models/names.def"
    {NAMES_NONE, 0, 0, NULL}};

// A class is a stem and one of these; an encoder's other heads are not used.
typedef struct ClassEnd {
  const char *end;
  LlmClass what;
  bool encoder;  // of encoders alone
} ClassEnd;
static const ClassEnd class_end[] = {{"ForCausalLM", LLM_CLASS_LOGITS, false},
                                     {"LMHeadModel", LLM_CLASS_LOGITS, false},
                                     {"ForSequenceClassification", LLM_CLASS_SCORES, false},
                                     {"ForMaskedLM", LLM_CLASS_BASE, true},
                                     {"ForPreTraining", LLM_CLASS_BASE, true},
                                     {"Model", LLM_CLASS_BASE, false}};

static Str stem_of(Str name, const ClassEnd **out) {
  *out = NULL;
  for (int64_t i = 0; i < ARRAY_LEN(class_end); i++)
    if (str_ends(name, class_end[i].end)) {
      *out = &class_end[i];
      return (Str){name.p, name.n - (int64_t)strlen(class_end[i].end)};
    }
  return name;
}

const LlmArch *llm_arch_of_class(Str name, LlmClass *out) {
  const ClassEnd *end, *other;
  Str stem = stem_of(name, &end);
  *out = end ? end->what : LLM_CLASS_LOGITS;
  for (int i = 0; i < llm_narch; i++)
    for (int k = 0; k < LLM_HF_CLASSES && llm_arch[i].hf[k]; k++) {
      bool fits = end && (end->encoder ? llm_arch[i].encoder : true);
      if (fits && str_eq(stem, stem_of(str_of(llm_arch[i].hf[k]), &other))) return &llm_arch[i];
    }
  return NULL;
}

const LlmArch *llm_arch_of_gguf(Str name) {
  for (int i = 0; i < llm_narch; i++)
    for (int k = 0; k < LLM_GGUF_NAMES && llm_arch[i].gguf[k]; k++)
      if (str_is(name, llm_arch[i].gguf[k])) return &llm_arch[i];
  return NULL;
}
