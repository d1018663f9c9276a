// load.c -- finds out what a file or folder holds, reads it, and answers what a tokenizer knows.
//
// A folder's other files say what tokenizer.json does not: which special tokens have which role,
// and which ids end a generation.
#include "text/read_json.h"

#include "base/platform.h"

#include <stdio.h>

enum { PATH_CAP = 4096 };

int64_t tokenizer_size(const Tokenizer *t) { return t->size; }
const char *tokenizer_about(const Tokenizer *t) { return t->about; }
int32_t tokenizer_id(const Tokenizer *t, TokenRole role) {
  return role >= 0 && role < TOKEN_ROLES ? t->role[role] : -1;
}
static bool has_flag(const Tokenizer *t, int32_t id, int flag) {
  return id >= 0 && id < t->size && t->flag[id] & flag;
}
bool tokenizer_is_end(const Tokenizer *t, int32_t id) { return has_flag(t, id, FLAG_END); }
bool tokenizer_is_special(const Tokenizer *t, int32_t id) { return has_flag(t, id, FLAG_SPECIAL); }
Str tokenizer_piece(const Tokenizer *t, int32_t id) {
  return id >= 0 && id < t->size ? t->piece[id] : (Str){"", 0};
}
int32_t tokenizer_find(const Tokenizer *t, Str text) {
  int32_t id = token_map_get(&t->by_text, (const uint8_t *)text.p, text.n);
  if (id >= 0 && t->flag[id] & FLAG_ADDED) return id;
  int32_t by_piece = token_map_get(&t->by_piece, (const uint8_t *)text.p, text.n);
  return by_piece >= 0 ? by_piece : id;
}

// ---- one file ----
static bool looks_like_json(Str s) {
  int64_t i = 0;
  while (i < s.n && (s.p[i] == ' ' || s.p[i] == '\n' || s.p[i] == '\r' || s.p[i] == '\t')) i++;
  return i < s.n && s.p[i] == '{';
}

// Lines of base64, a space and a number.
static bool looks_like_tiktoken(Str s) {
  int64_t i = 0;
  while (i < s.n && i < 2048 && s.p[i] > ' ' && s.p[i] < 127) i++;
  return i && i + 1 < s.n && s.p[i] == ' ' && s.p[i + 1] >= '0' && s.p[i + 1] <= '9';
}

static bool is_tekken(Str s) {
  Str head = {s.p, MIN(s.n, 4096)};
  for (int64_t i = 0; i + 13 < head.n; i++)
    if (!memcmp(head.p + i, "\"num_vocab_to", 13) || !memcmp(head.p + i, "\"default_voca", 13))
      return true;
  return false;
}

tenon_status tokenizer_load_bytes(Str bytes, const char *file, const TokenizerOptions *o, Arena *a,
                                  Diag *d, Tokenizer **out) {
  const char *pre = o ? o->pre : NULL;
  *out = NULL;
  tenon_status s;
  if (looks_like_json(bytes))
    s = is_tekken(bytes) ? read_tekken(bytes, file, a, d, out) : read_json(bytes, file, a, d, out);
  else if (looks_like_tiktoken(bytes))
    s = read_tiktoken(bytes, file, pre, a, d, out);
  else if (bytes.n && bytes.p[0] == '\n')
    s = read_sentencepiece(bytes, file, a, d, out);
  else
    s = fail(d, TENON_EFORMAT, (Where){.file = file},
             "no tokenizer: neither tokenizer.json, nor a SentencePiece, .tiktoken or Tekken file");
  if (s) return s;
  tokenizer_guess_roles(*out);
  return TENON_OK;
}

static tenon_status load_file(const char *path, const TokenizerOptions *o, Arena *a, Diag *d,
                              Tokenizer **out) {
  File f;
  TRY(file_open(path, &f, d));
  Trap trap;
  trap_enter(&trap, d);
  if (setjmp(trap.env) == 0)
    trap.status = tokenizer_load_bytes((Str){(const char *)f.bytes, f.size}, path, o, a, d, out);
  trap_leave(&trap);
  file_close(&f);
  return trap.status;
}

// ---- folders ----
static bool join_path(const char *folder, const char *name, char out[PATH_CAP]) {
  int n = snprintf(out, PATH_CAP, "%s/%s", folder, name);
  return n > 0 && n < PATH_CAP;
}
static bool is_there(const char *path) {
  FileInfo info;
  return !platform->info(path, &info) && info.regular;
}

// A JSON file of the folder; `out` stays null where it is absent.
static tenon_status read_side(const char *folder, const char *name, Arena *a, Diag *d, Json *out) {
  char path[PATH_CAP];
  *out = (Json){0};
  if (!join_path(folder, name, path) || !is_there(path)) return TENON_OK;
  File f;
  TRY(file_open(path, &f, d));
  Trap trap;
  trap_enter(&trap, d);
  if (setjmp(trap.env) == 0)
    trap.status = json_parse(a, (Str){arena_dup(a, f.bytes, MAX(f.size, 1)), f.size}, d, out);
  trap_leave(&trap);
  file_close(&f);
  if (trap.status) diag_note(d, "in %s", path);
  return trap.status;
}

