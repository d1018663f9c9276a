// tool_calls_test.c -- tool calls of every family: parsed whole, cut at every byte, and from what
// the families' own templates render.
#include "text/tool_calls.h"

#include "text/template.h"

#include "base/platform.h"
#include "test.h"

#include <stdio.h>

static Diag diag;

// What a parser told, as one text: reasoning, content, then each call.
typedef struct Told {
  StrBuf content, reasoning;
  VEC(Str) name, id;
  VEC(StrBuf) args;
  Arena *a;
} Told;

static void on_content(void *ctx, Str s) { strbuf_put(&((Told *)ctx)->content, s); }
static void on_reasoning(void *ctx, Str s) { strbuf_put(&((Told *)ctx)->reasoning, s); }
static void on_call(void *ctx, int64_t index, Str name, Str id) {
  Told *t = ctx;
  StrBuf b;
  EXPECT_INT_EQ(index, t->name.n);
  strbuf_init(&b, t->a);
  strbuf_puts(&b, "");
  name.p = arena_dup(t->a, name.p, name.n);
  id.p = arena_dup(t->a, id.p, id.n);
  vec_push(t->a, &t->name, name);
  vec_push(t->a, &t->id, id);
  vec_push(t->a, &t->args, b);
}
static void on_args(void *ctx, int64_t index, Str s) {
  Told *t = ctx;
  EXPECT_INT_EQ(index, t->args.n - 1);
  if (index >= 0 && index < t->args.n) strbuf_put(&t->args.v[index], s);
}

// Pieces of `piece` bytes, the first one of `first`.
static Str parse(Arena *a, const ToolParse *what, Str text, int64_t first, int64_t piece,
                 Told *out) {
  ToolSink sink = {on_content, on_reasoning, on_call, on_args, out};
  *out = (Told){.a = a};
  strbuf_init(&out->content, a);
  strbuf_init(&out->reasoning, a);
  ToolParser *p = tool_parser_create(a, what, &sink);
  for (int64_t at = 0, n = first; at < text.n; at += n, n = piece) {
    n = MIN(n, text.n - at);
    tool_parser_take(p, (Str){text.p + at, n});
  }
  tool_parser_end(p);
  EXPECT_INT_EQ(tool_parser_calls(p), out->name.n);
  StrBuf b;
  strbuf_init(&b, a);
  if (out->reasoning.n) strbuf_printf(&b, "(%s)", strbuf_text(&out->reasoning));
  strbuf_puts(&b, strbuf_text(&out->content));
  for (int64_t i = 0; i < out->name.n; i++)
    strbuf_printf(&b, "|%.*s%s%.*s%s", STR_ARG(out->name.v[i]), out->id.v[i].n ? "#" : "",
                  STR_ARG(out->id.v[i]), strbuf_text(&out->args.v[i]));
  return (Str){strbuf_text(&b), b.n};
}

// The same wherever it is cut: once at every byte, and into single bytes.
static void check_cuts(const ToolParse *what, Str text, const char *want, const char *name) {
  Arena a;
  Told told;
  arena_init(&a);
  Str whole = parse(&a, what, text, text.n, text.n, &told);
  if (want && !str_is(whole, want))
    test_failed(__FILE__, __LINE__, "%s: %.*s\n  gives %.*s\n  not   %s", name, STR_ARG(text),
                STR_ARG(whole), want);
  for (int64_t i = 0; i < text.n; i++) {
    Str cut = i ? parse(&a, what, text, i, text.n, &told) : parse(&a, what, text, 1, 1, &told);
    if (str_eq(cut, whole)) continue;
    test_failed(__FILE__, __LINE__, "%s: %.*s\n  cut at %lld gives %.*s\n  not   %.*s", name,
                STR_ARG(text), (long long)i, STR_ARG(cut), STR_ARG(whole));
    break;
  }
  arena_deinit(&a);
}

