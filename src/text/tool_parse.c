// tool_parse.c -- an answer in pieces: content, reasoning and tool calls (tool_calls.h).
//
// The parser is a machine of states.  Each step looks at the text that is held and takes what is
// certain: up to a marker, or all but an end that may become one.  A step that can take nothing
// waits for more text.  So the result is the same wherever the pieces end.
//
// From the marker of a call to its name the text is kept (`raw`).  Where it is no call after all,
// that text is content.
#include "text/tool_calls.h"

enum { NAME_BYTES = 256, SPACE_BYTES = 64 };

typedef enum State {
  START,      // of the answer
  REASONING,  // up to its end
  SPACE,      // white space before content
  CONTENT,
  SECTION,   // between calls
  NAME,      // TOOL_ARGS, TOOL_PARAMS
  HEAD,      // attributes behind the name
  ARGS,      // JSON behind a name
  JUNK,      // arguments that are none, up to the call's end
  CALL_END,  // behind whole arguments
  OBJECTS,   // between JSON objects
  KEY,       // in an object: before a key
  KEY_TEXT,
  COLON,
  VALUE,  // before a value
  VALUE_TEXT,
  PARAM,  // between arguments
  PARAM_NAME,
  PARAM_HEAD,
  PARAM_VALUE,
  COLLECT  // a call that is read as a whole
} State;

typedef enum Role { ROLE_OTHER, ROLE_NAME, ROLE_ID, ROLE_ARGS } Role;

struct ToolParser {
  ToolParse what;
  ToolSink sink;
  Arena *arena;
  State state;
  StrBuf held;
  int64_t at;    // what is before it in `held` was taken
  int64_t seen;  // bytes behind it that a step which waits for a mark has looked at
  bool last;     // nothing follows what is held
  bool thought;  // reasoning was told
  StrBuf raw;    // since the call's marker, until it has a name
  bool bare;     // a call without a marker
  bool named;    // the call was told
  int64_t calls;
  ToolScan scan;
  Role role;
  bool direct;  // the value's bytes are told as they come
  StrBuf name, id, key, value, pending;
  bool args_given, first_param;
  bool between;  // text between arguments was told
};

static Str rest(const ToolParser *p) { return (Str){p->held.p + p->at, p->held.n - p->at}; }
static Str text_of(const StrBuf *b) { return (Str){strbuf_text(b), b->n}; }
static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
static Str trim(Str s) {
  while (s.n && is_space(s.p[0])) s.p++, s.n--;
  while (s.n && is_space(s.p[s.n - 1])) s.n--;
  return s;
}
static void clear(StrBuf *b) {
  b->n = 0;
  if (b->p) b->p[0] = 0;
}

// ---- what is told ----
static void tell_content(ToolParser *p, Str s) {
  if (s.n) p->sink.content(p->sink.ctx, s);
}
static bool muted(const ToolParser *p) { return p->what.most && p->calls > p->what.most; }

static void tell_args(ToolParser *p, Str s) {
  p->args_given = true;
  if (s.n && !muted(p)) p->sink.arguments(p->sink.ctx, p->calls - 1, s);
}

// Arguments may have come before the name.
static void tell_call(ToolParser *p, Str name, Str id) {
  p->named = true;
  p->args_given = false;
  p->first_param = true;
  p->calls++;
  clear(&p->raw);
  if (!muted(p)) p->sink.call(p->sink.ctx, p->calls - 1, name, id);
  if (p->pending.n) tell_args(p, text_of(&p->pending));
  clear(&p->pending);
}

// ---- taking ----
static void take(ToolParser *p, int64_t n) {
  if (!p->named && p->state != CONTENT && p->state != START && p->state != REASONING &&
      p->state != SPACE)
    strbuf_put(&p->raw, (Str){rest(p).p, n});
  p->at += n;
  p->seen = 0;
}

typedef enum Match { NO, MAYBE, YES } Match;
static Match begins(const ToolParser *p, Str s, Str mark) {
  int64_t n = MIN(s.n, mark.n);
  if (memcmp(s.p, mark.p, (size_t)n) != 0) return NO;
  return n == mark.n ? YES : p->last ? NO : MAYBE;
}

