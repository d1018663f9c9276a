/* tenon.h -- the public interface of Tenon, an AI compiler.
 *
 * Open a model, query its inputs and outputs, and run it in the reference interpreter (tenon_run);
 * or compile it (tenon_compile) into a program, which sessions run any number of times:
 *
 *   tenon_model *m;
 *   tenon_program *p;
 *   tenon_session *s;
 *   tenon_model_open("model.onnx", &m, &error);
 *   tenon_compile(m, NULL, &p, &error);
 *   tenon_session_create(p, NULL, &s, &error);
 *   tenon_session_run(s, inputs, 1, outputs, 1, NULL, &error);
 *
 * Every function that can fail returns a tenon_status and writes a message into the caller's
 * tenon_error (which may be NULL).  Handles are opaque; an accessor's result is borrowed and lives
 * as long as its parent.  Strings are UTF-8.
 *
 * NULL is no crash.  Where a pointer is not said to be optional, a function that returns a
 * tenon_status gives TENON_EINVAL for it. A count or size of a NULL handle is 0, a pointer from one
 * is NULL, and a function without a result does nothing.  What differs is said below.
 *
 * Threads: functions on different handles may run at the same time.  An open model and a program
 * are read-only, so threads may share them.  A session belongs to one thread at a time: give each
 * thread its own session of the program.
 *
 * Stack: a thread that calls these functions needs 512 KiB of stack at most, besides what the
 * caller's own operators need.
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
  TENON_EINTERNAL,    /* a defect of Tenon's own; please report it */
  TENON_ECANCELLED    /* ended by the caller's own callback */
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

/* ---- the library ---- */

/* "0.1.0": the version of the library that is running, which may not be that of this header. */
TENON_API const char *tenon_version(void);

/* What Tenon has to say that is no error, such as a cache that it does not use because others may
 * write to it, with the remedy. Copies the oldest text that was not taken yet to `text`,
 * NUL-terminated and cut at `capacity`; 0: there is none.  Tenon says each text once a process,
 * prints none, and keeps a few that nobody takes.  Any thread may call it. */
TENON_API int32_t tenon_notice(char *text, size_t capacity);

/* A word for a status, such as "unsupported"; "?" for an unknown number.  Never NULL. */
TENON_API const char *tenon_status_name(tenon_status status);

/* "f32", "i64", "string", ...; "?" for an unknown number.  Never NULL. */
TENON_API const char *tenon_dtype_name(tenon_dtype dtype);

/* ---- tensors ---- */

#define TENON_MAX_RANK 16

/* Preferred alignment of buffers in bytes: a cache line. */
#define TENON_ALIGNMENT 64

/* An element of a string tensor: UTF-8 bytes, not ended by a NUL. */
typedef struct tenon_string {
  const char *data;
  int64_t size; /* bytes */
} tenon_string;

/* The memory of a tensor.  The numbers are DLPack's, except the host's, which is 0 so that a zeroed
 * tensor is the host's. */
typedef enum tenon_memory {
  TENON_MEMORY_HOST = 0,
  TENON_MEMORY_CUDA = 2 /* of NVIDIA's GPU number `device`: `data` is a CUdeviceptr */
} tenon_memory;

/* A dense row-major tensor: a view of the caller's memory, or of memory that Tenon allocated. Begin
 * with all fields zero ({0}).  Elements of fewer than 8 bits are packed; a string tensor is an
 * array of tenon_string. */
typedef struct tenon_tensor {
  void *data;
  tenon_dtype dtype;
  int32_t rank; /* 0 to TENON_MAX_RANK; 0 is a single element */
  int64_t shape[TENON_MAX_RANK];
  int64_t bytes;       /* room at `data`; of an input, 0 leaves it unsaid */
  void *owner;         /* Tenon's own: NULL when the memory is the caller's */
  tenon_memory memory; /* the host's, unless tenon_session_run says that it takes others */
  int32_t device;      /* the device's number, as its driver counts */
} tenon_tensor;

/* Bytes that the elements of this dtype and shape take (strings: the array alone), or -1 when there
 * is no such tensor, the size cannot be counted, or `shape` is NULL and the rank is not 0. */
TENON_API int64_t tenon_tensor_size(tenon_dtype dtype, int32_t rank, const int64_t *shape);

/* Frees memory that Tenon allocated and makes every field zero; only the latter for the caller's
 * memory. NULL is fine, and so is a second call. */
TENON_API void tenon_tensor_release(tenon_tensor *tensor);

/* ---- custom operators ---- */

/* One call of an operator: which node, its inputs, attributes and outputs.  It lives during the
 * callback and must not be used by another thread.  The functions below keep the first failure of a
 * call: it fails the opening or the run with that message whatever the callback returns, so that
 * none goes unnoticed. So ask tenon_op_input_count before asking for an input that may not be
 * there. */
typedef struct tenon_op_call tenon_op_call;

/* An operator that a model may use.  It must be a function of its inputs and attributes alone:
 * nodes with equal ones are computed once.  Callbacks may run on several threads at once when a
 * model is run so. */
typedef struct tenon_op {
  size_t struct_size; /* sizeof(tenon_op) */
  const char *name;   /* "domain.Op", or "Op" for the standard domain; goes before Tenon's own */
  /* Called while a model is opened, for every node: says each output's type with tenon_op_shape or
   * tenon_op_shape_like.  An output not spoken of has an unknown type.  May be NULL. */
  tenon_status (*shape)(tenon_op_call *call, void *user);
  /* Called while a model is run: makes every output with tenon_op_output and fills it. */
  tenon_status (*run)(tenon_op_call *call, void *user);
  void *user; /* given to both */
} tenon_op;

/* The node's name in the model; "" when it has none, and of NULL. */
TENON_API const char *tenon_op_node(const tenon_op_call *call);

/* Inputs and outputs that the node has.  An input may be absent in the middle: see tenon_op_input.
 */
TENON_API size_t tenon_op_input_count(const tenon_op_call *call);
TENON_API size_t tenon_op_output_count(const tenon_op_call *call);

/* Input `i`, as a view.  In `run` all of it is there.  In `shape` the dtype may be
 * TENON_DTYPE_NONE, the rank -1, a size -1 where not known before a run, and `data` is NULL unless
 * the contents are a small constant. An absent input has dtype TENON_DTYPE_NONE, rank -1 and no
 * data, in both.  EINVAL: there is no input `i` (or *out is NULL); EUNSUPPORTED: it is not a
 * tensor. */
TENON_API tenon_status tenon_op_input(tenon_op_call *call, size_t i, tenon_tensor *out);

/* In `shape`: output `i` has this dtype and shape; rank -1 and sizes -1 where not known before a
 * run. */
TENON_API tenon_status tenon_op_shape(tenon_op_call *call, size_t i, tenon_dtype dtype,
                                      int32_t rank, const int64_t *shape);

/* In `shape`: output `i` has the type of the given input, symbolic sizes included. */
TENON_API tenon_status tenon_op_shape_like(tenon_op_call *call, size_t i, size_t input);

/* In `shape`, after tenon_op_shape: size `axis` of output `i` is size `input_axis` of the given
 * input, be it a number or a symbol. */
TENON_API tenon_status tenon_op_shape_dim(tenon_op_call *call, size_t i, int32_t axis, size_t input,
                                          int32_t input_axis);

