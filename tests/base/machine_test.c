// machine_test.c -- machines by name, and the one that runs us; the code generator's requests and
// replies as bytes.
#include "base/machine.h"
#include "targets/llvm/protocol.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

static bool make(const char *triple, const char *cpu, const char *features, Machine *m) {
  static Diag d;
  diag_init(&d);
  return !machine_make(str_of(triple), str_of(cpu), str_of(features), m, &d);
}

TEST(machine_host_is_sane) {
  Machine m;
  machine_host(&m);
  EXPECT(m.vector_bytes >= 4 && m.vector_bytes <= 64);
  EXPECT(m.cores >= 1);
  EXPECT(m.l1_bytes >= 8 << 10 && m.l2_bytes >= m.l1_bytes);
  EXPECT(m.name[0] && m.triple[0] && m.cpu[0]);
  // What it says of itself makes the same machine again.
  Machine again;
  if (m.arch != ARCH_OTHER) {
    REQUIRE(make(m.triple, m.cpu, m.features, &again));
    EXPECT_INT_EQ(again.vector_bytes, m.vector_bytes);
    EXPECT_INT_EQ(again.has, m.has);
  }
}

TEST(machine_levels) {
  Machine m;
  REQUIRE(make("x86_64-pc-linux-gnu", "", "", &m));
  EXPECT_INT_EQ(m.vector_bytes, 16);
  EXPECT(!m.has_fma && !m.has_round && !m.has_f16);
  REQUIRE(make("x86_64-pc-linux-gnu", "x86-64-v3", "", &m));
  EXPECT_INT_EQ(m.vector_bytes, 32);
  EXPECT(m.has_fma && m.has_round && m.has_f16);
  REQUIRE(make("x86_64-pc-linux-gnu", "znver4", "", &m));
  EXPECT_INT_EQ(m.vector_bytes, 64);
  EXPECT(m.has & CPU_VNNI && m.has & CPU_BF16 && !(m.has & CPU_AMX));
  REQUIRE(make("x86_64-pc-linux-gnu", "znver4", "-avx512bw", &m));
  EXPECT_INT_EQ(m.vector_bytes, 32);
  REQUIRE(make("x86_64-pc-linux-gnu", "", "+avx512vnni", &m));
  EXPECT_INT_EQ(m.vector_bytes, 64);
  // A feature that is removed also removes what needs it, by whichever name of its group; a side
  // name alone adds nothing.
  REQUIRE(make("x86_64-pc-linux-gnu", "sapphirerapids", "-avx512vl", &m));
  EXPECT_INT_EQ(m.vector_bytes, 32);
  EXPECT(!(m.has & (CPU_AVX512 | CPU_VNNI | CPU_AMX)) && !strstr(m.features, "avx512"));
  REQUIRE(make("x86_64-pc-linux-gnu", "znver4", "-fma", &m));
  EXPECT(m.vector_bytes == 32 && !m.has_fma);
  REQUIRE(make("x86_64-pc-linux-gnu", "x86-64-v2", "+popcnt,+bmi2", &m));
  EXPECT_INT_EQ(m.vector_bytes, 16);
  REQUIRE(make("x86_64-pc-linux-gnu", "", "+avx512f", &m));
  EXPECT_INT_EQ(m.vector_bytes, 64);
  EXPECT(!make("x86_64-pc-linux-gnu", "pentium9", "", &m));
  EXPECT(!make("x86_64-pc-linux-gnu", "cortex-a72", "", &m));
  EXPECT(!make("x86_64-pc-linux-gnu", "", "+bogus", &m));
  EXPECT(!make("x86_64-pc-linux-gnu", "", "avx2", &m));
  EXPECT(!make("aarch64-unknown-linux-gnu", "", "+avx2", &m));
  REQUIRE(make("aarch64-unknown-linux-gnu", "neoverse-n1", "+dotprod", &m));
  // Text that is the machine's own may be given back to it.
  REQUIRE(make("x86_64-pc-linux-gnu", "znver4", "-avx512bf16", &m));
  EXPECT(!machine_make(str_of(m.triple), STR(""), str_of(m.features), &m, &(Diag){0}));
  EXPECT(m.vector_bytes == 64 && !(m.has & CPU_BF16));
  REQUIRE(make("aarch64-unknown-linux-gnu", "", "", &m));
  EXPECT(m.vector_bytes == 16 && m.has_fma);
  REQUIRE(make("riscv64-unknown-linux-gnu", "", "+v", &m));
  EXPECT_INT_EQ(m.vector_bytes, 16);
  EXPECT(!make("sparc-sun-solaris", "", "", &m));
}

