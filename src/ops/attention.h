// attention.h -- what the files of the attention ops share.
#ifndef TENON_OPS_ATTENTION_H
#define TENON_OPS_ATTENTION_H

#include "ir/opinfo.h"

// A node whose operands' ranks are not known is left whole.
ExpandFn expand_attention, expand_rotary_embedding;

#endif
