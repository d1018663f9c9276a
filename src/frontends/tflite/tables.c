// tables.c -- the rows of all operators: builtin ones by their number, custom ones by their name
// (import.h).
#include "frontends/tflite/import.h"

#include <stdio.h>

// Refused, by name: version 0 is none.
static const TflRow rows[] = {
    // clang-format off
    {10, "HASHTABLE_LOOKUP", NULL, 0, 0},
    {15, "LSH_PROJECTION", NULL, 0, 0},
    {29, "CONCAT_EMBEDDINGS", NULL, 0, 0},
    {30, "SKIP_GRAM", NULL, 0, 0},
    {33, "EMBEDDING_LOOKUP_SPARSE", NULL, 0, 0},
    {51, "DELEGATE", NULL, 0, 0},
    {136, "HASHTABLE", NULL, 0, 0},
    {137, "HASHTABLE_FIND", NULL, 0, 0},
    {138, "HASHTABLE_IMPORT", NULL, 0, 0},
    {139, "HASHTABLE_SIZE", NULL, 0, 0},
    {146, "RANDOM_STANDARD_NORMAL", NULL, 0, 0},
    {148, "RANDOM_UNIFORM", NULL, 0, 0},
    {149, "MULTINOMIAL", NULL, 0, 0},
    {171, "STABLEHLO_CONVOLUTION", NULL, 0, 0},
    {173, "STABLEHLO_CUSTOM_CALL", NULL, 0, 0},
    {174, "STABLEHLO_REDUCE", NULL, 0, 0},
    {190, "STABLEHLO_SCATTER", NULL, 0, 0},
    {193, "STABLEHLO_DYNAMIC_SLICE", NULL, 0, 0},
    {195, "STABLEHLO_PAD", NULL, 0, 0},
    {197, "STABLEHLO_DOT_GENERAL", NULL, 0, 0},
    {198, "STABLEHLO_REDUCE_WINDOW", NULL, 0, 0},
    {199, "STABLEHLO_SORT", NULL, 0, 0},
    {200, "STABLEHLO_WHILE", NULL, 0, 0},
    {201, "STABLEHLO_GATHER", NULL, 0, 0},
    {204, "STABLEHLO_RNG_BIT_GENERATOR", NULL, 0, 0},
    {205, "REDUCE_WINDOW", NULL, 0, 0},
    {209, "STABLEHLO_CASE", NULL, 0, 0},
    // clang-format on
};
static TFL_TABLE(refused);

const TflTable *const tfl_tables[] = {&tfl_elementwise, &tfl_reduce,    &tfl_shape,   &tfl_move,
                                      &tfl_index,       &tfl_nn,        &tfl_control, &tfl_complex,
                                      &tfl_quant,       &tfl_recurrent, &tfl_custom,  &tfl_audio,
                                      &tfl_detection,   &tfl_refused,   NULL};

const TflRow *tfl_row(const TflCode *code) {
  for (int t = 0; tfl_tables[t]; t++)
    for (int64_t i = 0; i < tfl_tables[t]->n; i++) {
      const TflRow *r = &tfl_tables[t]->row[i];
      if (r->code == code->builtin &&
          (r->code != TFL_CUSTOM || str_eq(code->custom, str_of(r->name))))
        return r;
    }
  return NULL;
}

void tfl_list(FrontendOpFn *fn, void *ctx) {
  for (int t = 0; tfl_tables[t]; t++)
    for (int64_t i = 0; i < tfl_tables[t]->n; i++) {
      const TflRow *r = &tfl_tables[t]->row[i];
      if (!r->version) {
        fn(ctx, &(FrontendOp){.op = r->name, .form = "", .notes = "no mapping", .refused = true});
        continue;
      }
      char form[32];
      snprintf(form, sizeof form, r->code == TFL_CUSTOM ? "custom" : "1-%d", r->version);
      bool custom = r->code == TFL_CUSTOM && r->arg == TFL_TAKES_QUANTIZED;
      const char *notes = !custom && !tfl_quantized(r->code) ? ""
                          : r->fn                            ? "plain and quantised"
                                                             : "quantised";
      fn(ctx, &(FrontendOp){.op = r->name, .form = form, .notes = notes});
    }
}