TEST(machine_features_of_the_environment) {
  Machine m, all;
  const char *old = getenv("TENON_FEATURES");
  char *kept = old ? strdup(old) : NULL;
  unsetenv("TENON_FEATURES");
  machine_host(&all);
  setenv("TENON_FEATURES", "-avx512f", 1);
  machine_host(&m);
  EXPECT(!(m.has & (CPU_AVX512 | CPU_VNNI | CPU_BF16 | CPU_FP16 | CPU_AMX)));
  EXPECT(!strstr(m.features, "avx512"));
  EXPECT_INT_EQ(m.has & CPU_AVX2, all.has & CPU_AVX2);
  setenv("TENON_FEATURES", "-sse4.1", 1);
  machine_host(&m);
  EXPECT_INT_EQ(m.arch == ARCH_X86_64 ? m.has : 0, 0);
  EXPECT_INT_EQ(m.l1_bytes, all.l1_bytes);
  setenv("TENON_FEATURES", "+avx512f", 1);  // nothing is added, and nothing taken
  machine_host(&m);
  EXPECT_INT_EQ(m.has, all.has);
  unsetenv("TENON_FEATURES");
  if (kept) setenv("TENON_FEATURES", kept, 1);
  free(kept);
}

TEST(machine_hash_tells_machines_apart) {
  Machine a, b;
  REQUIRE(make("x86_64-pc-linux-gnu", "x86-64-v3", "", &a));
  REQUIRE(make("x86_64-pc-linux-gnu", "x86-64-v4", "", &b));
  EXPECT(machine_hash(&a) != machine_hash(&b));
}

TEST(protocol_round_trips) {
  CodeRequest r = {.kind = CODE_ASM,
                   .triple = STR("t"),
                   .cpu = STR("cc"),
                   .features = STR(""),
                   .symbol = STR("symbol"),
                   .kernel = STR("kernel @k () {\n}\n")};
  uint8_t head[PROTOCOL_HEADER];
  request_header(&r, head);
  CodeRequest got;
  int64_t size;
  REQUIRE(request_parse(head, &got, &size));
  EXPECT_INT_EQ(size, 1 + 2 + 6 + 17);
  request_body(&got, "tccsymbolkernel @k () {\n}\n");
  EXPECT(str_eq(got.cpu, r.cpu) && str_eq(got.symbol, r.symbol) && str_eq(got.kernel, r.kernel));
  EXPECT_INT_EQ(got.kind, CODE_ASM);
}

TEST(protocol_refuses_nonsense) {
  CodeReply r = {.status = TENON_OK, .bytes = STR("0123"), .entry = 2}, got;
  uint8_t head[PROTOCOL_HEADER];
  int64_t size;
  reply_header(&r, head);
  EXPECT(reply_parse(head, &got, &size));
  r.entry = 4;
  reply_header(&r, head);
  EXPECT(!reply_parse(head, &got, &size));
  r = (CodeReply){.status = TENON_EINVAL, .message = {"", (int64_t)1 << 40}};
  reply_header(&r, head);
  EXPECT(!reply_parse(head, &got, &size));
  CodeRequest q;
  EXPECT(!request_parse(head, &q, &size));
  memset(head, 0xFF, sizeof head);
  EXPECT(!request_parse(head, &q, &size));
  EXPECT(!reply_parse(head, &got, &size));
}
