// frame_test.c -- frames of workers: text and back, every kind of damage, no memory.
#include "base/platform.h"
#include "test.h"
#include "tune/frame.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
static const char hello[] = "{\"tool\":\"0.1\",\"triple\":\"x86_64-pc-linux-gnu\",\"cpu\":\"x86-"
                            "64\",\"features\":\"+avx2\","
                            "\"l1\":32768,\"l2\":524288,\"l3\":0}";
static const char task[] =
    "{\"task\":7,\"quick\":true,\"drop\":false,\"rounds\":9,\"milliseconds\":20,\"cold\":0,"
    "\"tensors\":[{\"dtype\":\"f32\",\"n\":6,\"weight\":true},"
    "{\"dtype\":\"i64\",\"n\":1,\"weight\":false,\"bytes\":\"0100000000000000\"}],"
    "\"kernels\":[{\"text\":\"kernel @k() {\\n}\",\"dims\":[3],\"args\":[{\"tensor\":1},"
    "{\"tensor\":0,\"pack\":{\"extent\":[2,4],\"limit\":[2,3],\"stride\":[3,1],"
    "\"coef\":[[1,0],[0,1]],\"words\":0,\"flip\":0,\"transform\":[]}},{\"result\":0}]}]}";
static const char times[] =
    "{\"task\":7,\"kernels\":[{\"status\":\"ok\",\"why\":\"\",\"hash\":\"" HASH
    "\",\"code_bytes\":64,\"ns\":[10,11]},"
    "{\"status\":\"failed\",\"why\":\"no code\",\"hash\":\"\",\"code_bytes\":0,\"ns\":[]}]}";
static const char *const object_of[FRAME_KINDS] = {NULL, hello, task, times};

// Reads an object and, where it is one, writes it again.
static tenon_status read(int kind, Str object, Arena *a, StrBuf *again) {
  static Diag d;
  FrameHello h;
  FrameTask t;
  FrameTimes x;
  diag_init(&d);
  tenon_status status = kind == FRAME_HELLO  ? frame_get_hello(object, a, &d, &h)
                        : kind == FRAME_TASK ? frame_get_task(object, a, &d, &t)
                                             : frame_get_times(object, a, &d, &x);
  EXPECT(!status == !d.len);
  if (status) return status;
  if (kind == FRAME_HELLO) frame_put_hello(&h, again);
  if (kind == FRAME_TASK) frame_put_task(&t, again);
  if (kind == FRAME_TIMES) frame_put_times(&x, again);
  return TENON_OK;
}

TEST(frame_goes_to_text_and_back) {
  for (int kind = FRAME_HELLO; kind < FRAME_KINDS; kind++) {
    Arena a;
    StrBuf b, twice;
    arena_init(&a);
    strbuf_init(&b, &a);
    strbuf_init(&twice, &a);
    EXPECT_STATUS(read(kind, str_of(object_of[kind]), &a, &b), TENON_OK);
    if (kind != FRAME_HELLO) EXPECT_STR_EQ(strbuf_text(&b), object_of[kind]);
    EXPECT_STATUS(read(kind, strbuf_str(&b), &a, &twice), TENON_OK);  // features may be spelt out
    EXPECT_STR_EQ(strbuf_text(&twice), strbuf_text(&b));
    arena_deinit(&a);
  }
}

TEST(frame_task_has_what_was_written) {
  Arena a;
  FrameTask t;
  Diag d;
  arena_init(&a);
  diag_init(&d);
  REQUIRE(!frame_get_task(str_of(task), &a, &d, &t));
  EXPECT(t.seq == 7 && t.quick && !t.drop && t.ntensors == 2 && t.nkernels == 1);
  EXPECT(t.tensor[1].bytes.n == 8 && t.tensor[1].bytes.p[0] == 1);
  const FrameArg *x = t.kernel[0].arg;
  EXPECT(!x[0].packed && x[0].index == 1 && x[1].packed && x[1].pack.nloops == 2 && x[2].result);
  arena_deinit(&a);
}

