// tool_forms_test.c -- answers that must call a tool, drawn at random in every family's form: each
// is parsed back, and its arguments fit the tool's schema.
#include "grammar/tool_forms.h"

#include "grammar/fixture.h"
#include "grammar/validate.h"

static const char tools_text[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"s\":{\"type\":\"string\",\"description\":\"t\"},\"n\":{\"type\":"
    "\"integer\",\"minimum\":1,\"maximum\":20},\"c\":{\"type\":\"string\",\"enum\":[\"red\","
    "\"blue\"]},\"o\":{\"$ref\":\"#/$defs/o\"}},\"required\":[\"s\",\"n\"],"
    "\"additionalProperties\":false,\"$defs\":{\"o\":{\"type\":\"object\",\"properties\":{\"k\":{"
    "\"type\":\"boolean\"}},\"required\":[\"k\"],\"additionalProperties\":false}}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"get_time\"}}]";

// Arguments whose schemas say in other words that they are texts, or that some of them are.
static const char texts_text[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":[\"object\"],"
    "\"description\":\"t\",\"properties\":{\"a\":{\"enum\":[\"celsius\",\"5\"]},\"b\":{\"type\":"
    "[\"string\"]},\"c\":{\"anyOf\":[{\"type\":\"string\",\"enum\":[\"p\",\"q\"]},{\"const\":\"r\"}"
    "]},"
    "\"d\":{\"enum\":[\"x\",5,null,1.5]},\"e\":{\"oneOf\":[{\"const\":\"true\"},{\"const\":\"7\"}],"
    "\"enum\":[\"7\",\"8\"]},\"g\":{\"type\":[\"string\",\"null\"]},\"h\":{\"type\":\"string\","
    "\"enum\":["
    "\"null\",3]},\"i\":{\"anyOf\":[{\"type\":\"string\"},{\"$ref\":\"#/$defs/"
    "n\"}]},\"j\":{\"const\":"
    "\"null\"},\"k\":{\"type\":\"string\",\"anyOf\":[{\"type\":\"integer\"},{\"enum\":[\"1\"]}]},"
    "\"l\":{"
    "\"type\":\"integer\",\"enum\":[1.0]}},\"required\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"g\",\"h\","
    "\"i\","
    "\"j\",\"k\",\"l\"],\"additionalProperties\":false,\"$defs\":{\"n\":{\"type\":\"integer\"}}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"get_time\",\"parameters\":null}}]";

typedef struct Told {
  Arena *a;
  VEC(Str) name;
  VEC(StrBuf) args;
  StrBuf content;
} Told;
static void on_text(void *ctx, Str s) { strbuf_put(&((Told *)ctx)->content, s); }
static void on_thought(void *ctx, Str s) { (void)ctx, (void)s; }
static void on_call(void *ctx, int64_t index, Str name, Str id) {
  Told *t = ctx;
  StrBuf b;
  (void)index, (void)id;
  strbuf_init(&b, t->a);
  strbuf_puts(&b, "");
  name.p = arena_dup(t->a, name.p, name.n);
  vec_push(t->a, &t->name, name);
  vec_push(t->a, &t->args, b);
}
static void on_args(void *ctx, int64_t index, Str s) {
  strbuf_put(&((Told *)ctx)->args.v[index], s);
}

// A token that the mask allows; -1: none.
static int32_t draw(const uint32_t *mask, int64_t n, uint64_t *seed) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; i++) count += mask[i / 32] >> (i % 32) & 1;
  if (!count) return -1;
  int64_t k = (int64_t)(test_random(seed) % (uint64_t)count);
  for (int64_t i = 0; i < n; i++)
    if (mask[i / 32] >> (i % 32) & 1 && !k--) return (int32_t)i;
  return -1;
}

static Str answer(const TestVocab *o, Grammar *g, Arena *a, int64_t left, uint64_t *seed) {
  GrammarState *s;
  StrBuf b;
  Diag d;
  uint32_t mask[64];
  int64_t n = tokenizer_size(o->t);
  CHECK(grammar_vocab_words(o->v) <= ARRAY_LEN(mask), "a small vocabulary");
  diag_init(&d);
  strbuf_init(&b, a);
  strbuf_puts(&b, "");
  EXPECT_STATUS(grammar_state_create(g, &d, &s), TENON_OK);
  while (left > 0) {
    memset(mask, 0, sizeof mask);
    grammar_mask(s, left--, mask);
    int32_t id = draw(mask, n, seed);
    if (id < 0 || id == 2) break;
    EXPECT(grammar_accept(s, id));
    strbuf_put(&b, tokenizer_piece(o->t, id));
  }
  EXPECT(grammar_can_end(s));
  grammar_state_free(s);
  return strbuf_str(&b);
}

