// cmd_tokenize.c -- `tenon tokenize`: text to token ids, and back.
//
// Reads the text as bytes from -p, a file or standard input.  With -0 the input is many texts, each
// ended by a NUL byte, and each gives one line.
#include "cli/cli.h"

#include "base/platform.h"
#include "frontends/gguf/tokenizer.h"
#include "text/tokenizer.h"

#include <time.h>

typedef struct Job {
  Cli *c;
  const Tokenizer *t;
  int flags;
  TokenBuffer ids;
  VEC(int32_t) list;  // to decode
  StrBuf out;
  int64_t bytes, tokens;
  double seconds;  // of processor time, encoding alone
} Job;

static double processor_seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

static tenon_status load_tokenizer(Cli *c, Tokenizer **out) {
  const char *path = c->pos[0];
  FileInfo info;
  char magic[4] = {0};
  int64_t got = 0, size;
  int fd;
  if (!platform->info(path, &info) && info.regular && !platform->open_read(path, &fd, &size)) {
    (void)platform->read(fd, magic, sizeof magic, &got);
    platform->close(fd);
  }
  if (got == 4 && !memcmp(magic, "GGUF", 4))
    return gguf_tokenizer_load(path, &c->arena, &c->diag, out);
  TokenizerOptions o = {.pre = opt_text(c, OPT_tokenize_pre, NULL)};
  return tokenizer_load(path, &o, &c->arena, &c->diag, out);
}

// ---- encoding ----
static void put_ids(StrBuf *out, const TokenBuffer *ids) {
  for (int64_t i = 0; i < ids->n; i++) {
    char digits[16];
    int n = 0;
    uint32_t v = (uint32_t)ids->id[i];
    do digits[n++] = (char)('0' + v % 10);
    while (v /= 10);
    if (i) strbuf_putc(out, ' ');
    while (n) strbuf_putc(out, digits[--n]);
  }
  strbuf_putc(out, '\n');
}

static void put_json(Job *j, JsonWriter *w) {
  json_begin_object(w);
  json_key(w, "ids");
  json_begin_flat_array(w);
  for (int64_t i = 0; i < j->ids.n; i++) json_i64(w, j->ids.id[i]);
  json_end_array(w);
  json_key(w, "pieces");
  json_begin_flat_array(w);
  for (int64_t i = 0; i < j->ids.n; i++) json_str(w, tokenizer_piece(j->t, j->ids.id[i]));
  json_end_array(w);
  json_end_object(w);
}

static tenon_status encode(Job *j, Str text, JsonWriter *w) {
  j->ids.n = 0;
  double began = processor_seconds();
  TRY(tokenizer_encode(j->t, text, j->flags, &j->ids, &j->c->diag));
  j->seconds += processor_seconds() - began;
  j->bytes += text.n;
  j->tokens += j->ids.n;
  if (w)
    put_json(j, w);
  else
    put_ids(&j->out, &j->ids);
  return TENON_OK;
}

// ---- decoding ----
// Numbers with anything but digits between them.
static tenon_status read_ids(Job *j, Str text) {
  for (int64_t i = 0; i < text.n;) {
    int64_t from = i, id;
    while (i < text.n && text.p[i] >= '0' && text.p[i] <= '9') i++;
    if (i == from) {
      i++;
      continue;
    }
    if (!str_to_i64((Str){text.p + from, i - from}, &id) || id >= tokenizer_size(j->t))
      return fail(&j->c->diag, TENON_EINVAL, NOWHERE, "'%.*s' is no token id of the tokenizer",
                  (int)MIN(i - from, 40), text.p + from);
    Arena *a = &j->c->arena;
    vec_push(a, &j->list, (int32_t)id);
  }
  return TENON_OK;
}

static tenon_status decode(Job *j, Str text, JsonWriter *w) {
  j->list.n = 0;
  TRY(read_ids(j, text));
  int flags = j->flags & TOKENIZE_ADD_SPECIAL ? 0 : DETOKENIZE_SKIP_SPECIAL;
  StrBuf plain;
  strbuf_init(&plain, &j->c->arena);
  TRY(tokenizer_decode(j->t, j->list.v, j->list.n, flags, w ? &plain : &j->out, &j->c->diag));
  if (w) {
    json_begin_object(w);
    json_key(w, "text");
    json_str(w, (Str){strbuf_text(&plain), plain.n});
    json_end_object(w);
  } else {
    strbuf_putc(&j->out, '\n');
  }
  return TENON_OK;
}

// ---- the command ----
static tenon_status one_text(Job *j, Str text, JsonWriter *w) {
  return opt_given(j->c, OPT_tokenize_decode) ? decode(j, text, w) : encode(j, text, w);
}

static tenon_status all_texts(Job *j, Str text, JsonWriter *w) {
  if (!opt_given(j->c, OPT_tokenize_null)) return one_text(j, text, w);
  if (w) json_begin_array(w);
  while (text.n) {
    const char *end = memchr(text.p, 0, (size_t)text.n);
    int64_t n = end ? end - text.p : text.n;
    TRY(one_text(j, (Str){text.p, n}, w));
    text.p += MIN(n + 1, text.n);
    text.n -= MIN(n + 1, text.n);
  }
  if (w) json_end_array(w);
  return TENON_OK;
}

static tenon_status run(Job *j) {
  Cli *c = j->c;
  Tokenizer *t;
  File file = {0};
  TRY(load_tokenizer(c, &t));
  j->t = t;
  const char *given = opt_text(c, OPT_tokenize_prompt, NULL);
  Str text = given ? str_of(given) : (Str){0};
  if (!given) {
    TRY(file_open(opt_text(c, OPT_tokenize_file, "-"), &file, &c->diag));
    text = (Str){(const char *)file.bytes, file.size};
  }
  JsonWriter w;
  bool json = opt_given(c, OPT_tokenize_json);
  json_init(&w, &j->out, false);
  tenon_status s = all_texts(j, text, json ? &w : NULL);
  if (json) strbuf_putc(&j->out, '\n');
  file_close(&file);
  return s;
}

int cmd_tokenize(Cli *c) {
  Job j = {.c = c};
  if (!opt_given(c, OPT_tokenize_no_special)) j.flags |= TOKENIZE_ADD_SPECIAL;
  if (opt_given(c, OPT_tokenize_parse_special)) j.flags |= TOKENIZE_PARSE_SPECIAL;
  if (opt_given(c, OPT_tokenize_prompt) && opt_given(c, OPT_tokenize_file))
    return cli_usage(c, "tokenize: give --prompt or --file, not both");
  strbuf_init(&j.out, &c->arena);
  tenon_status s = run(&j);
  token_buffer_deinit(&j.ids);
  if (s) return cli_exit_of(s);
  fwrite(strbuf_text(&j.out), 1, (size_t)j.out.n, stdout);
  if (opt_given(c, OPT_tokenize_timings))
    fprintf(stderr, "%lld bytes, %lld tokens, %.6f s of processor time, %.1f MB/s\n",
            (long long)j.bytes, (long long)j.tokens, j.seconds,
            j.seconds > 0 ? (double)j.bytes / j.seconds * 1e-6 : 0.0);
  return CLI_OK;
}
