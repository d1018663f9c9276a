// config.h -- a config.json with an account of its keys: which were asked for, and which were not.
#ifndef TENON_MODELS_CONFIG_H
#define TENON_MODELS_CONFIG_H

#include "base/json.h"
#include "models/arch.h"

typedef struct Config {
  Arena *arena;
  Diag *d;
  tenon_status status;  // sticky
  const LlmArch *arch;
  LlmClass what;
  const Json *value[CFG_KEYS];  // NULL: absent or null
  const char *name[CFG_KEYS];   // as the file spells it
  bool asked[CFG_KEYS];
} Config;

// Parses the text, finds the row of its architecture, and refuses keys that no row has.
MUST_USE tenon_status config_read(Arena *a, Str text, Diag *d, Config *out);
// Refuses keys that nobody asked for, unless their value is neutral.
MUST_USE tenon_status config_finish(Config *c);
tenon_status config_fail(Config *c, tenon_status code, const char *fmt, ...) PRINTF(3, 4);

bool config_has(Config *c, CfgKey k);  // asks for it, too
const Json *config_json(Config *c, CfgKey k);
// A missing key gives the fallback; a value of another kind, or out of range, is an error.
int64_t config_int(Config *c, CfgKey k, int64_t fallback, int64_t least, int64_t most);
int64_t config_need(Config *c, CfgKey k, int64_t most);  // a size from 1 up that must be there
double config_number(Config *c, CfgKey k, double fallback);
bool config_bool(Config *c, CfgKey k, bool fallback);
Str config_word(Config *c, CfgKey k, const char *fallback);
// A finite number, or an infinity as transformers writes it: {"__float__": "Infinity"}.
bool config_json_number(const Json *j, double *out);

#endif
