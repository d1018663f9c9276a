// artifact_test.c -- compiled models in files: the same program comes back, and no damage goes
// unnoticed.
#include "base/crc.h"
#include "codegen.h"
#include "compiled.h"
#include "eval/control.h"
#include "runtime/artifact.h"
#include "runtime/session.h"
#include "sample.h"
#include "test.h"

#include <stdlib.h>

// ---- checksums ----

TEST(crc32c_is_the_standard) {
  EXPECT_INT_EQ(crc32c(0, "123456789", 9), 0xE3069283u);
  EXPECT_INT_EQ(crc32c_table(0, "123456789", 9), 0xE3069283u);
  static uint8_t bytes[5 << 16];
  for (int i = 0; i < ARRAY_LEN(bytes); i++) bytes[i] = (uint8_t)(i * 37 + i / 256);
  for (int n = 0; n < 300; n += 7)
    EXPECT_INT_EQ(crc32c(7, bytes + n % 5, n), crc32c_table(7, bytes + n % 5, n));
  Pool *pool = pool_create(3);
  for (int64_t n = 0; n <= ARRAY_LEN(bytes); n += 40961)
    EXPECT_INT_EQ(crc32c_blocks(bytes, n, NULL), crc32c_blocks(bytes, n, pool));
  pool_release(pool);
  uint32_t before = crc32c_blocks(bytes, sizeof bytes, NULL);
  bytes[70000] ^= 4;
  EXPECT(crc32c_blocks(bytes, sizeof bytes, NULL) != before);
}

// ---- there and back ----

static const char small[] =
    "graph @\"small\"(%x: f32[n, 4], %c: bool[]) {\n"
    "  %k = const f32[4] {1, 2, 3, 4}\n"
    "  %s = const string[2] {\"one\", \"\"}\n"
    "  %y = mul(%x, %k)\n"
    "  %z = exp(%y)\n"
    "  %w = non_zero(%z)\n"
    "  %u = string_normalizer(%s) case_change_action=LOWER\n"
    "  %r = if(%c, %y) then_captures=1 then_branch={ @\"then\" (%a: f32[n, 4])\n"
    "    %b = neg(%a)\n"
    "    return %b\n"
    "  } else_branch={ @\"else\" ()\n"
    "    %e = const f32[1] {5}\n"
    "    return %e\n"
    "  }\n"
    "  return %z, %w, %u, %r\n"
    "}\n";

static const ArtifactLoad every = {.find = eval_find};
static const char *best_target(void) { return codegen_there() ? "cpu" : "host"; }

TEST(artifact_comes_back_the_same) {
  Arena a;
  static Diag d;
  Program *p = NULL, *q = NULL;
  Str bytes, again;
  arena_init(&a);
  diag_init(&d);
  if (compile_text(small, best_target(), &a, &d, &p)) FAIL("%s", d.text);
  REQUIRE(p);
  EXPECT_STATUS(artifact_bytes(p, &a, &d, &bytes), TENON_OK);
  EXPECT_STATUS(artifact_load_memory(bytes.p, bytes.n, NULL, &every, &d, &q), TENON_OK);
  REQUIRE(q);
  EXPECT_STATUS(artifact_bytes(q, &a, &d, &again), TENON_OK);
  EXPECT(str_eq(bytes, again));
  program_release(p);
  program_release(q);
  arena_deinit(&a);
}