typedef struct Found {
  int which;    // of the marks; -1: none is there
  int64_t at;   // where; what is before it is certain to hold none
  int64_t end;  // behind the mark
} Found;

// The first of the marks, the longest of those at one place.  NULL is passed over.
static Found find(const ToolParser *p, Str s, const char *const *mark, int n) {
  for (int64_t i = 0; i < s.n; i++) {
    Found f = {-1, i, i};
    for (int k = 0; k < n; k++) {
      if (!mark[k] || mark[k][0] != s.p[i]) continue;
      Str m = str_of(mark[k]);
      Match got = begins(p, (Str){s.p + i, s.n - i}, m);
      if (got == MAYBE) return (Found){-1, i, i};
      if (got == YES && i + m.n > f.end) f.which = k, f.end = i + m.n;
    }
    if (f.which >= 0) return f;
  }
  return (Found){-1, s.n, s.n};
}

// The same in what is held, by a step that takes nothing before: a long wait looks at each byte
// once.
static Found await(ToolParser *p, const char *const *mark, int n) {
  Str s = rest(p);
  Found f = find(p, (Str){s.p + p->seen, s.n - p->seen}, mark, n);
  f.at += p->seen;
  f.end += p->seen;
  p->seen = f.which < 0 ? f.at : 0;
  return f;
}

static int64_t spaces(Str s) {
  int64_t n = 0;
  while (n < s.n && is_space(s.p[n])) n++;
  return n;
}
// Of spaces in front of a mark only some are dropped, so that only so many are held back.
static int64_t without_spaces(Str s) {
  int64_t least = MAX(s.n - SPACE_BYTES, 0);
  while (s.n > least && is_space(s.p[s.n - 1])) s.n--;
  return s.n;
}

// ---- where calls begin and end ----
// It was no call: what was kept is content.
static bool no_call(ToolParser *p) {
  Str kept = {arena_dup(p->arena, strbuf_text(&p->raw), p->raw.n), p->raw.n};
  clear(&p->raw);
  p->state = CONTENT;
  p->bare = false;
  tell_content(p, kept);
  return true;
}

static bool wrong(ToolParser *p) {
  if (!p->named) return no_call(p);
  p->state = JUNK;
  return true;
}

static void enter_call(ToolParser *p) {
  static const State first[] = {
      [TOOL_OBJECT] = OBJECTS, [TOOL_LIST] = OBJECTS,   [TOOL_MAP] = OBJECTS,   [TOOL_ARGS] = NAME,
      [TOOL_PARAMS] = NAME,    [TOOL_PYTHON] = COLLECT, [TOOL_BRACES] = COLLECT};
  p->state = first[p->what.syntax->body];
  p->named = false;
  clear(&p->name);
  clear(&p->id);
  clear(&p->value);
  clear(&p->pending);
}

static void leave_call(ToolParser *p) {
  p->named = false;
  clear(&p->raw);
  p->state = SECTION;
}

// ---- content ----
static bool step_start(ToolParser *p) {
  const ToolSyntax *x = p->what.syntax;
  Str s = rest(p);
  int64_t n = spaces(s);
  Str t = {s.p + n, s.n - n};
  if (n > SPACE_BYTES) {
    p->state = CONTENT;
    return true;
  }
  if (!t.n && !p->last) return false;
  if (p->what.reasoning && t.n) {
    Str begin = str_of(p->what.reasoning->begin);
    Match m = begins(p, t, begin);
    if (m == MAYBE) return false;
    if (m == YES) {
      take(p, n + begin.n);
      p->state = REASONING;
      return true;
    }
  }
  if (x && t.n)
    for (int k = 0; k < TOOL_SKIPS && x->skip[k]; k++) {
      Match m = begins(p, t, str_of(x->skip[k]));
      if (m == MAYBE) return false;
      if (m == NO) continue;
      take(p, n + str_of(x->skip[k]).n);
      return true;
    }
  p->state = CONTENT;
  if (!x || x->call || !t.n) return true;
  if (t.p[0] == '[' || (t.p[0] == '{' && x->body != TOOL_PYTHON)) {
    p->at += n;
    p->bare = true;
    enter_call(p);
  }
  return true;
}

