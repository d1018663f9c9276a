// api_null_test.c -- every public function with NULL for each of its pointers: an error, or the
// neutral value that the header promises.
//
// Each row calls one function with NULL for one parameter and sound values for the others.  The
// list of functions and of their pointers is read from the header, so a new one without a row fails
// the test; so does a row of none.
#include "api/api.h"
#include "test.h"
#include "tiny_chat.h"

#include <ctype.h>

// ---- rows ----

enum { ROWS = 384 };
static struct {
  const char *function, *parameter;
  bool met;  // in the header
} row[ROWS];
static int nrows;
static tenon_error error;

// For calls with a tenon_error: whether it holds a message exactly when the call failed.
static bool error_fits(int64_t got) {
  bool fits = !*error.message == !got && (int64_t)error.status == got;
  error = (tenon_error){0};
  return fits;
}

static void add_row(const char *function, const char *parameter, int64_t got, int64_t want,
                    bool told) {
  bool fits = !told || error_fits(got);
  if (got != want)
    FAIL("%s with NULL for %s: %lld, not %lld", function, parameter, (long long)got,
         (long long)want);
  if (!fits) FAIL("%s with NULL for %s: the error does not fit", function, parameter);
  for (int i = 0; i < nrows; i++)  // a callback may run more than once
    if (!strcmp(row[i].function, function) && !strcmp(row[i].parameter, parameter)) return;
  if (nrows == ROWS) {
    FAIL("more than %d rows", ROWS);
    return;
  }
  row[nrows].function = function;
  row[nrows++].parameter = parameter;
}