// What a file says of a kernel's schedule is printed, so it must be words.
TEST(artifact_schedules_are_words) {
  static const struct {
    const char *template_name, *schedule;
    bool good;
  } row[] = {
      {"gemm", "rows=14 spill=true", true},
      {"scatter", "", true},
      {"", "rows=14", false},
      {"ge mm", "rows=14", false},
      {"gemm", "rows", false},
      {"gemm", "rows=", false},
      {"gemm", "rows=14 ", false},
      {"gemm", "rows=14  spill=true", false},
      {"gemm", "rows=14\ncols=3", false},
      {"gemm", "rows=\033[31m", false},
      {NULL, "rows=14", false},
      {"gemm", NULL, false},
  };
  Arena a;
  static Diag d;
  Program *p = NULL;
  arena_init(&a);
  diag_init(&d);
  if (compile_text(small, "ref", &a, &d, &p)) FAIL("%s", d.text);
  REQUIRE(p && p->nkernels);
  ProgKernel kept = p->kernel[0];
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    p->kernel[0].template_name = row[i].template_name;
    p->kernel[0].schedule = row[i].schedule;
    if (!program_check(p, &d) != row[i].good)
      FAIL("'%s' '%s'", row[i].template_name ? row[i].template_name : "NULL",
           row[i].schedule ? row[i].schedule : "NULL");
  }
  p->kernel[0] = kept;
  program_release(p);
  arena_deinit(&a);
}

// Runs on random inputs.
static tenon_status run_program(Program *p, Run *run, Arena *a, Value **out) {
  const ProgFunction *f = p->function[0];
  Session *s;
  Value **in = arena_array(a, Value *, f->nparams + 1);
  TRY(session_create(p, &(SessionOptions){.threads = 1}, run->diag, &s));
  tenon_status status = TENON_OK;
  for (int32_t i = 0; i < f->nparams && !status; i++) {
    const ProgValue *v = &f->value[f->param[i]];
    int64_t dims[MAX_RANK], sym[64];
    for (int k = 0; k < 64; k++) sym[k] = 3;
    if (v->kind != VK_TENSOR || v->rank < 0 || p->nsyms > 64) status = TENON_EUNSUPPORTED;
    for (int k = 0; !status && k < v->rank; k++)
      if (!prog_eval(p, v->dim[k], sym, &dims[k])) status = TENON_EUNSUPPORTED;
    if (!status) status = value_tensor(run, NOWHERE, v->dtype, v->rank, dims, &in[i]);
    for (int64_t k = 0; !status && k < in[i]->n; k++) {
      DTypeClass c = dtype_class(v->dtype);
      if (c == DC_STRING)
        ((Str *)in[i]->data)[k] = k % 2 ? STR("one Two") : STR("3");
      else if (c == DC_FLOAT)
        val_put_f64(in[i], k, (double)((k * 37 + i * 11) % 19) / 7 - 1);
      else if (c != DC_COMPLEX)
        val_put_i64(in[i], k, (k * 5 + i) % 3);
    }
  }
  if (!status) status = session_run(s, run, in, NULL, out);
  session_free(s);
  return status;
}

static bool same_value(const Value *a, const Value *b) {
  if (!a || !b) return a == b;
  if (a->kind != b->kind || a->nitems != b->nitems) return false;
  for (int64_t i = 0; i < a->nitems; i++)
    if (!same_value(a->items[i], b->items[i])) return false;
  if (a->kind != VK_TENSOR) return true;
  if (a->dtype != b->dtype || a->rank != b->rank || a->n != b->n) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i]) return false;
  int64_t bytes;
  if (a->dtype != DT_STRING)
    return dtype_bytes(a->dtype, a->n, &bytes) &&
           (!bytes || !memcmp(a->data, b->data, (size_t)bytes));
  for (int64_t i = 0; i < a->n; i++)
    if (!str_eq(val_str(a, i), val_str(b, i))) return false;
  return true;
}