// Some templates take one name alone as a type.
#define TOOLS(type_of_m)                                                                           \
  "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"F of a city\","          \
  "\"parameters\":{\"type\":\"object\",\"properties\":{\"s\":{\"type\":\"string\","                \
  "\"description\":\"text\"},\"n\":{\"type\":\"integer\"},\"x\":{\"type\":\"number\"},"            \
  "\"o\":{\"type\":\"object\"},\"l\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},"        \
  "\"m\":{\"type\":" type_of_m "}},\"required\":[\"s\"]}}},{\"type\":\"function\","                \
  "\"function\":{\"name\":\"get_time\",\"description\":\"Time\",\"parameters\":{\"type\":"         \
  "\"object\",\"properties\":{}}}}]"
static const char tools_text[] = TOOLS("[\"string\",\"null\"]"),
                  plain_tools_text[] = TOOLS("\"string\"");

typedef struct Row {
  const char *syntax, *text, *want;
} Row;

static void check_rows(const Row *row, int64_t n, const char *reasoning, bool inside) {
  Arena a;
  Json tools;
  arena_init(&a);
  diag_init(&diag);
  EXPECT_INT_EQ(json_parse(&a, str_of(tools_text), &diag, &tools), TENON_OK);
  for (int64_t i = 0; i < n; i++) {
    ToolParse what = {.syntax = row[i].syntax ? tool_syntax_named(str_of(row[i].syntax)) : NULL,
                      .reasoning = reasoning ? reasoning_of(str_of(reasoning)) : NULL,
                      .inside = inside,
                      .tools = &tools};
    if (row[i].syntax && !what.syntax) test_failed(__FILE__, __LINE__, "no %s", row[i].syntax);
    check_cuts(&what, str_of(row[i].text), row[i].want, row[i].syntax ? row[i].syntax : "-");
  }
  arena_deinit(&a);
}