#define GIVES(want, function, parameter, ...)                                                      \
  add_row(#function, #parameter, (int64_t)(function(__VA_ARGS__)), (int64_t)(want), false)
#define GIVES_PTR(want, function, parameter, ...)                                                  \
  add_row(#function, #parameter, (int64_t)(intptr_t)(function(__VA_ARGS__)),                       \
          (int64_t)(intptr_t)(want), false)
#define NOTHING(function, parameter, ...)                                                          \
  (function(__VA_ARGS__), add_row(#function, #parameter, 0, 0, false))
// A status, and the same in `error`.
#define TELLS(want, function, parameter, ...)                                                      \
  add_row(#function, #parameter, (int64_t)(function(__VA_ARGS__)), (int64_t)(want), true)
// The error itself may be NULL everywhere.
#define QUIET(want, function, ...)                                                                 \
  add_row(#function, "error", (int64_t)(function(__VA_ARGS__)), (int64_t)(want), false)

// ---- a model, a program and a session ----

static const char text[] = "graph @\"t\"(%x: f32[2], %h: f32[2]) -> (y: f32[2], g: f32[2]) {\n"
                           "  %y = mul(%x, %h)\n"
                           "  %g = add(%h, %x)\n"
                           "  return %y, %g\n"
                           "}\n";
static float numbers[4];
static tenon_tensor given[2] = {
    {.data = numbers, .dtype = TENON_DTYPE_F32, .rank = 1, .shape = {2}},
    {.data = numbers + 2, .dtype = TENON_DTYPE_F32, .rank = 1, .shape = {2}}};

typedef struct Handles {
  tenon_model *model;
  tenon_program *program;
  tenon_session *session;
  const char *file;  // holds the program, or NULL where it has no form outside the process
  Arena arena;
} Handles;

static bool make(Handles *h) {
  static const tenon_state_pair pair = {"h", "g"};
  tenon_session_options o = {.struct_size = sizeof o, .threads = 1, .states = &pair, .nstates = 1};
  tenon_options to = {.struct_size = sizeof to, .target = "ref", .no_cache = 1};
  bool ok = !tenon_model_open_memory(text, sizeof text - 1, NULL, &h->model, &error) &&
            !tenon_compile(h->model, &to, &h->program, &error) &&
            !tenon_session_create(h->program, &o, &h->session, &error);
  if (!ok) FAIL("%s", error.message);
  arena_init(&h->arena);
  h->file = str_printf(&h->arena, "%s/null.tenon", test_folder());
  return ok;
}

static void drop(Handles *h) {
  tenon_session_release(h->session);
  tenon_program_release(h->program);
  tenon_model_close(h->model);
  arena_deinit(&h->arena);
}

// ---- the table ----

static void rows_of_models(const Handles *h) {
  tenon_value_info v;
  tenon_unsupported u;
  tenon_model *m = NULL;
  GIVES(0, tenon_notice, text, NULL, 16);
  GIVES(-1, tenon_tensor_size, shape, TENON_DTYPE_F32, 1, NULL);
  NOTHING(tenon_tensor_release, tensor, NULL);
  TELLS(TENON_EINVAL, tenon_model_open, path, NULL, &m, &error);
  TELLS(TENON_EINVAL, tenon_model_open, out, "x", NULL, &error);
  QUIET(TENON_EIO, tenon_model_open, "/nothing/there", &m, NULL);
  TELLS(TENON_EINVAL, tenon_model_open_with, path, NULL, NULL, &m, &error);
  TELLS(TENON_EIO, tenon_model_open_with, options, "/nothing/there", NULL, &m, &error);
  TELLS(TENON_EINVAL, tenon_model_open_with, out, "x", NULL, NULL, &error);
  QUIET(TENON_EIO, tenon_model_open_with, "/nothing/there", NULL, &m, NULL);
  TELLS(TENON_EINVAL, tenon_model_open_memory, bytes, NULL, 4, NULL, &m, &error);
  TELLS(TENON_OK, tenon_model_open_memory, options, text, sizeof text - 1, NULL, &m, &error);
  tenon_model_close(m);
  TELLS(TENON_EINVAL, tenon_model_open_memory, out, text, sizeof text - 1, NULL, NULL, &error);
  QUIET(TENON_OK, tenon_model_open_memory, text, sizeof text - 1, NULL, &m, NULL);
  tenon_model_close(m);
  NOTHING(tenon_model_close, model, NULL);
  GIVES(0, tenon_model_input_count, model, NULL);
  GIVES(0, tenon_model_output_count, model, NULL);
  GIVES(0, tenon_model_unsupported_count, model, NULL);
  GIVES(TENON_EINVAL, tenon_model_input, model, NULL, 0, &v);
  GIVES(TENON_EINVAL, tenon_model_input, out, h->model, 0, NULL);
  GIVES(TENON_EINVAL, tenon_model_output, model, NULL, 0, &v);
  GIVES(TENON_EINVAL, tenon_model_output, out, h->model, 0, NULL);
  GIVES(TENON_EINVAL, tenon_model_unsupported, model, NULL, 0, &u);
  GIVES(TENON_EINVAL, tenon_model_unsupported, out, h->model, 0, NULL);
  GIVES(0, tenon_op_known, frontend, NULL, "Add");
  GIVES(0, tenon_op_known, op, "onnx", NULL);
}

static void rows_of_runs(const Handles *h) {
  tenon_tensor out[2] = {{0}};
  TELLS(TENON_EINVAL, tenon_run, model, NULL, given, 2, out, 2, NULL, &error);
  TELLS(TENON_EINVAL, tenon_run, inputs, h->model, NULL, 2, out, 2, NULL, &error);
  TELLS(TENON_EINVAL, tenon_run, outputs, h->model, given, 2, NULL, 2, NULL, &error);
  TELLS(TENON_OK, tenon_run, options, h->model, given, 2, out, 2, NULL, &error);
  QUIET(TENON_OK, tenon_run, h->model, given, 2, out, 2, NULL, NULL);
  for (int i = 0; i < 2; i++) tenon_tensor_release(&out[i]);
  TELLS(TENON_EINVAL, tenon_session_run, session, NULL, given, 2, out, 2, NULL, &error);
  TELLS(TENON_EINVAL, tenon_session_run, inputs, h->session, NULL, 2, out, 2, NULL, &error);
  TELLS(TENON_EINVAL, tenon_session_run, outputs, h->session, given, 2, NULL, 2, NULL, &error);
  TELLS(TENON_OK, tenon_session_run, options, h->session, given, 2, out, 2, NULL, &error);
  QUIET(TENON_OK, tenon_session_run, h->session, given, 2, out, 2, NULL, NULL);
  for (int i = 0; i < 2; i++) tenon_tensor_release(&out[i]);
  TELLS(TENON_EINVAL, tenon_session_wait, session, NULL, &error);
  QUIET(TENON_OK, tenon_session_wait, h->session, NULL);
}

static void rows_of_programs(const Handles *h) {
  tenon_value_info v;
  tenon_program_info info;
  tenon_program *p = NULL;
  tenon_options o = {.struct_size = sizeof o, .target = "ref", .no_cache = 1};
  GIVES(TENON_EINVAL, tenon_target, out, 0, NULL);
  GIVES(TENON_EINVAL, tenon_option, out, 0, NULL);
  TELLS(TENON_EINVAL, tenon_compile, model, NULL, &o, &p, &error);
  TELLS(TENON_EINVAL, tenon_compile, out, h->model, &o, NULL, &error);
  QUIET(TENON_OK, tenon_compile, h->model, &o, &p, NULL);
  tenon_program_release(p);
  p = NULL;
  // Without options the fastest target is taken.
  TELLS(TENON_OK, tenon_compile, options, h->model, NULL, &p, &error);
  tenon_program_release(p);
  GIVES_PTR(NULL, tenon_program_retain, program, NULL);
  NOTHING(tenon_program_release, program, NULL);
  GIVES(0, tenon_program_input_count, program, NULL);
  GIVES(0, tenon_program_output_count, program, NULL);
  GIVES(TENON_EINVAL, tenon_program_input, program, NULL, 0, &v);
  GIVES(TENON_EINVAL, tenon_program_input, out, h->program, 0, NULL);
  GIVES(TENON_EINVAL, tenon_program_output, program, NULL, 0, &v);
  GIVES(TENON_EINVAL, tenon_program_output, out, h->program, 0, NULL);
  memset(&info, 1, sizeof info);
  NOTHING(tenon_program_describe, program, NULL, &info);
  EXPECT(!info.target && !info.kernels && !info.constant_bytes);
  NOTHING(tenon_program_describe, out, h->program, NULL);
  GIVES(0, tenon_program_option_count, program, NULL);
  GIVES_PTR(NULL, tenon_program_option, program, NULL, 0);
  GIVES(0, tenon_program_warning_count, program, NULL);
  GIVES_PTR(NULL, tenon_program_warning, program, NULL, 0);
}

static void rows_of_files(const Handles *h) {
  const tenon_program *one[] = {h->program}, *none[] = {NULL};
  tenon_program *p = NULL;
  TELLS(TENON_EINVAL, tenon_program_save, program, NULL, h->file, &error);
  TELLS(TENON_EINVAL, tenon_program_save, path, h->program, NULL, &error);
  QUIET(TENON_EINVAL, tenon_program_save, h->program, NULL, NULL);
  TELLS(TENON_EINVAL, tenon_programs_save, programs, NULL, 1, h->file, &error);
  EXPECT_STATUS(tenon_programs_save(none, 1, h->file, &error), TENON_EINVAL);
  TELLS(TENON_EINVAL, tenon_programs_save, path, one, 1, NULL, &error);
  QUIET(TENON_EINVAL, tenon_programs_save, one, 1, NULL, NULL);
  TELLS(TENON_EINVAL, tenon_program_load, path, NULL, NULL, &p, &error);
  TELLS(TENON_EIO, tenon_program_load, options, "/nothing/there", NULL, &p, &error);
  TELLS(TENON_EINVAL, tenon_program_load, out, h->file, NULL, NULL, &error);
  QUIET(TENON_EIO, tenon_program_load, "/nothing/there", NULL, &p, NULL);
  static _Alignas(TENON_ALIGNMENT) const char bytes[64];
  TELLS(TENON_EINVAL, tenon_program_load_memory, bytes, NULL, 64, NULL, &p, &error);
  TELLS(TENON_EFORMAT, tenon_program_load_memory, options, bytes, 64, NULL, &p, &error);
  TELLS(TENON_EINVAL, tenon_program_load_memory, out, bytes, 64, NULL, NULL, &error);
  QUIET(TENON_EFORMAT, tenon_program_load_memory, bytes, 64, NULL, &p, NULL);
}

static void rows_of_sessions(const Handles *h) {
  tenon_session *s = NULL;
  tenon_step step;
  TELLS(TENON_EINVAL, tenon_session_create, program, NULL, NULL, &s, &error);
  TELLS(TENON_OK, tenon_session_create, options, h->program, NULL, &s, &error);
  tenon_session_release(s);
  TELLS(TENON_EINVAL, tenon_session_create, out, h->program, NULL, NULL, &error);
  QUIET(TENON_OK, tenon_session_create, h->program, NULL, &s, NULL);
  tenon_session_release(s);
  NOTHING(tenon_session_release, session, NULL);
  GIVES_PTR(NULL, tenon_session_program, session, NULL);
  GIVES(0, tenon_session_threads, session, NULL);
  GIVES(0, tenon_session_device_bytes, session, NULL);
  GIVES(0, tenon_session_step_count, session, NULL);
  GIVES(TENON_EINVAL, tenon_session_step, session, NULL, 0, &step);
  GIVES(TENON_EINVAL, tenon_session_step, out, h->session, 0, NULL);
  NOTHING(tenon_session_profile_reset, session, NULL);
}

static void rows_of_bindings(const Handles *h) {
  tenon_tensor t;
  TELLS(TENON_EINVAL, tenon_session_bind_input, session, NULL, 0, given, &error);
  TELLS(TENON_EINVAL, tenon_session_bind_input, tensor, h->session, 0, NULL, &error);
  QUIET(TENON_OK, tenon_session_bind_input, h->session, 0, given, NULL);
  TELLS(TENON_EINVAL, tenon_session_bind_output, session, NULL, 0, given, &error);
  TELLS(TENON_OK, tenon_session_bind_output, tensor, h->session, 0, NULL, &error);
  QUIET(TENON_OK, tenon_session_bind_output, h->session, 0, NULL, NULL);
  TELLS(TENON_EINVAL, tenon_session_run_bound, session, NULL, NULL, &error);
  TELLS(TENON_OK, tenon_session_run_bound, options, h->session, NULL, &error);
  QUIET(TENON_OK, tenon_session_run_bound, h->session, NULL, NULL);
  TELLS(TENON_EINVAL, tenon_session_output, session, NULL, 0, &t, &error);
  TELLS(TENON_EINVAL, tenon_session_output, out, h->session, 0, NULL, &error);
  QUIET(TENON_OK, tenon_session_output, h->session, 0, &t, NULL);
}

static void rows_of_states(const Handles *h) {
  tenon_value_info v;
  tenon_tensor t = {0};
  GIVES(0, tenon_session_state_count, session, NULL);
  GIVES(TENON_EINVAL, tenon_session_state, session, NULL, 0, &v);
  GIVES(TENON_EINVAL, tenon_session_state, out, h->session, 0, NULL);
  TELLS(TENON_EINVAL, tenon_session_state_get, session, NULL, 0, &t, &error);
  TELLS(TENON_EINVAL, tenon_session_state_get, out, h->session, 0, NULL, &error);
  QUIET(TENON_OK, tenon_session_state_get, h->session, 0, &t, NULL);
  tenon_tensor_release(&t);
  TELLS(TENON_EINVAL, tenon_session_state_set, session, NULL, 0, given, &error);
  TELLS(TENON_EINVAL, tenon_session_state_set, value, h->session, 0, NULL, &error);
  QUIET(TENON_OK, tenon_session_state_set, h->session, 0, given, NULL);
  TELLS(TENON_EINVAL, tenon_session_state_reset, session, NULL, &error);
  QUIET(TENON_OK, tenon_session_state_reset, h->session, NULL);
}

static void rows_of_values(void) {
  static const int64_t keys[] = {1, 2};
  tenon_tensor k = {
      .data = (void *)(uintptr_t)keys, .dtype = TENON_DTYPE_I64, .rank = 1, .shape = {2}};
  tenon_value *v = NULL, *key = NULL, *made = NULL;
  tenon_tensor view;
  TELLS(TENON_EINVAL, tenon_value_tensor, tensor, NULL, &v, &error);
  TELLS(TENON_EINVAL, tenon_value_tensor, out, given, NULL, &error);
  QUIET(TENON_OK, tenon_value_tensor, given, &v, NULL);
  EXPECT_STATUS(tenon_value_tensor(&k, &key, &error), TENON_OK);
  TELLS(TENON_EINVAL, tenon_value_sequence, items, 0, NULL, 1, &made, &error);
  TELLS(TENON_EINVAL, tenon_value_sequence, out, 0, &v, 1, NULL, &error);
  QUIET(TENON_EINVAL, tenon_value_sequence, 0, NULL, 1, &made, NULL);
  TELLS(TENON_OK, tenon_value_optional, item, 0, NULL, &made, &error);
  tenon_value_release(made);
  TELLS(TENON_EINVAL, tenon_value_optional, out, 0, v, NULL, &error);
  QUIET(TENON_EINVAL, tenon_value_optional, 0, v, NULL, NULL);
  TELLS(TENON_EINVAL, tenon_value_map, keys, NULL, v, &made, &error);
  TELLS(TENON_EINVAL, tenon_value_map, values, key, NULL, &made, &error);
  TELLS(TENON_EINVAL, tenon_value_map, out, key, v, NULL, &error);
  QUIET(TENON_EINVAL, tenon_value_map, NULL, v, &made, NULL);
  GIVES_PTR(NULL, tenon_value_retain, value, NULL);
  NOTHING(tenon_value_release, value, NULL);
  GIVES(0, tenon_value_kind, value, NULL);
  GIVES(0, tenon_value_count, value, NULL);
  GIVES_PTR(NULL, tenon_value_item, value, NULL, 0);
  GIVES(TENON_EINVAL, tenon_value_view, value, NULL, &view);
  GIVES(TENON_EINVAL, tenon_value_view, out, v, NULL);
  tenon_value_release(key);
  tenon_value_release(v);
}

static void rows_of_value_runs(const Handles *h) {
  tenon_value *in[2] = {NULL}, *out[2] = {NULL};
  tenon_session *s = NULL;
  for (int i = 0; i < 2; i++) EXPECT_STATUS(tenon_value_tensor(given, &in[i], NULL), TENON_OK);
  TELLS(TENON_EINVAL, tenon_run_values, model, NULL, in, 2, out, 2, NULL, &error);
  TELLS(TENON_EINVAL, tenon_run_values, inputs, h->model, NULL, 2, out, 2, NULL, &error);
  TELLS(TENON_EINVAL, tenon_run_values, outputs, h->model, in, 2, NULL, 2, NULL, &error);
  TELLS(TENON_OK, tenon_run_values, options, h->model, in, 2, out, 2, NULL, &error);
  for (int i = 0; i < 2; i++) tenon_value_release(out[i]);
  QUIET(TENON_OK, tenon_run_values, h->model, in, 2, out, 2, NULL, NULL);
  for (int i = 0; i < 2; i++) tenon_value_release(out[i]);
  EXPECT_STATUS(tenon_session_create(h->program, NULL, &s, &error), TENON_OK);
  TELLS(TENON_EINVAL, tenon_session_run_values, session, NULL, in, 2, out, 2, NULL, &error);
  TELLS(TENON_EINVAL, tenon_session_run_values, inputs, s, NULL, 2, out, 2, NULL, &error);
  TELLS(TENON_EINVAL, tenon_session_run_values, outputs, s, in, 2, NULL, 2, NULL, &error);
  TELLS(TENON_OK, tenon_session_run_values, options, s, in, 2, out, 2, NULL, &error);
  for (int i = 0; i < 2; i++) tenon_value_release(out[i]);
  QUIET(TENON_OK, tenon_session_run_values, s, in, 2, out, 2, NULL, NULL);
  for (int i = 0; i < 2; i++) tenon_value_release(out[i]);
  tenon_session_release(s);
  for (int i = 0; i < 2; i++) tenon_value_release(in[i]);
}

// ---- language models ----

static void rows_of_llm_requests(tenon_llm *l) {
  tenon_llm_request r = {.struct_size = sizeof r, .text = "a", .max_tokens = 1};
  const tenon_llm_event *e;
  uint64_t id;
  size_t n;
  TELLS(TENON_EINVAL, tenon_llm_submit, llm, NULL, &r, &id, &error);
  TELLS(TENON_EINVAL, tenon_llm_submit, request, l, NULL, &id, &error);
  TELLS(TENON_EINVAL, tenon_llm_submit, id, l, &r, NULL, &error);
  QUIET(TENON_OK, tenon_llm_submit, l, &r, &id, NULL);
  TELLS(TENON_EINVAL, tenon_llm_step, llm, NULL, &e, &n, &error);
  TELLS(TENON_EINVAL, tenon_llm_step, events, l, NULL, &n, &error);
  TELLS(TENON_EINVAL, tenon_llm_step, nevents, l, &e, NULL, &error);
  QUIET(TENON_OK, tenon_llm_step, l, &e, &n, NULL);
  TELLS(TENON_EINVAL, tenon_llm_cancel, llm, NULL, 1, &error);
  QUIET(TENON_EINVAL, tenon_llm_cancel, l, 1, NULL);
  TELLS(TENON_EINVAL, tenon_llm_load_adapter, llm, NULL, "a", "/nothing", 1, &error);
  TELLS(TENON_EINVAL, tenon_llm_load_adapter, name, l, NULL, "/nothing", 1, &error);
  TELLS(TENON_EINVAL, tenon_llm_load_adapter, path, l, "a", NULL, 1, &error);
  QUIET(TENON_EUNSUPPORTED, tenon_llm_load_adapter, l, "a", "/nothing", 1, NULL);
  TELLS(TENON_EINVAL, tenon_llm_drop_adapter, llm, NULL, "a", &error);
  TELLS(TENON_EINVAL, tenon_llm_drop_adapter, name, l, NULL, &error);
  QUIET(TENON_EINVAL, tenon_llm_drop_adapter, l, "a", NULL);
  GIVES(0, tenon_llm_busy, llm, NULL);
}

static void rows_of_llm_facts(const tenon_llm *l) {
  tenon_llm_counts counts;
  tenon_llm_bytes bytes;
  tenon_llm_info info;
  memset(&counts, 1, sizeof counts);
  memset(&bytes, 1, sizeof bytes);
  memset(&info, 1, sizeof info);
  NOTHING(tenon_llm_stats, llm, NULL, &counts);
  NOTHING(tenon_llm_stats, out, l, NULL);
  NOTHING(tenon_llm_memory, llm, NULL, &bytes);
  NOTHING(tenon_llm_memory, out, l, NULL);
  NOTHING(tenon_llm_describe, llm, NULL, &info);
  NOTHING(tenon_llm_describe, out, l, NULL);
  EXPECT(!counts.steps && !counts.pages && !bytes.total && !info.vocabulary && !*info.architecture);
}

static void rows_of_llm_text(tenon_llm *l) {
  static const char messages[] = "[{\"role\":\"user\",\"content\":\"a\"}]";
  int32_t token[8] = {'a'};
  char to[64];
  size_t n;
  TELLS(TENON_EINVAL, tenon_llm_tokenize, llm, NULL, "a", 1, 0, 0, token, 8, &n, &error);
  TELLS(TENON_EINVAL, tenon_llm_tokenize, text, l, NULL, 1, 0, 0, token, 8, &n, &error);
  TELLS(TENON_OK, tenon_llm_tokenize, tokens, l, "a", 1, 0, 0, NULL, 8, &n, &error);
  TELLS(TENON_EINVAL, tenon_llm_tokenize, n, l, "a", 1, 0, 0, token, 8, NULL, &error);
  QUIET(TENON_OK, tenon_llm_tokenize, l, "a", 1, 0, 0, token, 8, &n, NULL);
  TELLS(TENON_EINVAL, tenon_llm_detokenize, llm, NULL, token, 1, 0, to, 64, &n, &error);
  TELLS(TENON_EINVAL, tenon_llm_detokenize, tokens, l, NULL, 1, 0, to, 64, &n, &error);
  TELLS(TENON_OK, tenon_llm_detokenize, text, l, token, 1, 0, NULL, 64, &n, &error);
  TELLS(TENON_EINVAL, tenon_llm_detokenize, size, l, token, 1, 0, to, 64, NULL, &error);
  QUIET(TENON_OK, tenon_llm_detokenize, l, token, 1, 0, to, 64, &n, NULL);
  tenon_llm_token piece;
  TELLS(TENON_EINVAL, tenon_llm_piece, llm, NULL, 1, &piece, &error);
  TELLS(TENON_EINVAL, tenon_llm_piece, out, l, 1, NULL, &error);
  QUIET(TENON_OK, tenon_llm_piece, l, 1, &piece, NULL);
  GIVES(0, tenon_llm_ends, llm, NULL, token, 8);
  GIVES(1, tenon_llm_ends, tokens, l, NULL, 8);
  GIVES_PTR(NULL, tenon_llm_template, llm, NULL);
  TELLS(TENON_EINVAL, tenon_llm_chat, llm, NULL, messages, NULL, NULL, to, 64, &n, &error);
  TELLS(TENON_EINVAL, tenon_llm_chat, messages, l, NULL, NULL, NULL, to, 64, &n, &error);
  TELLS(TENON_OK, tenon_llm_chat, tools, l, messages, NULL, "{}", to, 64, &n, &error);
  TELLS(TENON_OK, tenon_llm_chat, extra, l, messages, "[]", NULL, to, 64, &n, &error);
  TELLS(TENON_OK, tenon_llm_chat, text, l, messages, NULL, NULL, NULL, 64, &n, &error);
  TELLS(TENON_EINVAL, tenon_llm_chat, size, l, messages, NULL, NULL, to, 64, NULL, &error);
  QUIET(TENON_OK, tenon_llm_chat, l, messages, NULL, NULL, to, 64, &n, NULL);
}

static void rows_of_llms(void) {
  tenon_llm_options o = {.struct_size = sizeof o, .target = "ref", .no_cache = 1, .pages = 2};
  TinyLlm tiny;
  tenon_llm *l = NULL;
  tiny_init(&tiny);
  const char *path = tiny_chat(&tiny, "null");
  TELLS(TENON_EINVAL, tenon_llm_open, path, NULL, &o, &l, &error);
  TELLS(TENON_EIO, tenon_llm_open, options, "/nothing/there", NULL, &l, &error);
  TELLS(TENON_EINVAL, tenon_llm_open, out, path, &o, NULL, &error);
  QUIET(TENON_OK, tenon_llm_open, path, &o, &l, NULL);
  rows_of_llm_requests(l);
  rows_of_llm_facts(l);
  rows_of_llm_text(l);
  tenon_llm_close(l);
  NOTHING(tenon_llm_close, llm, NULL);
  tiny_free(&tiny);
}

// ---- custom operators: inside their callbacks ----

static tenon_status infer(tenon_op_call *c, void *user) {
  tenon_tensor t;
  (void)user;
  GIVES_PTR(0, *tenon_op_node, call, NULL);
  GIVES(0, tenon_op_input_count, call, NULL);
  GIVES(0, tenon_op_output_count, call, NULL);
  GIVES(TENON_EINVAL, tenon_op_input, call, NULL, 0, &t);
  GIVES(TENON_EINVAL, tenon_op_shape, call, NULL, 0, TENON_DTYPE_F32, 0, NULL);
  GIVES(TENON_EINVAL, tenon_op_shape_like, call, NULL, 0, 0);
  GIVES(TENON_EINVAL, tenon_op_shape_dim, call, NULL, 0, 0, 0, 0);
  GIVES_PTR(NULL, tenon_op_attr_text, call, NULL, "a", NULL);
  GIVES_PTR(NULL, tenon_op_attr_text, name, c, NULL, NULL);
  GIVES_PTR(NULL, tenon_op_attr_text, size, c, "absent", NULL);
  GIVES(-1, tenon_op_attr_ints, call, NULL, "a", NULL, 0);
  GIVES(-1, tenon_op_attr_ints, name, c, NULL, NULL, 0);
  GIVES(2, tenon_op_attr_ints, out, c, "a", NULL, 8);
  GIVES(-1, tenon_op_attr_floats, call, NULL, "a", NULL, 0);
  GIVES(-1, tenon_op_attr_floats, name, c, NULL, NULL, 0);
  GIVES(2, tenon_op_attr_floats, out, c, "a", NULL, 8);
  GIVES(TENON_EIO, tenon_op_fail, call, NULL, TENON_EIO, "m");
  return tenon_op_shape_like(c, 0, 0);
}

static tenon_status no_shape(tenon_op_call *c, void *user) {
  (void)user;
  GIVES(TENON_EINVAL, tenon_op_shape, shape, c, 0, TENON_DTYPE_F32, 1, NULL);
  return TENON_OK;
}
static tenon_status no_input(tenon_op_call *c, void *user) {
  (void)user;
  GIVES(TENON_EINVAL, tenon_op_input, out, c, 0, NULL);
  return TENON_OK;
}
static tenon_status no_message(tenon_op_call *c, void *user) {
  (void)user;
  GIVES(TENON_EIO, tenon_op_fail, message, c, TENON_EIO, NULL);
  return TENON_OK;
}
static tenon_status no_output(tenon_op_call *c, void *user) {
  (void)user;
  GIVES_PTR(NULL, tenon_op_output, call, NULL, 0, TENON_DTYPE_F32, 0, NULL);
  GIVES_PTR(NULL, tenon_op_output, shape, c, 0, TENON_DTYPE_F32, 1, NULL);
  return TENON_OK;
}

// Opens a model of one custom operator, and runs it where it opens: what either gives.
static tenon_status call_op(tenon_status (*shape)(tenon_op_call *, void *),
                            tenon_status (*run)(tenon_op_call *, void *)) {
  static const char custom[] = "graph @\"t\"(%x: f32[2]) -> (y: f32[2]) {\n"
                               "  %y = foreign(%x) op=\"t.Op\" keys=[\"a\"] values=[\"1,2\"]\n"
                               "  return %y\n"
                               "}\n";
  tenon_op op = {.struct_size = sizeof op, .name = "t.Op", .shape = shape, .run = run};
  tenon_open_options o = {.struct_size = sizeof o, .ops = &op, .nops = 1, .threads = 1};
  tenon_model *m = NULL;
  tenon_tensor out = {0};
  tenon_status s = tenon_model_open_memory(custom, sizeof custom - 1, &o, &m, &error);
  if (!s) s = tenon_run(m, given, 1, &out, 1, NULL, &error);
  tenon_model_close(m);
  return s;
}

static void rows_of_operators(void) {
  EXPECT_STATUS(call_op(infer, no_output), TENON_EINVAL);
  EXPECT_STATUS(call_op(no_shape, no_output), TENON_EINVAL);
  EXPECT_STATUS(call_op(no_input, no_output), TENON_EINVAL);
  EXPECT_STATUS(call_op(no_message, no_output), TENON_EIO);
  error = (tenon_error){0};
}

static int no_samples(tenon_tensor *inputs, size_t n, int64_t *label, void *user) {
  (void)inputs, (void)n, (void)label, (void)user;
  return 0;
}

static void rows_of_tuning(void) {
  tenon_tune_options o = {.struct_size = sizeof o, .database = "none", .seconds = 1};
  tenon_tune_info info;
  TELLS(TENON_EINVAL, tenon_tune, model, NULL, "f", &o, &info, &error);
  TELLS(TENON_EINVAL, tenon_tune, output, "m.onnx", NULL, &o, &info, &error);
  TELLS(TENON_EINVAL, tenon_tune, options, "m.onnx", NULL, NULL, &info, &error);
  o.struct_size = 3;
  TELLS(TENON_EINVAL, tenon_tune, out, "m.onnx", "f", &o, NULL, &error);
  QUIET(TENON_EINVAL, tenon_tune, NULL, NULL, NULL, NULL, NULL);
}

static void rows_of_quantisation(const Handles *h) {
  tenon_dataset data = {.next = no_samples};
  tenon_quantize_options o = {.struct_size = sizeof o, .to = "w8", .target = "ref"};
  tenon_quantized *q = NULL;
  tenon_quantized_info info;
  TELLS(TENON_EINVAL, tenon_quantize, model, NULL, &data, &o, &q, &error);
  TELLS(TENON_EINVAL, tenon_quantize, data, h->model, NULL, &o, &q, &error);
  TELLS(TENON_EINVAL, tenon_quantize, options, h->model, &data, NULL, &q, &error);
  TELLS(TENON_EINVAL, tenon_quantize, out, h->model, &data, &o, NULL, &error);
  QUIET(TENON_EINVAL, tenon_quantize, h->model, &data, &o, &q, NULL);
  tenon_prune_options p = {.struct_size = sizeof p, .target = "ref"};
  TELLS(TENON_EINVAL, tenon_prune, model, NULL, &data, &p, &q, &error);
  TELLS(TENON_EINVAL, tenon_prune, data, h->model, NULL, &p, &q, &error);
  TELLS(TENON_EINVAL, tenon_prune, options, h->model, &data, NULL, &q, &error);
  TELLS(TENON_EINVAL, tenon_prune, out, h->model, &data, &p, NULL, &error);
  QUIET(TENON_EINVAL, tenon_prune, h->model, &data, &p, &q, NULL);
  NOTHING(tenon_quantized_describe, quantized, NULL, &info);
  NOTHING(tenon_quantized_describe, out, NULL, NULL);
  TELLS(TENON_EINVAL, tenon_quantized_save, quantized, NULL, "x", &error);
  TELLS(TENON_EINVAL, tenon_quantized_save, path, NULL, NULL, &error);
  QUIET(TENON_EINVAL, tenon_quantized_save, NULL, NULL, NULL);
  NOTHING(tenon_quantized_free, quantized, NULL);
}

// ---- what the header declares ----

static void meet(const char *function, Str parameter) {
  for (int i = 0; i < nrows; i++)
    if (!strcmp(row[i].function + (row[i].function[0] == '*'), function) &&
        str_is(parameter, row[i].parameter)) {
      row[i].met = true;
      return;
    }
  FAIL("%s: no row calls it with NULL for '%.*s'", function, STR_ARG(parameter));
}

// The last word of a declaration such as "const tenon_tensor *inputs".
static Str last_word(const char *from, const char *end) {
  while (end > from && !isalnum((unsigned char)end[-1]) && end[-1] != '_') end--;
  const char *p = end;
  while (p > from && (isalnum((unsigned char)p[-1]) || p[-1] == '_')) p--;
  return (Str){p, end - p};
}

// Reads "TENON_API TYPE NAME(PARAMETERS);" and returns what follows it.
static const char *read_declaration(const char *p, Arena *a) {
  const char *open = strchr(p, '('), *close = open ? strchr(open, ')') : NULL;
  if (!close) return NULL;
  Str name = last_word(p, open);
  const char *function = str_copy(a, name);
  for (const char *from = open + 1; from < close;) {
    const char *end = from;
    while (end < close && *end != ',') end++;
    if (memchr(from, '*', (size_t)(end - from))) meet(function, last_word(from, end));
    from = end + 1;
  }
  return close;
}

static int read_header(const char *path) {
  static Diag d;
  Arena a;
  File f;
  int n = 0;
  diag_init(&d);
  if (file_open(path, &f, &d)) {
    FAIL("%s", d.text);
    return 0;
  }
  arena_init(&a);
  const char *p = str_copy(&a, (Str){(const char *)f.bytes, f.size});
  file_close(&f);
  while (p && (p = strstr(p, "\nTENON_API ")) != NULL) {
    p = read_declaration(p + strlen("\nTENON_API "), &a);
    n++;
  }
  arena_deinit(&a);
  return n;
}

TEST(api_null_everywhere) {
  Handles h = {0};
  nrows = 0;
  if (make(&h)) {
    rows_of_models(&h);
    rows_of_quantisation(&h);
    rows_of_tuning();
    rows_of_runs(&h);
    rows_of_programs(&h);
    rows_of_files(&h);
    rows_of_sessions(&h);
    rows_of_bindings(&h);
    rows_of_states(&h);
    rows_of_values();
    rows_of_value_runs(&h);
    rows_of_llms();
    rows_of_operators();
    EXPECT(read_header(TENON_SOURCE_DIR "/include/tenon/tenon.h") > 50);
    for (int i = 0; i < nrows; i++)
      if (!row[i].met)
        FAIL("the header has no %s with a pointer '%s'", row[i].function, row[i].parameter);
  }
  drop(&h);
}

// ---- NULL in lists of texts ----

TEST(api_null_in_lists) {
  Handles h = {0};
  const char *none[] = {NULL};
  tenon_model *m = NULL;
  tenon_program *p = NULL;
  tenon_open_options names = {.struct_size = sizeof names, .inputs = none, .ninputs = 1};
  tenon_open_options types = {.struct_size = sizeof types, .types = none, .ntypes = 1};
  tenon_named_tensor weight = {0};
  tenon_open_options weights = {.struct_size = sizeof weights, .tensors = &weight, .ntensors = 1};
  tenon_dim dim = {0};
  tenon_options dims = {.struct_size = sizeof dims, .dims = &dim, .ndims = 1};
  tenon_named_option option = {0};
  tenon_options named = {.struct_size = sizeof named, .named = &option, .nnamed = 1};
  const tenon_open_options *open[] = {&names, &types, &weights};
  for (int i = 0; i < 3; i++) {
    EXPECT_STATUS(tenon_model_open_memory(text, sizeof text - 1, open[i], &m, &error),
                  TENON_EINVAL);
    EXPECT(*error.message);
  }
  if (make(&h)) {
    EXPECT_STATUS(tenon_compile(h.model, &dims, &p, &error), TENON_EINVAL);
    EXPECT_STATUS(tenon_compile(h.model, &named, &p, &error), TENON_EINVAL);
  }
  drop(&h);
}

// ---- limits: 0 is the default, and no number below it has a meaning ----

TEST(api_negative_limits) {
  static const int64_t wrong[] = {-1, INT64_MIN};
  Handles h = {0};
  tenon_tensor out[2] = {{0}};
  tenon_model *m = NULL;
  tenon_session *s = NULL;
  if (make(&h))
    for (int i = 0; i < 2; i++) {
      tenon_open_options open = {.struct_size = sizeof open, .memory_limit = wrong[i]};
      tenon_session_options made = {.struct_size = sizeof made, .memory_limit = wrong[i]};
      tenon_run_options run[] = {{.struct_size = sizeof *run, .memory_limit = wrong[i]},
                                 {.struct_size = sizeof *run, .max_iterations = wrong[i]},
                                 {.struct_size = sizeof *run, .max_operations = wrong[i]}};
      EXPECT_STATUS(tenon_model_open_memory(text, sizeof text - 1, &open, &m, &error),
                    TENON_EINVAL);
      EXPECT_CONTAINS(error.message, "memory_limit");
      EXPECT_STATUS(tenon_session_create(h.program, &made, &s, &error), TENON_EINVAL);
      EXPECT_CONTAINS(error.message, "memory_limit");
      for (int k = 0; k < 3; k++) {
        EXPECT_STATUS(tenon_run(h.model, given, 2, out, 2, &run[k], &error), TENON_EINVAL);
        EXPECT_CONTAINS(error.message, "memory_limit");
        EXPECT_STATUS(tenon_session_run(h.session, given, 2, out, 2, &run[k], &error),
                      TENON_EINVAL);
        EXPECT_CONTAINS(error.message, "memory_limit");
        EXPECT_STATUS(tenon_session_run_bound(h.session, &run[k], &error), TENON_EINVAL);
        EXPECT_STATUS(tenon_run_values(h.model, NULL, 0, NULL, 0, &run[k], &error), TENON_EINVAL);
        EXPECT_CONTAINS(error.message, "memory_limit");
      }
    }
  drop(&h);
}
