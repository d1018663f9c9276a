// device_run.h -- how sessions run what is not on the host: a table, so that a program of the host
// alone links no driver.
//
// Every function is called with a session whose program has devices.  device_session.c has them.
#ifndef TENON_RUNTIME_DEVICE_RUN_H
#define TENON_RUNTIME_DEVICE_RUN_H

#include "runtime/session.h"

struct Frame;
typedef struct DeviceRun {
  tenon_status (*start)(Session *s, Diag *d);  // devices opened, code and constants loaded
  void (*stop)(Session *s);                    // whatever there is
  tenon_status (*begin)(
      Session *s, Run *run);   // of a call of the model: what a failure left behind is made anew
  void (*failed)(Session *s);  // a call of the model
  // Memory for roots that end at end[i]; host_bytes: how much the host's own values need.
  tenon_status (*lay_out)(Session *s, Run *run, struct Frame *fr, const int64_t *end,
                          int64_t *host_bytes);
  tenon_status (*place)(Session *s, Run *run,
                        struct Frame *fr);  // values that have their place from the start
  // *done false: it is a step of the host.  `ns`: gets the time it took, where that is measured;
  // else unchanged.
  tenon_status (*step)(Session *s, Run *run, struct Frame *fr, const ProgStep *st, bool *done,
                       int64_t *ns);
  tenon_status (*end)(Session *s, Run *run,
                      struct Frame *fr);  // all steps are done: did they succeed?
  tenon_status (*finish)(
      Session *s,
      Run *run);  // of a call of the model: its results are right where the caller has them
  tenon_status (*wait)(Session *s,
                       Run *run);  // for calls that ended before their work did: did they succeed?
  // A parameter that lies in a device's memory (*taken), and a result that shall; NULL: it is the
  // host's.
  tenon_status (*take)(Session *s, Run *run, struct Frame *fr, int32_t i, Value *v, bool *taken);
  tenon_status (*give)(Session *s, Run *run, const struct Frame *fr, int32_t i, Value **out);
  // The value as the host sees it, where it is on a device; NULL: it is not.
  tenon_status (*show)(Session *s, Run *run, const struct Frame *fr, int32_t value, Value **out);
  void (*release)(Session *s, struct Frame *fr, int32_t value);  // nobody needs it after this step
  void (*leave)(Session *s, struct Frame *fr);                   // the function returns
  // Zeros for a state that is on a device, instead of what it had; `read` copies it to the host.
  tenon_status (*make_state)(Session *s, int32_t i, int64_t bytes, Diag *d);
  tenon_status (*read_state)(Session *s, int32_t i, void *to, Diag *d);
  int64_t (*bytes)(const Session *s);   // of all devices, with the program's constants
  int64_t (*memory)(const Session *s);  // that the smallest device has
  void (*unload)(Program *p);
} DeviceRun;

#endif
