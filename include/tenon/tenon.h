/* tenon.h -- the public interface of Tenon, an AI compiler.
 *
 * Open a model, ask what it takes and gives, and run it in the reference interpreter (tenon_run); or compile it
 * (tenon_compile) into a program, which sessions run as often as you like:
 *
 *   tenon_model *m;
 *   tenon_program *p;
 *   tenon_session *s;
 *   tenon_model_open("model.onnx", &m, &error);
 *   tenon_compile(m, NULL, &p, &error);
 *   tenon_session_create(p, NULL, &s, &error);
 *   tenon_session_run(s, inputs, 1, outputs, 1, NULL, &error);
 *
 * Every function that can fail returns a
 * tenon_status and writes a message into the caller's tenon_error (which may be NULL).  Handles are
 * opaque; an accessor's result is borrowed and lives as long as its parent.  Strings are UTF-8.
 *
 * Threads: functions on different handles may run at the same time.  A model may be shared by threads once it is
 * open, and so may a program: both are read-only.  A session belongs to one thread at a time: give each thread
 * its own, of the same program.  What is said of a callback holds for each of them.
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

/* A word for a status, such as "unsupported"; "?" for a number that is none.  Never NULL. */
TENON_API const char *tenon_status_name(tenon_status status);

/* "f32", "i64", "string", ...; "?" for a number that is none.  Never NULL. */
TENON_API const char *tenon_dtype_name(tenon_dtype dtype);

/* ---- tensors ---- */

#define TENON_MAX_RANK 16

/* Bytes that a buffer should best begin at a multiple of: a cache line. */
#define TENON_ALIGNMENT 64

/* An element of a string tensor: UTF-8 bytes, not ended by a NUL. */
typedef struct tenon_string {
  const char *data;
  int64_t size; /* bytes */
} tenon_string;

/* Whose memory a tensor lies in.  The numbers are DLPack's, but for the host's: a tensor that says nothing is the host's. */
typedef enum tenon_memory {
  TENON_MEMORY_HOST = 0,
  TENON_MEMORY_CUDA = 2 /* of NVIDIA's GPU number `device`: `data` is a CUdeviceptr */
} tenon_memory;

/* A dense row-major tensor: a view of the caller's memory, or of memory that Tenon allocated.  Begin with
 * all fields zero ({0}).  Elements of fewer than 8 bits are packed; a string tensor is an array of
 * tenon_string. */
typedef struct tenon_tensor {
  void *data;
  tenon_dtype dtype;
  int32_t rank; /* 0 to TENON_MAX_RANK; 0 is a single element */
  int64_t shape[TENON_MAX_RANK];
  int64_t bytes;       /* room at `data`; of an input, 0 leaves it unsaid */
  void *owner;         /* Tenon's own: NULL when the memory is the caller's */
  tenon_memory memory; /* the host's, unless tenon_session_run says that it takes others */
  int32_t device;      /* which of those devices, as their driver counts */
} tenon_tensor;

/* Bytes that the elements of this dtype and shape take (strings: the array alone), or -1 when there is
 * no such tensor or the size cannot be counted. */
TENON_API int64_t tenon_tensor_size(tenon_dtype dtype, int32_t rank, const int64_t *shape);

/* Frees memory that Tenon allocated and makes every field zero; only the latter for the caller's memory.
 * NULL is fine, and so is a second call. */
TENON_API void tenon_tensor_release(tenon_tensor *tensor);

/* ---- operators of the user's own ---- */

/* One call of an operator: which node, its inputs, attributes and outputs.  It lives during the callback
 * and must not be used by another thread.  The functions below keep the first failure of a call: it fails
 * the opening or the run with that message whatever the callback returns, so that none goes unnoticed.
 * So ask tenon_op_input_count before asking for an input that may not be there. */
typedef struct tenon_op_call tenon_op_call;

/* An operator that a model may use.  It must be a function of its inputs and attributes alone: nodes with
 * equal ones are computed once.  Callbacks may run on several threads at once when a model is run so. */
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

/* The node's name in the model; "" when it has none. */
TENON_API const char *tenon_op_node(const tenon_op_call *call);

