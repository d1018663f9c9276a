// template_test.c -- chat templates: what they render, what they refuse, and their limits.
//
// tests/formats/chat_template_test.py compares many more with Python's jinja2; the rows here are
// results of jinja2 3.1.6 too.
#include "text/template.h"

#include "base/platform.h"
#include "test.h"

#include <pthread.h>
#include <stdio.h>

static Diag diag;

// "name: value" pairs of JSON for every row.
static const char given[] =
    "{\"s\": \"a<b> \\u00e9\\u65e5\", \"n\": 3, \"f\": 2.5, \"l\": [1, \"x\", null, [2]],"
    " \"d\": {\"a\": 1, \"items\": \"I\"}, \"bos_token\": \"<s>\","
    " \"m\": [{\"role\": \"user\", \"n\": 2}, {\"role\": \"tool\", \"n\": 1},"
    " {\"role\": \"user\", \"n\": 3}]}";

typedef struct Row {
  const char *source, *want;  // want NULL: an error that says `says`
  const char *says;
  TemplateEnd end;
} Row;

static tenon_status render(Arena *a, const char *source, const char *vars, TemplateLimits limits,
                           TemplateResult *out) {
  ChatTemplate *t;
  Json extra, messages;
  *out = (TemplateResult){.end = TEMPLATE_BROKEN};
  diag_init(&diag);
  TRY(json_parse(a, str_of(vars), &diag, &extra));
  TRY(json_parse(a, STR("[{\"role\": \"user\", \"content\": \"Hi\"}]"), &diag, &messages));
  TRY(template_parse(a, str_of(source), "t.jinja", &diag, &t));
  TemplateInput in = {.messages = &messages, .extra = &extra, .now = 1735732805, .limits = limits};
  return template_render(t, &in, a, &diag, out);
}

static void check_row(const Row *r) {
  Arena a;
  TemplateResult out;
  arena_init(&a);
  tenon_status s = render(&a, r->source, given, (TemplateLimits){0}, &out);
  if (r->want) {
    if (s || !str_is(out.text, r->want))
      test_failed(__FILE__, __LINE__, "%s\n  gives  '%.*s' %s\n  not    '%s'", r->source,
                  STR_ARG(out.text), s ? diag.text : "", r->want);
  } else {
    EXPECT(s != TENON_OK);
    EXPECT_INT_EQ(out.end, r->end);
    if (s && !strstr(diag.text, r->says))
      test_failed(__FILE__, __LINE__, "%s\n  says '%s'\n  without '%s'", r->source, diag.text,
                  r->says);
  }
  arena_deinit(&a);
}

static void check_rows(const Row *row, int64_t n) {
  for (int64_t i = 0; i < n; i++) check_row(&row[i]);
}

TEST(template_white_space) {
  static const Row rows[] = {
      {"a\n{% if true %}\n  b\n{% endif %}\nc\n", "a\n  b\nc", NULL, 0},
      {"a \n  {%- if true -%}\n  b {% endif %}c", "ab c", NULL, 0},
      {"  {% set x = 1 %}\n{{ x }}\n", "1", NULL, 0},
      {"  {%+ set x = 1 +%}\n{{ x }}", "  \n1", NULL, 0},
      {"x {# note\n #}\n y", "x  y", NULL, 0},
      {"x\n  {#- note -#}  \n y", "xy", NULL, 0},
      {"{% raw %}\n{{ x }}{% endraw %}\n.", "\n{{ x }}.", NULL, 0},
      {"{%- raw -%} {% a %} {%- endraw -%} .", "{% a %}.", NULL, 0},
      {"a\r\nb\rc{{ '\r\n' }}", "a\nb\nc\n", NULL, 0},
      {"{{ 1 -}}  \n{{- 2 }}", "12", NULL, 0},
  };
  check_rows(rows, ARRAY_LEN(rows));
}

