/* tenon.h -- the public interface of Tenon, an AI compiler.
 *
 * Open a model, ask what it takes and gives, run it.  Every function that can fail returns a
 * tenon_status and writes a message into the caller's tenon_error (which may be NULL).  Handles are
 * opaque; an accessor's result is borrowed and lives as long as its parent.  Strings are UTF-8.
 *
 * Threads: functions on different handles may run at the same time; a model may be shared by threads
 * once it is open; a run uses only its own buffers.
 */
#ifndef TENON_TENON_H
#define TENON_TENON_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_VERSION_MAJOR 0
#define TENON_VERSION_MINOR 1
#define TENON_VERSION_PATCH 0
#define TENON_VERSION       "0.1.0"

#if defined(__GNUC__)
#define TENON_API __attribute__((visibility("default")))
#else
#define TENON_API
#endif

typedef enum tenon_status {
  TENON_OK = 0,
  TENON_EINVAL,       /* wrong argument, unsound model, shapes that do not fit */
  TENON_EFORMAT,      /* bytes that are not what they should be */
  TENON_EUNSUPPORTED, /* sound, but beyond what Tenon does */
  TENON_EIO,          /* a file could not be opened, read or written */
  TENON_ENOMEM,       /* out of memory, or beyond a limit that was set */
  TENON_EDEVICE,      /* a device failed */
  TENON_EINTERNAL     /* a defect of Tenon's own; please report it */
} tenon_status;

#define TENON_ERROR_CAPACITY 16384
typedef struct tenon_error {
  tenon_status status;
  char message[TENON_ERROR_CAPACITY]; /* "" when there was no error */
} tenon_error;

/* Element types.  The numbers are ONNX's. */
typedef enum tenon_dtype {
  TENON_DTYPE_NONE = 0,
  TENON_DTYPE_F32 = 1,
  TENON_DTYPE_U8 = 2,
  TENON_DTYPE_I8 = 3,
  TENON_DTYPE_U16 = 4,
  TENON_DTYPE_I16 = 5,
  TENON_DTYPE_I32 = 6,
  TENON_DTYPE_I64 = 7,
  TENON_DTYPE_STRING = 8,
  TENON_DTYPE_BOOL = 9,
  TENON_DTYPE_F16 = 10,
  TENON_DTYPE_F64 = 11,
  TENON_DTYPE_U32 = 12,
  TENON_DTYPE_U64 = 13,
  TENON_DTYPE_C64 = 14,
  TENON_DTYPE_C128 = 15,
  TENON_DTYPE_BF16 = 16,
  TENON_DTYPE_F8E4M3 = 17,  /* ONNX FLOAT8E4M3FN */
  TENON_DTYPE_F8E4M3Z = 18, /* ONNX FLOAT8E4M3FNUZ */
  TENON_DTYPE_F8E5M2 = 19,
  TENON_DTYPE_F8E5M2Z = 20, /* ONNX FLOAT8E5M2FNUZ */
  TENON_DTYPE_U4 = 21,      /* packed, two to a byte, first in the low bits; likewise below */
  TENON_DTYPE_I4 = 22,
  TENON_DTYPE_F4E2M1 = 23,
  TENON_DTYPE_F8E8M0 = 24,
  TENON_DTYPE_U2 = 25, /* packed, four to a byte */
  TENON_DTYPE_I2 = 26
} tenon_dtype;

#ifdef __cplusplus
}
#endif
#endif
