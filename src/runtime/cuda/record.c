// record.c -- the form of code: pieces, and the lines that say how one is launched (cuda.h).
#include "runtime/cuda/api.h"
#include "runtime/cuda/cuda.h"

#define HEAD "//tn kernel "
#define LINE "//tn "

// ---- pieces ----

static bool take_line(Str *text, Str *out) {
  const char *end = text->n ? memchr(text->p, '\n', (size_t)text->n) : NULL;
  if (!end) return false;
  *out = (Str){text->p, end - text->p};
  text->n -= out->n + 1;
  text->p = end + 1;
  return true;
}

bool cuda_next_piece(Str *code, Str *out, bool *bad) {
  Str line, rest = *code;
  int64_t n, head = (int64_t)strlen(HEAD);
  *bad = false;
  if (!code->n) return false;
  *bad = !take_line(&rest, &line) || !str_starts(line, HEAD) ||
         !str_to_i64((Str){line.p + head, line.n - head}, &n) || n < 0 || n > rest.n;
  if (*bad) return false;
  *out = (Str){rest.p, n};
  *code = (Str){rest.p + n, rest.n - n};
  return true;
}

void cuda_put_piece(StrBuf *out, Str piece) {
  strbuf_printf(out, HEAD "%lld\n", (long long)piece.n);
  strbuf_put(out, piece);
}

// ---- lines ----

static const struct {
  const char *name;
  int type;
} map_type[] = {{"u8", CUDA_MAP_U8},
                {"f16", CUDA_MAP_F16},
                {"f32", CUDA_MAP_F32},
                {"bf16", CUDA_MAP_BF16},
                {"tf32", CUDA_MAP_TF32}};

static bool take_word(Str *line, Str *out) {
  while (line->n && *line->p == ' ') line->p++, line->n--;
  *out = (Str){line->p, 0};
  while (line->n && *line->p != ' ') line->p++, line->n--, out->n++;
  return out->n > 0;
}

static bool take_int(Str *line, int64_t lo, int64_t hi, int64_t *out) {
  Str word;
  return take_word(line, &word) && str_to_i64(word, out) && *out >= lo && *out <= hi;
}

static bool take_term(Str word, CudaTerm *out) {
  while (word.n && word.p[0] == '@') {
    int64_t dim;
    const char *star = memchr(word.p, '*', (size_t)word.n);
    if (!star || !str_to_i64((Str){word.p + 1, star - word.p - 1}, &dim) || dim < 0 ||
        dim > INT32_MAX || out->ndims == CUDA_FACTORS)
      return false;
    out->dim[out->ndims++] = (int32_t)dim;
    word = (Str){star + 1, word.p + word.n - star - 1};
  }
  return str_to_i64(word, &out->times) && out->times;
}

static bool take_number(Str *line, CudaNumber *out) {
  Str word;
  int n = 0;
  *out = (CudaNumber){0};
  if (!take_word(line, &word)) return false;
  for (const char *plus = word.p; plus; n++) {
    plus = memchr(word.p, '+', (size_t)word.n);
    Str first = {word.p, plus ? plus - word.p : word.n};
    if (n == CUDA_TERMS || !take_term(first, &out->term[n])) return false;
    if (plus) word = (Str){plus + 1, word.p + word.n - plus - 1};
  }
  return out->term[0].ndims || n > 1 || out->term[0].times > 0;
}

// Of a window: where it may lie, and its steps.
static bool read_window(Str *line, CudaMap *m) {
  int64_t v;
  int *corner[2] = {m->before, m->after};
  m->window = true;
  for (int i = 0; i < 4; i++) {
    if (!take_int(line, -128, 127, &v)) return false;
    corner[i / 2][i % 2] = (int)v;
  }
  for (int i = 0; i < 2; i++) {
    if (!take_int(line, 1, 8, &v)) return false;
    m->step[i] = (uint32_t)v;
  }
  return m->rank == 4;
}