TEST(template_expressions) {
  static const Row rows[] = {
      {"{{ 1 + 2 * 3 ** 2 // 4 - -1 }} {{ 7 % -3 }} {{ -7 // 2 }} {{ 7 / 2 }}", "6 -2 -4 3.5", NULL,
       0},
      {"{{ 0.1 + 0.2 }} {{ 1e16 }} {{ 1e-5 }} {{ 100.0 }} {{ 2 ** -1 }}",
       "0.30000000000000004 1e+16 1e-05 100.0 0.5", NULL, 0},
      {"{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 in l }} {{ 'a' not in d }} {{ 2 == 2.0 }}",
       "True False True False True", NULL, 0},
      {"{{ not n or n and 'x' }} {{ 'y' if z else 'n' }}[{{ 'y' if z }}]", "x n[]", NULL, 0},
      {"{{ 'a' ~ 1 ~ none ~ [1, 'b'] }} {{ \"it's\" }} {{ ['it\\'s', (1,), {}] }}",
       "a1None[1, 'b'] it's [\"it's\", (1,), {}]", NULL, 0},
      {"{{ 'a' 'b' \"\\x41\\u00e9\\n\\q\" }}", "abA\xc3\xa9\n\\q", NULL, 0},
      {"{{ s[1:-1] }} {{ s[-1] }} {{ s[::-1] }} {{ l[1:] }} {{ s|length }}",
       "<b> \xc3\xa9 \xe6\x97\xa5 \xe6\x97\xa5\xc3\xa9 >b<a ['x', None, [2]] 7", NULL, 0},
      {"{{ d.a }} {{ d['items'] }} {{ d.items()|list }} {{ d.nosuch is defined }}{{ d.nosuch }}",
       "1 I [('a', 1), ('items', 'I')] False", NULL, 0},
      {"{{ (s|safe) + '<' }} {{ s|e }} {{ s|safe ~ '<' }}",
       "a<b> \xc3\xa9\xe6\x97\xa5&lt; a&lt;b&gt; \xc3\xa9\xe6\x97\xa5 a<b> \xc3\xa9\xe6\x97\xa5<",
       NULL, 0},
      {"{{ {'b': [1, 2.0, none], 'a': s}|tojson }}",
       "{\"b\": [1, 2.0, null], \"a\": \"a<b> \xc3\xa9\xe6\x97\xa5\"}", NULL, 0},
      {"{{ {'b': [], 'a': s}|tojson(indent=2, ensure_ascii=true, sort_keys=true) }}",
       "{\n  \"a\": \"a<b> \\u00e9\\u65e5\",\n  \"b\": []\n}", NULL, 0},
      {"{{ '%05.1f|%-4d|%x|%s' % (f, n, 255, d) }}", "002.5|3   |ff|{'a': 1, 'items': 'I'}", NULL,
       0},
      {"{{ '{} {1}'.format(1, 2) }}", NULL, "numbers are given", TEMPLATE_BROKEN},
      {"{{ '{0} {x!r:>5} {1[0]:+.2f} {{}}'.format(1, [f], x='q') }}", "1   'q' +2.50 {}", NULL, 0},
      {"{{ '\xce\xa3\xce\x91\xce\xa3'.lower() }} {{ '\xc3\x9f'.upper() }} {{ 'ab cd-ef'|title }}",
       "\xcf\x83\xce\xb1\xcf\x82 SS Ab Cd-Ef", NULL, 0},
      {"{{ [s|safe|last] }} {{ [s|safe|first] }}", "[Markup('\xe6\x97\xa5')] ['a']", NULL, 0},
      {"{{ ' a  b '.split() }} {{ 'a,b,c'.rsplit(',', 1) }} {{ 'x'.join(['1', '2']) }}",
       "['a', 'b'] ['a,b', 'c'] 1x2", NULL, 0},
  };
  check_rows(rows, ARRAY_LEN(rows));
}

TEST(template_filters_and_tests) {
  static const Row rows[] = {
      {"{{ m|map(attribute='role')|join(',') }} {{ m|selectattr('role', 'equalto', "
       "'user')|map(attribute='n')|list }}",
       "user,tool,user [2, 3]", NULL, 0},
      {"{{ m|sort(attribute='n')|map(attribute='n')|list }} {{ m|sum(attribute='n') }} {{ [3, 1, "
       "2]|max }}",
       "[1, 2, 3] 6 3", NULL, 0},
      {"{% set g = m|map('length') %}{{ g|list }}{{ g|list }}", "[2, 2, 2][]", NULL, 0},
      {"{% for k, v in m|groupby('role') %}{{ k }}={{ v|length }};{% endfor %}", "tool=1;user=2;",
       NULL, 0},
      {"{{ range(7)|batch(3, 'x')|list }} {{ range(5)|slice(2)|list }}",
       "[[0, 1, 2], [3, 4, 5], [6, 'x', 'x']] [[0, 1, 2], [3, 4]]", NULL, 0},
      {"{{ 'b'|default('x') }}{{ z|default('x') }}{{ ''|d('x', true) }} {{ '42.9'|int }} {{ "
       "'q'|int(-1) }} {{ 2.5|round }} {{ 2.675|round(2) }}",
       "bxx 42 -1 2.0 2.67", NULL, 0},
      {"{{ 'a\nb\n\nc'|indent(2) }}|{{ ['b', 'A', 'a']|unique|list }} {{ ['b', 'A']|sort }}",
       "a\n  b\n\n  c|['b', 'A'] ['A', 'b']", NULL, 0},
      {"{{ n is odd }} {{ n is divisibleby 3 }} {{ d is mapping }} {{ s is string }} {{ z is "
       "defined }} {{ l is iterable }} {{ n is none }} {{ true is boolean }} {{ 1 is in l }}",
       "True True True True False True False True True", NULL, 0},
      {"{{ d|dictsort(reverse=true) }} {{ d|items|list }} {{ [1, 2]|reverse|list }} {{ "
       "'ab'|reverse }} {{ l|first }}{{ l|last }}",
       "[('items', 'I'), ('a', 1)] [('a', 1), ('items', 'I')] [2, 1] ba 1[2]", NULL, 0},
      {"{{ strftime_now('%d %b %Y %H:%M:%S%f%Z') }}", "01 Jan 2025 12:00:05000000", NULL, 0},
  };
  check_rows(rows, ARRAY_LEN(rows));
}