/* Inputs and outputs that the node has.  An input may be absent in the middle: see tenon_op_input. */
TENON_API size_t tenon_op_input_count(const tenon_op_call *call);
TENON_API size_t tenon_op_output_count(const tenon_op_call *call);

/* Input `i`, as a view.  In `run` all of it is there.  In `shape` the dtype may be TENON_DTYPE_NONE, the rank
 * -1, a size -1 where not known before a run, and `data` is NULL unless the contents are a small constant.
 * An absent input has dtype TENON_DTYPE_NONE, rank -1 and no data, in both.  EINVAL: there is no input `i`
 * (or *out is NULL); EUNSUPPORTED: it is not a tensor. */
TENON_API tenon_status tenon_op_input(tenon_op_call *call, size_t i, tenon_tensor *out);

/* In `shape`: output `i` has this dtype and shape; rank -1 and sizes -1 where not known before a run. */
TENON_API tenon_status tenon_op_shape(tenon_op_call *call, size_t i, tenon_dtype dtype,
                                      int32_t rank, const int64_t *shape);

/* In `shape`: output `i` has the type of the given input, symbolic sizes included. */
TENON_API tenon_status tenon_op_shape_like(tenon_op_call *call, size_t i, size_t input);

/* In `shape`, after tenon_op_shape: size `axis` of output `i` is size `input_axis` of the given input, be
 * it a number or a symbol. */
TENON_API tenon_status tenon_op_shape_dim(tenon_op_call *call, size_t i, int32_t axis, size_t input,
                                          int32_t input_axis);

/* In `run`: makes output `i` and gives its zeroed elements; NULL when it cannot be made, which the run
 * then reports.  The memory is Tenon's and holds until the callback returns.  What the elements of a string
 * tensor point to must hold that long too: it is copied then. */
TENON_API void *tenon_op_output(tenon_op_call *call, size_t i, tenon_dtype dtype, int32_t rank,
                                const int64_t *shape);

/* An attribute as text: a string as it is, an integer or float in decimal, lists of those with commas.  NULL
 * when the node has none of that name.  `size`, which may be NULL, gets its bytes; a NUL follows them.
 * Tensors and sub-graphs are not passed on. */
TENON_API const char *tenon_op_attr_text(const tenon_op_call *call, const char *name,
                                         int64_t *size);

/* An attribute that is an integer or a list of them: writes up to `capacity` into `out` and returns how
 * many there are; -1 when the node has none of that name or it is something else. */
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
  const tenon_op *ops; /* the user's own operators; copied, names included */
  size_t nops;
  int32_t threads;      /* that a run may use; 0 = as many as the machine lets us */
  int64_t memory_limit; /* bytes that opening may take, and again each run; 0 = none */
  /* Inputs for which the file has a default value are constants, and not among the model's inputs, unless
   * they are named here. */
  const char *const *inputs;
  size_t ninputs;
  /* What inputs are, where the file does not say it, as TorchScript does not: "x=f32[batch,3,224,224]"; a number, "rate=16000", makes
   * an integer input of an ONNX or TorchScript model that number: it is no input then, and what it decides is decided. */
  const char *const *types;
  size_t ntypes;
  const char *
      weights; /* a file of weights that constants come from, by name, in place of the model's own; or NULL */
  /* Weights in the caller's memory, likewise by name; strings excepted.  Names and shapes are copied, elements are not: they are read
   * where they lie while the model is compiled or run, and must stay there unchanged until it is closed.  Not together with `weights`. */
  const tenon_named_tensor *tensors;
  size_t ntensors;
} tenon_open_options;

/* Opens a model file, told by its content: ONNX, PyTorch (torch.export, TorchScript), TensorFlow Lite, StableHLO, or Tenon's text form.
 * Weights are not read before the first run.  Operators that Tenon does not know do not fail the opening: see tenon_model_unsupported. */
TENON_API tenon_status tenon_model_open(const char *path, tenon_model **out, tenon_error *error);

/* The same with options, which may be NULL. */
TENON_API tenon_status tenon_model_open_with(const char *path, const tenon_open_options *options,
                                             tenon_model **out, tenon_error *error);

/* Opens a model that lies in memory, which must stay unchanged until the model is closed.  Weights kept in
 * other files are refused.  The JSON of a program of torch.export is a model, too, without its archive: its weights are those
 * given by `tensors`. */
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

