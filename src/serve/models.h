// models.h -- the models that the server knows, by name, whatever their kind.
//
// A kind is what can be done with a model: generate text (llm_front.c), or map tensors to tensors.
// It says which paths are its own, and starts and stops the worker process that holds a model.  The
// front itself never opens one.
//
//   MODEL_OUT      known, not in memory; models_want loads it
//   MODEL_LOADING  its worker has started; requests wait in the kind's own queue
//   MODEL_READY    requests are answered
//   MODEL_FAILED   it cannot be loaded, and `why` says the reason
//
// A kind sets the state by model_is, which tells whoever listens.
#ifndef TENON_SERVE_MODELS_H
#define TENON_SERVE_MODELS_H

#include "base/base.h"

struct Serve;
typedef enum ModelState { MODEL_OUT, MODEL_LOADING, MODEL_READY, MODEL_FAILED } ModelState;
typedef struct Model Model;

typedef struct ModelKind {
  const char *name;                    // of --engine=NAME, and in lists
  bool (*takes)(const char *path);     // by the name or the first bytes; the first kind of the list
  void (*load)(Model *m);              // from OUT or FAILED to LOADING
  void (*unload)(Model *m);            // to OUT, when what it has accepted is answered
  int (*work)(int argc, char **argv);  // the worker: main of `tenon-serve --engine=NAME ...`
  bool (*busy)(const Model *m);  // requests need it now; NULL: it is never unloaded for others
  void (*forget)(Model *m);      // the program ends: frees what it has beside m->serve->arena
} ModelKind;
extern const ModelKind *const model_kinds[];  // ended by NULL

struct Model {
  struct Serve *serve;
  const char *name, *path;
  const ModelKind *kind;
  ModelState state;
  const char *why;  // FAILED; "" before
  char why_text[TENON_ERROR_CAPACITY];
  int64_t since;            // when it was loaded last, in seconds since 1970; 0: never
  int64_t used;             // platform->now() of the last request
  int64_t bytes;            // that its worker holds; 0: not known
  void *of_kind;            // NULL until the kind made it
  const char *version;      // "1" where the path has none
  const char *config_path;  // the model's own options; NULL: none
  char *config;             // the same as text, given with the last load; NULL: none
  int64_t config_cap;
  bool off;    // unloaded by name: a request does not load it
  bool waits;  // LOADING, until there is memory for it (models_memory.c)
  bool gone;   // its file was not there when the repository was read last
  Model *next;
};

// Whether there is a file, or folder, of a model that the command line names: EIO if not.
MUST_USE tenon_status model_file_there(const char *spec, Diag *d);
// Adds a model: `NAME=PATH`, or a path whose last part without its ending is the name.  The text
// stays.  EINVAL: a bad or a double name; EUNSUPPORTED: no kind takes the path.
MUST_USE tenon_status models_add(struct Serve *s, const char *spec, Diag *d, Model **out);
Model *models_find(const struct Serve *s, Str name);  // the latest version; NULL: there is none
Model *models_find_version(const struct Serve *s, Str name, Str version);  // "": the latest one
void models_want(Model *m);  // loads it where it is OUT; marks it as used
void model_is(Model *m, ModelState state, const char *why);  // by its kind
bool models_ready(const struct Serve *s);                    // none is loading or failed
const char *model_state_name(ModelState state);
bool model_name_fits(Str name);

// ---- one memory budget (models_memory.c) ----
// Whether there is room for the model, which unloading others may make.  It fails the model where
// there never is.
bool models_room(Model *m);
void models_wait(Model *m);         // LOADING, but its kind is asked when there is memory
void models_wake(struct Serve *s);  // a model is idle, loaded or gone: models_tick runs soon
void models_tick(struct Serve *s);  // loads what waited for memory, unloads what is too much

// ---- a folder of models in versions: NAME/VERSION/model.* (models_repository.c) ----
MUST_USE tenon_status models_read_repository(struct Serve *s, Diag *d);

#endif
