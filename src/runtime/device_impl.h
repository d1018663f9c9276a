// device_impl.h -- what the files that run programs on devices share.
#ifndef TENON_RUNTIME_DEVICE_IMPL_H
#define TENON_RUNTIME_DEVICE_IMPL_H

#include "runtime/device.h"
#include "runtime/session_impl.h"

enum { DEVICE_ALIGN = 64 };

// A device with what it keeps of one program, for all sessions.
typedef struct DeviceLoaded {
  const DeviceDriver *driver;  // NULL: the host
  Device *device;
  int number;  // as the driver counts
  const DeviceInfo *info;
  DeviceCode *code;
  DeviceBuffer **buffer;  // that hold constants
  int32_t nbuffers;
  int64_t constant_bytes;
  DevicePlace *constant;  // [nconsts]; without a buffer: the device does not need it
} DeviceLoaded;
typedef struct DeviceKept {
  Arena arena;
  int32_t n;
  DeviceLoaded *device;  // by the program's number
} DeviceKept;
// The same for every session of the program, which gives it back when it is freed.
tenon_status device_load(Program *p, Diag *d, DeviceKept **out);
void device_unload(Program *p);

// Memory of a device that a session keeps, for one value after another.
typedef struct DeviceBlock {
  struct DeviceBlock *next;
  DeviceBuffer *buffer;
  int64_t bytes;
  int32_t device, refs;  // values that lie in it; 0: free
} DeviceBlock;

typedef struct DeviceCell {  // where a value of a device is during a call
  DevicePlace at;            // no buffer: not made yet
  DeviceBlock *block;        // that holds it, or NULL
} DeviceCell;
typedef struct DeviceFrame {
  DeviceCell *cell;      // by value
  DeviceBuffer **arena;  // by device
  int64_t *arena_bytes;
  DeviceBlock **result;  // [device][result]: where parts are put together
  bool *uses;            // [device][root]: some value of the device lies there
} DeviceFrame;
typedef struct DeviceOn {  // a device as one session uses it
  DeviceQueue *queue;      // NULL after a call that failed, since it would be in an unknown state
  DeviceBuffer *faults, *scratch;
  int32_t *seen;  // the faults as the host sees them while kernels run; NULL: it does not
  int64_t scratch_bytes;
  bool pending;  // kernels were launched of which it is not known whether they succeeded
} DeviceOn;
// A parameter or result of the model that lies in the caller's memory of a device.
typedef struct UserBuffer {
  int32_t device;  // in this call; 0: it is the host's
  int32_t made_on;
  DeviceBuffer *buffer;  // that stands for it
  bool there;            // a result: it has been put there
} UserBuffer;
typedef struct DeviceSession {
  DeviceKept *kept;
  DeviceOn *on;  // by device
  DeviceBlock *blocks;
  int32_t *fault_base;  // by function: number of its first step's slot
  int32_t nfaults;
  int32_t *fault_room;  // [nfaults]
  DevicePlace *arg;     // room for a launch
  int64_t *dims;
  UserBuffer *in;  // by parameter of the model
  UserBuffer *out;
  int32_t *root;      // by result: the value that it is a view of, or itself
  bool *host_use;     // by value of the model: some step reads it on the host
  bool asynchronous;  // this call ends before its work does
} DeviceSession;

// ---- memory (device_session.c) ----
// A place for a value that is about to be made on its device.
tenon_status device_make(Session *s, Run *run, Frame *fr, int32_t value, Where at);
// `to` lies where `from` does.
void device_share(Frame *fr, int32_t from, int32_t to);
// At least so many bytes of scratch.
tenon_status device_scratch(Session *s, int32_t device, int64_t bytes, Diag *d);

// ---- steps (device_step.c) ----
tenon_status device_step(Session *s, Run *run, Frame *fr, const ProgStep *st, bool *done,
                         int64_t *ns);
tenon_status device_show(Session *s, Run *run, const Frame *fr, int32_t value, Value **out);
tenon_status device_end(Session *s, Run *run, Frame *fr);
// What became of kernels, once they are waited for; what is known of them without waiting.
tenon_status device_faults(const Session *s, Run *run, int32_t device);
tenon_status device_look(const Session *s, Run *run, int32_t device);

// ---- the caller's memory on devices (device_user_buffers.c) ----
void device_find_uses(Session *s);
tenon_status device_enter_call(Session *s, Run *run);
tenon_status device_leave_call(Session *s, Run *run);
tenon_status device_wait(Session *s, Run *run);
void device_drop_user_buffers(Session *s, int32_t device);
tenon_status device_take(Session *s, Run *run, Frame *fr, int32_t i, Value *v, bool *taken);
tenon_status device_give(Session *s, Run *run, const Frame *fr, int32_t i, Value **out);
// A copy of a parameter to a device, or of a value to the host: *done where nothing is left to do.
tenon_status device_copy_param(Session *s, Run *run, Frame *fr, const ProgStep *st, int64_t bytes,
                               bool *done);
tenon_status device_copy_result(Session *s, Run *run, const Frame *fr, const ProgStep *st,
                                int64_t bytes, bool *done);
// Where a result is made that lies in the caller's memory; NULL: not there.
tenon_status device_user_result(Session *s, Run *run, const Frame *fr, const ProgValue *v,
                                DeviceBuffer **out);

#endif