/* 1: the reader of this name ("pytorch", "onnx", ...) has this operator in its table, spelled as `tenon ops --frontend` lists it
 * ("aten::add.Tensor"); 0: it has not, refuses it, or there is no such reader. */
TENON_API int32_t tenon_op_known(const char *frontend, const char *op);

/* ---- running ---- */

typedef struct tenon_run_options {
  size_t struct_size;     /* sizeof(tenon_run_options) */
  uint64_t seed;          /* of random operators that have none of their own */
  int64_t memory_limit;   /* bytes that this run may take; 0 = the model's */
  int64_t max_iterations; /* of all loops together; 0 = no limit */
  int64_t max_operations; /* of all operators, about one an element at least; 0 = no limit */
  /* Of tenon_session_run: the CUstream that the run's work goes into; CUDA's default streams are CU_STREAM_LEGACY (1) and
   * CU_STREAM_PER_THREAD (2).  NULL: a stream of the session's own. */
  void *stream;
} tenon_run_options;

/* Runs the model in the reference interpreter.  Inputs and outputs are in the model's order, all of them.
 *
 * An output whose `data` is NULL is allocated; free it with tenon_tensor_release.  Else it is written into
 * the `bytes` bytes there (EINVAL names what it needs when that is too little); what an earlier run allocated
 * may be given again.  dtype, rank and shape are set in either case.  A string tensor's text lies behind
 * its array, in the same memory.  After a failure no output has been allocated or changed, but for the
 * contents of the caller's buffers.
 *
 * Inputs must not overlap outputs.  Inputs and outputs that are not tensors are EUNSUPPORTED.  Several
 * threads may run one model at once, each with its own tensors; the results are the same bits. */
TENON_API tenon_status tenon_run(tenon_model *model, const tenon_tensor *inputs, size_t ninputs,
                                 tenon_tensor *outputs, size_t noutputs,
                                 const tenon_run_options *options, tenon_error *error);

/* ---- targets ---- */

/* What a model can be compiled for.  Strings are static. */
typedef struct tenon_target_info {
  const char *name; /* "cpu" */
  const char *doc;  /* what it is, in a line */
  int32_t
      available; /* 1: on this machine.  `cpu` needs the program tenon-codegen, beside the library or on the path */
} tenon_target_info;

/* How many targets there are, and the `i`-th of them; EINVAL when there is none. */
TENON_API size_t tenon_target_count(void);
TENON_API tenon_status tenon_target(size_t i, tenon_target_info *out);

/* ---- compiling ---- */

/* A compiled model: read-only, independent of the model that it was made from, counted by references. */
typedef struct tenon_program tenon_program;

/* How much a result may differ from what the model says operation by operation. */
typedef enum tenon_math {
  TENON_MATH_DEFAULT =
      0, /* sums may be taken in another order (3x3 convolutions in fewer products too), and multiplications with additions
          * in one rounding */
  TENON_MATH_EXACT, /* the optimiser uses no rule that changes a bit, and convolutions are done in their direct form */
  TENON_MATH_FAST /* it may take for granted, besides, that no value is NaN or infinite */
} tenon_math;

/* What contractions with constant weights store and multiply in. */
typedef enum tenon_precision {
  TENON_PRECISION_DEFAULT = 0, /* what the model says */
  TENON_PRECISION_BF16, /* f32 ones in bf16, with sums, norms and functions in f32: faster, and the results have some
                        * hundredths of the largest value as error; `tenon verify --precision` measures it */
  TENON_PRECISION_TF32 /* products of f32 in tf32 (10 bits behind the point) on targets with units for it, sums in f32; elsewhere the
                        * default */
} tenon_precision;

/* A symbolic size that is a number from now on: other sizes are then refused when the program runs. */
typedef struct tenon_dim {
  const char *name; /* as in tenon_value_info.symbol */
  int64_t size;
} tenon_dim;

/* Where a compilation is. */
typedef struct tenon_progress {
  const char *stage;   /* "read", "optimise", "plan", "lower", "make code" */
  const char *what;    /* which pass, node or kernel; "" when it has no name */
  int64_t done, total; /* pieces of this stage that are behind and that there are */
} tenon_progress;