/* In `run`: makes output `i` and gives its zeroed elements; NULL when it cannot be made, which the
 * run then reports.  The memory is Tenon's and holds until the callback returns.  What the elements
 * of a string tensor point to must hold that long too: it is copied then. */
TENON_API void *tenon_op_output(tenon_op_call *call, size_t i, tenon_dtype dtype, int32_t rank,
                                const int64_t *shape);

/* An attribute as text: a string as it is, an integer or float in decimal, lists of those with
 * commas.  NULL when the node has none of that name.  `size`, which may be NULL, gets its bytes; a
 * NUL follows them. Tensors and sub-graphs are not passed on. */
TENON_API const char *tenon_op_attr_text(const tenon_op_call *call, const char *name,
                                         int64_t *size);

/* An attribute that is an integer or a list of them: writes up to `capacity` into `out` and returns
 * how many there are; -1 when the node has none of that name or it is something else. */
TENON_API int64_t tenon_op_attr_ints(const tenon_op_call *call, const char *name, int64_t *out,
                                     size_t capacity);

/* Likewise of floats (integers count as floats too). */
TENON_API int64_t tenon_op_attr_floats(const tenon_op_call *call, const char *name, double *out,
                                       size_t capacity);

/* Gives the reason of a failure, and returns `status`, so that a callback ends with
 * `return tenon_op_fail(call, TENON_EINVAL, "...")`.  The message gets the node's name in front. */
TENON_API tenon_status tenon_op_fail(tenon_op_call *call, tenon_status status, const char *message);

/* ---- models ---- */

typedef struct tenon_model tenon_model;

/* A tensor by its name. */
typedef struct tenon_named_tensor {
  const char *name;
  tenon_tensor tensor;
} tenon_named_tensor;

typedef struct tenon_open_options {
  size_t struct_size;  /* sizeof(tenon_open_options) */
  const tenon_op *ops; /* custom operators; copied, names included */
  size_t nops;
  int32_t threads; /* that a run may use; 0 = all that affinity and cgroup allow */
  int64_t
      memory_limit; /* bytes that opening may take, and again each run; 0 = none; below 0: EINVAL */
  /* Inputs for which the file has a default value are constants, and not among the model's inputs,
   * unless they are named here. */
  const char *const *inputs;
  size_t ninputs;
  /* Types of inputs that the file does not state (TorchScript): "x=f32[batch,3,224,224]".  A
   * number, "rate=16000", makes an integer input of an ONNX or TorchScript model that constant; it
   * is then no input. */
  const char *const *types;
  size_t ntypes;
  /* A file of weights that replaces constants of the model by name; or NULL. */
  const char *weights;
  /* Weights in the caller's memory, likewise by name; no strings.  Names and shapes are copied,
   * elements are not: they are read in place while the model is compiled or run, and must not
   * change until it is closed.  Not together with `weights`. */
  const tenon_named_tensor *tensors;
  size_t ntensors;
  /* Of a TensorFlow Lite model: the signature whose sub-graph is opened; its names are those of the
   * inputs and outputs.  NULL: the first sub-graph, with the names of its tensors. */
  const char *signature;
} tenon_open_options;

/* Opens a model file.  Its content tells the format: ONNX, PyTorch (torch.export, TorchScript),
 * TensorFlow Lite, StableHLO, or Tenon's text form. Weights are not read before the first run.
 * Unknown operators do not fail the opening: see tenon_model_unsupported. */
TENON_API tenon_status tenon_model_open(const char *path, tenon_model **out, tenon_error *error);

/* The same with options, which may be NULL. */
TENON_API tenon_status tenon_model_open_with(const char *path, const tenon_open_options *options,
                                             tenon_model **out, tenon_error *error);

/* Opens a model in memory, which must stay unchanged until the model is closed.  Weights kept in
 * other files are refused.  The JSON of a program of torch.export is a model, too, without its
 * archive: its weights are those given by `tensors`. */
TENON_API tenon_status tenon_model_open_memory(const void *bytes, size_t size,
                                               const tenon_open_options *options, tenon_model **out,
                                               tenon_error *error);

/* Closes a model; no thread may be using it.  NULL is fine.  Tensors that a run allocated stay. */
TENON_API void tenon_model_close(tenon_model *model);

typedef enum tenon_kind {
  TENON_KIND_TENSOR = 1,
  TENON_KIND_SEQUENCE,
  TENON_KIND_OPTIONAL,
  TENON_KIND_MAP
} tenon_kind;

/* What an input or output is.  All strings are borrowed from the model. */
typedef struct tenon_value_info {
  const char *name;
  const char *type; /* in words: "f32[batch, 10]", "seq(f32[*])" */
  tenon_kind kind;
  /* of a tensor: */
  tenon_dtype dtype;                  /* TENON_DTYPE_NONE when not known */
  int32_t rank;                       /* -1 when not known */
  int64_t shape[TENON_MAX_RANK];      /* -1 for a symbolic size, whose text is in `symbol` */
  const char *symbol[TENON_MAX_RANK]; /* "batch", "2*seq + 1"; NULL for a number */
} tenon_value_info;

/* How many inputs and outputs the model has. */
TENON_API size_t tenon_model_input_count(const tenon_model *model);
TENON_API size_t tenon_model_output_count(const tenon_model *model);

/* What input or output `i` is; EINVAL when there is none. */
TENON_API tenon_status tenon_model_input(const tenon_model *model, size_t i, tenon_value_info *out);
TENON_API tenon_status tenon_model_output(const tenon_model *model, size_t i,
                                          tenon_value_info *out);

/* An operator that the model uses and Tenon does not run.  Strings are borrowed from the model. */
typedef struct tenon_unsupported {
  const char *op;   /* "com.example.Blur" */
  const char *why;  /* what is missing, and what to do */
  const char *node; /* the first node's name */
  size_t count;     /* nodes */
} tenon_unsupported;

/* How many such operators there are: a model runs when there are none. */
TENON_API size_t tenon_model_unsupported_count(const tenon_model *model);

/* The `i`-th of them; EINVAL when there is none. */
TENON_API tenon_status tenon_model_unsupported(const tenon_model *model, size_t i,
                                               tenon_unsupported *out);

/* 1: the reader of this name ("pytorch", "onnx", ...) has this operator in its table, spelled as
 * `tenon ops --frontend` lists it
 * ("aten::add.Tensor"); 0: it has not, refuses it, or there is no such reader. */
TENON_API int32_t tenon_op_known(const char *frontend, const char *op);

/* ---- running ---- */

typedef struct tenon_run_options {
  size_t struct_size; /* sizeof(tenon_run_options) */
  uint64_t seed;      /* of random operators that have none of their own */
  /* Limits: a negative one is EINVAL. */
  int64_t memory_limit;   /* bytes that this run may take; 0 = the model's or the session's */
  int64_t max_iterations; /* of all loops together; 0 = no limit */
  int64_t max_operations; /* of all operators, at least about one per element; 0 = no limit */
  /* For tenon_session_run: the CUstream of the run's work.  CUDA's default streams are
   * CU_STREAM_LEGACY (1) and CU_STREAM_PER_THREAD (2).  NULL: a stream of the session. */
  void *stream;
  /* The positions of the outputs that are wanted; NULL: all of them.  A run then does only what
   * these need.  The array of outputs has an entry for each output of the model nevertheless; those
   * of the others stay as they are.  Outputs that are states of the session are computed in any
   * case. */
  const size_t *wanted;
  size_t nwanted;
} tenon_run_options;