static int64_t check_sample(const Sample *s) {
  Arena a;
  static Diag d;
  Program *p = NULL, *q = NULL;
  Str bytes, again;
  int64_t ran = 0;
  arena_init(&a);
  diag_init(&d);
  Run one, two;
  run_init(&one, NULL, &d);
  run_init(&two, NULL, &d);
  one.seed = two.seed = 7;
  if (compile_text(sample_graph(&a, s), "host", &a, &d, &p) || artifact_bytes(p, &a, &d, &bytes) ||
      artifact_load_memory(bytes.p, bytes.n, NULL, &every, &d, &q) ||
      artifact_bytes(q, &a, &d, &again)) {
    FAIL("%s%s: %s", s->op->name, s->text, d.text);
  } else {
    if (!str_eq(bytes, again)) FAIL("%s%s: other bytes the second time", s->op->name, s->text);
    Value *x[64] = {0}, *y[64] = {0};
    tenon_status first = run_program(p, &one, &a, x), second = run_program(q, &two, &a, y);
    if (first != second)
      FAIL("%s%s: %s from the file: %s", s->op->name, s->text, status_name(second), d.text);
    for (int32_t i = 0; !first && !second && i < p->function[0]->nresults; i++)
      if (!same_value(x[i], y[i])) FAIL("%s%s: result %d differs", s->op->name, s->text, i);
    ran = !first;
  }
  run_deinit(&one);
  run_deinit(&two);
  program_release(p);
  program_release(q);
  arena_deinit(&a);
  return ran;
}

TEST(artifact_of_every_sample) {
  int64_t n = 0, ran = 0;
  for (int i = 0; i < OP_COUNT; i++)
    for (const char *const *s = op_table[i]->samples; s && *s; s++, n++)
      ran += check_sample(&(Sample){op_table[i], *s});
  EXPECT(n > 500);
  EXPECT(ran > n / 2);
}

// ---- damage ----

// Every damaged version must be refused, with a message.
static void expect_refused(const char *bytes, int64_t n, const char *what, int64_t where) {
  static Diag d;
  Program *p = NULL;
  diag_init(&d);
  tenon_status s = artifact_load_memory(bytes, n, NULL, &every, &d, &p);
  if (s != TENON_EFORMAT && s != TENON_EUNSUPPORTED)
    FAIL("%s %lld gives status %d: %s", what, (long long)where, s, d.text);
  if (!d.len) FAIL("%s %lld: no message", what, (long long)where);
  program_release(p);
}

TEST(artifact_every_bit_and_every_length) {
  Arena a;
  static Diag d;
  Program *p = NULL;
  Str bytes;
  arena_init(&a);
  diag_init(&d);
  if (compile_text(small, best_target(), &a, &d, &p) || artifact_bytes(p, &a, &d, &bytes))
    FAIL("%s", d.text);
  REQUIRE(p);
  EXPECT(bytes.n < 40000);
  char *copy = (char *)(uintptr_t)bytes.p;
  for (int64_t i = 0; i < bytes.n * 8; i++) {
    copy[i / 8] ^= (char)(1 << i % 8);
    expect_refused(copy, bytes.n, "bit", i);
    copy[i / 8] ^= (char)(1 << i % 8);
  }
  for (int64_t n = 0; n < bytes.n; n++) expect_refused(copy, n, "length", n);
  program_release(p);
  arena_deinit(&a);
}

// Numbers that a plan does not expect, past the checksums: an error or a program, never a crash.
TEST(artifact_hostile_plans) {
  static const int32_t odd[] = {-1, -2, INT32_MIN, INT32_MAX, 0, 1, 255, 1 << 20};
  Arena a;
  static Diag d;
  Program *p = NULL;
  StrBuf plan;
  int64_t refused = 0, n = 0;
  arena_init(&a);
  diag_init(&d);
  strbuf_init(&plan, &a);
  if (compile_text(small, best_target(), &a, &d, &p) || plan_encode(p, &plan, &d))
    FAIL("%s", d.text);
  REQUIRE(p);
  for (int64_t at = 0; at + 4 <= plan.n; at++)
    for (int64_t k = 0; k < ARRAY_LEN(odd); k++, n++) {
      int32_t was;
      Program *q = program_create();
      REQUIRE(q);
      memcpy(&was, plan.p + at, 4);
      memcpy(plan.p + at, &odd[k], 4);
      diag_init(&d);
      q->constants = p->constants;
      q->constants_bytes = p->constants_bytes;
      q->code_bytes = p->code_bytes;
      bool bad = plan_decode(q, strbuf_str(&plan), eval_find, &d) || program_check(q, &d);
      refused += bad;
      if (bad && !d.len) FAIL("no message at %lld", (long long)at);
      memcpy(plan.p + at, &was, 4);
      q->code = NULL;
      program_release(q);
    }
  EXPECT(refused > n / 2);
  program_release(p);
  arena_deinit(&a);
}

