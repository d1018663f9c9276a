// tables.c -- the rows of all builtin operators, by their number (import.h).
#include "frontends/tflite/import.h"

#include <stdio.h>

const TflTable *const tfl_tables[] = {&tfl_elementwise, &tfl_reduce, &tfl_shape,   &tfl_move,
                                      &tfl_index,       &tfl_nn,     &tfl_control, &tfl_quant,
                                      &tfl_recurrent,   NULL};

const TflRow *tfl_row(int64_t code) {
  for (int t = 0; tfl_tables[t]; t++)
    for (int64_t i = 0; i < tfl_tables[t]->n; i++)
      if (tfl_tables[t]->row[i].code == code) return &tfl_tables[t]->row[i];
  return NULL;
}

void tfl_list(FrontendOpFn *fn, void *ctx) {
  for (int t = 0; tfl_tables[t]; t++)
    for (int64_t i = 0; i < tfl_tables[t]->n; i++) {
      const TflRow *r = &tfl_tables[t]->row[i];
      char form[32];
      snprintf(form, sizeof form, "1-%d", r->version);
      const char *notes = !tfl_quantized(r->code) ? ""
                          : r->fn                 ? "plain and quantised"
                                                  : "quantised";
      fn(ctx, &(FrontendOp){.op = r->name, .form = form, .notes = notes});
    }
}