TEST(tool_calls_json) {
  static const Row rows[] = {
      {"hermes", "plain text", "plain text"},
      {"hermes", "", ""},
      {"hermes", " a <tool_ b </tool_call> ", " a <tool_ b </tool_call> "},
      {"hermes",
       "Hi \n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": \"</tool_call>\"}}\n"
       "</tool_call>\n",
       "Hi|f{\"s\": \"</tool_call>\"}"},
      {"hermes",
       "<tool_call>{\"arguments\": {\"n\": 1}, \"id\": \"c1\", \"name\": \"f\"}"
       "</tool_call><tool_call>{\"name\":\"g\"}</tool_call> end",
       "end|f#c1{\"n\": 1}|g{}"},
      {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"n\\\": 1}\"}</tool_call>",
       "|f{\"n\": 1}"},
      {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": null}</tool_call>", "|f{}"},
      {"hermes", "<tool_call>not JSON</tool_call>", "<tool_call>not JSON</tool_call>"},
      {"hermes", "<tool_call>{\"nome\": \"f\"}</tool_call>",
       "<tool_call>{\"nome\": \"f\"}</tool_call>"},
      {"hermes", "<tool_call>{\"name\": 3}</tool_call>", "<tool_call>{\"name\": 3}</tool_call>"},
      {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [1, ", "|f{\"a\": [1, "},
      {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\" {}}</tool_call>x", "x|f{}}"},
      {"hermes", "<tool_call>", "<tool_call>"},
      {"hermes", "a <tool_call", "a <tool_call"},
      {"hermes", "<tool_call>{\"name\": \"f", "<tool_call>{\"name\": \"f"},
      {"mistral_nemo",
       "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"s\": \"[TOOL_CALLS]\"}, \"id\": \"x1\"}, "
       "{\"name\": \"g\", \"arguments\": {}}]",
       "|f{\"s\": \"[TOOL_CALLS]\"}|g{}"},
      {"cohere",
       "<|START_ACTION|>[\n {\"tool_call_id\": \"0\", \"tool_name\": \"f\", "
       "\"parameters\": {\"n\": 2}}\n]<|END_ACTION|>",
       "|f#0{\"n\": 2}"},
      {"apertus", "x<|tools_prefix|>[{\"f\": {\"n\": 1}}, {\"g\": {}}]<|tools_suffix|>",
       "x|f{\"n\": 1}|g{}"},
      {"gigachat_3_1", "<|function_call|>{\"name\": \"f\", \"arguments\": {}}", "|f{}"},
      {"tool_calls",
       "<tool_calls>\n{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"g\"}\n"
       "</tool_calls>",
       "|f{}|g{}"},
      {"tool_calls", "<tool_calls>{\"name\": \"f\"}\n{\"name\": 2}\n</tool_calls>",
       "{\"name\": 2}\n</tool_calls>|f{}"},
      {"llama_3", "{\"name\": \"f\", \"parameters\": {\"s\": \"x\"}}", "|f{\"s\": \"x\"}"},
      {"llama_3",
       "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"get_time\", "
       "\"parameters\": {}}",
       "|f{}|get_time{}"},
      {"llama_3", "{\"name\": \"other\", \"parameters\": {}}",
       "{\"name\": \"other\", \"parameters\": {}}"},
      {"llama_3", "{\"a\": 1} is JSON", "{\"a\": 1} is JSON"},
      {"llama_3", "Say {\"name\": \"f\", \"parameters\": {}}",
       "Say {\"name\": \"f\", \"parameters\": {}}"},
      {"json", "[{\"name\": \"f\", \"parameters\": {}}]", "|f{}"},
      {"json", "[1, 2]", "[1, 2]"},
  };
  check_rows(rows, ARRAY_LEN(rows), NULL, false);
}

TEST(tool_calls_named) {
  static const Row rows[] = {
      {"kimi_k2",
       "Hm<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0"
       "<|tool_call_argument_begin|>{\"n\": 1}<|tool_call_end|><|tool_call_begin|>"
       "functions.g:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
       "<|tool_calls_section_end|>",
       "Hm|f#functions.f:0{\"n\": 1}|g#functions.g:1{}"},
      {"deepseek_v3",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n"
       "{\"s\": \"\\n```\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       "|f{\"s\": \"\\n```\"}"},
      {"deepseek_v3_1",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"n\": 1}"
       "<｜tool▁call▁end｜><｜tool▁calls▁end｜>done",
       "done|f{\"n\": 1}"},
      {"mistral", "[TOOL_CALLS]f[CALL_ID]abc[ARGS]{\"n\": 1}[TOOL_CALLS]g[ARGS]{}",
       "|f#abc{\"n\": 1}|g{}"},
      {"mistral", "[TOOL_CALLS]f[ARGS]no JSON", "|fno JSON"},
      {"mistral", "[TOOL_CALLS]f and nothing", "[TOOL_CALLS]f and nothing"},
      {"functionary_v3_1", "T<function=f>{\"s\": \"</function>\"}</function>",
       "T|f{\"s\": \"</function>\"}"},
      {"functionary_v3_1", "<function=f>{\"n\": 1} and more</function>.", ".|f{\"n\": 1}and more"},
      {"functionary_v3_2", ">>>all\nHello >>>f\n{\"n\": 1}", "Hello|f{\"n\": 1}"},
      {"functionary_v3_2", ">>>f\n{}\n\n\n>>><m", "\n\n\n>>><m|f{}"},
      {"solar",
       "<|tool_calls|><|tool_call:begin|>id7<|tool_call:name|>f<|tool_call:args|>{}"
       "<|tool_call:end|><|calls|>",
       "|f#id7{}"},
      {"gpt_oss", "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"n\": 1}",
       "|f{\"n\": 1}"},
      {"gpt_oss", "<|channel|>final<|message|>Hello", "Hello"},
  };
  check_rows(rows, ARRAY_LEN(rows), NULL, false);
}

TEST(tool_calls_arguments_between_markers) {
  static const Row rows[] = {
      {"qwen3_coder",
       "T\n\n<tool_call>\n<function=f>\n<parameter=s>\n3\n</parameter>\n"
       "<parameter=n>\n3\n</parameter>\n</function>\n</tool_call>",
       "T|f{\"s\": \"3\", \"n\": 3}"},
      {"qwen3_coder", "<function=f>\n<parameter=s>\n\nx\n\n</parameter>\n</function>",
       "|f{\"s\": \"\\nx\\n\"}"},
      {"qwen3_coder", "<tool_call>\n<function=get_time>\n</function>\n</tool_call>", "|get_time{}"},
      {"qwen3_coder",
       "<tool_call>\n<function=f>\n<parameter=m>\nnull\n</parameter>\n"
       "<parameter=m>\n5\n</parameter>\n</function>\n</tool_call>",
       "|f{\"m\": null, \"m\": \"5\"}"},
      {"qwen3_coder",
       "<tool_call>\n<function=f>\n<parameter=o>\n{'a': [True, None]}\n"
       "</parameter>\n<parameter=z>\ntext\n</parameter>\n</function>\n</tool_call>",
       "|f{\"o\": {\"a\": [true, null]}, \"z\": \"text\"}"},
      {"qwen3_coder", "<tool_call>\n<function=f>\n<parameter=s>\ncut", "|f{\"s\": \"cut\"}"},
      {"qwen3_coder", "<function=f>\n<parar=s>\n\nx y\n</parameter>\n</function>",
       "<parar=s>\n\nx y\n</parameter>|f{}"},
      {"qwen3_coder", "<tool_call> is a marker", "<tool_call> is a marker"},
      {"glm", "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>a b</arg_value>\n</tool_call>",
       "|f{\"s\": \"a b\"}"},
      {"glm", "<tool_call>get_time</tool_call>", "|get_time{}"},
      {"minimax_m2",
       "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"x\">1.5"
       "</parameter>\n</invoke>\n</minimax:tool_call>",
       "|f{\"x\": 1.5}"},
      {"deepseek_v3_2",
       "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"g\">\n<｜DSML｜parameter "
       "name=\"a\" string=\"true\">3</｜DSML｜parameter>\n<｜DSML｜parameter "
       "name=\"b\" string=\"false\">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
       "</｜DSML｜function_calls>",
       "|g{\"a\": \"3\", \"b\": 3}"},
  };
  check_rows(rows, ARRAY_LEN(rows), NULL, false);
}

// What a schema's types are decides whether an argument is a text.
TEST(tool_calls_types_of_arguments) {
  static const struct {
    const char *schema, *text, *want;
    bool is_text;
  } row[] = {
      {"{\"type\":\"string\"}", "5", "\"5\"", true},
      {"{\"type\":[\"string\"]}", "5", "\"5\"", true},
      {"{\"enum\":[\"5\",\"x\"]}", "5", "\"5\"", true},
      {"{\"const\":\"null\"}", "null", "\"null\"", true},
      {"{\"anyOf\":[{\"type\":\"string\"},{\"const\":\"5\"}]}", "5", "\"5\"", true},
      {"{\"type\":\"string\",\"anyOf\":[{\"type\":\"integer\"},{\"enum\":[\"1\"]}]}", "1", "\"1\"",
       true},
      {"{\"enum\":[\"x\",5]}", "5", "5", false},
      {"{\"enum\":[\"x\",5]}", "\"x\"", "\"x\"", false},
      {"{\"enum\":[\"x\",5]}", "x", "\"x\"", false},
      {"{\"enum\":[\"x\",null]}", "null", "null", false},
      {"{\"anyOf\":[{\"type\":\"string\"},{\"$ref\":\"#/$defs/n\"}]}", "5", "5", false},
      {"{\"anyOf\":[{\"type\":\"string\"},true]}", "5", "5", false},
      {"{\"type\":\"integer\"}", "5.0", "5.0", false},
      {"{\"type\":[\"string\",\"integer\"]}", "true", "\"true\"", false},
      {"true", "5", "5", false},
      {"{}", "x", "\"x\"", false},
  };
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    Arena a;
    Json schema;
    StrBuf b;
    arena_init(&a);
    diag_init(&diag);
    strbuf_init(&b, &a);
    REQUIRE(!json_parse(&a, str_of(row[i].schema), &diag, &schema));
    tool_param_put(&b, str_of(row[i].text), STR(""), &schema);
    if (strcmp(strbuf_text(&b), row[i].want) != 0)
      test_failed(__FILE__, __LINE__, "%s: %s gives %s", row[i].schema, row[i].text,
                  strbuf_text(&b));
    EXPECT_INT_EQ(tool_param_is_text(&schema), row[i].is_text);
    arena_deinit(&a);
  }
}

TEST(tool_calls_other_notations) {
  static const Row rows[] = {
      {"lfm2",
       "A<|tool_call_start|>[f(s='it\\'s', n=-1, l=[1, 'a', (True,)], o={'k': None}), "
       "g()]<|tool_call_end|>B",
       "AB|f{\"s\": \"it's\", \"n\": -1, \"l\": [1, \"a\", [true]], \"o\": {\"k\": null}}|g{}"},
      {"lfm2", "<|tool_call_start|>[f(s=)]<|tool_call_end|>",
       "<|tool_call_start|>[f(s=)]<|tool_call_end|>"},
      {"gemma_4",
       "<|tool_call>call:f{s:<|\"|>a \"b\"<|\"|>,l:[<|\"|>x<|\"|>],o:{k:true}}<tool_call|>",
       "|f{\"s\": \"a \\\"b\\\"\", \"l\": [\"x\"], \"o\": {\"k\": true}}"},
      {"gemma_4", "<|tool_call>call:f{s:}<tool_call|>", "<|tool_call>call:f{s:}<tool_call|>"},
      {"llama_pythonic", "[f(n=1), get_time()]", "|f{\"n\": 1}|get_time{}"},
      {"llama_pythonic", "[f(n=1), other()]", "[f(n=1), other()]"},
      {"llama_pythonic", "[see (1)]", "[see (1)]"},
  };
  check_rows(rows, ARRAY_LEN(rows), NULL, false);
}

TEST(tool_calls_reasoning) {
  static const Row plain[] = {
      {NULL, "<think>\nWhy <tool_call>?\n</think>\n\nSo", "(Why <tool_call>?)So"},
      {NULL, "  So <think>", "  So <think>"},
      {NULL, "<thin", "<thin"},
      {NULL, "<think>never ends ", "(never ends)"},
      {"llama_3", "<think>a</think>\n\n{\"name\": \"f\", \"parameters\": {}}", "(a)|f{}"},
      {"hermes", "<think>a</think><tool_call>{\"name\": \"f\"}</tool_call>", "(a)|f{}"},
  };
  static const Row within[] = {
      {NULL, "\nWhy\n</think>\n\nSo </think>", "(Why)So </think>"},
      {NULL, "Why</thin", "(Why</thin)"},
      {"hermes", "a <tool_call> b</think>x", "(a <tool_call> b)x"},
  };
  static const Row channel[] = {
      {"gpt_oss",
       "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>commentary "
       "to=functions.f <|constrain|>json<|message|>{}",
       "(Hm)|f{}"},
  };
  check_rows(plain, ARRAY_LEN(plain), "<think>", false);
  check_rows(within, ARRAY_LEN(within), "<think>", true);
  check_rows(channel, ARRAY_LEN(channel), "<|channel|>analysis<|message|>", false);
}

// ---- templates ----
typedef struct Family {
  const char *file, *syntax;
  int calls;   // that the template renders in one message; 0: none
  bool texts;  // arguments are texts of JSON there
  bool loose;  // it prints values as Python does, or in a notation that cannot hold some texts
} Family;
// clang-format off
static const Family family[] = {
  {"Apertus-8B-Instruct", "apertus", 2, 0, 0},
  {"Apriel-1.6-15b-Thinker-fixed", "tool_calls", 2, 0, 0},
  {"Bielik-11B-v3.0-Instruct", "hermes", 2, 0, 0},
  {"ByteDance-Seed-OSS", "seed_oss", 2, 0, 1},
  {"Cohere2MoE", "cohere", 2, 0, 0},
  {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", "cohere", 2, 0, 0},
  {"GLM-4.6", "glm", 2, 0, 0},
  {"GLM-4.7-Flash", "glm", 2, 0, 0},
  {"GigaChat3-10B-A1.8B", "gigachat_3", 1, 0, 0},
  {"GigaChat3.1-10B-A1.8B", "gigachat_3_1", 1, 0, 0},
  {"Kimi-K3", "kimi_k3", 2, 0, 0},
  {"Kimi-K2-Instruct", "kimi_k2", 0, 0, 0},
  {"Kimi-K2-Thinking", "kimi_k2", 0, 0, 0},
  {"LFM2.5-8B-A1B", "lfm2", 2, 0, 1},
  {"MiMo-VL", "hermes", 2, 0, 0},
  {"MiniMax-M1", "tool_calls", 2, 0, 0},
  {"MiniMax-M2", "minimax_m2", 2, 0, 0},
  {"Mistral-Small-3.2-24B-Instruct-2506", "mistral", 2, 0, 0},
  {"NVIDIA-Nemotron-Nano-v2", "nemotron", 2, 0, 0},
  {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "hermes", 2, 0, 0},
  {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "hermes", 2, 0, 0},
  {"Qwen-QwQ-32B", "hermes", 2, 0, 0},
  {"Qwen-Qwen2.5-7B-Instruct", "hermes", 2, 0, 0},
  {"Qwen3-Coder", "qwen3_coder", 2, 0, 0},
  {"Qwen3.5-4B", "qwen3_coder", 2, 0, 0},
  {"Reka-Edge", "hermes", 2, 0, 0},
  {"StepFun3.5-Flash", "qwen3_coder", 2, 0, 0},
  {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "deepseek_v3", 2, 1, 0},
  {"deepseek-ai-DeepSeek-V3.1", "deepseek_v3_1", 2, 0, 0},
  {"deepseek-ai-DeepSeek-V3.2", "deepseek_v3_2", 2, 0, 0},
  {"deepseek-ai-DeepSeek-V4-Flash-0731", "deepseek_v4", 2, 0, 0},
  {"deepseek-ai-DeepSeek-V4", "deepseek_v4", 2, 0, 0},
  {"google-gemma-4-31B-it-interleaved", "gemma_4", 2, 0, 1},
  {"google-gemma-4-31B-it", "gemma_4", 2, 0, 1},
  {"ibm-granite-granite-3.3-2B-Instruct", "granite_3", 0, 0, 0},
  {"ibm-granite-granite-4.0", "hermes", 2, 0, 0},
  {"ibm-granite-granite-4.1", "hermes", 2, 0, 0},
  {"LFM2-8B-A1B", "lfm2_list", 0, 0, 0},
  {"fireworks-ai-llama-3-firefunction-v2", "firefunction", 0, 0, 0},
  {"meetkai-functionary-medium-v3.1", "functionary_v3_1", 2, 0, 0},
  {"meetkai-functionary-medium-v3.2", "functionary_v3_2", 2, 1, 0},
  {"meta-llama-Llama-3.1-8B-Instruct", "llama_3", 1, 0, 0},
  {"meta-llama-Llama-3.2-3B-Instruct", "llama_3", 1, 0, 0},
  {"microsoft-Phi-3.5-mini-instruct", "json", 0, 0, 0},
  {"mistralai-Ministral-3-14B-Reasoning-2512", "mistral", 2, 0, 0},
  {"mistralai-Mistral-Nemo-Instruct-2407", "mistral_nemo", 2, 0, 0},
  {"moonshotai-Kimi-K2", "kimi_k2", 2, 0, 0},
  {"openbmb-MiniCPM5-1B", "minicpm", 2, 0, 1},
  {"poolside-Laguna-S-2.1", "glm", 2, 0, 0},
  {"poolside-Laguna-XS-2.1", "glm", 2, 0, 0},
  {"poolside-Laguna-XS.2", "glm", 2, 0, 0},
  {"tencent-Hy3", "hunyuan", 2, 0, 0},
  {"unsloth-mistral-Devstral-Small-2507", "mistral", 2, 0, 0},
  {"upstage-Solar-Open-100B", "solar", 2, 0, 0},
};
// clang-format on

// Members in any order.
static bool same(const Json *x, const Json *y) {
  if (x->kind != y->kind) return x->kind + y->kind == JSON_INT + JSON_FLOAT && x->f == y->f;
  if (x->kind == JSON_STRING) return str_eq(x->s, y->s);
  if (x->kind == JSON_BOOL) return x->b == y->b;
  if (x->kind == JSON_INT || x->kind == JSON_FLOAT) return x->f == y->f;
  if (x->n != y->n) return false;
  for (int64_t i = 0; i < x->n; i++) {
    if (x->kind == JSON_ARRAY && !same(&x->item[i], &y->item[i])) return false;
    if (x->kind != JSON_OBJECT) continue;
    int64_t k = 0;
    while (k < y->n && !str_eq(x->key[i], y->key[k])) k++;
    if (k == y->n || !same(&x->item[i], &y->item[k])) return false;
  }
  return true;
}

// Arguments whose values are hard for one notation or another.  From `LOOSE` on no notation of
// Python is in the way.
static const char *const arguments[] = {
    "{\"s\": \"Paris\"}",
    "{\"s\": \"two words\", \"n\": 3, \"x\": -1.5, \"l\": [\"a\", \"b\"]}",
    "{\"s\": \"Z\\u00fcrich \\u65e5\\u672c\", \"o\": {\"k\": [1, 2]}}",
    "{\"s\": \"a \\\"quoted\\\" {brace} [x], y: z\"}",
    "{\"s\": \"line\\nline\", \"n\": 0}",
    "{\"s\": \"3\", \"m\": \"true\"}",
    "{\"s\": \"<b>it's</b> & 100%\"}",
    "{\"s\": \"back\\\\slash\", \"o\": {\"deep\": {\"er\": [true, null, {\"x\": []}]}}}",
};

static Str conversation(Arena *a, const Family *f, const char *text, int64_t first, int calls) {
  static const char *const name[] = {"f", "get_time"};
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, a);
  strbuf_printf(&b,
                "[{\"role\":\"user\",\"content\":\"USER?\"},{\"role\":\"assistant\","
                "\"content\":%s,\"tool_calls\":[",
                *text      ? "\"TEXT\""
                : f->texts ? "null"
                           : "\"\"");
  for (int i = 0; i < calls; i++) {
    const char *args = i ? "{}" : arguments[first];
    strbuf_printf(&b,
                  "%s{\"id\":\"call0000%d\",\"type\":\"function\",\"function\":{\"name\":\"%s\","
                  "\"arguments\":",
                  i ? "," : "", i, name[i]);
    json_init(&w, &b, true);
    if (f->texts)
      json_cstr(&w, args);
    else
      strbuf_puts(&b, args);
    strbuf_puts(&b, "}}");
  }
  strbuf_puts(&b, "]}]");
  return strbuf_str(&b);
}

static bool render(Arena *a, Str source, Str messages, const Json *tools, Str *out) {
  ChatTemplate *t;
  Json list, extra;
  TemplateResult result;
  diag_init(&diag);
  if (json_parse(a, messages, &diag, &list) ||
      json_parse(a, STR("{\"bos_token\":\"<B>\",\"eos_token\":\"<E>\"}"), &diag, &extra) ||
      template_parse(a, source, "t", &diag, &t))
    return false;
  TemplateInput in = {.messages = &list, .tools = tools, .extra = &extra, .now = 1735732805};
  if (template_render(t, &in, a, &diag, &result)) return false;
  *out = result.text;
  return true;
}

static void check_told(const Family *f, const Told *t, int64_t first, int calls, Str answer) {
  Arena a;
  Json want, got;
  arena_init(&a);
  bool ok = t->name.n == calls;
  for (int i = 0; i < calls && ok; i++) {
    Str args = {strbuf_text(&t->args.v[i]), t->args.v[i].n};
    ok = str_is(t->name.v[i], i ? "get_time" : "f") && !json_parse(&a, args, &diag, &got) &&
         !json_parse(&a, str_of(i ? "{}" : arguments[first]), &diag, &want) && same(&want, &got);
    if (!ok)
      test_failed(__FILE__, __LINE__, "%s: %.*s\n  gives %.*s %.*s", f->file, STR_ARG(answer),
                  STR_ARG(t->name.v[i]), STR_ARG(args));
  }
  if (t->name.n != calls)
    test_failed(__FILE__, __LINE__, "%s: %lld calls in %.*s", f->file, (long long)t->name.n,
                STR_ARG(answer));
  arena_deinit(&a);
}

// The answer: what stands behind the user's text, or behind the header where the whole answer
// counts.
static Str answer_of(const ToolSyntax *x, Str text) {
  static const char header[] = "<|end_header_id|>\n\n";
  const char *from = x->call ? "USER?" : header;
  int64_t n = (int64_t)strlen(from);
  for (int64_t i = text.n - n; i >= 0; i--)
    if (!memcmp(text.p + i, from, (size_t)n)) {
      text.p += i + n;
      text.n -= i + n;
      break;
    }
  // The token that ends an answer has no text.
  if (!x->call && text.n > 10 && !memcmp(text.p + text.n - 10, "<|eot_id|>", 10)) text.n -= 10;
  return text;
}

static void check_family(const Family *f, Str source, const Json *tools) {
  const ToolSyntax *x = tool_syntax_find(source);
  if (strcmp(x->name, f->syntax) != 0)
    test_failed(__FILE__, __LINE__, "%s is %s, not %s", f->file, x->name, f->syntax);
  for (int calls = 1; calls <= f->calls; calls++)
    for (int64_t i = 0; i < ARRAY_LEN(arguments); i++)
      for (int text = 0; text < 2; text++) {
        Arena a;
        Told told;
        Str whole;
        arena_init(&a);
        ToolParse what = {.syntax = x, .tools = tools};
        bool hard = f->loose && (i == 3 || i > 5 || i == 4);
        if (!hard && !(f->texts && text) &&
            render(&a, source, conversation(&a, f, text ? "T" : "", i, calls), tools, &whole)) {
          Str answer = answer_of(x, whole);
          (void)parse(&a, &what, answer, answer.n, answer.n, &told);
          check_told(f, &told, i, calls, answer);
          if (text && calls == f->calls) check_cuts(&what, answer, NULL, f->file);
        } else if (!hard && !(f->texts && text)) {
          test_failed(__FILE__, __LINE__, "%s: %s", f->file, diag.text);
        }
        arena_deinit(&a);
      }
}

TEST(tool_calls_templates) {
  if (!test_data_dir()) SKIP("no data folder");
  Arena a;
  Json tools;
  arena_init(&a);
  diag_init(&diag);
  EXPECT_INT_EQ(json_parse(&a, str_of(plain_tools_text), &diag, &tools), TENON_OK);
  int64_t read = 0;
  for (int64_t i = 0; i < ARRAY_LEN(family); i++) {
    File file;
    diag_init(&diag);
    if (file_open(str_printf(&a, "%s/chat-templates/%s.jinja", test_data_dir(), family[i].file),
                  &file, &diag))
      continue;
    check_family(&family[i], (Str){(const char *)file.bytes, file.size}, &tools);
    file_close(&file);
    read++;
  }
  arena_deinit(&a);
  if (!read) SKIP("no chat templates in the data folder");
}

// A limit of calls, an answer that goes on from the prompt, and rows that can be told apart.
TEST(tool_calls_limits) {
  Arena a;
  Told told;
  arena_init(&a);
  ToolParse one = {.syntax = tool_syntax_named(STR("hermes")), .most = 1};
  Str text = STR("<tool_call>{\"name\":\"f\"}</tool_call><tool_call>{\"name\":\"g\"}</tool_call>");
  EXPECT(str_is(parse(&a, &one, text, text.n, 1, &told), "|f{}"));
  ToolParse open = {.syntax = tool_syntax_named(STR("functionary_v3_2")), .open = true};
  check_cuts(&open, STR("all\nHi>>>f\n{}"), "Hi|f{}", "open");
  check_cuts(&open, STR("f\n{\"n\": 1}"), "|f{\"n\": 1}", "open");
  const Reasoning *r = reasoning_of(STR("<think>"));
  EXPECT(reasoning_begun(r, STR("<|im_start|>assistant\n<think>\n")));
  EXPECT(!reasoning_begun(r, STR("assistant\n<think>\n\n</think>\n\n")));
  EXPECT(!reasoning_begun(NULL, STR("<think>")));
  for (int64_t i = 0; i < tool_syntax_count(); i++)
    EXPECT(tool_syntax_named(str_of(tool_syntax_at(i)->name)) == tool_syntax_at(i));
  arena_deinit(&a);
}