typedef struct tenon_options {
  size_t struct_size; /* sizeof(tenon_options) */
  const char *target; /* a target's name; NULL or "auto": the fastest that is available */
  int32_t opt_level;  /* 1 to 3; 0 = the default, which is 3; -1 = no optimisation at all */
  tenon_math math;
  int32_t threads; /* that compiling may use; 0 = as many as the machine lets us */
  const tenon_dim
      *dims; /* sizes to fix; code for fixed sizes is a little faster, and refuses others */
  size_t ndims;
  /* Called before each piece of the work, one call at a time, perhaps on another thread than the caller's.
   * Anything but 0 ends the compilation, which then gives TENON_ECANCELLED.  May be NULL. */
  int (*progress)(const tenon_progress *progress, void *user);
  void *user;       /* given to it */
  int32_t no_cache; /* 1: neither look for code in the cache of kernels nor keep it there */
  tenon_precision precision;
  int32_t
      batch_invariant; /* 1: an item of a batch gets the same bits whatever the size of the batch; costs some speed */
  const char *
      device; /* of a target on devices: which one, as `tenon targets` lists them ("1" is the second GPU); NULL: the target's choice */
  int32_t
      last_use; /* 1: nobody uses the model now or later but to close it; it need not be read once more to be compiled */
} tenon_options;

/* Compiles a model, which stays as it is (but for `last_use`) and may be closed afterwards.  `options` may be NULL.  A model that tenon_run
 * runs can be compiled: what the target has no code for runs by the reference evaluation within the program, and so do
 * operators of the user's own, whose callbacks (and `user`) must then stay valid as long as the program.  Large tables that
 * are read as they lie in the model's file or its external data (embeddings) stay there and are not copied: such a file must
 * not be changed while the program is in use; it may be replaced by another of its name, or removed.
 *
 * EINVAL: an option is wrong, or no symbolic size has a name that is given; EUNSUPPORTED: the target is not available
 * here, or the model uses an operator that Tenon does not know; ECANCELLED: by `progress`. */
TENON_API tenon_status tenon_compile(const tenon_model *model, const tenon_options *options,
                                     tenon_program **out, tenon_error *error);

/* One more reference, and one less: the last one frees the program.  Sessions hold one of their own.  Both may be
 * called by any thread.  NULL is fine for the latter. */
TENON_API tenon_program *tenon_program_retain(tenon_program *program);
TENON_API void tenon_program_release(tenon_program *program);

/* What the program takes and gives: as tenon_model_input_count and the others.  Strings are borrowed from the program. */
TENON_API size_t tenon_program_input_count(const tenon_program *program);
TENON_API size_t tenon_program_output_count(const tenon_program *program);
TENON_API tenon_status tenon_program_input(const tenon_program *program, size_t i,
                                           tenon_value_info *out);
TENON_API tenon_status tenon_program_output(const tenon_program *program, size_t i,
                                            tenon_value_info *out);

/* What it is made of.  Strings are borrowed from the program. */
typedef struct tenon_program_info {
  const char *target; /* "cpu" */
  int64_t kernels;    /* pieces of generated code */
  int64_t steps;      /* of one run of the main function */
  int64_t host_steps; /* of them done by the reference evaluation */
  int64_t code_bytes, constant_bytes;
} tenon_program_info;
TENON_API void tenon_program_describe(const tenon_program *program, tenon_program_info *out);

/* ---- programs in files ---- */

/* Writes the program to a file, which is replaced at once or left as it was.  EUNSUPPORTED for a program that has no form
 * of its own outside this process (target `ref`). */
TENON_API tenon_status tenon_program_save(const tenon_program *program, const char *path,
                                          tenon_error *error);
/* Several programs of one model in one file, each compiled for another target: constants that they have in common are
 * written once.  tenon_program_load takes one of them. */
TENON_API tenon_status tenon_programs_save(const tenon_program *const *programs, size_t n,
                                           const char *path, tenon_error *error);