static bool read_map(Str line, CudaRecord *r, bool window) {
  int64_t arg, rank, box;
  Str type;
  if (r->nmaps == CUDA_MAPS) return false;
  CudaMap *m = &r->map[r->nmaps++];
  if (!take_int(&line, 0, 255, &arg) || !take_word(&line, &type) ||
      !take_int(&line, 1, CUDA_MAP_RANK, &rank))
    return false;
  m->arg = (int32_t)arg;
  m->rank = (int)rank;
  m->type = -1;
  for (int64_t i = 0; i < ARRAY_LEN(map_type); i++)
    if (str_is(type, map_type[i].name)) m->type = map_type[i].type;
  for (int i = 0; i < m->rank; i++)
    if (!take_number(&line, &m->dim[i])) return false;
  for (int i = 0; i < m->rank - 1; i++)
    if (!take_number(&line, &m->stride[i])) return false;
  for (int i = 0; i < m->rank; i++) {
    if (!take_int(&line, 1, 256, &box)) return false;
    m->box[i] = (uint32_t)box;
  }
  if (window && !read_window(&line, m)) return false;
  return m->type >= 0 && !take_word(&line, &type);
}

static bool read_line(Str line, CudaRecord *r) {
  Str word, more;
  int64_t n = 0;
  if (!take_word(&line, &word)) return false;
  if (str_is(word, "map") || str_is(word, "window"))
    return read_map(line, r, str_is(word, "window"));
  if (str_is(word, "persistent"))
    r->persistent = true;
  else if (str_is(word, "early"))
    r->early = true;
  else if (!take_int(&line, 1, 1 << 20, &n))
    return false;
  else if (str_is(word, "threads") && n <= 1024)
    r->threads = (int)n;
  else if (str_is(word, "shared"))
    r->shared_bytes = (int)n;
  else if (str_is(word, "cluster") && n <= 8)
    r->cluster = (int)n;
  else
    return false;
  return !take_word(&line, &more);
}

bool cuda_record_read(Str piece, CudaRecord *out) {
  Str line;
  int64_t skip = (int64_t)strlen(LINE);
  *out = (CudaRecord){.cluster = 1};
  while (str_starts(piece, LINE))
    if (!take_line(&piece, &line) || !read_line((Str){line.p + skip, line.n - skip}, out))
      return false;
  return !(out->nmaps || out->persistent || out->cluster > 1) || out->threads > 0;
}

static void put_number(StrBuf *b, CudaNumber n) {
  for (const CudaTerm *t = n.term; t->times; t++) {
    strbuf_putc(b, t == n.term ? ' ' : '+');
    for (int32_t i = 0; i < t->ndims; i++) strbuf_printf(b, "@%d*", t->dim[i]);
    strbuf_printf(b, "%lld", (long long)t->times);
  }
}

void cuda_record_write(const CudaRecord *r, StrBuf *out) {
  if (r->threads) strbuf_printf(out, LINE "threads %d\n", r->threads);
  if (r->shared_bytes) strbuf_printf(out, LINE "shared %d\n", r->shared_bytes);
  if (r->cluster > 1) strbuf_printf(out, LINE "cluster %d\n", r->cluster);
  if (r->persistent) strbuf_puts(out, LINE "persistent\n");
  if (r->early) strbuf_puts(out, LINE "early\n");
  for (int i = 0; i < r->nmaps; i++) {
    const CudaMap *m = &r->map[i];
    const char *type = "f32";
    for (int64_t t = 0; t < ARRAY_LEN(map_type); t++)
      if (map_type[t].type == m->type) type = map_type[t].name;
    strbuf_printf(out, LINE "%s %d %s %d", m->window ? "window" : "map", m->arg, type, m->rank);
    for (int k = 0; k < m->rank; k++) put_number(out, m->dim[k]);
    for (int k = 0; k < m->rank - 1; k++) put_number(out, m->stride[k]);
    for (int k = 0; k < m->rank; k++) strbuf_printf(out, " %u", m->box[k]);
    if (m->window)
      strbuf_printf(out, " %d %d %d %d %u %u", m->before[0], m->before[1], m->after[0], m->after[1],
                    m->step[0], m->step[1]);
    strbuf_putc(out, '\n');
  }
}