TEST(template_statements) {
  static const Row rows[] = {
      {"{% for x in l if x %}{{ loop.index }}/{{ loop.length }}{{ x }}{{ ',' if not loop.last }}{% "
       "else %}none{% endfor %}",
       "1/31,2/3x,3/3[2]", NULL, 0},
      {"{% for a, b in d.items() %}{{ a }}{{ b }}{{ loop.previtem }}{% endfor %}{% for x in [] "
       "%}{% else %}e{% endfor %}",
       "a1itemsI('a', 1)e", NULL, 0},
      {"{% for x in range(9) %}{% if x == 1 %}{% continue %}{% endif %}{% if x > 3 %}{% break %}{% "
       "endif %}{{ x }}{% endfor %}",
       "023", NULL, 0},
      {"{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}",
       "12 13 1", NULL, 0},
      {"{% set ns = namespace(x=0) %}{% for i in [1, 2] %}{% set ns.x = ns.x + i %}{% endfor %}{{ "
       "ns.x }}",
       "3", NULL, 0},
      {"{% macro f(a, b=a ~ '!', c=n) %}{{ a }}{{ b }}{{ c }}{{ varargs }}{{ kwargs }}{% endmacro "
       "%}{{ f(1) }} {{ f(1, 2, 3, 4, z=5) }}",
       "11!3(){} 123(4,){'z': 5}", NULL, 0},
      {"{% macro w() %}<{{ caller(1) }}>{% endmacro %}{% call(x) w() %}{{ x }}{{ n }}{% endcall %}",
       "<13>", NULL, 0},
      {"{% set t %} a{{ n }} {% endset %}[{{ t }}]{% set t | upper %}q{% endset %}{{ t }}{% filter "
       "replace('a', 'b') %}xa{% endfilter %}",
       "[ a3 ]Qxb", NULL, 0},
      {"{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}{% generation %}g{% endgeneration "
       "%}",
       "13g", NULL, 0},
      {"{% if z %}{% elif n == 3 %}three{% else %}x{% endif %}", "three", NULL, 0},
      {"{% if n %}{% set q = 1 %}{% endif %}{{ q }}{% macro g() %}{{ q }}{% endmacro %}{% set q = "
       "2 %}{{ g() }}",
       "12", NULL, 0},
      {"{{ messages[0]['content'] }} {{ tools is none }} {{ bos_token }}", "Hi True <s>", NULL, 0},
      {"{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{% set j = "
       "joiner() %}{{ j() }}{{ j() }}",
       "aba, ", NULL, 0},
  };
  check_rows(rows, ARRAY_LEN(rows));
}