typedef struct tenon_load_options {
  size_t struct_size; /* sizeof(tenon_load_options) */
  const tenon_op *
      ops; /* the user's own operators that the program needs: only `name`, `run` and `user` count; copied */
  size_t nops;
  const char *
      target; /* of a file with variants: "cpu", "opencl", ...; NULL or "auto": the fastest that runs here */
} tenon_load_options;

/* Maps a program that tenon_program_save or `tenon compile` wrote.  `options` may be NULL.  Of several variants it takes the fastest
 * that this machine can run; tenon_program_describe says which.  EFORMAT: it is none, or damaged; EUNSUPPORTED: of another version, for
 * another kind of machine, for a device that is not there, or an operator of the user's own is not given. */
TENON_API tenon_status tenon_program_load(const char *path, const tenon_load_options *options,
                                          tenon_program **out, tenon_error *error);

/* The same of bytes in memory, at a multiple of TENON_ALIGNMENT, which must stay there unchanged as long as the program. */
TENON_API tenon_status tenon_program_load_memory(const void *bytes, size_t size,
                                                 const tenon_load_options *options,
                                                 tenon_program **out, tenon_error *error);

/* ---- sessions ---- */

/* What running a program needs besides the program: threads, memory between operators, bound buffers. */
typedef struct tenon_session tenon_session;

/* A value that the session keeps: what a run gives as the output, the next run takes as the input. */
typedef struct tenon_state_pair {
  const char *input, *output; /* their names */
} tenon_state_pair;

typedef struct tenon_session_options {
  size_t struct_size; /* sizeof(tenon_session_options) */
  int32_t threads;    /* 0 = as many as the machine lets us; results do not depend on it */
  int32_t profile;    /* 1: measure every step: see tenon_session_step */
  int64_t
      memory_limit; /* bytes that a run may take, unless its own options say; 0 = the machine's memory */
  const tenon_state_pair *states;
  size_t nstates;
} tenon_session_options;

/* Makes a session, which holds a reference of the program; `options` may be NULL.  Its threads sleep between runs. */
TENON_API tenon_status tenon_session_create(tenon_program *program,
                                            const tenon_session_options *options,
                                            tenon_session **out, tenon_error *error);

/* Frees it; no thread may be using it.  NULL is fine.  Tensors that a run allocated stay. */
TENON_API void tenon_session_release(tenon_session *session);

/* The program, borrowed; and the threads that it has, the caller's included. */
TENON_API tenon_program *tenon_session_program(const tenon_session *session);
TENON_API int32_t tenon_session_threads(const tenon_session *session);

/* Bytes of devices' memory that it has now: the constants of its program, which all sessions of the program share, and what its runs
 * have needed between operators.  Neither the code nor tensors of the caller's are counted.  0 where the program is the host's alone. */
TENON_API int64_t tenon_session_device_bytes(const tenon_session *session);

/* Runs the program.  Everything that tenon_run says of inputs, outputs and failures holds.  Besides:
 *
 * Buffers whose elements lie at multiples of their own size are not copied: an input is read where it lies, and an output is
 * computed where it shall be, when its size is known before the run and an operator of the program (not the
 * reference evaluation) makes it.  Others are copied once.
 *
 * A session's runs must not overlap.  After a failure it can be used again.
 *
 * Tensors on a GPU.  Where the program runs on one (target `cuda`), inputs and outputs may lie in its memory (tenon_tensor.memory), each for
 * itself.  An input that the program needs there is read where it lies, and an output is made where it shall lie; where it begins at no
 * multiple of 16, or the program makes it elsewhere, it is copied there once.  An output must have `data`.  EINVAL: another GPU's memory, or a program that does
 * not run on one.
 *
 * Without a stream, inputs must be there when the run begins, and outputs are there when it returns.  With one, all work goes into
 * that stream, which must not be one that is being captured: it begins after what the caller has put there before, and what is put there afterwards sees its outputs.  A run with a
 * stream whose outputs are all on the GPU returns as soon as its work is issued; inputs must stay unchanged until it is done.
 * What is found wrong after that (an index out of range, a GPU that fails) is the error of a later run of the session, or of
 * tenon_session_wait; so wait before results are relied on.  Runs of one session are done one after another, whatever their streams. */
TENON_API tenon_status tenon_session_run(tenon_session *session, const tenon_tensor *inputs,
                                         size_t ninputs, tenon_tensor *outputs, size_t noutputs,
                                         const tenon_run_options *options, tenon_error *error);

