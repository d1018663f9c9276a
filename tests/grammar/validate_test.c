// validate_test.c -- the judge of answers: what it takes and what it does not, keyword by keyword.
#include "grammar/validate.h"
#include "test.h"

static const struct {
  const char *schema, *good, *bad;  // values with '|' between them
} cases[] = {
    {"{\"type\":\"integer\"}", "1|-2|3.0", "1.5|\"1\"|null"},
    {"{\"type\":[\"null\",\"boolean\"]}", "null|true", "0|{}"},
    {"{\"enum\":[1,\"a\",{\"x\":[1]}]}", "1|1.0|\"a\"|{\"x\":[1]}", "2|{\"x\":[2]}|[]"},
    {"{\"minimum\":2,\"exclusiveMaximum\":4}", "2|3.9|\"x\"", "1.9|4"},
    {"{\"multipleOf\":3}", "9|0|-3", "10|1.5"},
    {"{\"minLength\":2,\"maxLength\":2}", "\"\xc3\xa9\xc3\xa9\"|7", "\"a\"|\"abc\""},
    {"{\"pattern\":\"^(a|b)+\\\\d{2,3}$\"}", "\"ab12\"|\"b123\"", "\"c12\"|\"a1\"|\"a1234\""},
    {"{\"pattern\":\"[^x]y\"}", "\"-ay-\"", "\"xy\"|\"y\""},
    {"{\"items\":{\"type\":\"null\"},\"prefixItems\":[true],\"minItems\":1}", "[1]|[1,null]",
     "[]|[1,2]"},
    {"{\"uniqueItems\":true}", "[1,2]|[1,\"1\"]", "[1,1.0]|[{\"a\":1},{\"a\":1}]"},
    {"{\"contains\":{\"const\":1},\"maxContains\":1}", "[1]|[2,1]", "[]|[1,1]"},
    {"{\"properties\":{\"a\":{\"type\":\"null\"}},\"additionalProperties\":false}",
     "{}|{\"a\":null}", "{\"b\":1}|{\"a\":1}"},
    {"{\"patternProperties\":{\"^x\":false},\"propertyNames\":{\"maxLength\":2}}", "{\"a\":1}",
     "{\"xa\":1}|{\"abc\":1}"},
    {"{\"required\":[\"a\"],\"maxProperties\":1}", "{\"a\":1}|1", "{}|{\"a\":1,\"b\":1}"},
    {"{\"dependentRequired\":{\"a\":[\"b\"]}}", "{}|{\"a\":1,\"b\":1}", "{\"a\":1}"},
    {"{\"anyOf\":[{\"const\":1},{\"const\":2}]}", "1|2", "3"},
    {"{\"oneOf\":[{\"minimum\":1},{\"maximum\":3}]}", "0|4", "2"},
    {"{\"not\":{\"type\":\"null\"}}", "1", "null"},
    {"{\"if\":{\"const\":1},\"then\":false,\"else\":{\"const\":2}}", "2", "1|3"},
    {"{\"$defs\":{\"p/q\":{\"const\":1}},\"$ref\":\"#/$defs/p~1q\"}", "1", "2"},
    {"{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}", "[]|[[],[[]]]", "[[1]]"},
    {"true", "1", ""},
    {"{}", "1", "{|01|{\"a\":1,\"a\":2}"},
};

static void check(const char *schema, const char *values, tenon_status want) {
  for (const char *p = values; *p;) {
    const char *end = strchr(p, '|');
    int64_t n = end ? end - p : (int64_t)strlen(p);
    Diag d;
    diag_init(&d);
    tenon_status s = schema_validate(str_of(schema), (Str){p, n}, &d);
    if (s != want)
      FAIL("%s and %.*s: status %d, not %d: %s", schema, (int)n, p, (int)s, (int)want, d.text);
    p += n + (end != NULL);
  }
}

TEST(grammar_validator_judges) {
  for (int64_t i = 0; i < ARRAY_LEN(cases); i++) {
    check(cases[i].schema, cases[i].good, TENON_OK);
    check(cases[i].schema, cases[i].bad, TENON_EINVAL);
  }
  check("{\"unevaluatedItems\":false}", "[1]", TENON_EUNSUPPORTED);
  check("{\"pattern\":\"a(?=b)\"}", "\"ab\"", TENON_EUNSUPPORTED);
  check("{\"$ref\":\"#\"}", "1", TENON_EUNSUPPORTED);
}
