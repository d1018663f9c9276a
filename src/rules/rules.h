// rules.h -- every rule set.
#ifndef TENON_RULES_RULES_H
#define TENON_RULES_RULES_H

#include "ir/rule.h"

extern const RuleSet rules_algebra;              // identities that hold for every shape and target
extern const RuleSet rules_recognise_act;        // activations that came in pieces
extern const RuleSet rules_recognise_attention;  // scaled-dot-product attention
extern const RuleSet rules_recognise_int4;       // GEMM with weight-only quantized weights
extern const RuleSet rules_recognise_fp8;        // fp8 GEMM
extern const RuleSet rules_recognise_integer;    // products of dequantised tensors
extern const RuleSet rules_recognise_mask;       // causal masks
extern const RuleSet rules_recognise_move;       // pixel and channel shuffles
extern const RuleSet rules_recognise_norm;       // normalisations and softmax
extern const RuleSet rules_recognise_rotary;     // rotary embedding
extern const RuleSet rules_recognise_quant;      // dequantise, compute, quantise
extern const RuleSet rules_quant_border;         // borders of integer convolutions
extern const RuleSet rules_contract;  // scales, biases, pads and transposes go into contractions
extern const RuleSet rules_channels;  // the order of channels goes into weights
extern const RuleSet rules_space_to_depth;  // convolutions of few channels, over space_to_depth
extern const RuleSet rules_groups;          // convolutions of many small groups
extern const RuleSet rules_subpixel;        // transposed convolutions as dense ones
extern const RuleSet rules_planes;          // convolutions over three axes
extern const RuleSet rules_shifted_sums;    // convolutions to a few channels
extern const RuleSet rules_windows;         // cheaper convolutions and max pools
extern const RuleSet rules_movement;        // movement in one form
extern const RuleSet rules_kv_cache;        // past keys and values concatenated with the new ones
extern const RuleSet rules_slices;          // slices, gathers and concatenations
extern const RuleSet rules_kv_present;      // present keys and values of an attention
extern const RuleSet rules_signal;          // Fourier transforms as products
extern const RuleSet rules_features;        // preprocessing of ai.onnx.ml
extern const RuleSet rules_linear_models;   // linear models, support vector machines
extern const RuleSet rules_forms;           // forms of operators that no template takes
extern const RuleSet rules_sink;            // movement below arithmetic
extern const RuleSet rules_ggml;            // products with matrices in ggml's block types
extern const RuleSet rules_strength;        // constants gathered, cheap ops for expensive ones

extern const RuleSet *const rule_sets[];  // all of them, NULL-terminated (sets.c)

#endif