/* Waits for runs that returned before they were done.  An error that one of them had, and that no later run has told, is told here; the
 * session can be used again. */
TENON_API tenon_status tenon_session_wait(tenon_session *session, tenon_error *error);

/* ---- bound buffers: said once, used by every tenon_session_run_bound ---- */

/* Input `i` lies here from now on, with this dtype and shape; the memory stays the caller's and must stay valid. */
TENON_API tenon_status tenon_session_bind_input(tenon_session *session, size_t i,
                                                const tenon_tensor *tensor, tenon_error *error);

/* Output `i` is written into the `bytes` bytes here from now on.  NULL or no data: into memory of the session. */
TENON_API tenon_status tenon_session_bind_output(tenon_session *session, size_t i,
                                                 const tenon_tensor *tensor, tenon_error *error);

/* Runs with what is bound.  EINVAL when an input is not. */
TENON_API tenon_status tenon_session_run_bound(tenon_session *session,
                                               const tenon_run_options *options,
                                               tenon_error *error);

/* Output `i` of the last tenon_session_run_bound that succeeded, with the dtype and shape that it got: a view, which holds
 * until the next run or binding.  EINVAL when there is none. */
TENON_API tenon_status tenon_session_output(const tenon_session *session, size_t i,
                                            tenon_tensor *out, tenon_error *error);

/* ---- state: values that a session keeps from one run to the next ---- */

/* States are named by tenon_session_options.states: an input and an output of one dtype and shape, such as the hidden value
 * of a recurrent layer or the keys and values of a decoder.  A run is given an input that is a state as a tensor of
 * zeros ({0}, without dtype) and takes what the run before has left there; with a tensor that is not, it takes that one.
 * Its output is a view of the session's memory, which holds until the next run, unless it is given a buffer.  A state
 * begins as zeros; where the input's shape is not fixed it begins without a value and must be set.  A run
 * that fails leaves every state as it was. */

/* How many there are, and the name and type of the `i`-th's input; EINVAL when there is none. */
TENON_API size_t tenon_session_state_count(const tenon_session *session);
TENON_API tenon_status tenon_session_state(const tenon_session *session, size_t i,
                                           tenon_value_info *out);

/* Reads it into *out, as an output of a run; sets it to a copy of a tensor; makes all of them what they were at first.
 * EINVAL when the session keeps no state `i`; a reset of none is fine. */
TENON_API tenon_status tenon_session_state_get(tenon_session *session, size_t i, tenon_tensor *out,
                                               tenon_error *error);
TENON_API tenon_status tenon_session_state_set(tenon_session *session, size_t i,
                                               const tenon_tensor *value, tenon_error *error);
TENON_API tenon_status tenon_session_state_reset(tenon_session *session, tenon_error *error);

/* ---- profile: of a session made with tenon_session_options.profile ---- */

typedef enum tenon_step_kind {
  TENON_STEP_KERNEL = 0, /* generated code */
  TENON_STEP_HOST,       /* the reference evaluation, or an operator of the user's own */
  TENON_STEP_VIEW,       /* nothing: the same bytes under another shape */
  TENON_STEP_COPY
} tenon_step_kind;

typedef struct tenon_step {
  const char *name; /* the kernel's schedule, or the operator */
  const char *node; /* of the model, where it comes from; "" when it has no name */
  tenon_step_kind kind;
  int64_t calls, ns; /* since the session was made, or since the profile was reset */
  int32_t
      more; /* so many steps after this one run side by side with it; each has its part of their time in ns */
  double flops,
      bytes; /* of one call, at the sizes that the program was planned for; 0: not known */
} tenon_step;

/* Steps of the main function, in order: how many, and the `i`-th.  Without a profile calls and ns are 0.  Strings are
 * borrowed from the program.  EINVAL when there is none. */
TENON_API size_t tenon_session_step_count(const tenon_session *session);
TENON_API tenon_status tenon_session_step(const tenon_session *session, size_t i, tenon_step *out);
TENON_API void tenon_session_profile_reset(tenon_session *session);

#ifdef __cplusplus
}
#endif
#endif