static bool step_reasoning(ToolParser *p) {
  const char *end[] = {p->what.reasoning->end};
  if (!p->thought) take(p, spaces(rest(p)));
  Str s = rest(p);
  Found f = find(p, s, end, 1);
  int64_t n = without_spaces((Str){s.p, f.at});
  if (n) p->sink.reasoning(p->sink.ctx, (Str){s.p, n}), p->thought = true;
  if (f.which >= 0 || p->last) {
    take(p, p->last && f.which < 0 ? s.n : f.end);
    p->thought = true;
    p->state = SPACE;
    return true;
  }
  take(p, n);
  return n > 0;
}

static bool step_space(ToolParser *p) {
  Str s = rest(p);
  int64_t n = spaces(s);
  take(p, n);
  // Behind reasoning the answer begins once more, without another one.
  if (n == s.n && !p->last) return false;
  p->state = p->what.reasoning && p->thought ? START : CONTENT;
  p->what.reasoning = NULL;
  return n < s.n;
}

static bool step_content(ToolParser *p) {
  const ToolSyntax *x = p->what.syntax;
  Str s = rest(p);
  if (!x) {
    tell_content(p, s);
    take(p, s.n);
    return false;
  }
  const char *mark[2 + TOOL_SKIPS] = {x->section, x->call};
  for (int k = 0; k < TOOL_SKIPS; k++) mark[2 + k] = x->skip[k];
  Found f = find(p, s, mark, ARRAY_LEN(mark));
  bool call = f.which == 0 || f.which == 1;
  int64_t n = call || (f.which < 0 && !p->last) ? without_spaces((Str){s.p, f.at}) : f.at;
  tell_content(p, (Str){s.p, n});
  if (f.which < 0) {
    take(p, n);
    return false;
  }
  take(p, f.at);
  if (call) {
    p->state = SECTION;
    if (f.which == 1) enter_call(p);
    clear(&p->raw);
  }
  take(p, f.end - f.at);
  return true;
}

static bool step_section(ToolParser *p) {
  const ToolSyntax *x = p->what.syntax;
  Str s = rest(p);
  int64_t n = spaces(s);
  const char *mark[] = {x->call, x->section_end, x->section};
  take(p, n);
  s = rest(p);
  if (!s.n) return false;
  for (int k = 0; k < ARRAY_LEN(mark); k++) {
    if (!mark[k]) continue;
    Match m = begins(p, s, str_of(mark[k]));
    if (m == MAYBE) return false;
    if (m == NO) continue;
    take(p, str_of(mark[k]).n);
    if (k == 0) enter_call(p);
    if (k == 1) clear(&p->raw), p->state = SPACE;
    return true;
  }
  if (trim(text_of(&p->raw)).n) return no_call(p);
  clear(&p->raw);
  p->state = CONTENT;
  return true;
}

// ---- a name, and what follows it ----
static Str name_cut(Str s) {
  s = trim(s);
  if (s.n > 10 && !memcmp(s.p, "functions.", 10)) s.p += 10, s.n -= 10;
  for (int64_t i = 0; i < s.n; i++)
    if (s.p[i] == ' ' || s.p[i] == '<' || s.p[i] == ':') s.n = i;
  return s;
}

static void name_read(ToolParser *p, Str text) {
  const ToolSyntax *x = p->what.syntax;
  Found f = {-1, 0, 0};
  if (x->id_mark) f = find(p, text, &x->id_mark, 1);
  Str one = {text.p, f.which < 0 ? text.n : f.at}, two = {text.p + f.end, text.n - f.end};
  bool swap = f.which >= 0 && x->id_first;
  if (f.which < 0) two = x->id_whole ? text : (Str){"", 0};
  Str name = name_cut(swap ? two : one), id = trim(swap ? one : two);
  strbuf_put(&p->name, name);
  strbuf_put(&p->id, id);
}