/* Runs the model in the reference interpreter.  Inputs and outputs are in the model's order, all of
 * them.
 *
 * An output whose `data` is NULL is allocated; free it with tenon_tensor_release.  Else it is
 * written into the `bytes` bytes there (EINVAL names what it needs when that is too little); what
 * an earlier run allocated may be given again.  dtype, rank and shape are set in either case.  A
 * string tensor's text follows its array, in the same memory.  After a failure no output has been
 * allocated or changed, except the contents of the caller's buffers.
 *
 * Inputs must not overlap outputs.  Inputs and outputs that are not tensors are EUNSUPPORTED:
 * tenon_run_values takes them.  Several threads may run one model at once, each with its own
 * tensors; the results are the same bits. */
TENON_API tenon_status tenon_run(tenon_model *model, const tenon_tensor *inputs, size_t ninputs,
                                 tenon_tensor *outputs, size_t noutputs,
                                 const tenon_run_options *options, tenon_error *error);

/* ---- values: tensors, sequences, optionals and maps ---- */

/* An immutable value with a count of references: those that a function below makes belong to the
 * caller, who releases them.  Any thread may use one. */
typedef struct tenon_value tenon_value;

/* Makes a tensor, as a copy of the host's memory; a sequence of n values of one kind and dtype; an
 * optional of one value, or of none (NULL); a map, from a rank-1 tensor of integers or strings to a
 * rank-1 tensor or a sequence of as many values.  The items are retained.  `elem` is the dtype of
 * the tensors in an empty one; TENON_DTYPE_NONE leaves it unsaid.  Values are nested at most 16
 * deep. */
TENON_API tenon_status tenon_value_tensor(const tenon_tensor *tensor, tenon_value **out,
                                          tenon_error *error);
TENON_API tenon_status tenon_value_sequence(tenon_dtype elem, tenon_value *const *items, size_t n,
                                            tenon_value **out, tenon_error *error);
TENON_API tenon_status tenon_value_optional(tenon_dtype elem, tenon_value *item, tenon_value **out,
                                            tenon_error *error);
TENON_API tenon_status tenon_value_map(tenon_value *keys, tenon_value *values, tenon_value **out,
                                       tenon_error *error);

/* One more reference to it; one less, which frees it when it was the last.  NULL is fine. */
TENON_API tenon_value *tenon_value_retain(tenon_value *value);
TENON_API void tenon_value_release(tenon_value *value);

/* What it is: 0 for NULL. */
TENON_API tenon_kind tenon_value_kind(const tenon_value *value);

/* How many items it has: of a sequence its length, of an optional 0 or 1, of a map 2 (keys and
 * values), of a tensor 0. */
TENON_API size_t tenon_value_count(const tenon_value *value);

/* Item `i`, borrowed; NULL when there is none. */
TENON_API tenon_value *tenon_value_item(const tenon_value *value, size_t i);

/* A view of a tensor, valid as long as the value; EINVAL when it is none. */
TENON_API tenon_status tenon_value_view(const tenon_value *value, tenon_tensor *out);

/* tenon_run with values.  An input that is an optional may be given what it holds.  Outputs are new
 * values; after a failure `outputs` is as it was. */
TENON_API tenon_status tenon_run_values(tenon_model *model, tenon_value *const *inputs,
                                        size_t ninputs, tenon_value **outputs, size_t noutputs,
                                        const tenon_run_options *options, tenon_error *error);

/* ---- targets ---- */

/* What a model can be compiled for.  Strings are static. */
typedef struct tenon_target_info {
  const char *name; /* "cpu" */
  const char *doc;  /* what it is, in a line */
  /* 1: on this machine.  `cpu` needs the program tenon-codegen, in the library's folder or on the
   * path. */
  int32_t available;
} tenon_target_info;

/* How many targets there are, and the `i`-th of them; EINVAL when there is none. */
TENON_API size_t tenon_target_count(void);
TENON_API tenon_status tenon_target(size_t i, tenon_target_info *out);

/* ---- compiling ---- */

/* A compiled model: read-only, independent of the model that it was made from, counted by
 * references. */
typedef struct tenon_program tenon_program;

/* How much a result may differ from the model's operations, done one by one. */
typedef enum tenon_math {
  /* Sums may be reordered, multiply-adds contracted, and 3x3 convolutions computed by Winograd. */
  TENON_MATH_DEFAULT = 0,
  /* No rule that changes a bit; convolutions in their direct form. */
  TENON_MATH_EXACT,
  /* As DEFAULT; may also assume that no value is NaN or infinite. */
  TENON_MATH_FAST
} tenon_math;

/* The type in which contractions store and multiply. */
typedef enum tenon_precision {
  /* The model's types. */
  TENON_PRECISION_DEFAULT = 0,
  /* f32 contractions with constant weights in bf16; sums, norms and functions in f32.  Faster; the
   * error is some hundredths of the largest value (`tenon verify --precision` measures it). */
  TENON_PRECISION_BF16,
  /* f32 contractions in tf32 (10 mantissa bits), with sums in f32.  Needs a target with tensor
   * cores; elsewhere it is TENON_EINVAL. */
  TENON_PRECISION_TF32,
  /* As TENON_PRECISION_BF16, in f16: more exact, with values up to 65504.  Needs tensor cores. */
  TENON_PRECISION_F16
} tenon_precision;

/* A symbolic dimension that is compiled as a number: the program refuses other sizes when it runs.
 */
typedef struct tenon_dim {
  const char *name; /* as in tenon_value_info.symbol */
  int64_t size;
} tenon_dim;

/* Where a compilation is. */
typedef struct tenon_progress {
  const char *stage;   /* "read", "optimise", "plan", "lower", "make code" */
  const char *what;    /* which pass, node or kernel; "" when it has no name */
  int64_t done, total; /* pieces of this stage that are done, and all of them */
} tenon_progress;

/* A compile option by name: "fold_limit", or "fold-limit" as on the command line.  Options that are
 * newer than a program's header are set this way. */
typedef struct tenon_option_info {
  const char *name;
  const char *kind; /* "flag" (1 or 0), "int", "bytes" (64M), "choice", "text", "list" (repeated) */
  const char *choices; /* of a choice: words with a space between; else NULL */
  const char *help;
} tenon_option_info;
/* How many there are, and one of them: EINVAL past the last.  Strings are the library's. */
TENON_API size_t tenon_option_count(void);
TENON_API tenon_status tenon_option(size_t i, tenon_option_info *out);

typedef struct tenon_named_option {
  const char *name, *value; /* the value as on the command line; a flag's is "1" or "0" */
} tenon_named_option;

