// llm.c -- fuzz target: what says what a language model is: config.json, GGUF metadata and tensor
// tables, and LoRA adapters in both forms.
//
// The first byte chooses.  The files are written to a folder in memory, where llm_open and
// llm_adapter_open read them; a model that opens is built as a graph, too.  A configuration alone
// is for the tensors of a small Llama that is made once, and so are adapters.  A PEFT adapter, and
// a folder whose matrices a quantiser packed, are a configuration, a NUL byte and tensors.
#include "models/adapter.h"
#include "fuzz.h"

#include <sys/stat.h>
#include <unistd.h>

enum { HIDDEN = 8, FFN = 12, VOCAB = 16 };

static char folder[64];
static LlmModel *base;
static Diag diag;

static void write_file(const char *name, const void *bytes, size_t n) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "wb");
  if (!f || (n && fwrite(bytes, 1, n, f) != n)) abort();
  fclose(f);
}

static void clear(void) {
  static const char *const name[] = {"model/config.json",
                                     "model/model.safetensors",
                                     "file.gguf",
                                     "adapter/adapter_config.json",
                                     "adapter/adapter_model.safetensors",
                                     "packed/config.json",
                                     "packed/model.safetensors",
                                     "packed",
                                     "model",
                                     "adapter"};
  char path[128];
  for (int64_t i = 0; i < ARRAY_LEN(name); i++) {
    snprintf(path, sizeof path, "%s/%s", folder, name[i]);
    remove(path);
  }
  rmdir(folder);
}

static const char llama[] =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":8,"
    "\"intermediate_size\":12,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
    "\"num_key_value_heads\":1,\"head_dim\":4,\"vocab_size\":16,\"max_position_embeddings\":64,"
    "\"rms_norm_eps\":1e-5,\"rope_theta\":10000.0,\"hidden_act\":\"silu\","
    "\"tie_word_embeddings\":true}";

// All tensors of that model, of zeros.
static void write_base(void) {
  static const struct {
    const char *name;
    int rows, columns;
  } t[] = {{"model.embed_tokens", VOCAB, HIDDEN},
           {"model.norm", HIDDEN, 0},
           {"model.layers.0.input_layernorm", HIDDEN, 0},
           {"model.layers.0.post_attention_layernorm", HIDDEN, 0},
           {"model.layers.0.self_attn.q_proj", 8, HIDDEN},
           {"model.layers.0.self_attn.k_proj", 4, HIDDEN},
           {"model.layers.0.self_attn.v_proj", 4, HIDDEN},
           {"model.layers.0.self_attn.o_proj", HIDDEN, 8},
           {"model.layers.0.mlp.gate_proj", FFN, HIDDEN},
           {"model.layers.0.mlp.up_proj", FFN, HIDDEN},
           {"model.layers.0.mlp.down_proj", HIDDEN, FFN}};
  static char bytes[1 << 16];
  char *head = bytes + 8, *at = head;
  int offset = 0;
  for (int64_t i = 0; i < ARRAY_LEN(t); i++) {
    int n = 4 * t[i].rows * (t[i].columns ? t[i].columns : 1);
    at += sprintf(at, "%c\"%s.weight\":{\"dtype\":\"F32\",\"shape\":[%d", i ? ',' : '{', t[i].name,
                  t[i].rows);
    if (t[i].columns) at += sprintf(at, ",%d", t[i].columns);
    at += sprintf(at, "],\"data_offsets\":[%d,%d]}", offset, offset + n);
    offset += n;
  }
  *at++ = '}';
  while ((at - head) % 8) *at++ = ' ';
  uint64_t n = (uint64_t)(at - head);
  memcpy(bytes, &n, 8);
  write_file("model/config.json", llama, strlen(llama));
  write_file("model/model.safetensors", bytes, (size_t)(8 + n) + (size_t)offset);
}

static void begin(void) {
  char path[128];
  if (folder[0]) return;
  snprintf(folder, sizeof folder, "%s/tenon-fuzz-XXXXXX",
           access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
  if (!mkdtemp(folder)) abort();
  atexit(clear);
  snprintf(path, sizeof path, "%s/model", folder);
  mkdir(path, 0700);
  snprintf(path, sizeof path, "%s/adapter", folder);
  mkdir(path, 0700);
  snprintf(path, sizeof path, "%s/packed", folder);
  mkdir(path, 0700);
  write_base();
  diag_init(&diag);
  snprintf(path, sizeof path, "%s/model", folder);
  if (llm_open(path, NULL, &diag, &base)) {
    fprintf(stderr, "%s\n", diag.text);
    abort();
  }
}

static const char *at(const char *name) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static void judge(tenon_status s) {
  if (s == TENON_EINTERNAL) finding("internal error", diag.text);
  if (s && !diag.len) finding("an error without a message", status_name(s));
}

static void open_model(const char *path) {
  LlmModel *m = NULL;
  Graph *g = NULL;
  LlmOpenOptions o = {.memory_limit = (int64_t)64 << 20};
  tenon_status s = llm_open(path, &o, &diag, &m);
  judge(s);
  if (!s && !graph_create(&diag, &g)) {
    g->arena.limit = (int64_t)64 << 20;
    LlmBuildOptions how = {.form = LLM_PAGED};
    judge(llm_build(m, &how, g));
  }
  graph_free(g);
  llm_close(m);
}

static void open_adapter(const char *path) {
  LlmAdapter *l = NULL;
  tenon_status s = llm_adapter_open(base, path, &diag, &l);
  judge(s);
  for (int64_t i = 0; !s && i < l->target.n; i++) {
    static float a[LLM_RANK_MAX * FFN], b[LLM_RANK_MAX * FFN];
    llm_adapter_put(l, base, i, l->rank, 1, a, b);
  }
  llm_adapter_close(l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  begin();
  if (size < 2) return 0;
  const uint8_t *rest = data + 1, *nul = memchr(rest, 0, size - 1);
  size_t n = size - 1, first = nul ? (size_t)(nul - rest) : n;
  int what = data[0] == 4 ? 4 : data[0] % 4;
  if (what == 0) write_file("model/config.json", rest, n);
  if (what == 1 || what == 2) write_file("file.gguf", rest, n);
  if (what == 3) {
    write_file("adapter/adapter_config.json", rest, first);
    write_file("adapter/adapter_model.safetensors", nul ? nul + 1 : rest, nul ? n - first - 1 : 0);
  }
  if (what == 4) {
    write_file("packed/config.json", rest, first);
    write_file("packed/model.safetensors", nul ? nul + 1 : rest, nul ? n - first - 1 : 0);
  }
  fuzz_begin();
  Trap trap;
  diag_init(&diag);
  trap_enter(&trap, &diag);
  if (setjmp(trap.env) == 0) {
    if (what == 0) open_model(at("model"));
    if (what == 1) open_model(at("file.gguf"));
    if (what == 2) open_adapter(at("file.gguf"));
    if (what == 3) open_adapter(at("adapter"));
    if (what == 4) open_model(at("packed"));
  }
  trap_leave(&trap);
  fuzz_end();
  return 0;
}