TEST(template_refuses) {
  static const Row rows[] = {
      {"a\n{{ raise_exception('no ' ~ n) }}", NULL, "refuses these messages: no 3",
       TEMPLATE_REFUSED},
      {"\n{{ z.x }}", NULL, "t.jinja:2: 'z' is undefined", TEMPLATE_BROKEN},
      {"{{ l.append(1) }}", NULL, "'append' would change", TEMPLATE_BROKEN},
      {"{{ s.__class__() }}", NULL, "not safe", TEMPLATE_BROKEN},
      {"{{ 1 + 'a' }}", NULL, "'+' does not take", TEMPLATE_BROKEN},
      {"{{ 1|nosuch }}", NULL, "no filter named 'nosuch'", TEMPLATE_BROKEN},
      {"{% if false %}{{ 1|nosuch }}{% endif %}x", "x", NULL, 0},
      {"{{ s|urlize }}", NULL, "the filter 'urlize' is not supported", TEMPLATE_BROKEN},
      {"{% include 'x' %}", NULL, "the tag 'include' is not supported", TEMPLATE_BROKEN},
      {"{% for x in l recursive %}{% endfor %}", NULL, "a recursive loop", TEMPLATE_BROKEN},
      {"{{ 9223372036854775807 + 1 }}", NULL, "beyond 64 bits", TEMPLATE_LIMIT},
      {"{% break %}", NULL, "outside of a loop", TEMPLATE_BROKEN},
      {"{% if x %}", NULL, "unexpected end", TEMPLATE_BROKEN},
      {"{{ (1] }}", NULL, "unexpected ']'", TEMPLATE_BROKEN},
      {"{# x", NULL, "a comment without its end", TEMPLATE_BROKEN},
      {"{{ range(200000) }}", NULL, "a range of more than", TEMPLATE_BROKEN},
      {"{{ namespace }}", NULL, "as text is not supported", TEMPLATE_BROKEN},
  };
  check_rows(rows, ARRAY_LEN(rows));
}

// ---- limits ----

static TemplateEnd end_of(const char *source, TemplateLimits limits) {
  Arena a;
  TemplateResult out;
  arena_init(&a);
  tenon_status s = render(&a, source, given, limits, &out);
  EXPECT((s == TENON_OK) == (out.end == TEMPLATE_DONE));
  if (out.end == TEMPLATE_LIMIT) EXPECT_STATUS(s, TENON_ENOMEM);
  arena_deinit(&a);
  return out.end;
}

