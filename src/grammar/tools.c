// tools.c -- tool calls between tags, with or without text around them.
//
// A tag is bytes and control tokens.  Text around calls is any characters, but for what a tag
// begins with: where that is a control token, text cannot hold it anyway.
#include "grammar/impl.h"

static const Expr *tag_text(Build *b, Str s) {
  VEC(const Expr *) part = {0};
  int64_t from = 0;
  for (int64_t at = 0; at <= s.n; at++) {
    int64_t longest = 0;
    int32_t id = -1;
    for (int64_t i = 0; i < b->vocab->ncontrol; i++) {
      Str name = b->vocab->control[i].text;
      if (name.n <= longest || name.n > s.n - at || memcmp(name.p, s.p + at, (size_t)name.n) != 0)
        continue;
      longest = name.n;
      id = b->vocab->control[i].id;
    }
    build_fuel(b, b->vocab->ncontrol / 16 + 1);
    if (id < 0 && at < s.n) continue;
    if (at > from) {
      const Expr *x = expr_bytes(b, (Str){s.p + from, at - from});
      vec_push(b->a, &part, x);
    }
    if (id < 0) break;
    const Expr *x = expr_symbol(b, build_control(b, id));
    vec_push(b->a, &part, x);
    from = at + longest;
    at = from - 1;
  }
  return expr_list(b, E_SEQ, part.v, part.n);
}

// `text`, without what holds `mark`.  A mark with a control token cannot be in text anyway.
static const Expr *without(Build *b, const Expr *text, Str mark) {
  const Expr *any = expr_repeat(b, expr_any(b, false), 0, -1), *begin = tag_text(b, mark);
  if (begin->kind == E_SEQ && begin->n) begin = begin->of[0];
  if (begin->kind != E_BYTES || !begin->bytes.n) return text;
  const Expr *holds = expr_pair(b, E_NOT, expr_seq(b, any, begin, any), NULL);
  return expr_pair(b, E_AND, text, holds);
}

// Any text in which none of the tags begins.
static const Expr *free_text(Build *b) {
  const GrammarSpec *spec = b->spec;
  const Expr *text = expr_repeat(b, expr_any(b, false), 0, -1);
  for (int64_t i = 0; i < spec->nnever; i++) text = without(b, text, spec->never[i]);
  // Tags of one beginning need one condition.
  for (int64_t i = 0; i < spec->ntag && !spec->nnever; i++)
    text = without(b, text, spec->tag[i].begin);
  return text;
}

const Expr *tools_thought(Build *b) {
  const GrammarSpec *spec = b->spec;
  const Expr *text = without(b, expr_repeat(b, expr_any(b, false), 0, -1), spec->think_end);
  const Expr *end =
      expr_seq(b, text, tag_text(b, spec->think_end), expr_repeat(b, expr_z(b, "\n"), 0, 2));
  if (spec->thinking) return end;
  return expr_repeat(b, expr_seq(b, tag_text(b, spec->think), end), 0, 1);
}

static tenon_status one_arg(Build *b, const GrammarArg *arg, const Expr **out) {
  const Expr *value;
  if (arg->of) {
    const Expr **of = arena_array(b->a, const Expr *, arg->nof + 1);
    for (int64_t i = 0; i < arg->nof; i++) of[i] = expr_bytes(b, arg->of[i]);
    value = expr_list(b, E_ALT, of, arg->nof);
  } else if (arg->schema.n) {
    int32_t rule;
    TRY(schema_read(b, arg->schema, &rule));
    value = expr_rule(b, rule);
  } else {
    value = without(b, expr_repeat(b, expr_any(b, false), 0, -1), arg->never);
  }
  *out = expr_seq(b, tag_text(b, arg->begin), value, tag_text(b, arg->end));
  if (!arg->required) *out = expr_repeat(b, *out, 0, 1);
  return TENON_OK;
}

static tenon_status one_call(Build *b, const GrammarTag *tag, const Expr **out) {
  const Expr *inside = NULL;
  if (tag->args) {
    const Expr **of = arena_array(b->a, const Expr *, tag->narg + 1);
    for (int64_t i = 0; i < tag->narg; i++) TRY(one_arg(b, &tag->arg[i], &of[i]));
    inside = expr_list(b, E_SEQ, of, tag->narg);
  } else if (tag->schema.n) {
    int32_t rule;
    TRY(schema_read(b, tag->schema, &rule));
    inside = expr_rule(b, rule);
  } else {
    inside = form_object(b);
  }
  *out = expr_seq(b, tag_text(b, tag->begin), inside, tag_text(b, tag->end));
  return TENON_OK;
}

// From `least` to `most` calls (-1: any number) between `open` and `close`.
static const Expr *section(Build *b, const Expr *call, int32_t least, int32_t most) {
  const GrammarSpec *spec = b->spec;
  const Expr *more = expr_seq(b, tag_text(b, spec->between), call);
  more = expr_repeat(b, more, MAX(least - 1, 0), most < 0 ? -1 : most - 1);
  return expr_seq(b, tag_text(b, spec->open), call, more, tag_text(b, spec->close));
}

static const Expr *calls_and_text(Build *b, const Expr *call, int32_t least, int32_t most) {
  const GrammarSpec *spec = b->spec;
  const Expr *text = free_text(b);
  if (!spec->open.n) return expr_seq(b, text, expr_repeat(b, expr_seq(b, call, text), least, most));
  // A section holds all calls, where their number is bounded.
  const Expr *all = expr_seq(b, section(b, call, least, most), text);
  return expr_seq(b, text, expr_repeat(b, all, least ? 1 : 0, most < 0 ? -1 : 1));
}

tenon_status tools_read(Build *b, const Expr **out) {
  const GrammarSpec *spec = b->spec;
  if (spec->ntag < 1 || spec->ntag > LIMIT_GRAMMAR_TAGS)
    return fail(b->d, TENON_EUNSUPPORTED, NOWHERE, "%lld kinds of tool calls: from 1 to %d",
                (long long)spec->ntag, LIMIT_GRAMMAR_TAGS);
  int32_t least = spec->least, most = spec->most ? spec->most : -1;
  if (least < 0 || (most >= 0 && most < least) || MAX(least, most) > LIMIT_GRAMMAR_TAGS)
    return fail(b->d, TENON_EINVAL, NOWHERE, "from %d to %d tool calls", least, most);
  const Expr **of = arena_array(b->a, const Expr *, spec->ntag);
  for (int64_t i = 0; i < spec->ntag; i++) TRY(one_call(b, &spec->tag[i], &of[i]));
  int32_t rule = build_rule(b, STR("tool call"));
  build_body(b, rule, expr_list(b, E_ALT, of, spec->ntag));
  b->rule.v[rule].alone = true;
  const Expr *call = expr_rule(b, rule);
  if (spec->free_text) {
    *out = calls_and_text(b, call, least, most);
  } else {
    *out = section(b, call, least, most);
    if (!least) *out = expr_alt(b, expr_bytes(b, STR("")), *out);
  }
  return TENON_OK;
}