static void check_answer(const ToolForm *f, const char *name, Arena *a, Str text) {
  Told t = {.a = a};
  strbuf_init(&t.content, a);
  ToolSink sink = {on_text, on_thought, on_call, on_args, &t};
  ToolParse what = {f->syntax, f->reasoning, f->inside, false, f->tools, 0};
  ToolParser *p = tool_parser_create(a, &what, &sink);
  tool_parser_take(p, text);
  tool_parser_end(p);
  bool ok = !f->required || (t.name.n >= 1 && !t.content.n);
  if (!f->parallel) ok &= t.name.n <= 1;
  for (int64_t i = 0; i < t.name.n && ok; i++) {
    Diag d;
    diag_init(&d);
    Str args = {strbuf_text(&t.args.v[i]), t.args.v[i].n};
    const Json *tool = tool_find(f->tools, t.name.v[i]), *schema = json_get(tool, "parameters");
    StrBuf b;
    JsonWriter w;
    strbuf_init(&b, a);
    json_init(&w, &b, true);
    ok = tool != NULL;
    if (ok && schema) ok = !json_put(&w, schema, &d) && !schema_validate(strbuf_str(&b), args, &d);
    if (ok && !schema)
      ok = !schema_validate(STR("{\"type\":\"object\",\"maxProperties\":0}"), args, &d);
    if (f->named.n) ok &= str_eq(f->named, t.name.v[i]);
    if (!ok) test_failed(__FILE__, __LINE__, "%s: %.*s: %s", name, STR_ARG(args), d.text);
  }
  if (!ok)
    test_failed(__FILE__, __LINE__, "%s: %lld calls in %.*s", name, (long long)t.name.n,
                STR_ARG(text));
}

static void check_form(const TestVocab *o, const ToolForm *f, uint64_t *seed) {
  GrammarSpec spec;
  Grammar *g;
  Diag d;
  Arena a;
  arena_init(&a);
  diag_init(&d);
  EXPECT_STATUS(tool_form_spec(f, &a, &d, &spec), TENON_OK);
  tenon_status s = grammar_compile(o->v, &spec, &d, &g);
  if (s) {
    test_failed(__FILE__, __LINE__, "%s: %s", f->syntax->name, d.text);
    arena_deinit(&a);
    return;
  }
  if (!f->required) EXPECT_INT_EQ(grammar_least(g) > 200, 0);
  for (int i = 0; i < 4; i++) {
    int64_t left = grammar_least(g) + (int64_t)(test_random(seed) % 80);
    check_answer(f, f->syntax->name, &a, answer(o, g, &a, left, seed));
  }
  grammar_free(g);
  arena_deinit(&a);
}

TEST(tool_forms_of_texts) {
  TestVocab o;
  Json tools;
  uint64_t seed = 3;
  test_vocab_begin(&o);
  REQUIRE(!json_parse(&o.arena, str_of(texts_text), &o.diag, &tools));
  for (int64_t i = 0; i < tool_syntax_count(); i++) {
    const ToolSyntax *x = tool_syntax_at(i);
    ToolForm f = {.syntax = x, .tools = &tools, .required = true, .named = STR("f")};
    if (x->body == TOOL_PARAMS && tool_form_fits(x, true)) check_form(&o, &f, &seed);
  }
  test_vocab_end(&o);
}

TEST(tool_forms_of_families) {
  TestVocab o;
  Json tools;
  uint64_t seed = 11;
  test_vocab_begin(&o);
  REQUIRE(!json_parse(&o.arena, str_of(tools_text), &o.diag, &tools));
  for (int64_t i = 0; i < tool_syntax_count(); i++) {
    const ToolSyntax *x = tool_syntax_at(i);
    ToolForm f = {.syntax = x, .tools = &tools, .required = true, .parallel = true};
    if (!tool_form_fits(x, true)) continue;
    check_form(&o, &f, &seed);
    f.parallel = false;
    f.reasoning = reasoning_of(STR("<think>"));
    f.inside = i % 2;
    check_form(&o, &f, &seed);
    f.named = STR("get_time");
    check_form(&o, &f, &seed);
    f = (ToolForm){.syntax = x, .tools = &tools, .parallel = i % 2};
    if (tool_form_fits(x, false)) check_form(&o, &f, &seed);
  }
  test_vocab_end(&o);
}