// "<s>" or {"content": "<s>"}.
static Str token_text(const Json *j) {
  if (!j) return (Str){0};
  return j->kind == JSON_STRING ? j->s : json_text(j, "content");
}

static const char *const role_keys[TOKEN_ROLES] = {
    [TOKEN_BOS] = "bos_token",  [TOKEN_EOS] = "eos_token", [TOKEN_UNK] = "unk_token",
    [TOKEN_PAD] = "pad_token",  [TOKEN_SEP] = "sep_token", [TOKEN_CLS] = "cls_token",
    [TOKEN_MASK] = "mask_token"};

static void take_roles(Tokenizer *t, const Json *j) {
  for (int r = 0; r < TOKEN_ROLES; r++) {
    Str s = role_keys[r] ? token_text(json_get(j, role_keys[r])) : (Str){0};
    int32_t id = s.n ? token_map_get(&t->by_text, (const uint8_t *)s.p, s.n) : -1;
    if (id >= 0) t->role[r] = id;
  }
}

static void take_end(Tokenizer *t, const Json *v) {
  if (v && v->kind == JSON_INT && v->i >= 0 && v->i < t->size) t->flag[v->i] |= FLAG_END;
}
// "eos_token_id": a number or a list of them.
static void take_ends(Tokenizer *t, const Json *j) {
  const Json *v = json_get(j, "eos_token_id");
  take_end(t, v);
  for (int64_t i = 0; v && v->kind == JSON_ARRAY && i < v->n; i++) take_end(t, &v->item[i]);
}

// Tokenizers of Llama and Gemma build what goes around a text from flags, not from tokenizer.json.
static void take_flags(Tokenizer *t, const Json *j) {
  static const char *const classes[] = {"LlamaTokenizer",     "LlamaTokenizerFast",
                                        "GemmaTokenizer",     "GemmaTokenizerFast",
                                        "CodeLlamaTokenizer", "CodeLlamaTokenizerFast"};
  Str class = json_text(j, "tokenizer_class");
  bool ours = false;
  for (int64_t i = 0; i < ARRAY_LEN(classes); i++) ours |= str_is(class, classes[i]);
  if (!ours) return;
  const Json *bos = json_of(j, "add_bos_token", JSON_BOOL);
  const Json *eos = json_of(j, "add_eos_token", JSON_BOOL);
  if (bos && t->role[TOKEN_BOS] >= 0) {
    t->before = arena_dup(t->arena, &t->role[TOKEN_BOS], sizeof t->role[0]);
    t->nbefore = bos->b;
  }
  if (eos && t->role[TOKEN_EOS] >= 0) {
    t->after = arena_dup(t->arena, &t->role[TOKEN_EOS], sizeof t->role[0]);
    t->nafter = eos->b;
  }
}

static tenon_status take_side_files(const char *folder, Tokenizer *t, Arena *a, Diag *d) {
  Json special, config, generation, model;
  TRY(read_side(folder, "special_tokens_map.json", a, d, &special));
  TRY(read_side(folder, "tokenizer_config.json", a, d, &config));
  TRY(read_side(folder, "generation_config.json", a, d, &generation));
  TRY(read_side(folder, "config.json", a, d, &model));
  take_roles(t, &special);
  take_roles(t, &config);
  take_flags(t, &config);
  take_ends(t, &model);
  take_ends(t, &generation);
  tokenizer_guess_roles(t);
  return TENON_OK;
}

static tenon_status load_folder(const char *folder, const TokenizerOptions *o, Arena *a, Diag *d,
                                Tokenizer **out) {
  static const char *const names[] = {"tokenizer.json",          "tekken.json",
                                      "tokenizer.model",         "spiece.model",
                                      "sentencepiece.bpe.model", "tokenizer.tiktoken"};
  for (int64_t i = 0; i < ARRAY_LEN(names); i++) {
    char path[PATH_CAP];
    if (!join_path(folder, names[i], path) || !is_there(path)) continue;
    TRY(load_file(path, o, a, d, out));
    return take_side_files(folder, *out, a, d);
  }
  return fail(d, TENON_EIO, (Where){.file = folder}, "the folder has no tokenizer.json%s",
              ", tekken.json or tokenizer.model");
}

tenon_status tokenizer_load(const char *path, const TokenizerOptions *o, Arena *a, Diag *d,
                            Tokenizer **out) {
  FileInfo info;
  *out = NULL;
  if (!platform->info(path, &info) && info.folder) return load_folder(path, o, a, d, out);
  return load_file(path, o, a, d, out);
}
