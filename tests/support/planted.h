// planted.h -- faults of templates, for tests of what happens then (CompileOptions.tamper).
#ifndef TENON_TESTS_SUPPORT_PLANTED_H
#define TENON_TESTS_SUPPORT_PLANTED_H

#include "loop/loop.h"

typedef enum {
  PLANT_UNPROVEN,  // a store beyond its buffer, which the verifier refuses
  PLANT_DEFECT,    // the template fails
  PLANT_NO_CODE,   // scratch of a size that the verifier accepts and the code generator does not
  PLANT_LARGE,     // more statements than a kernel may have
  PLANT_KINDS
} PlantedKind;
typedef struct Planted {
  const char *template_name;  // a glob
  PlantedKind kind;
  int64_t hits;     // kernels that it changed
  int64_t nowhere;  // kernels that have no place for it: nothing to store
} Planted;
void planted_fault(void *planted, const char *template_name, LoopKernel *k);

#endif
