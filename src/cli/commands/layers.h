// layers.h -- for `tenon doctor`: which layers confine the program and the code generator.
#ifndef TENON_CLI_COMMANDS_LAYERS_H
#define TENON_CLI_COMMANDS_LAYERS_H

#include "base/confine.h"
#include "cli/cli.h"

typedef struct LayersOf {
  const char *program;
  bool known;  // else it is not installed, or too old to say
  Layers layers;
} LayersOf;

// Starts the program with --layers; it confines itself and says what holds.
void layers_ask(const char *program, LayersOf *out);
void layers_print(const LayersOf *l);
void layers_json(JsonWriter *w, const LayersOf *l);

#endif
