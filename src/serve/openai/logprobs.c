// logprobs.c -- log-probabilities as JSON (logprobs.h).
#include "serve/openai/logprobs.h"

// What a probability of 0 is written as: JSON has no infinity.
static void put_logprob(JsonWriter *w, float v) {
  if (v < -9999.0f)
    json_f64(w, -9999.0);
  else
    json_f32(w, v);
}

static void put_token(JsonWriter *w, Str bytes, float logprob) {
  json_key(w, "token");
  json_str(w, bytes);
  json_key(w, "logprob");
  put_logprob(w, logprob);
  json_key(w, "bytes");
  json_begin_array(w);
  for (int64_t i = 0; i < bytes.n; i++) json_i64(w, (uint8_t)bytes.p[i]);
  json_end_array(w);
}

void logprobs_chat(JsonWriter *w, const TokenLog *log, int64_t n) {
  json_key(w, "logprobs");
  json_begin_object(w);
  json_key(w, "content");
  json_begin_array(w);
  for (int64_t i = 0; i < n; i++) {
    json_begin_object(w);
    put_token(w, log[i].bytes, log[i].logprob);
    json_key(w, "top_logprobs");
    json_begin_array(w);
    for (int64_t k = 0; k < log[i].ntop; k++) {
      json_begin_object(w);
      put_token(w, log[i].top[k].bytes, log[i].top[k].logprob);
      json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
  }
  json_end_array(w);
  json_key(w, "refusal");
  json_null(w);
  json_end_object(w);
}

// The text of a token; of one that is no whole character, its bytes as OpenAI writes them.
static Str token_name(Arena *a, Str bytes) {
  StrBuf b;
  if (str_is_utf8(bytes)) return bytes;
  strbuf_init(&b, a);
  strbuf_puts(&b, "bytes:");
  for (int64_t i = 0; i < bytes.n; i++) strbuf_printf(&b, "\\x%02x", (uint8_t)bytes.p[i]);
  return strbuf_str(&b);
}

static int64_t characters(Str s) {
  int64_t n = 0;
  for (int64_t i = 0; i < s.n; i++) n += (s.p[i] & 0xc0) != 0x80;
  return n;
}

// Two tokens may have the same bytes; keys of an object differ, so the first one stands.
static void put_top(JsonWriter *w, const TokenLog *log) {
  if (log->none) {
    json_null(w);
    return;
  }
  json_begin_object(w);
  for (int64_t k = 0; k < log->ntop; k++) {
    bool again = false;
    for (int64_t i = 0; i < k; i++) again |= str_eq(log->top[i].bytes, log->top[k].bytes);
    if (again) continue;
    json_key_str(w, token_name(w->out->arena, log->top[k].bytes));
    put_logprob(w, log->top[k].logprob);
  }
  json_end_object(w);
}

void logprobs_completion(JsonWriter *w, const TokenLog *log, int64_t n, int64_t *offset) {
  json_key(w, "logprobs");
  json_begin_object(w);
  json_key(w, "tokens");
  json_begin_array(w);
  for (int64_t i = 0; i < n; i++) json_str(w, token_name(w->out->arena, log[i].bytes));
  json_end_array(w);
  json_key(w, "token_logprobs");
  json_begin_array(w);
  for (int64_t i = 0; i < n; i++)
    if (log[i].none)
      json_null(w);
    else
      put_logprob(w, log[i].logprob);
  json_end_array(w);
  json_key(w, "top_logprobs");
  json_begin_array(w);
  for (int64_t i = 0; i < n; i++) put_top(w, &log[i]);
  json_end_array(w);
  json_key(w, "text_offset");
  json_begin_array(w);
  for (int64_t i = 0; i < n; i++) {
    json_i64(w, *offset);
    *offset += characters(log[i].bytes);
  }
  json_end_array(w);
  json_end_object(w);
}