typedef struct tenon_options {
  size_t struct_size; /* sizeof(tenon_options) */
  const char *target; /* a target's name; NULL or "auto": the fastest that is available */
  int32_t opt_level;  /* 1 to 3; 0 = the default, which is 3; -1 = no optimisation at all */
  tenon_math math;
  int32_t threads; /* that compiling may use; 0 = all that affinity and cgroup allow */
  /* Symbolic dimensions to make static: the code is a little faster, and refuses other sizes. */
  const tenon_dim *dims;
  size_t ndims;
  /* Called before each piece of the work, one call at a time, perhaps on another thread than the
   * caller's. Anything but 0 ends the compilation, which then gives TENON_ECANCELLED.  May be NULL.
   */
  int (*progress)(const tenon_progress *progress, void *user);
  void *user;       /* given to it */
  int32_t no_cache; /* 1: do not use the kernel cache */
  tenon_precision precision;
  /* 1: the results of one batch item are bit-identical for every batch size.  Slower, mainly at
   * batch 1. */
  int32_t batch_invariant;
  /* Which device of the target, as `tenon targets` lists them ("1" is the second GPU); NULL: the
   * target's choice. */
  const char *device;
  /* 1: the caller will only close the model after this; compiling may then consume it instead of
   * reading it again. */
  int32_t last_use;
  /* Options by name, which override the fields above; a list has one entry for each value. */
  const tenon_named_option *named;
  size_t nnamed;
  /* Gets the text that options such as "dump_after" and "time_passes" print, with `user`; NULL: it
   * is dropped. */
  void (*print)(const char *text, size_t size, void *user);
} tenon_options;

/* Compiles a model, which does not change (except with `last_use`) and may be closed afterwards.
 * `options` may be NULL. Every model that tenon_run runs can be compiled: steps without code run by
 * the reference evaluation within the program. So do custom operators, whose callbacks (and `user`)
 * must stay valid as long as the program. Large tables (embeddings) in the model's file or its
 * external data are mapped, not copied: do not change such a file while the program is in use.  It
 * may be replaced by another file of its name, or removed.
 *
 * EINVAL: a wrong option, or a name in `dims` that is no symbolic dimension; EUNSUPPORTED: the
 * target is not available here, or the model has an unknown operator; ECANCELLED: by `progress`. */
TENON_API tenon_status tenon_compile(const tenon_model *model, const tenon_options *options,
                                     tenon_program **out, tenon_error *error);

/* ---- quantisation and pruning ----
 * A float model and samples become an ONNX model of fewer bits, or with zeros that kernels leave
 * out, with a certificate of what it lost on samples that nothing else saw. */

/* Samples, one at a time. */
typedef struct tenon_dataset {
  /* Fills a tensor for each input of the model, in order, with a batch of 1.  The memory is the
   * caller's, must stay until the next call, and is on the host.  With `labels` of the options also
   * *label, the index of the right class.  Returns 1: a sample; 0: there are no more; anything else
   * ends the work, which then gives TENON_ECANCELLED. */
  int (*next)(tenon_tensor *inputs, size_t ninputs, int64_t *label, void *user);
  void *user; /* given to it */
} tenon_dataset;

typedef struct tenon_quantize_options {
  size_t struct_size; /* sizeof(tenon_quantize_options) */
  const char *to;     /* as --to of `tenon quantize`: "int8" (NULL), "w4", "auto", ... */
  const char *budget; /* "agreement>=99%"; NULL: none */
  const char *metric; /* NULL: the budget's, or the one that fits the model's outputs */
  const char *method; /* NULL: the best for the choice */
  int64_t block;      /* of "w4"; 0: 32 */
  /* Patterns of names of contractions that stay in f32. */
  const char *const *keep;
  size_t nkeep;
  const char *target; /* that calibrates and is timed; NULL or "auto": the fastest */
  int32_t threads;    /* 0 = all that affinity and cgroup allow */
  int32_t labels;     /* 1: samples have labels */
  uint64_t seed;      /* of the split of the samples */
  int32_t allow_slower;
  int32_t no_correction; /* 1: biases are not corrected by the mean error of rounded weights */
  /* As of tenon_options. */
  int (*progress)(const tenon_progress *progress, void *user);
  void *user;
  const char *migrate; /* as --migrate of `tenon quantize`; NULL: "auto" */
} tenon_quantize_options;

typedef enum tenon_quantize_verdict {
  TENON_QUANTIZED,        /* there is a model */
  TENON_QUANTIZED_SLOWER, /* it is not faster, and `allow_slower` is 0 */
  TENON_QUANTIZED_MISSED  /* the bound does not meet the budget */
} tenon_quantize_verdict;

typedef struct tenon_quantized tenon_quantized;
/* What came of it.  Everything is borrowed. */
typedef struct tenon_quantized_info {
  tenon_quantize_verdict verdict;
  int64_t contractions, quantized; /* how many there are; which are of fewer bits or pruned */
  int64_t samples;                 /* different ones */
  int64_t bytes[2];                /* of the model's files, before and now */
  double ns[2];                    /* of one run, before and now; 0 without samples */
  const char *metric;              /* NULL without samples, as is the certificate */
  double value, bound, confidence;
  const char *certificate; /* JSON, as beside the model that `tenon quantize` writes */
  const char *report;      /* a page of HTML */
  const void *model;       /* the ONNX model's bytes, whatever the verdict */
  size_t model_size;
} tenon_quantized_info;

/* Quantises a model, which does not change.  `data` may be NULL where the choice needs no samples,
 * and `options` may be NULL.  EINVAL: an option or a sample is wrong, or samples are too few for
 * the budget.  A model that is too slow or misses the budget is no error: see the verdict. */
TENON_API tenon_status tenon_quantize(const tenon_model *model, const tenon_dataset *data,
                                      const tenon_quantize_options *options, tenon_quantized **out,
                                      tenon_error *error);

typedef struct tenon_prune_options {
  size_t struct_size;  /* sizeof(tenon_prune_options) */
  const char *pattern; /* as --pattern of `tenon prune`: "auto" (NULL), "vector", "2:4" */
  int32_t zeros;       /* per cent of the weights; 0: 50, with a budget each layer's own */
  int32_t labels;      /* 1: samples have labels */
  const char *budget;  /* "agreement>=99%"; NULL: none */
  const char *metric;  /* NULL: the budget's, or the one that fits the model's outputs */
  /* Patterns of names of layers that stay dense. */
  const char *const *keep;
  size_t nkeep;
  const char *target; /* that layers are timed on; NULL or "auto": the fastest */
  int32_t threads;    /* 0 = all that affinity and cgroup allow */
  int32_t allow_slower;
  uint64_t seed; /* of the split of the samples */
  /* As of tenon_options. */
  int (*progress)(const tenon_progress *progress, void *user);
  void *user;
} tenon_prune_options;

/* Sets weights to 0 in patterns that kernels leave out.  All else is as of tenon_quantize;
 * `quantized` of the info counts what is pruned. */
TENON_API tenon_status tenon_prune(const tenon_model *model, const tenon_dataset *data,
                                   const tenon_prune_options *options, tenon_quantized **out,
                                   tenon_error *error);

TENON_API void tenon_quantized_describe(const tenon_quantized *quantized,
                                        tenon_quantized_info *out);
/* Writes the model, and its certificate to `path` with ".certificate.json" behind it.  EINVAL: by
 * the verdict there is none to write. */
TENON_API tenon_status tenon_quantized_save(const tenon_quantized *quantized, const char *path,
                                            tenon_error *error);
TENON_API void tenon_quantized_free(tenon_quantized *quantized); /* NULL is fine */

/* ---- tuning ---- */