// ---- plans that would never end ----

// A program that a writer of ours never makes, as a file that passes the checksums.
static void expect_crafted_refused(const Program *p, const char *part) {
  static Diag d;
  Arena a;
  Program *q = NULL;
  Str bytes;
  arena_init(&a);
  diag_init(&d);
  if (artifact_bytes(p, &a, &d, &bytes)) FAIL("%s", d.text);
  EXPECT_STATUS(artifact_load_memory(bytes.p, bytes.n, NULL, &every, &d, &q), TENON_EFORMAT);
  EXPECT_CONTAINS(d.text, part);
  program_release(q);
  arena_deinit(&a);
}

// A result that is a part of itself, or two that are parts of each other.
TEST(artifact_parts_end) {
  Arena a;
  static Diag d;
  Program *p = NULL;
  arena_init(&a);
  diag_init(&d);
  if (compile_text(small, "host", &a, &d, &p)) FAIL("%s", d.text);
  REQUIRE(p && p->nexprs);
  ProgFunction *f = p->function[0];
  ProgValue *one = &f->value[f->result[0]], *two = &f->value[f->result[3]];
  ProgValue kept[] = {*one, *two};
  one->place = PLACE_RESULT;
  one->slot = 0;
  one->at = 0;
  expect_crafted_refused(p, "a part of a part");
  *two = *one;
  one->slot = 3;
  expect_crafted_refused(p, "a part of a part");
  *one = kept[0];
  *two = kept[1];
  EXPECT_STATUS(program_check(p, &d), TENON_OK);
  program_release(p);
  arena_deinit(&a);
}

// Bodies in bodies, by functions that call the next one.
TEST(artifact_bodies_end) {
  Arena a;
  static Diag d;
  Program *p = NULL;
  arena_init(&a);
  diag_init(&d);
  if (compile_text(small, "host", &a, &d, &p)) FAIL("%s", d.text);
  REQUIRE(p && p->nfunctions == 3);
  ProgFunction *first = p->function[0], **function = p->function;
  int32_t at = 0;
  while (strcmp(first->step[at].op, "if")) at++;
  const if_attrs *branches = first->step[at].attrs;
  for (int deep = BODIES_DEEP - 1; deep <= BODIES_DEEP + 1; deep++) {
    // `deep` functions like the first, and the two branches of the last.
    p->nfunctions = deep + 2;
    p->function = arena_array(&a, ProgFunction *, p->nfunctions);
    for (int32_t i = 0; i < p->nfunctions; i++) {
      p->function[i] = arena_dup(&a, function[MAX(0, i - deep + 1)], (int64_t)sizeof *first);
      p->function[i]->index = i;
    }
    for (int32_t i = 0; i < deep; i++) {
      if_attrs *own = arena_dup(&a, branches, (int64_t)sizeof *own);
      own->then_branch = (const struct Body *)(const void *)p->function[i + 1];
      own->else_branch = (const struct Body *)(const void *)p->function[deep + 1];
      p->function[i]->step =
          arena_dup(&a, first->step, first->nsteps * (int64_t)sizeof *first->step);
      p->function[i]->step[at].attrs = own;
    }
    diag_init(&d);
    EXPECT_STATUS(program_check(p, &d), deep <= BODIES_DEEP ? TENON_OK : TENON_EFORMAT);
    if (deep > BODIES_DEEP) expect_crafted_refused(p, "nested too deep");
  }
  p->function = function;
  p->nfunctions = 3;
  program_release(p);
  arena_deinit(&a);
}