// What a schema asks for and arguments between markers cannot say is refused by name.
TEST(tool_forms_refuse) {
  static const struct {
    const char *syntax, *parameters, *says;
  } row[] = {
      {"glm", "{\"properties\":{\"s\":{\"type\":\"string\",\"pattern\":\"a+\"}}}", "'pattern'"},
      {"glm", "{\"properties\":{\"s\":{\"anyOf\":[{\"type\":\"string\",\"format\":\"date\"}]}}}",
       "'format'"},
      {"glm", "{\"anyOf\":[{\"required\":[\"a\"]}]}", "'anyOf'"},
      {"glm", "{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{}}}", "'$ref'"},
      {"glm", "{\"minProperties\":2}", "'minProperties'"},
      {"glm", "{\"not\":{}}", "'not'"},
      {"glm", "{\"properties\":[1]}", "'properties'"},
      {"glm", "{\"type\":\"string\"}", "'type'"},
      {"hermes", "{\"type\":[\"string\",\"null\"]}", "'type'"},
      {"glm", "{\"required\":[\"a\",\"b\"],\"properties\":{\"a\":{}}}", "'b'"},
      {"glm", "{\"required\":\"a\",\"properties\":{\"a\":{}}}", "'required'"},
      {"glm", "{\"required\":[3]}", "'required'"},
      {"glm", "{\"properties\":{\"a\":{\"items\":{\"$ref\":\"#\"}}}}", "'$ref'"},
      {"glm", "{\"$defs\":{\"d\":{\"$ref\":\"#/properties/a\"}},\"properties\":{\"a\":{}}}",
       "'$ref'"},
      {"glm", "{\"properties\":{\"a\":{\"$ref\":\"#/$defs/x\",\"$defs\":{\"x\":{}}}}}", "'$defs'"},
      {"glm", "{\"properties\":{\"a\":{\"enum\":[\"x</arg_value>\"]}}}", "</arg_value>"},
      {"glm", "{\"properties\":{\"a\":{\"enum\":[\"x</arg_value>\",1]}}}", "</arg_value>"},
      {"glm", "{\"properties\":{\"a\":{\"enum\":[\"x\\u0000y\"]}}}", "NUL"},
      {"glm", "{\"properties\":{\"a\\u0000b\":{}}}", "NUL"},
      {"glm", "{\"properties\":{\"a</arg_key>\":{}}}", "</arg_key>"},
      {"glm", "{\"properties\":{\"a</tool_call>\":{}}}", "</tool_call>"},
      {"glm", "{\"properties\":{\" a\":{}}}", "white space"},
      {"qwen3_coder", "{\"properties\":{\"a>b\":{}}}", "holds >"},
      {"glm", "{\"properties\":{\"a\":{\"oneOf\":[{\"type\":\"string\"},{\"const\":\"x\"}]}}}",
       "'oneOf'"},
      {"glm", "{\"properties\":{\"a\":{\"type\":\"string\",\"enum\":[3]}}}", NULL},
      {"glm", "{\"properties\":{\"a\":{\"const\":\"x\",\"enum\":[\"y\"]}}}", "no text"},
  };
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    Arena a;
    Diag d;
    Json tools;
    GrammarSpec spec;
    arena_init(&a);
    diag_init(&d);
    const char *text =
        str_printf(&a, "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":%s}}]",
                   row[i].parameters);
    REQUIRE(!json_parse(&a, str_of(text), &d, &tools));
    ToolForm f = {
        .syntax = tool_syntax_named(str_of(row[i].syntax)), .tools = &tools, .required = true};
    tenon_status s = tool_form_spec(&f, &a, &d, &spec);
    if (row[i].says ? !s || !strstr(d.text, row[i].says) : s != TENON_OK)
      test_failed(__FILE__, __LINE__, "%s: %s", row[i].parameters, d.text);
    arena_deinit(&a);
  }
  EXPECT(!tool_form_fits(tool_syntax_named(STR("lfm2")), true));
  EXPECT(!tool_form_fits(tool_syntax_named(STR("llama_3")), false));
}