static bool step_name(ToolParser *p) {
  const ToolSyntax *x = p->what.syntax;
  const char *mark[] = {x->name_end, x->call_end, x->name_end ? NULL : x->arg};
  Str s = rest(p);
  Found f = await(p, mark, ARRAY_LEN(mark));
  if (f.at > NAME_BYTES || (f.which < 0 && p->last)) {
    int64_t n = MIN(f.at, NAME_BYTES);
    while (n < s.n && n && ((unsigned char)s.p[n] & 0xC0) == 0x80) n--;
    take(p, n);
    return no_call(p);
  }
  if (f.which < 0) return false;
  bool empty = f.which == 1;
  name_read(p, (Str){s.p, f.at});
  if (!p->name.n || (empty && x->name_end)) {
    take(p, f.end);
    return no_call(p);
  }
  if (x->plain && str_is(text_of(&p->name), x->plain)) {
    clear(&p->raw);
    p->at += f.end;
    p->state = CONTENT;
    return true;
  }
  take(p, f.which == 0 ? f.end : f.at);
  tell_call(p, text_of(&p->name), text_of(&p->id));
  p->scan = (ToolScan){0};
  if (x->body == TOOL_PARAMS) tell_args(p, STR("{"));
  p->args_given = x->body == TOOL_PARAMS;
  p->state = x->body != TOOL_PARAMS ? ARGS : x->head_end ? HEAD : PARAM;
  return true;
}

static bool step_head(ToolParser *p) {
  Found f = await(p, &p->what.syntax->head_end, 1);
  if (f.which < 0) return false;
  take(p, f.end);
  p->state = PARAM;
  return true;
}

static bool step_args(ToolParser *p) {
  if (!p->scan.begun) take(p, spaces(rest(p)));
  Str s = rest(p);
  if (!s.n) return false;
  if (!p->scan.begun && s.p[0] != '{') {
    p->state = JUNK;
    return true;
  }
  int64_t end = tool_scan(&p->scan, s);
  tell_args(p, (Str){s.p, end < 0 ? s.n : end});
  take(p, end < 0 ? s.n : end);
  if (end >= 0) p->state = CALL_END;
  return end >= 0;
}

static void args_end(ToolParser *p) {
  if (!p->args_given) tell_args(p, STR("{}"));
  leave_call(p);
}

static bool step_junk(ToolParser *p) {
  const ToolSyntax *x = p->what.syntax;
  const char *mark[] = {x->call_end, x->section_end, x->call};
  Str s = rest(p);
  Found f = find(p, s, mark, ARRAY_LEN(mark));
  int64_t n = without_spaces((Str){s.p, f.at});
  if (n) tell_args(p, (Str){s.p, n});
  take(p, f.which == 0 ? f.end : f.which > 0 ? f.at : n);
  if (f.which >= 0) args_end(p);
  return f.which >= 0;
}

static bool step_call_end(ToolParser *p) {
  const ToolSyntax *x = p->what.syntax;
  if (!x->call_end) {  // spaces may belong to content that follows
    args_end(p);
    return true;
  }
  take(p, spaces(rest(p)));
  Str s = rest(p), mark = trim(str_of(x->call_end));
  if (!s.n) return false;
  Match m = begins(p, s, mark);
  if (m == MAYBE) return false;
  if (m == NO) {
    p->state = JUNK;
    return true;
  }
  take(p, mark.n);
  args_end(p);
  return true;
}

// ---- JSON objects ----
static bool step_objects(ToolParser *p) {
  const ToolSyntax *x = p->what.syntax;
  Str s = rest(p);
  int64_t n = 0;
  while (n < s.n && (is_space(s.p[n]) || (s.p[n] && strchr("[],;", s.p[n])))) n++;
  if (n == s.n) {
    take(p, n);
    return false;
  }
  if (s.p[n] == '{') {
    take(p, n);
    p->named = false;
    take(p, 1);
    clear(&p->name);
    clear(&p->id);
    clear(&p->pending);
    p->args_given = false;
    p->state = KEY;
    return true;
  }
  if (x->call_end) {
    Match m = begins(p, (Str){s.p + n, s.n - n}, str_of(x->call_end));
    if (m == MAYBE) return false;
    if (m == YES && p->named) {
      take(p, n + str_of(x->call_end).n);
      leave_call(p);
      return true;
    }
  }
  if (!p->named) {
    take(p, n);
    return no_call(p);
  }
  take(p, n);
  leave_call(p);
  p->state = CONTENT;
  p->bare = false;
  return true;
}