typedef struct tenon_tune_options {
  size_t struct_size;   /* sizeof(tenon_tune_options) */
  double seconds;       /* of the search; 0: 60 */
  const char *database; /* a file; NULL: the user's own, as `tenon tune`; "none": none */
  const char *inputs;   /* an .npz with inputs by name; NULL: random ones */
  int32_t threads;      /* code generators at work; 0 = all that affinity and cgroup allow */
  int32_t reorder;      /* 1: sums may be formed in another order, which changes bits */
  int32_t fresh;        /* 1: what earlier runs found is not used */
  uint64_t seed;
  const char *objective; /* "time" (NULL), "energy" or "edp", their product: by the machine's meter.
                            EUNSUPPORTED: it has none */
} tenon_tune_options;

typedef struct tenon_tune_info {
  double gain; /* the model's time (or energy) with default schedules over that with tuned ones */
  int64_t kernels, tasks; /* distinct kernels with a schedule in the file; all of the model */
  int64_t trials;
} tenon_tune_info;

/* Searches for faster schedules of the kernels of the model in the file `model` by measuring, and
 * writes them to `output`, for the option "tuned" of tenon_compile.  The program tenon-tune beside
 * the library does the work, in a process of its own.  EUNSUPPORTED: it is not there.  `options`
 * and `out` may be NULL. */
TENON_API tenon_status tenon_tune(const char *model, const char *output,
                                  const tenon_tune_options *options, tenon_tune_info *out,
                                  tenon_error *error);

/* One more reference, and one less: the last one frees the program.  Sessions hold one of their
 * own.  Both may be called by any thread.  NULL is fine for the latter. */
TENON_API tenon_program *tenon_program_retain(tenon_program *program);
TENON_API void tenon_program_release(tenon_program *program);

/* What the program takes and gives: as tenon_model_input_count and the others.  Strings are
 * borrowed from the program. */
TENON_API size_t tenon_program_input_count(const tenon_program *program);
TENON_API size_t tenon_program_output_count(const tenon_program *program);
TENON_API tenon_status tenon_program_input(const tenon_program *program, size_t i,
                                           tenon_value_info *out);
TENON_API tenon_status tenon_program_output(const tenon_program *program, size_t i,
                                            tenon_value_info *out);

/* What it consists of.  Strings are borrowed from the program. */
typedef struct tenon_program_info {
  const char *target; /* "cpu" */
  int64_t kernels;    /* pieces of generated code */
  int64_t steps;      /* of one run of the main function */
  int64_t host_steps; /* those done by the reference evaluation */
  int64_t code_bytes, constant_bytes;
} tenon_program_info;
TENON_API void tenon_program_describe(const tenon_program *program, tenon_program_info *out);
/* The options with which it was compiled, of those that can change results or speed, where they are
 * not at their default: "precision=bf16".  A file keeps them.  NULL past the last; borrowed from
 * the program. */
TENON_API size_t tenon_program_option_count(const tenon_program *program);
TENON_API const char *tenon_program_option(const tenon_program *program, size_t i);
/* What a caller should know of its compilation, such as a kernel that could not be made as it was
 * chosen and is slower than it might be, with the node, the reason and what to do.  A file does not
 * keep them.  NULL past the last; borrowed from the program. With the named option `strict` such a
 * compilation fails instead. */
TENON_API size_t tenon_program_warning_count(const tenon_program *program);
TENON_API const char *tenon_program_warning(const tenon_program *program, size_t i);

/* ---- programs in files ---- */

/* Writes the program to a file, which is replaced at once or left as it was.  EUNSUPPORTED for a
 * program that has no form of its own outside this process (target `ref`). */
TENON_API tenon_status tenon_program_save(const tenon_program *program, const char *path,
                                          tenon_error *error);
/* Several programs of one model in one file, each compiled for another target: constants that they
 * have in common are written once.  tenon_program_load takes one of them. */
TENON_API tenon_status tenon_programs_save(const tenon_program *const *programs, size_t n,
                                           const char *path, tenon_error *error);

typedef struct tenon_load_options {
  size_t struct_size; /* sizeof(tenon_load_options) */
  /* Custom operators that the program needs: only `name`, `run` and `user` count; copied. */
  const tenon_op *ops;
  size_t nops;
  /* For a file with variants: "cpu", "opencl", ...; NULL or "auto": the fastest that runs here. */
  const char *target;
  /* 1: load only a file whose name ends in .tenon, and no bytes; else EINVAL.  For programs whose
   * users name the file: a compiled model is a program, and a file with another name may be one
   * that was slipped in. */
  int32_t by_name;
} tenon_load_options;

/* Maps a program that tenon_program_save or `tenon compile` wrote.  `options` may be NULL.  Of
 * several variants it takes the fastest that this machine can run; tenon_program_describe says
 * which.  EFORMAT: it is none, or damaged; EUNSUPPORTED: of another version, for another kind of
 * machine, for a missing device, or a custom operator is not given. */
TENON_API tenon_status tenon_program_load(const char *path, const tenon_load_options *options,
                                          tenon_program **out, tenon_error *error);

/* The same for bytes in memory, aligned to TENON_ALIGNMENT, which must not change as long as the
 * program lives. */
TENON_API tenon_status tenon_program_load_memory(const void *bytes, size_t size,
                                                 const tenon_load_options *options,
                                                 tenon_program **out, tenon_error *error);

/* ---- sessions ---- */

/* What running a program needs besides the program: threads, memory between operators, bound
 * buffers. */
typedef struct tenon_session tenon_session;

/* A value that the session keeps: what a run gives as the output, the next run takes as the input.
 */
typedef struct tenon_state_pair {
  const char *input, *output; /* their names */
} tenon_state_pair;

typedef struct tenon_session_options {
  size_t struct_size; /* sizeof(tenon_session_options) */
  int32_t threads;    /* 0 = all that affinity and cgroup allow; results do not depend on it */
  int32_t profile;    /* 1: measure every step: see tenon_session_step */
  /* Bytes that a run may take, unless its own options say; 0 = the machine's memory; below 0:
   * EINVAL. */
  int64_t memory_limit;
  const tenon_state_pair *states;
  size_t nstates;
} tenon_session_options;

/* Makes a session, which holds a reference of the program; `options` may be NULL.  Its threads
 * sleep between runs. */
TENON_API tenon_status tenon_session_create(tenon_program *program,
                                            const tenon_session_options *options,
                                            tenon_session **out, tenon_error *error);

/* Frees it; no thread may be using it.  NULL is fine.  Tensors that a run allocated stay. */
TENON_API void tenon_session_release(tenon_session *session);

/* The program, borrowed; and the threads that it has, the caller's included. */
TENON_API tenon_program *tenon_session_program(const tenon_session *session);
TENON_API int32_t tenon_session_threads(const tenon_session *session);

/* Bytes of device memory that it has now: the constants of its program, which all its sessions
 * share, and intermediate values. Code and the caller's tensors are not counted.  0 where the
 * program runs on the host alone. */
TENON_API int64_t tenon_session_device_bytes(const tenon_session *session);