TEST(template_limits) {
  TemplateLimits none = {0}, steps = {.steps = 10000}, output = {.output_bytes = 1000},
                 memory = {.memory_bytes = 1 << 20};
  const char *loop = "{% for i in range(1000) %}{% for k in range(1000) %}{% endfor %}{% endfor %}";
  EXPECT_INT_EQ(end_of(loop, steps), TEMPLATE_LIMIT);
  EXPECT_INT_EQ(end_of("{{ 'x' * 1001 }}", output), TEMPLATE_LIMIT);
  EXPECT_INT_EQ(end_of("{{ 'x' * 1000 }}", output), TEMPLATE_DONE);
  EXPECT_INT_EQ(end_of("{{ ('x' * 10000000)|length }}", memory), TEMPLATE_LIMIT);
  EXPECT_INT_EQ(end_of("{{ 'x' * 2 ** 40 }}", none), TEMPLATE_LIMIT);
  EXPECT_INT_EQ(end_of("{{ '%1000000000d' % 1 }}", none), TEMPLATE_LIMIT);
  EXPECT_INT_EQ(end_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", none), TEMPLATE_LIMIT);
  EXPECT_INT_EQ(end_of("{% set ns = namespace(x=[]) %}{% for i in range(999) %}"
                       "{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
                       none),
                TEMPLATE_LIMIT);
  EXPECT_INT_EQ(end_of("{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}", none),
                TEMPLATE_LIMIT);
  EXPECT_INT_EQ(end_of("{% set ns = namespace(x='a') %}{% for i in range(99) %}"
                       "{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
                       none),
                TEMPLATE_LIMIT);
}

// A text that grows by a little in each step costs linear memory.
TEST(template_appends_in_place) {
  TemplateLimits memory = {.memory_bytes = 16 << 20};
  EXPECT_INT_EQ(end_of("{% set ns = namespace(x='') %}{% for i in range(20000) %}"
                       "{% set ns.x = ns.x ~ 'some more text, ' %}{% endfor %}{{ ns.x|length }}",
                       memory),
                TEMPLATE_DONE);
}

static char *nested(Arena *a, const char *open, const char *middle, const char *shut, int n) {
  StrBuf b;
  strbuf_init(&b, a);
  for (int i = 0; i < n; i++) strbuf_puts(&b, open);
  strbuf_puts(&b, middle);
  for (int i = 0; i < n; i++) strbuf_puts(&b, shut);
  return str_copy(a, strbuf_str(&b));
}

typedef struct Deep {
  const char *source;
  tenon_status status;
} Deep;

static void *render_deep(void *ctx) {
  Deep *d = ctx;
  Arena a;
  TemplateResult out;
  arena_init(&a);
  d->status = render(&a, d->source, given, (TemplateLimits){0}, &out);
  arena_deinit(&a);
  return NULL;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define INSTRUMENTED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define INSTRUMENTED 1
#endif
#endif

// What nests, up to the limits and beyond, fits the stack that the library promises.
TEST(template_stack) {
  Arena a;
  arena_init(&a);
  char *macro = "{% macro f(x) %}{% for i in [1] %}{% if x %}{{ [f(x)|trim|upper][0] ~ '' }}"
                "{% endif %}{% endfor %}{% endmacro %}{{ f(1) }}";
  char *source[] = {
      macro,
      "{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}{{ f() }}",
      nested(&a, "{{ (", "1", ") }}", 1),
      nested(&a, "(", "1", ")", 5000),
      str_printf(&a, "{{ %s }}", nested(&a, "(", "1", ")", 190)),
      str_printf(&a, "{{ %s }}", nested(&a, "[", "1", "]", 5000)),
      str_printf(&a, "{{ %s }}", nested(&a, "not -", "1", "", 5000)),
      str_printf(&a, "{{ 1%s }}", nested(&a, " + 1", "", "", 190)),
      str_printf(&a, "{{ 1%s }}", nested(&a, "|string", "", "", 5000)),
      nested(&a, "{% if 1 %}", "x", "{% endif %}", 190),
      nested(&a, "{% for i in [1] %}", "x", "{% endfor %}", 190),
      nested(&a, "{% if 1 %}", "x", "{% endif %}", 5000)};
  for (int64_t i = 0; i < ARRAY_LEN(source); i++) {
    Deep d = {.source = source[i]};
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
#ifndef INSTRUMENTED
    pthread_attr_setstacksize(&attr, (size_t)LIMIT_STACK_KIB << 10);
#endif
    REQUIRE(!pthread_create(&thread, &attr, render_deep, &d));
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    EXPECT(d.status != TENON_EINTERNAL);
  }
  arena_deinit(&a);
}

// ---- memory that is refused ----

static int64_t allocations_left;
static void *failing_alloc(int64_t bytes) {
  return allocations_left-- > 0 ? platform_posix.alloc(bytes) : NULL;
}

TEST(template_without_memory) {
  Platform p = platform_posix;
  p.alloc = failing_alloc;
  p.chunk_bytes = 0;  // each object apart
  static bool done;   // kept across the jump, as is k
  static int64_t k;
  done = false;
  for (k = 0; k < 4000 && !done; k += k < 300 ? 1 : 37) {
    Arena a;
    Trap t;
    TemplateResult out = {0};
    allocations_left = k;
    platform = &p;
    arena_init(&a);
    diag_init(&diag);
    trap_enter(&t, &diag);
    if (setjmp(t.env) == 0)
      t.status = render(&a, "{% macro f(x) %}{{ x|tojson }}{% endmacro %}{{ f(m) }}", given,
                        (TemplateLimits){0}, &out);
    trap_leave(&t);
    done = t.status == TENON_OK;
    if (!done) EXPECT_STATUS(t.status, TENON_ENOMEM);
    arena_deinit(&a);
    platform = &platform_posix;
  }
  EXPECT(done);
}

// ---- threads ----

typedef struct Shared {
  const ChatTemplate *t;
  bool same;
} Shared;

static void *render_shared(void *ctx) {
  Shared *s = ctx;
  for (int i = 0; i < 50; i++) {
    Arena a;
    Diag d;
    TemplateResult out;
    arena_init(&a);
    diag_init(&d);
    TemplateInput in = {0};
    s->same = !template_render(s->t, &in, &a, &d, &out) && str_is(out.text, "\xc3\xa9!3 ab");
    arena_deinit(&a);
    if (!s->same) break;
  }
  return NULL;
}

TEST(template_is_shared_by_threads) {
  Arena a;
  ChatTemplate *t;
  pthread_t thread[2];
  Shared s[2];
  arena_init(&a);
  diag_init(&diag);
  REQUIRE(!template_parse(&a, STR("{{ '\xc3\xa9' ~ '!' }}{{ 'x\xc3\xa9z'|length }} {{ 'a' 'b' }}"),
                          NULL, &diag, &t));
  for (int i = 0; i < 2; i++) {
    s[i] = (Shared){t, false};
    REQUIRE(!pthread_create(&thread[i], NULL, render_shared, &s[i]));
  }
  for (int i = 0; i < 2; i++) {
    pthread_join(thread[i], NULL);
    EXPECT(s[i].same);
  }
  arena_deinit(&a);
}
