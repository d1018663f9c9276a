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

const LlmArch *llm_arch_of_class(Str name) {
  for (int i = 0; i < llm_narch; i++)
    for (int k = 0; k < LLM_HF_CLASSES && llm_arch[i].hf[k]; k++)
      if (str_is(name, llm_arch[i].hf[k])) return &llm_arch[i];
  return NULL;
}

const LlmArch *llm_arch_of_gguf(Str name) {
  for (int i = 0; i < llm_narch; i++)
    for (int k = 0; k < LLM_GGUF_NAMES && llm_arch[i].gguf[k]; k++)
      if (str_is(name, llm_arch[i].gguf[k])) return &llm_arch[i];
  return NULL;
}
