// llm_packet.c -- frames of language models as bytes (llm_packet.h).
#include "serve/llm/llm_packet.h"

// ---- what the front knows of a model ----
typedef struct Row {
  const char *name;
  int64_t at;
} Row;
static const Row number[] = {
    {"context", offsetof(LlmAbout, context)},     {"vocabulary", offsetof(LlmAbout, vocabulary)},
    {"sequences", offsetof(LlmAbout, sequences)}, {"requests", offsetof(LlmAbout, requests)},
    {"embedding", offsetof(LlmAbout, embedding)}, {"scores", offsetof(LlmAbout, scores)},
    {"bytes", offsetof(LlmAbout, bytes)},         {"layers", offsetof(LlmAbout, layers)}};

void llm_about_write(JsonWriter *w, const LlmAbout *m) {
  json_begin_object(w);
  json_key(w, "architecture");
  json_cstr(w, m->architecture);
  json_key(w, "fingerprint");
  json_cstr(w, m->fingerprint);
  for (int64_t i = 0; i < ARRAY_LEN(number); i++) {
    json_key(w, number[i].name);
    json_i64(w, *(const int64_t *)(const void *)((const char *)m + number[i].at));
  }
  json_key(w, "chat");
  json_bool(w, m->chat);
  json_key(w, "encoder");
  json_bool(w, m->encoder);
  json_end_object(w);
}

tenon_status llm_about_read(Arena *a, Str text, LlmAbout *out, Diag *d) {
  Json j;
  *out = (LlmAbout){0};
  TRY(json_parse(a, text, d, &j));
  const Json *name = json_get(&j, "architecture"), *print = json_get(&j, "fingerprint");
  const Json *chat = json_get(&j, "chat"), *encoder = json_get(&j, "encoder");
  bool ok = name && name->kind == JSON_STRING && print && print->kind == JSON_STRING && chat &&
            chat->kind == JSON_BOOL && encoder && encoder->kind == JSON_BOOL;
  for (int64_t i = 0; i < ARRAY_LEN(number) && ok; i++) {
    const Json *v = json_get(&j, number[i].name);
    ok = v && v->kind == JSON_INT && v->i >= 0;
    if (ok) *(int64_t *)(void *)((char *)out + number[i].at) = v->i;
  }
  if (!ok) return fail(d, TENON_EFORMAT, NOWHERE, "the engine does not say what its model is");
  out->architecture = str_copy(a, name->s);
  out->fingerprint = str_copy(a, print->s);
  out->chat = chat->b;
  out->encoder = encoder->b;
  return TENON_OK;
}

// ---- events ----
typedef struct Head {
  int32_t kind, finish, position, npieces;
  int64_t text, nvector;
} Head;
typedef struct PieceHead {
  int32_t token;
  float logprob;
  int64_t bytes;
} PieceHead;

int64_t llm_event_bytes(const LlmEvent *e) {
  int64_t n = (int64_t)sizeof(Head) + e->text.n + e->nvector * (int64_t)sizeof(float);
  for (int32_t i = 0; i < e->npieces; i++) n += (int64_t)sizeof(PieceHead) + e->piece[i].bytes.n;
  return n;
}

static char *put(char *to, const void *p, int64_t n) {
  if (n) memcpy(to, p, (size_t)n);
  return to + n;
}

void llm_event_write(char *to, const LlmEvent *e) {
  Head h = {e->kind, e->finish, e->position, e->npieces, e->text.n, e->nvector};
  to = put(to, &h, sizeof h);
  to = put(to, e->text.p, e->text.n);
  to = put(to, e->vector, e->nvector * (int64_t)sizeof(float));
  for (int32_t i = 0; i < e->npieces; i++) {
    const LlmPiece *p = &e->piece[i];
    PieceHead ph = {p->token, p->logprob, p->bytes.n};
    to = put(to, &ph, sizeof ph);
    to = put(to, p->bytes.p, p->bytes.n);
  }
}

// The next n bytes; NULL: there are not so many.
static const char *take(Str *from, int64_t n) {
  if (n < 0 || n > from->n) return NULL;
  const char *p = from->p;
  *from = (Str){p + n, from->n - n};
  return p;
}

bool llm_event_read(Str payload, LlmEvent *out) {
  Head h;
  const char *p = take(&payload, sizeof h);
  if (!p) return false;
  memcpy(&h, p, sizeof h);
  if (h.npieces < 0 || h.npieces > 1 + LLM_TOP || h.nvector < 0 || h.nvector > INT32_MAX)
    return false;
  out->kind = h.kind;
  out->finish = h.finish;
  out->position = h.position;
  out->npieces = h.npieces;
  out->nvector = h.nvector;
  out->text = (Str){take(&payload, h.text), h.text};
  if (!out->text.p) return false;
  out->vector =
      (const float *)(const void *)take(&payload, h.nvector * (int64_t)sizeof *out->vector);
  if (!out->vector) return false;
  for (int32_t i = 0; i < h.npieces; i++) {
    PieceHead ph;
    p = take(&payload, sizeof ph);
    if (!p) return false;
    memcpy(&ph, p, sizeof ph);
    out->piece[i] = (LlmPiece){ph.token, ph.logprob, {take(&payload, ph.bytes), ph.bytes}};
    if (!out->piece[i].bytes.p) return false;
  }
  return !payload.n;
}

void llm_vector_copy(const LlmEvent *e, float *out) {
  memcpy(out, e->vector, (size_t)e->nvector * sizeof *out);
}
