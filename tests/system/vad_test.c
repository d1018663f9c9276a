// vad_test.c -- one recurrent network in three files, TorchScript and two of ONNX, over a whole
// recording.
//
// Each session carries its own state from chunk to chunk, so a difference anywhere would grow: what
// they say of every chunk must agree, compiled and by the reference evaluation.  The TorchScript
// program keeps the end of the last chunk itself; ONNX's is given it in front of the next.
#include "base/platform.h"
#include "test.h"

#include <math.h>

enum { CHUNK = 512, CONTEXT = 64, STATE = 2 * 128, RATE = 16000, HEADER = 44, MOST = 2000 };

static tenon_error error;

typedef struct Vad {
  tenon_model *m;
  tenon_program *p;
  tenon_session *s;
  bool script;
  float context[CONTEXT];
} Vad;

static bool open_vad(Vad *v, const char *path, bool script, const char *target) {
  static const char *const types[] = {"0=f32[1,512]", "1=16000", "_state=f32[2,1,128]",
                                      "_context=f32[1,64]"};
  tenon_open_options o = {.struct_size = sizeof o, .types = types, .ntypes = script ? 4 : 0};
  tenon_options co = {.struct_size = sizeof co, .target = target};
  static const tenon_state_pair kept[2][2] = {{{"state", "stateN"}},
                                              {{"_state", "_state"}, {"_context", "_context"}}};
  tenon_session_options so = {
      .struct_size = sizeof so, .threads = 1, .states = kept[script], .nstates = script ? 2 : 1};
  *v = (Vad){.script = script};
  if (tenon_model_open_with(path, &o, &v->m, &error) || tenon_compile(v->m, &co, &v->p, &error) ||
      tenon_session_create(v->p, &so, &v->s, &error)) {
    FAIL("%s: %s", path, error.message);
    return false;
  }
  static _Alignas(64) float zeros[STATE];
  tenon_tensor state = {.data = zeros,
                        .dtype = TENON_DTYPE_F32,
                        .rank = 3,
                        .shape = {2, 1, 128},
                        .bytes = sizeof zeros};
  return !script && tenon_session_state_set(v->s, 0, &state, &error) ? false : true;
}

static void close_vad(Vad *v) {
  tenon_session_release(v->s);
  tenon_program_release(v->p);
  tenon_model_close(v->m);
}

// The probability of speech in the next chunk; NaN where the run fails.
static float hear(Vad *v, const float *chunk) {
  static _Alignas(64) float x[CONTEXT + CHUNK];
  static _Alignas(64) int64_t rate = RATE;
  memcpy(x, v->context, sizeof v->context);
  memcpy(x + CONTEXT, chunk, CHUNK * sizeof *chunk);
  memcpy(v->context, chunk + CHUNK - CONTEXT, sizeof v->context);
  tenon_tensor in[3] = {{.dtype = TENON_DTYPE_F32, .rank = 2}}, out[3] = {{0}};
  size_t nin = tenon_program_input_count(v->p), nout = tenon_program_output_count(v->p);
  int64_t n = v->script ? CHUNK : CONTEXT + CHUNK;
  for (size_t i = 0; i < nin; i++) {
    tenon_value_info info;
    if (tenon_program_input(v->p, i, &info)) return NAN;
    if (!strcmp(info.name, "x") || !strcmp(info.name, "input"))
      in[i] = (tenon_tensor){.data = x + CONTEXT + CHUNK - n,
                             .dtype = TENON_DTYPE_F32,
                             .rank = 2,
                             .shape = {1, n},
                             .bytes = 4 * n};
    else if (!strcmp(info.name, "sr"))
      in[i] = (tenon_tensor){.data = &rate, .dtype = TENON_DTYPE_I64, .bytes = 8};
    else
      in[i] = (tenon_tensor){0};
  }
  if (tenon_session_run(v->s, in, nin, out, nout, NULL, &error)) {
    FAIL("%s", error.message);
    return NAN;
  }
  float p = *(const float *)out[0].data;
  for (size_t i = 0; i < nout; i++) tenon_tensor_release(&out[i]);
  return p;
}

// The files agree on every chunk up to `most`.
static void compare_over(const char *target, int most) {
  static const struct {
    const char *name;
    bool script;
  } file[] = {
      {"silero_vad.jit", true}, {"silero_vad.onnx", false}, {"silero_vad_op18_ifless.onnx", false}};
  enum { FILES = 3 };
  Vad v[FILES];
  char path[600];
  File wav;
  Diag d;
  int opened = 0, speech = 0, n = 0;
  diag_init(&d);
  snprintf(path, sizeof path, "%s/models/silero_vad/test.wav", test_data_dir());
  REQUIRE(file_open(path, &wav, &d) == TENON_OK);
  for (; opened < FILES; opened++) {
    snprintf(path, sizeof path, "%s/models/silero_vad/%s", test_data_dir(), file[opened].name);
    if (!open_vad(&v[opened], path, file[opened].script, target)) break;
  }
  int64_t chunks = (wav.size - HEADER) / 2 / CHUNK;
  for (; opened == FILES && n < chunks && n < most; n++) {
    float chunk[CHUNK], p[FILES];
    const uint8_t *at = wav.bytes + HEADER + 2 * CHUNK * (int64_t)n;
    for (int i = 0; i < CHUNK; i++)
      chunk[i] = (float)(int16_t)(at[2 * i] | at[2 * i + 1] << 8) / 32768;
    for (int k = 0; k < FILES; k++) p[k] = hear(&v[k], chunk);
    speech += p[0] > 0.5f;
    if (fabsf(p[0] - p[1]) <= 1e-4f && fabsf(p[0] - p[2]) <= 1e-4f) continue;
    FAIL("%s, chunk %d: %g, %g and %g", target, n, (double)p[0], (double)p[1], (double)p[2]);
    break;
  }
  EXPECT(speech > n / 4 && speech < n);  // a recording of speech with pauses
  for (int k = 0; k <= opened && k < FILES; k++) close_vad(&v[k]);
  file_close(&wav);
}

TEST(vad_formats_agree_by_reference) {
  if (!test_data_dir()) SKIP("no data folder");
  compare_over("host", 100);
}

TEST_LONG(vad_formats_agree_over_a_recording) {
  if (!test_data_dir()) SKIP("no data folder");
  bool cpu = false;
  for (size_t i = 0; i < tenon_target_count(); i++) {
    tenon_target_info t;
    if (!tenon_target(i, &t) && !strcmp(t.name, "cpu")) cpu = t.available;
  }
  if (!cpu) SKIP("no code generator");
  compare_over("cpu", MOST);
}