/* Runs the program.  Everything that tenon_run says of inputs, outputs and failures holds. Besides:
 *
 * Buffers that are aligned to their element size are not copied.  An input is read in place.  An
 * output is computed in place when its size is known before the run and a kernel (not the reference
 * evaluation) makes it.  Others are copied once.
 *
 * A session's runs must not overlap.  After a failure it can be used again.
 *
 * Tensors on a GPU.  Where the program runs on one (target `cuda`), each input and output may be in
 * its memory (tenon_tensor.memory).  An input that the program needs there is read in place, and an
 * output is made in place.  A buffer that is not aligned to 16 bytes, or an output that the program
 * makes elsewhere, is copied once.  An output must have `data`. EINVAL: another GPU's memory, or a
 * program that does not run on one.
 *
 * Without a stream, inputs must be ready when the run begins, and outputs are ready when it
 * returns.  With a stream, all work goes into it, after what the caller has put there before; later
 * work in the stream sees the outputs.  The stream must not be one that is being captured.  A run
 * with a stream whose outputs are all on the GPU returns as soon as its work is issued; inputs must
 * not change until it is done.  What it finds wrong after that (an index out of range, a GPU that
 * fails) is the error of a later run of the session, or of tenon_session_wait; so wait before you
 * rely on results.  Runs of one session are done one after another, whatever their streams. */
TENON_API tenon_status tenon_session_run(tenon_session *session, const tenon_tensor *inputs,
                                         size_t ninputs, tenon_tensor *outputs, size_t noutputs,
                                         const tenon_run_options *options, tenon_error *error);

/* tenon_session_run with values, as tenon_run_values.  EUNSUPPORTED: a session with states, or a
 * stream. */
TENON_API tenon_status tenon_session_run_values(tenon_session *session, tenon_value *const *inputs,
                                                size_t ninputs, tenon_value **outputs,
                                                size_t noutputs, const tenon_run_options *options,
                                                tenon_error *error);

/* Waits for runs that returned before they were done.  Returns an error of such a run that no later
 * run has reported; the session can be used again. */
TENON_API tenon_status tenon_session_wait(tenon_session *session, tenon_error *error);

/* ---- bound buffers: said once, used by every tenon_session_run_bound ---- */

/* Binds input `i` to this tensor; the memory stays the caller's and must stay valid. */
TENON_API tenon_status tenon_session_bind_input(tenon_session *session, size_t i,
                                                const tenon_tensor *tensor, tenon_error *error);

/* Binds output `i` to the `bytes` bytes of this tensor.  NULL or no data: to memory of the session.
 */
TENON_API tenon_status tenon_session_bind_output(tenon_session *session, size_t i,
                                                 const tenon_tensor *tensor, tenon_error *error);

/* Runs with what is bound.  EINVAL when an input is not. */
TENON_API tenon_status tenon_session_run_bound(tenon_session *session,
                                               const tenon_run_options *options,
                                               tenon_error *error);

/* Output `i` of the last tenon_session_run_bound that succeeded, with the dtype and shape that it
 * got: a view, which holds until the next run or binding.  EINVAL when there is none. */
TENON_API tenon_status tenon_session_output(const tenon_session *session, size_t i,
                                            tenon_tensor *out, tenon_error *error);

/* ---- state: values that a session keeps from one run to the next ---- */

/* tenon_session_options.states pairs an input with an output of the same dtype and shape, such as
 * the hidden value of a recurrent layer or the KV cache of a decoder.  A state's input given as {0}
 * (without dtype) takes what the last run left; a tensor with a dtype replaces it.  Its output is a
 * view of the session's memory, valid until the next run, unless it is given a buffer.  A state
 * begins as zeros; where the input's shape is dynamic it begins without a value and must be set.  A
 * run that fails leaves every state as it was. */

/* How many there are, and the name and type of the `i`-th's input; EINVAL when there is none. */
TENON_API size_t tenon_session_state_count(const tenon_session *session);
TENON_API tenon_status tenon_session_state(const tenon_session *session, size_t i,
                                           tenon_value_info *out);

/* Reads it into *out, as an output of a run; sets it to a copy of a tensor; makes all of them what
 * they were at first. EINVAL when the session keeps no state `i`; a reset of none is fine. */
TENON_API tenon_status tenon_session_state_get(tenon_session *session, size_t i, tenon_tensor *out,
                                               tenon_error *error);
TENON_API tenon_status tenon_session_state_set(tenon_session *session, size_t i,
                                               const tenon_tensor *value, tenon_error *error);
TENON_API tenon_status tenon_session_state_reset(tenon_session *session, tenon_error *error);

/* ---- profile: of a session made with tenon_session_options.profile ---- */

typedef enum tenon_step_kind {
  TENON_STEP_KERNEL = 0, /* generated code */
  TENON_STEP_HOST,       /* the reference evaluation, or a custom operator */
  TENON_STEP_VIEW,       /* nothing: the same bytes under another shape */
  TENON_STEP_COPY
} tenon_step_kind;

typedef struct tenon_step {
  const char *name; /* the kernel's schedule, or the operator */
  const char *node; /* of the model, where it comes from; "" when it has no name */
  tenon_step_kind kind;
  int64_t calls, ns; /* since the session was made, or since the profile was reset */
  int32_t more; /* number of following steps that run concurrently with this one; ns has each one's
                   share of the time */
  double flops,
      bytes; /* of one call, at the sizes that the program was planned for; 0: not known */
} tenon_step;

/* Steps of the main function, in order: how many, and the `i`-th.  Without a profile calls and ns
 * are 0.  Strings are borrowed from the program.  EINVAL when there is none. */
TENON_API size_t tenon_session_step_count(const tenon_session *session);
TENON_API tenon_status tenon_session_step(const tenon_session *session, size_t i, tenon_step *out);
TENON_API void tenon_session_profile_reset(tenon_session *session);

/* ---- language models ----
 *
 *   tenon_llm *llm;
 *   tenon_llm_open("model.gguf", NULL, &llm, &error);
 *   tenon_llm_request r = {.struct_size = sizeof(r), .text = "The capital of France is",
 *                          .max_tokens = 32};
 *   tenon_llm_submit(llm, &r, &id, &error);
 *   while (tenon_llm_busy(llm)) {
 *     tenon_llm_step(llm, &events, &nevents, &error);
 *     for (size_t i = 0; i < nevents; i++) fwrite(events[i].text, 1, events[i].text_size, stdout);
 *   }
 *   tenon_llm_close(llm);
 *
 * Any number of requests run together, one step at a time.  All memory is reserved when the model
 * is opened (tenon_llm_memory), and a request is accepted only if it fits.  A request's tokens do
 * not depend on the others, on threads, or on how steps are cut. */
typedef struct tenon_llm tenon_llm;

