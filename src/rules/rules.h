// rules.h -- every rule set.
#ifndef TENON_RULES_RULES_H
#define TENON_RULES_RULES_H

#include "ir/rule.h"

extern const RuleSet rules_algebra;              // identities that hold for every shape and target
extern const RuleSet rules_recognise_act;        // activations that came in pieces
extern const RuleSet rules_recognise_attention;  // scaled-dot-product attention
extern const RuleSet rules_recognise_bits;       // products with weights of a few bits
extern const RuleSet rules_recognise_float8;     // products of floats of 8 bits
extern const RuleSet rules_recognise_integer;    // products of dequantised tensors
extern const RuleSet rules_recognise_mask;       // causal masks
extern const RuleSet rules_recognise_move;       // pixel and channel shuffles
extern const RuleSet rules_recognise_norm;       // normalisations and softmax
extern const RuleSet rules_recognise_rotary;     // rotary embedding
extern const RuleSet rules_recognise_quant;      // dequantise, compute, quantise
extern const RuleSet rules_quant_border;         // borders of integer convolutions
extern const RuleSet rules_contract;             // what stands around contractions goes into them
extern const RuleSet rules_channels;             // the order of channels goes into weights
extern const RuleSet rules_depth;                // convolutions over blocks of pixels
extern const RuleSet rules_blocks;               // results that are blocks of pixels
extern const RuleSet rules_moves;                // movement in one form
extern const RuleSet rules_past;                 // keys of the past joined to those at hand
extern const RuleSet rules_picks;                // slices, gathers and concatenations
extern const RuleSet rules_present;              // what an attention hands on
extern const RuleSet rules_sink;                 // movement below arithmetic
extern const RuleSet rules_strength;             // constants gathered, cheap ops for dear ones

extern const RuleSet *const rule_sets[];  // all of them, NULL-terminated (sets.c)

#endif