static bool step_key(ToolParser *p) {
  Str s = rest(p);
  int64_t n = 0;
  while (n < s.n && (is_space(s.p[n]) || s.p[n] == ',')) n++;
  take(p, n);
  s = rest(p);
  if (!s.n) return false;
  if (s.p[0] == '"') {
    clear(&p->key);
    p->scan = (ToolScan){0};
    p->state = KEY_TEXT;
    return true;
  }
  if (s.p[0] != '}') return wrong(p);
  take(p, 1);
  if (!p->named) return no_call(p);
  if (!p->args_given) tell_args(p, STR("{}"));
  p->state = OBJECTS;
  return true;
}

// A JSON string's characters; false: it is none.
static bool unescape(ToolParser *p, Str text, Str *out) {
  Json j;
  Diag d;
  diag_init(&d);
  if (json_parse(p->arena, text, &d, &j) || j.kind != JSON_STRING) return false;
  *out = j.s;
  return true;
}

static bool told_name(ToolParser *p, Str name) {
  bool known = !p->bare || !p->what.tools || tool_find(p->what.tools, name);
  if (!name.n || !known) return false;
  if (!p->named) tell_call(p, name, text_of(&p->id));
  return true;
}

static Role role_of(const ToolParser *p, Str key) {
  static const struct {
    const char *key;
    Role role;
  } row[] = {{"name", ROLE_NAME},       {"tool_name", ROLE_NAME},  {"arguments", ROLE_ARGS},
             {"parameters", ROLE_ARGS}, {"tool_call_id", ROLE_ID}, {"id", ROLE_ID}};
  if (p->what.syntax->body == TOOL_MAP) return ROLE_ARGS;
  for (int i = 0; i < ARRAY_LEN(row); i++)
    if (str_is(key, row[i].key)) return row[i].role;
  return ROLE_OTHER;
}

static bool step_key_text(ToolParser *p) {
  Str s = rest(p), key;
  int64_t end = tool_scan(&p->scan, s);
  strbuf_put(&p->key, (Str){s.p, end < 0 ? s.n : end});
  take(p, end < 0 ? s.n : end);
  if (end < 0) return false;
  if (!unescape(p, text_of(&p->key), &key)) return wrong(p);
  p->role = role_of(p, key);
  if (p->what.syntax->body == TOOL_MAP) {
    p->named = false;
    if (!told_name(p, key)) return wrong(p);
  }
  p->state = COLON;
  return true;
}

static bool step_colon(ToolParser *p) {
  take(p, spaces(rest(p)));
  Str s = rest(p);
  if (!s.n) return false;
  if (s.p[0] != ':') return wrong(p);
  take(p, 1);
  p->state = VALUE;
  return true;
}

static bool step_value(ToolParser *p) {
  take(p, spaces(rest(p)));
  Str s = rest(p);
  if (!s.n) return false;
  if (strchr(",}]:", s.p[0]) && s.p[0]) return wrong(p);
  clear(&p->value);
  p->scan = (ToolScan){0};
  p->direct = p->role == ROLE_ARGS && p->named && (s.p[0] == '{' || s.p[0] == '[');
  p->state = VALUE_TEXT;
  return true;
}