typedef struct tenon_llm_options {
  size_t struct_size; /* sizeof(tenon_llm_options) */
  const char *target; /* NULL: "cpu" */
  int32_t threads;    /* 0 = all that affinity and cgroup allow */
  int32_t context;    /* tokens of one request, prompt included; 0: the model's, 4096 at most */
  int32_t sequences;  /* requests that run at the same time; 0: 8, at most 4096.  Others wait */
  int32_t requests;   /* running and waiting together, at most 65536; 0: 64, or twice `sequences`
                         if more */
  int32_t batch;      /* tokens of a step; 0: 512, at most 1048576 */
  int32_t pages;      /* of the KV cache, 32 tokens each; 0: for `sequences` whole contexts, within
                         half of the machine's memory */
  int64_t memory_limit;    /* bytes of everything but mapped weights: `pages` follows; 0: none */
  tenon_dtype kv_dtype;    /* of keys and values: F32 (and NONE), F16, BF16, I8 */
  int32_t exact;           /* 1: f32 activations where weights are in block types; else int8 */
  int32_t draft;           /* most draft tokens of prompt lookup; 0: the default, 8; -1: none */
  int32_t no_prefix_cache; /* 1: requests do not share pages of equal beginnings */
  double
      step_seconds; /* steps with running requests are kept near it by cutting prompts; 0: none */
  /* As in tenon_options: called before each piece of the work of opening. */
  int (*progress)(const tenon_progress *progress, void *user);
  void *user;
  int32_t no_cache;        /* 1: do not use the kernel cache */
  int32_t embed;           /* 1: requests may ask for embeddings.  Encoders give nothing else */
  int32_t adapters;        /* LoRA adapters that may be there at the same time; 0: none */
  int32_t adapter_rank;    /* their greatest rank; 0: 16 */
  const char *draft_model; /* a smaller model of the same vocabulary, whose guesses the model
                              checks; NULL: none */
} tenon_llm_options;

/* Opens a GGUF file, or a folder with config.json, *.safetensors and tokenizer.json.  `options` may
 * be NULL.  Weights stay in the file, which is mapped and must not change.
 *
 * EFORMAT, EINVAL: what is wrong with the files, by name; EUNSUPPORTED: an architecture, a key of
 * the configuration or a tokenizer that Tenon does not have; ENOMEM: not even one page fits. */
TENON_API tenon_status tenon_llm_open(const char *path, const tenon_llm_options *options,
                                      tenon_llm **out, tenon_error *error);
TENON_API void tenon_llm_close(tenon_llm *llm); /* NULL is fine */

typedef struct tenon_llm_bias {
  int32_t token;
  float bias; /* -100 to 100, added to the logit */
} tenon_llm_bias;

/* A mask says which tokens may come next: so an answer follows a grammar.  It is asked once for
 * each token of the answer, in their order, before it is drawn; drafts and preemption add no calls
 * and take none back.  So it may keep a state and step it by the token that is new.  Its answer
 * must depend on the place, and on what it was made from.  It must not call functions of the model.
 *
 * Where the text may end, it allows the model's end tokens (tenon_llm_ends). */
typedef struct tenon_llm_place {
  const int32_t *tokens; /* the prompt, and behind it the answer so far */
  size_t ntokens, nprompt;
  int32_t left; /* tokens that may still be drawn, the next one included */
} tenon_llm_place;
typedef enum tenon_llm_allowed {
  TENON_LLM_ALLOW_SET = 0, /* the tokens whose bits it set */
  TENON_LLM_ALLOW_ALL,     /* every token; the bits are not looked at */
  TENON_LLM_ALLOW_FAILED   /* there is no answer: the request ends with TENON_LLM_NO_TOKEN */
} tenon_llm_allowed;
/* Sets bit id % 32 of allowed[id / 32] for each token that may come; all are 0 before.  There are
 * (vocabulary + 31) / 32 words. */
typedef tenon_llm_allowed (*tenon_llm_mask)(const tenon_llm_place *place, uint32_t *allowed,
                                            void *user);

/* What a request asks for.
 *
 * EMBED: the vector of a text (or of tokens), in one event of kind VECTOR.
 * RANK: how well `text`, a query, and `pair`, a document, belong together, by an encoder with a
 * head for it: its scores as they are, mostly one, in such an event. */
typedef enum tenon_llm_task {
  TENON_LLM_GENERATE = 0,
  TENON_LLM_EMBED,
  TENON_LLM_RANK
} tenon_llm_task;

/* How the vectors of a text's tokens become one.  DEFAULT: as the model's files say; where they do
 * not, the mean of an encoder's, and the last one of other models. */
typedef enum tenon_llm_pooling {
  TENON_LLM_POOL_DEFAULT = 0,
  TENON_LLM_POOL_MEAN,
  TENON_LLM_POOL_FIRST,
  TENON_LLM_POOL_LAST
} tenon_llm_pooling;

/* Begin with all fields zero; 0 is the default of each field, and leaves a stage out. The order of
 * stages: bias, penalties, DRY, mask, temperature, top-k, top-p, min-p, typical, XTC. */
typedef struct tenon_llm_request {
  size_t struct_size;    /* sizeof(tenon_llm_request) */
  const char *text;      /* the prompt as raw text, or: */
  size_t text_size;      /* 0: up to its NUL */
  const int32_t *tokens; /* as tokens, as they are */
  size_t ntokens;
  int32_t parse_special; /* 1: `text` may contain special tokens, as a chat prompt does */
  int32_t no_special;    /* 1: do not add what the model expects around a text */
  int32_t max_tokens;    /* 0: what is left of the context; -1: none, only read the prompt */
  float temperature;     /* 0: the most probable token */
  int32_t top_k;
  float top_p, min_p, typical;
  float repeat_penalty; /* 1 and 0: none */
  float presence_penalty, frequency_penalty;
  uint64_t seed;
  const tenon_llm_bias *bias;
  size_t nbias;
  const char *const *stop; /* texts that end the answer, and are not part of it */
  size_t nstop;            /* at most 16, of at most 256 bytes */
  int32_t ignore_end;      /* 1: go on behind the model's own end tokens */
  int32_t logprobs;        /* 1: report log-probabilities, and the `top_logprobs` most probable */
  int32_t top_logprobs;    /* 0 to 20 */
  int32_t prompt_logprobs; /* 1: report each prompt token's log-probability */
  int32_t no_draft;        /* 1: no speculation */
  int32_t priority;        /* higher ones go first */
  uint32_t client;         /* those of one priority share the work on prompts evenly */
  uint64_t salt;           /* only requests of the same salt share cached pages */
  void *user;              /* given back in events */
  tenon_llm_mask mask;     /* NULL: every token may come */
  void *mask_user;         /* handed to the mask; to be kept until the request's last event */
  const char *adapter;     /* the name of a loaded one; NULL: none */
  tenon_llm_task task;
  const char *pair;          /* of RANK: the document */
  size_t pair_size;          /* 0: up to its NUL */
  tenon_llm_pooling pooling; /* of EMBED */
  int32_t not_normalised;    /* 1: vectors keep their length; else it becomes 1 */
  /* DRY: a token that would repeat what followed the same n tokens before, n >= dry_length, loses
   * dry * dry_base^(n - dry_length).  0: none; a base of 0 is 1.75, a length of 0 is 2. */
  float dry, dry_base;
  int32_t dry_length;
  /* XTC: with this probability all tokens of at least `xtc_threshold` are out but the least
   * probable of them. */
  float xtc_probability, xtc_threshold;
  int32_t truncate; /* of EMBED and RANK. 1: a text that is too long, of a pair the document, loses
                       its end; else it is refused */
  /* The form of the answer, one of: a JSON Schema (2020-12), a regular expression of the whole
   * answer, a GBNF grammar, or texts of which it is one.  The answer is whole even where max_tokens
   * ends it.  What is not supported (EUNSUPPORTED, by name) and what cannot fit into max_tokens is
   * refused first.  Not together with `mask`. */
  const char *json_schema, *regex, *grammar;
  const char *const *choices;
  size_t nchoices;
  /* Control tokens, at most 64, whose text is part of the answer's text: the marks of tool calls
   * and reasoning.  The text of others is left out. */
  const int32_t *shown;
  size_t nshown;
} tenon_llm_request;