// One part of an object replaced; the whole must be refused.
static void refuses(int kind, const char *from, const char *to) {
  Arena a;
  StrBuf b;
  arena_init(&a);
  strbuf_init(&b, &a);
  const char *text = object_of[kind], *at = strstr(text, from);
  EXPECT(at);
  if (at) {
    const char *bad = str_printf(&a, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    if (!read(kind, str_of(bad), &a, &b)) FAIL("%s instead of %s is taken", to, from);
  }
  arena_deinit(&a);
}

TEST(frame_refuses_wrong_numbers) {
  refuses(FRAME_HELLO, "x86_64-pc", "vax-pc");
  refuses(FRAME_HELLO, "32768", "0");
  refuses(FRAME_HELLO, "524288", "99999999999");
  refuses(FRAME_HELLO, "+avx2", "+avx2\\n");
  refuses(FRAME_TASK, "\"rounds\":9", "\"rounds\":65");
  refuses(FRAME_TASK, "\"cold\":0", "\"cold\":-1");
  refuses(FRAME_TASK, "\"n\":6", "\"n\":-6");
  refuses(FRAME_TASK, "\"n\":6", "\"n\":99999999999");
  refuses(FRAME_TASK, "f32", "string");
  refuses(FRAME_TASK, "f32", "c64");
  refuses(FRAME_TASK, "0100000000000000", "01");
  refuses(FRAME_TASK, "0100000000000000", "010000000000000g");
  refuses(FRAME_TASK, "\"tensor\":1", "\"tensor\":2");
  refuses(FRAME_TASK, "\"result\":0", "\"result\":-1");
  refuses(FRAME_TASK, "[{\"text\"", "[{\"test\"");
  refuses(FRAME_TASK, "\"dims\":[3]", "\"dims\":[3.5]");
  refuses(FRAME_TIMES, "\"ok\"", "\"fine\"");
  refuses(FRAME_TIMES, "[10,11]", "[10,0]");
  refuses(FRAME_TIMES, "\"" HASH "\"", "\"\"");
  refuses(FRAME_TIMES, "\"" HASH "\"", "\"0123\"");
  refuses(FRAME_TIMES, "no code", "no\\u0000code");
}

// A spec that would read outside its tensor of 6 elements, or does not say how.
TEST(frame_refuses_packs_that_reach_outside) {
  refuses(FRAME_TASK, "\"limit\":[2,3]", "\"limit\":[3,3]");
  refuses(FRAME_TASK, "\"limit\":[2,3]", "\"limit\":[2]");
  refuses(FRAME_TASK, "\"stride\":[3,1]", "\"stride\":[3,2]");
  refuses(FRAME_TASK, "\"stride\":[3,1]", "\"stride\":[3,-1]");
  refuses(FRAME_TASK, "\"stride\":[3,1]", "\"stride\":[4611686018427387904,1]");
  refuses(FRAME_TASK, "\"extent\":[2,4]", "\"extent\":[2,0]");
  refuses(FRAME_TASK, "\"extent\":[2,4]", "\"extent\":[4294967296,4294967296]");
  refuses(FRAME_TASK, "[1,0],[0,1]", "[4611686018427387904,0],[0,1]");
  refuses(FRAME_TASK, "[1,0],[0,1]", "[1,0]");
  refuses(FRAME_TASK, "\"words\":0", "\"words\":1");
  refuses(FRAME_TASK, "\"transform\":[]", "\"transform\":[1,2]");
  refuses(FRAME_TASK, "\"transform\":[]", "\"transform\":[1,2,3]");
}

TEST(frame_refuses_every_cut) {
  for (int kind = FRAME_HELLO; kind < FRAME_KINDS; kind++) {
    Str text = str_of(object_of[kind]);
    for (int64_t i = 0; i < text.n; i++) {
      Arena a;
      StrBuf b;
      arena_init(&a);
      strbuf_init(&b, &a);
      EXPECT(read(kind, (Str){text.p, i}, &a, &b));
      arena_deinit(&a);
    }
  }
}

TEST(frame_header_is_checked) {
  Arena a;
  StrBuf b;
  uint8_t h[FRAME_HEADER];
  int kind;
  int64_t n;
  uint32_t crc;
  arena_init(&a);
  strbuf_init(&b, &a);
  frame_seal(FRAME_TIMES, str_of(times), &b);
  memcpy(h, b.p, sizeof h);
  EXPECT(frame_header(h, &kind, &n, &crc) && kind == FRAME_TIMES && n == (int64_t)strlen(times));
  for (int i = 0; i < 8; i++) {
    h[i] ^= 0x40;
    EXPECT(!frame_header(h, &kind, &n, &crc));
    h[i] ^= 0x40;
  }
  h[11] = 0xff;  // a length of gigabytes
  EXPECT(!frame_header(h, &kind, &n, &crc));
  memset(h + 8, 0, 4);
  EXPECT(!frame_header(h, &kind, &n, &crc));
  arena_deinit(&a);
}

// ---- no memory ----

static int64_t allow, blocks;
static void *counted_alloc(int64_t bytes) {
  if (allow-- <= 0) return NULL;
  void *p = platform_posix.alloc(bytes);
  blocks += p != NULL;
  return p;
}
static void counted_free(void *p, int64_t bytes) {
  blocks--;
  platform_posix.free(p, bytes);
}

static tenon_status read_and_write(int kind) {
  Arena a;
  Diag d;
  Trap t;
  diag_init(&d);
  arena_init(&a);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) {
    StrBuf b, whole;
    strbuf_init(&b, &a);
    strbuf_init(&whole, &a);
    t.status = read(kind, str_of(object_of[kind]), &a, &b);
    if (!t.status) frame_seal(kind, strbuf_str(&b), &whole);
  }
  trap_leave(&t);
  arena_deinit(&a);
  return t.status;
}

TEST(frame_without_memory_is_an_error) {
  Platform p = platform_posix;
  p.alloc = counted_alloc;
  p.free = counted_free;
  p.chunk_bytes = 0;  // each object is an allocation
  platform = &p;
  for (int kind = FRAME_HELLO; kind < FRAME_KINDS; kind++) {
    tenon_status status = TENON_ENOMEM;
    int64_t k = 0;
    for (; status && k < 10000; k++) {
      allow = k;
      blocks = 0;
      status = read_and_write(kind);
      if (status) EXPECT_STATUS(status, TENON_ENOMEM);
      EXPECT_INT_EQ(blocks, 0);
    }
    EXPECT(k > 3 && k < 10000);
  }
  platform = &platform_posix;
}