static bool value_read(ToolParser *p) {
  Str text = text_of(&p->value), s;
  bool is_text = text.n && text.p[0] == '"';
  if (p->role == ROLE_NAME) return is_text && unescape(p, text, &s) && told_name(p, s);
  if (p->role == ROLE_ID) {
    if (is_text && unescape(p, text, &s)) strbuf_put(&p->id, s);
    return true;
  }
  if (p->role == ROLE_OTHER) return true;
  // Some models write the object as a text.
  if (is_text && !unescape(p, text, &s)) return false;
  if (!is_text) s = str_is(text, "null") ? STR("{}") : text;
  if (p->named)
    tell_args(p, s);
  else
    strbuf_put(&p->pending, s);
  return true;
}

static bool step_value_text(ToolParser *p) {
  Str s = rest(p);
  int64_t end = tool_scan(&p->scan, s), n = end < 0 ? s.n : end;
  if (p->direct)
    tell_args(p, (Str){s.p, n});
  else
    strbuf_put(&p->value, (Str){s.p, n});
  take(p, n);
  if (end < 0) return false;
  p->state = KEY;
  return p->direct || value_read(p) || wrong(p);
}

// ---- arguments between markers ----
static bool step_param(ToolParser *p) {
  const ToolSyntax *x = p->what.syntax;
  const char *mark[] = {x->arg, x->call_end};
  if (!p->between) take(p, spaces(rest(p)));
  Str s = rest(p);
  Found f = find(p, s, mark, 2);
  int64_t n = without_spaces((Str){s.p, f.at});
  tell_content(p, (Str){s.p, n});
  p->between |= n > 0;
  if (f.which < 0) {
    take(p, n);
    return false;
  }
  p->between = false;
  take(p, f.end);
  clear(&p->key);
  clear(&p->id);
  p->state = PARAM_NAME;
  if (f.which == 1) {
    tell_args(p, STR("}"));
    leave_call(p);
  }
  return true;
}

static bool step_param_name(ToolParser *p) {
  const ToolSyntax *x = p->what.syntax;
  const char *mark[] = {x->arg_name_end, x->call_end};
  Str s = rest(p);
  Found f = await(p, mark, 2);
  if (f.which < 0) return false;
  strbuf_put(&p->key, trim((Str){s.p, f.at}));
  take(p, f.which ? f.at : f.end);
  p->state = f.which ? PARAM : x->arg_head_end ? PARAM_HEAD : PARAM_VALUE;
  return true;
}

static bool step_param_head(ToolParser *p) {
  Str s = rest(p);
  Found f = await(p, &p->what.syntax->arg_head_end, 1);
  if (f.which < 0) return false;
  strbuf_put(&p->id, (Str){s.p, f.at});
  take(p, f.end);
  p->state = PARAM_VALUE;
  return true;
}

static void param_told(ToolParser *p, Str value) {
  if (p->what.syntax->lines) {
    if (value.n && value.p[0] == '\n') value.p++, value.n--;
    if (value.n && value.p[value.n - 1] == '\n') value.n--;
  }
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, p->arena);
  if (!p->first_param) strbuf_puts(&b, ", ");
  p->first_param = false;
  json_init(&w, &b, true);
  json_str(&w, text_of(&p->key));
  strbuf_puts(&b, ": ");
  const Json *schema = tool_param_schema(p->what.tools, text_of(&p->name), text_of(&p->key));
  tool_param_put(&b, value, text_of(&p->id), schema);
  tell_args(p, strbuf_str(&b));
}

static bool step_param_value(ToolParser *p) {
  Str s = rest(p);
  Found f = await(p, &p->what.syntax->arg_end, 1);
  if (f.which < 0 && !p->last) return false;
  param_told(p, (Str){s.p, f.at});
  take(p, f.end);
  p->state = PARAM;
  return true;
}

// ---- calls that are read as a whole ----
static bool collected(ToolParser *p, Str text) {
  Str *name, *args, one, braces;
  int64_t n = 1;
  if (p->what.syntax->body == TOOL_PYTHON) {
    if (!tool_python_calls(text, p->arena, &name, &args, &n)) return false;
    for (int64_t i = 0; i < n && p->bare && p->what.tools; i++)
      if (!tool_find(p->what.tools, name[i])) return false;
  } else {
    const char *brace = "{";
    Found f = find(p, text, &brace, 1);
    one = trim((Str){text.p, f.at});
    if (f.which < 0 || !one.n ||
        !tool_braces((Str){text.p + f.at, text.n - f.at}, p->arena, &braces))
      return false;
    name = &one;
    args = &braces;
  }
  for (int64_t i = 0; i < n; i++) {
    tell_call(p, name[i], (Str){"", 0});
    tell_args(p, args[i]);
  }
  return true;
}