/* Adds a request.  EINVAL: it is wrong in itself, or can never fit; ENOMEM: as many requests as
 * there is room for are running and waiting. */
TENON_API tenon_status tenon_llm_submit(tenon_llm *llm, const tenon_llm_request *request,
                                        uint64_t *id, tenon_error *error);

typedef enum tenon_llm_finish {
  TENON_LLM_RUNNING = 0,
  TENON_LLM_STOP,      /* an end token or a stop text */
  TENON_LLM_LENGTH,    /* max_tokens */
  TENON_LLM_CANCELLED, /* tenon_llm_cancel */
  TENON_LLM_NO_TOKEN   /* the mask, or logits that are no numbers, left no token to choose */
} tenon_llm_finish;

typedef enum tenon_llm_event_kind {
  TENON_LLM_TOKEN = 1, /* a token was generated */
  TENON_LLM_PROMPT,    /* a prompt token's log-probability */
  TENON_LLM_END,       /* the request ended without a token */
  TENON_LLM_VECTOR     /* of EMBED and RANK: the last event */
} tenon_llm_event_kind;

typedef struct tenon_llm_top {
  int32_t token;
  float logprob;
} tenon_llm_top;

typedef struct tenon_llm_event {
  uint64_t id;
  void *user;
  tenon_llm_event_kind kind;
  tenon_llm_finish finish; /* not RUNNING: the last event of the request */
  int32_t token, position; /* token -1: none */
  /* Of TOKEN and END: the text that became certain, whole characters only.  It may be empty, and
   * may hold characters of earlier tokens. */
  const char *text;
  size_t text_size;
  float logprob;
  const tenon_llm_top *top;
  size_t ntop;
  const float *vector; /* of VECTOR */
  size_t nvector;
} tenon_llm_event;

/* Runs one step: at most one token of each request, or more where drafts were right.  `events` and
 * all that they point to hold until the next call with this handle.  After an error of a device
 * nothing is lost: the next step goes on. */
TENON_API tenon_status tenon_llm_step(tenon_llm *llm, const tenon_llm_event **events,
                                      size_t *nevents, tenon_error *error);
/* Ends a request; the next step has its last event. EINVAL: there is none of that id. */
TENON_API tenon_status tenon_llm_cancel(tenon_llm *llm, uint64_t id, tenon_error *error);
/* Loads a LoRA adapter while requests run: a GGUF file, or a folder with adapter_config.json and
 * adapter_model.safetensors (PEFT).  Requests of different adapters run in the same steps.  `scale`
 * multiplies what it adds; 0: 1.
 *
 * EFORMAT, EINVAL: what is wrong with the files, by name, or the name is taken; ENOMEM: as many as
 * options.adapters are there. */
TENON_API tenon_status tenon_llm_load_adapter(tenon_llm *llm, const char *name, const char *path,
                                              float scale, tenon_error *error);
/* The name is free at once, its memory when the requests that use it have ended.  EINVAL: there is
 * none of that name. */
TENON_API tenon_status tenon_llm_drop_adapter(tenon_llm *llm, const char *name, tenon_error *error);
/* 1: requests have not ended. */
TENON_API int32_t tenon_llm_busy(const tenon_llm *llm);

/* Counts since the model was opened. */
typedef struct tenon_llm_counts {
  int64_t steps, rows;           /* rows: tokens that the model computed */
  int64_t prompt_tokens, tokens; /* tokens: generated */
  int64_t cached_tokens;         /* of prompts, found in the cache */
  int64_t submitted, finished, cancelled, preempted;
  int64_t drafted, accepted; /* draft tokens */
  int32_t running, waiting, pages, pages_free, pages_cached;
} tenon_llm_counts;
TENON_API void tenon_llm_stats(const tenon_llm *llm, tenon_llm_counts *out);

/* Bytes, all reserved when the model was opened. */
typedef struct tenon_llm_bytes {
  int64_t weights;   /* mapped from the file, not counted in total */
  int64_t constants; /* copied */
  int64_t arena;     /* between kernels */
  int64_t cache;     /* keys and values, and states of recurrent layers */
  int64_t logits, tables, requests, code;
  int64_t adapters; /* of LoRA */
  int64_t draft;    /* all of the draft model but its mapped weights */
  int64_t total;
} tenon_llm_bytes;
TENON_API void tenon_llm_memory(const tenon_llm *llm, tenon_llm_bytes *out);

typedef struct tenon_llm_info {
  const char *architecture, *tokenizer; /* borrowed */
  int32_t vocabulary, context, sequences, layers;
  int64_t weight_bytes, token_bytes; /* of the files; that decoding one token reads */
  int32_t has_chat;                  /* 1: the model comes with a chat template */
  int32_t is_encoder;                /* 1: it embeds, and generates nothing */
  int32_t embedding;                 /* elements of an embedding; 0: it gives none */
  int32_t scores;                    /* of RANK; 0: it has no head for it */
} tenon_llm_info;
TENON_API void tenon_llm_describe(const tenon_llm *llm, tenon_llm_info *out);

/* Tokens of a text, up to `capacity` of them; *n gets how many there are. `parse_special` and
 * `no_special` as in a request. */
TENON_API tenon_status tenon_llm_tokenize(tenon_llm *llm, const char *text, size_t size,
                                          int32_t parse_special, int32_t no_special,
                                          int32_t *tokens, size_t capacity, size_t *n,
                                          tenon_error *error);
/* The text of tokens, up to `capacity` bytes and not ended by a NUL; *size gets how many there are.
 */
TENON_API tenon_status tenon_llm_detokenize(tenon_llm *llm, const int32_t *tokens, size_t n,
                                            int32_t skip_special, char *text, size_t capacity,
                                            size_t *size, tenon_error *error);
/* What one token stands for within text: its bytes, borrowed from the model, which need not be
 * whole characters and may be empty; the text of special tokens is as it is written in a template.
 * EINVAL: there is no such token. */
typedef struct tenon_llm_token {
  const char *bytes;
  size_t size;
  int32_t special; /* 1: a control token, which stands for nothing in an answer */
  int32_t end;     /* 1: it ends an answer */
} tenon_llm_token;
TENON_API tenon_status tenon_llm_piece(const tenon_llm *llm, int32_t token, tenon_llm_token *out,
                                       tenon_error *error);
/* The tokens that end an answer, up to `capacity` of them; returns how many there are. */
TENON_API size_t tenon_llm_ends(const tenon_llm *llm, int32_t *tokens, size_t capacity);
/* The model's chat template (Jinja), borrowed; NULL: it has none. */
TENON_API const char *tenon_llm_template(const tenon_llm *llm);
/* The prompt of a conversation by the model's chat template, likewise.  `messages` is a JSON array
 * of objects with "role" and "content"; `tools` and `extra` (further variables, an object) may be
 * NULL.  To be submitted with parse_special and no_special.  EUNSUPPORTED: the model has no
 * template. */
TENON_API tenon_status tenon_llm_chat(tenon_llm *llm, const char *messages, const char *tools,
                                      const char *extra, char *text, size_t capacity, size_t *size,
                                      tenon_error *error);

#ifdef __cplusplus
}
#endif
#endif
