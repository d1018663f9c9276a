// schema_test.c -- JSON Schemas: answers drawn at random are what the validator takes, with as many
// tokens left as are needed and more; what is not supported is refused by its name.
#include "grammar/fixture.h"
#include "grammar/validate.h"

static const char *const schemas[] = {
    "true",
    "{\"type\":[\"integer\",\"null\"]}",
    "{\"enum\":[1,\"a\\n\",{\"b\":[true,{}]},[]]}",
    "{\"type\":\"integer\",\"minimum\":-12,\"exclusiveMaximum\":7}",
    "{\"type\":\"number\",\"exclusiveMinimum\":-0.25,\"maximum\":10.5}",
    "{\"type\":\"number\",\"minimum\":0.001,\"maximum\":0.0025}",
    "{\"type\":\"integer\",\"multipleOf\":7,\"minimum\":100,\"maximum\":200}",
    "{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
    "{\"type\":\"string\",\"pattern\":\"^a+\\\\d$\",\"maxLength\":6}",
    "{\"type\":\"string\",\"pattern\":\"b|\\\\W\"}",
    "{\"type\":\"string\",\"format\":\"date\"}",
    "{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"minItems\":1,\"maxItems\":3}",
    "{\"type\":\"array\",\"prefixItems\":[{\"const\":1},{\"type\":\"string\"}],\"items\":false}",
    "{\"type\":\"array\",\"contains\":{\"const\":5},\"items\":{\"type\":\"integer\"}}",
    "{\"type\":\"array\",\"items\":{\"enum\":[1,2,3]},\"uniqueItems\":true,\"minItems\":2}",
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":true,\"ab\":false},"
    "\"required\":[\"b\"],\"additionalProperties\":false}",
    "{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{},\"c\":{}},\"minProperties\":2,"
    "\"maxProperties\":2,\"additionalProperties\":false}",
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"}},\"patternProperties\":{\"^b\":"
    "{\"type\":\"boolean\"}},\"additionalProperties\":{\"type\":\"integer\"}}",
    "{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"a\",\"b\"]},\"maxProperties\":1}",
    "{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}},\"dependentRequired\":{\"a\":[\"b\"]},"
    "\"additionalProperties\":false}",
    "{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},\"n\":{\"$ref\":\"#\"}},"
    "\"required\":[\"v\"],\"additionalProperties\":false}",
    "{\"$defs\":{\"a~b\":{\"$anchor\":\"x\",\"type\":\"null\"}},\"anyOf\":[{\"$ref\":\"#x\"},"
    "{\"$ref\":\"#/$defs/a~0b\"},{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}]}",
    "{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"t\":{\"const\":1}},\"required\":[\"t\"]},"
    "{\"type\":\"object\",\"properties\":{\"t\":{\"const\":2}},\"required\":[\"t\"]},"
    "{\"type\":\"integer\",\"minimum\":5},{\"type\":\"number\",\"maximum\":4}]}",
    "{\"allOf\":[{\"type\":\"integer\"},{\"minimum\":3},{\"maximum\":3}]}",
};

static const char *one_answer(TestVocab *o, Grammar *g, int64_t left, uint64_t *seed, StrBuf *out) {
  static uint32_t mask[64];
  GrammarState *s;
  if (grammar_state_create(g, &o->diag, &s)) return "no state";
  const char *wrong = NULL;
  for (; left > 0 && !wrong; left--) {
    int32_t allowed[1024], n = 0;
    grammar_mask(s, left, mask);
    for (int32_t id = 0; id < tokenizer_size(o->t); id++)
      if (mask[id / 32] >> id % 32 & 1) allowed[n++] = id;
    if (!n || (grammar_can_end(s) && test_random(seed) % 3 == 0)) break;
    int32_t token = allowed[test_random(seed) % (uint64_t)n];
    if (!grammar_accept(s, token)) wrong = "an allowed token is refused";
    if (tokenizer_is_end(o->t, token)) break;
    strbuf_put(out, tokenizer_piece(o->t, token));
  }
  if (!grammar_can_end(s)) wrong = "the answer is not whole";
  grammar_state_free(s);
  return wrong;
}

TEST(grammar_schemas_give_valid_answers) {
  TestVocab o;
  uint64_t seed = 7;
  test_vocab_begin(&o);
  for (int64_t i = 0; i < ARRAY_LEN(schemas); i++) {
    Str text = str_of(schemas[i]);
    Grammar *g;
    for (int compact = 0; compact < 2; compact++) {
      GrammarSpec spec = {.kind = GRAMMAR_SCHEMA, .text = text, .compact = compact};
      if (grammar_compile(o.v, &spec, &o.diag, &g)) {
        FAIL("%s: %s", schemas[i], o.diag.text);
        continue;
      }
      for (int64_t left = grammar_least(g); left < grammar_least(g) + 40; left += 2) {
        Diag why;
        StrBuf answer;
        diag_init(&why);
        strbuf_init(&answer, &o.arena);
        const char *wrong = one_answer(&o, g, left, &seed, &answer);
        if (!wrong && schema_validate(text, strbuf_str(&answer), &why)) wrong = why.text;
        if (wrong) FAIL("%s gives %s: %s", schemas[i], strbuf_text(&answer), wrong);
      }
      grammar_free(g);
    }
  }
  test_vocab_end(&o);
}

TEST(grammar_schemas_are_refused_by_name) {
  static const char *const cases[][2] = {
      {"{\"not\":{}}", "#/not"},
      {"{\"properties\":{\"a\":{\"if\":true,\"then\":false}}}", "#/properties/a/if"},
      {"{\"$ref\":\"http://x/y\"}", "$ref"},
      {"{\"$ref\":\"#/a\"}", "points to nothing"},
      {"{\"$ref\":\"#\"}", "defined by itself"},
      {"{\"type\":\"array\",\"uniqueItems\":true}", "uniqueItems"},
      {"{\"oneOf\":[{\"type\":\"integer\"},{\"minimum\":3}]}", "oneOf"},
      {"{\"unevaluatedProperties\":false}", "unevaluatedProperties"},
      {"{\"multipleOf\":0.1}", "multipleOf"},
      {"{\"pattern\":\"(?=a)\",\"type\":\"string\"}", "lookahead"},
      {"{\"minLength\":-1}", "count"},
      {"{\"items\":[{}]}", "no schema"},
      {"{\"allOf\":[{\"type\":\"null\"},{\"type\":\"string\"}]}", "no answer"},
      {"{\"required\":[\"a\"],\"properties\":{\"a\":{\"$ref\":\"#\"}},\"type\":\"object\"}",
       "no answer"},
      {"{\"minItems\":99999,\"type\":\"array\"}", "too many items"},
      {"[", "JSON"},
  };
  TestVocab o;
  test_vocab_begin(&o);
  for (int64_t i = 0; i < ARRAY_LEN(cases); i++) {
    Grammar *g;
    Diag d;
    diag_init(&d);
    GrammarSpec spec = {.kind = GRAMMAR_SCHEMA, .text = str_of(cases[i][0])};
    EXPECT(grammar_compile(o.v, &spec, &d, &g) != TENON_OK);
    EXPECT_CONTAINS(d.text, cases[i][1]);
  }
  test_vocab_end(&o);
}