static bool step_collect(ToolParser *p) {
  const char *end = p->what.syntax->call_end;
  Str s = rest(p);
  Found f = await(p, &end, 1);
  if (f.which < 0 && !p->last) return false;
  if (!collected(p, (Str){s.p, f.at})) {
    take(p, f.end);
    return no_call(p);
  }
  p->at += f.end;
  leave_call(p);
  return true;
}

// ---- the machine ----
static bool (*const step[])(ToolParser *p) = {[START] = step_start,
                                              [REASONING] = step_reasoning,
                                              [SPACE] = step_space,
                                              [CONTENT] = step_content,
                                              [SECTION] = step_section,
                                              [NAME] = step_name,
                                              [HEAD] = step_head,
                                              [ARGS] = step_args,
                                              [JUNK] = step_junk,
                                              [CALL_END] = step_call_end,
                                              [OBJECTS] = step_objects,
                                              [KEY] = step_key,
                                              [KEY_TEXT] = step_key_text,
                                              [COLON] = step_colon,
                                              [VALUE] = step_value,
                                              [VALUE_TEXT] = step_value_text,
                                              [PARAM] = step_param,
                                              [PARAM_NAME] = step_param_name,
                                              [PARAM_HEAD] = step_param_head,
                                              [PARAM_VALUE] = step_param_value,
                                              [COLLECT] = step_collect};

ToolParser *tool_parser_create(Arena *a, const ToolParse *what, const ToolSink *sink) {
  ToolParser *p = arena_new(a, ToolParser);
  *p = (ToolParser){.what = *what, .sink = *sink, .arena = a, .state = START};
  StrBuf *all[] = {&p->held, &p->raw, &p->name, &p->id, &p->key, &p->value, &p->pending};
  for (int i = 0; i < ARRAY_LEN(all); i++) strbuf_init(all[i], a);
  strbuf_puts(&p->held, "");
  if (what->inside && what->reasoning) p->state = REASONING;
  if (what->open && what->syntax && !what->inside) enter_call(p);
  return p;
}

static void run(ToolParser *p) {
  while (p->at < p->held.n && step[p->state](p)) {}
}

void tool_parser_take(ToolParser *p, Str text) {
  strbuf_put(&p->held, text);
  run(p);
  int64_t n = p->held.n - p->at;
  if (n && p->at) memmove(p->held.p, p->held.p + p->at, (size_t)n);
  p->held.n = n;
  p->at = 0;
}

void tool_parser_end(ToolParser *p) {
  p->last = true;
  run(p);
  // Where a step waits for what does not come, what is held belongs to the call, or is content.
  bool param = p->state == PARAM || p->state == PARAM_NAME || p->state == PARAM_HEAD ||
               p->state == HEAD || p->state == PARAM_VALUE;
  Str left = rest(p);
  if (p->named && (param || p->state == CALL_END)) {
    if (param) tell_args(p, STR("}"));
  } else if (p->named && (p->state == ARGS || p->state == JUNK)) {
    if (!p->args_given) tell_args(p, STR("{}"));
  } else if (p->named && p->state == VALUE_TEXT) {
    if (p->role == ROLE_ARGS && !p->direct) tell_args(p, text_of(&p->value));
  } else if (!p->named && p->raw.n) {
    if (trim((Str){p->raw.p, p->raw.n}).n) (void)no_call(p);
    tell_content(p, left);
  } else if (p->state == CONTENT || p->state == START) {
    tell_content(p, left);
  }
  p->at = p->held.n;
}

int64_t tool_parser_calls(const ToolParser *p) {
  return p->what.most ? MIN(p->calls, p->what.most) : p->calls;
}