// ---- other machines ----

TEST(artifact_names_what_the_cpu_lacks) {
  Arena a;
  static Diag d;
  Program *p = NULL, *q;
  Str bytes;
  if (!codegen_there()) SKIP("no tenon-codegen");
  arena_init(&a);
  diag_init(&d);
  if (compile_text(small, "cpu", &a, &d, &p)) FAIL("%s", d.text);
  REQUIRE(p);
  p->target = str_printf(&p->arena, "%s,+warp9", p->target);
  EXPECT_STATUS(artifact_bytes(p, &a, &d, &bytes), TENON_OK);
  EXPECT_STATUS(artifact_load_memory(bytes.p, bytes.n, NULL, &every, &d, &q), TENON_EUNSUPPORTED);
  EXPECT_CONTAINS(d.text, "a CPU that has warp9, which this one lacks");
  p->target = "pdp11-dec-ultrix +fis";
  EXPECT_STATUS(artifact_bytes(p, &a, &d, &bytes), TENON_OK);
  EXPECT_STATUS(artifact_load_memory(bytes.p, bytes.n, NULL, &every, &d, &q), TENON_EUNSUPPORTED);
  EXPECT_CONTAINS(d.text, "compiled for pdp11");
  program_release(p);
  arena_deinit(&a);
}

// ---- files ----

TEST(artifact_in_a_file) {
  Arena a;
  static Diag d;
  Program *p = NULL, *q = NULL;
  arena_init(&a);
  diag_init(&d);
  const char *path = str_printf(&a, "%s/artifact_test.tenon", test_folder());
  if (compile_text(small, best_target(), &a, &d, &p) || artifact_write(p, path, &d) ||
      artifact_open(path, NULL, &d, &q))
    FAIL("%s", d.text);
  REQUIRE(q);
  ArtifactInfo info;
  artifact_info(q, &info);
  EXPECT_INT_EQ(info.version, ARTIFACT_VERSION);
  EXPECT_STR_EQ(info.maker, TENON_VERSION);
  EXPECT_INT_EQ(info.constants_bytes, p->constants_bytes);
  program_release(q);
  EXPECT_STATUS(artifact_open("/nonexistent.tenon", NULL, &d, &q), TENON_EIO);
  platform->unlink(path);
  program_release(p);
  arena_deinit(&a);
}

static int64_t allocations, refuse_at, live;
static void *counted_alloc(int64_t bytes) {
  if (allocations++ == refuse_at) return NULL;
  void *p = platform_posix.alloc(bytes);
  live += p != NULL;
  return p;
}
static void counted_free(void *p, int64_t bytes) {
  live--;
  platform_posix.free(p, bytes);
}

TEST(artifact_without_memory) {
  Arena a;
  static Diag d;
  Program *p = NULL, *q = NULL;
  Str bytes;
  arena_init(&a);
  diag_init(&d);
  if (compile_text(small, best_target(), &a, &d, &p) || artifact_bytes(p, &a, &d, &bytes))
    FAIL("%s", d.text);
  REQUIRE(p);
  Platform counted = platform_posix;
  counted.alloc = counted_alloc;
  counted.free = counted_free;
  counted.chunk_bytes = 0;
  tenon_status s = TENON_ENOMEM;
  for (refuse_at = 0; s == TENON_ENOMEM && refuse_at < 10000; refuse_at++) {
    diag_init(&d);
    platform = &counted;
    allocations = live = 0;
    s = artifact_load_memory(bytes.p, bytes.n, NULL, &every, &d, &q);
    program_release(q);
    platform = &platform_posix;
    EXPECT_INT_EQ(live, 0);
  }
  EXPECT_STATUS(s, TENON_OK);
  EXPECT(refuse_at > 20);
  program_release(p);
  arena_deinit(&a);
}
