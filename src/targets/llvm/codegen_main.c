// codegen_main.c -- the program tenon-codegen: kernels in, machine code out, until input ends.
//
// Reads requests (protocol.h) from standard input and writes a reply to each on standard output, in
// order.  LLVM ends the process when it runs out of memory or meets its own fault; the client takes
// the end of the stream for the answer.
//
// Needs:      a parent that speaks the protocol.  The input is not trusted.
// Guarantees: rights are dropped before the first byte is read (sandbox.h), and the process ends
//             with its parent (orphan.h).  Each kernel is parsed and verified before LLVM sees it;
//             CODE_CHECKED checks each access instead.
#include "base/limits.h"
#include "base/machine.h"
#include "base/platform.h"
#include "loop/loop.h"
#include "targets/llvm/emit.h"
#include "targets/llvm/image.h"
#include "targets/llvm/orphan.h"
#include "targets/llvm/protocol.h"
#include "targets/llvm/sandbox.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include <stdio.h>
#include <sys/resource.h>

#ifdef CODEGEN_TEST
void codegen_test_hook(const CodeRequest *r);  // of a test's program: what a broken LLVM might do
enum { CPU_SECONDS = 1 };
#else
static void codegen_test_hook(const CodeRequest *r) { (void)r; }
enum { CPU_SECONDS = LIMIT_KERNEL_CPU_SECONDS };
#endif

// What runs between emission and code generation: tiles become registers, equal expressions one,
// what a loop does not change moves out of it.  More costs time and gains nothing on code that is
// vectors already.
static const char passes[] = "function(sroa,early-cse<memssa>,loop-mssa(licm))";

typedef struct Target {
  Machine machine;
  LLVMTargetMachineRef tm[2];  // for full and for quick code, made when first needed
} Target;

static void init_llvm(void) {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  LLVMInitializeAArch64TargetInfo();
  LLVMInitializeAArch64Target();
  LLVMInitializeAArch64TargetMC();
  LLVMInitializeAArch64AsmPrinter();
  LLVMInitializeRISCVTargetInfo();
  LLVMInitializeRISCVTarget();
  LLVMInitializeRISCVTargetMC();
  LLVMInitializeRISCVAsmPrinter();
  // A tenth of the time of code generation for AVX-512, which leaves our code as it is: masks are
  // never computed in general registers.
  const char *argv[] = {"tenon-codegen", "-disable-x86-domain-reassignment"};
  LLVMParseCommandLineOptions(2, argv, NULL);
}

static void forget_target(Target *t) {
  for (int i = 0; i < ARRAY_LEN(t->tm); i++)
    if (t->tm[i]) LLVMDisposeTargetMachine(t->tm[i]);
  *t = (Target){0};
}

// The target of a request; the last one is kept, since requests come in runs.
static tenon_status choose_target(const CodeRequest *r, Target *t, Diag *d) {
  Machine m;
  TRY(machine_make(r->triple, r->cpu, r->features, &m, d));
  if (memcmp(&m, &t->machine, sizeof m)) {
    forget_target(t);
    t->machine = m;
  }
  if (t->tm[r->quick]) return TENON_OK;
  LLVMTargetRef target;
  char *error = NULL;
  if (LLVMGetTargetFromTriple(m.triple, &target, &error)) {
    tenon_status s = fail(d, TENON_EUNSUPPORTED, (Where){0}, "%s", error);
    LLVMDisposeMessage(error);
    return s;
  }
  // On x86 the features say all: the CPU's name only tunes, as a function's attribute.
  const char *cpu = m.arch == ARCH_X86_64 ? "x86-64" : m.cpu;
  LLVMCodeModel model = m.arch == ARCH_RISCV64 ? LLVMCodeModelMedium : LLVMCodeModelSmall;
  t->tm[r->quick] = LLVMCreateTargetMachine(
      target, m.triple, cpu, m.features,
      r->quick ? LLVMCodeGenLevelLess : LLVMCodeGenLevelAggressive, LLVMRelocPIC, model);
  if (!t->tm[r->quick])
    return fail(d, TENON_EUNSUPPORTED, (Where){0}, "LLVM has no machine for '%s'", m.triple);
  return TENON_OK;
}

static tenon_status run_passes(LLVMModuleRef mod, LLVMTargetMachineRef tm, Diag *d) {
  char *error = NULL;
  if (LLVMVerifyModule(mod, LLVMReturnStatusAction, &error)) {
    tenon_status s =
        fail(d, TENON_EINTERNAL, (Where){0}, "the code is not what LLVM takes: %s", error);
    LLVMDisposeMessage(error);
    return s;
  }
  LLVMDisposeMessage(error);
  LLVMPassBuilderOptionsRef opt = LLVMCreatePassBuilderOptions();
  LLVMErrorRef failed = LLVMRunPasses(mod, passes, tm, opt);
  LLVMDisposePassBuilderOptions(opt);
  if (!failed) return TENON_OK;
  char *text = LLVMGetErrorMessage(failed);
  tenon_status s = fail(d, TENON_EINTERNAL, (Where){0}, "%s", text);
  LLVMDisposeErrorMessage(text);
  return s;
}

static int64_t instructions(LLVMModuleRef mod) {
  int64_t n = 0;
  for (LLVMValueRef f = LLVMGetFirstFunction(mod); f; f = LLVMGetNextFunction(f))
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
      for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) n++;
  return n;
}

// Loop strength reduction weighs the addresses of a loop against one another: half of all the time
// for a large kernel, whose unrolled body hides what addresses cost.  Small loops gain by it.
// Quick code does without: that is most of what makes it quick.
static void choose_reduction(LLVMModuleRef mod, bool quick) {
  enum { LARGE = 4000 };
  static bool off;
  bool want = quick || instructions(mod) > LARGE;
  if (want == off) return;
  const char *argv[] = {"tenon-codegen", want ? "-disable-lsr=true" : "-disable-lsr=false"};
  LLVMParseCommandLineOptions(2, argv, NULL);
  off = want;
}

static tenon_status generate(LLVMModuleRef mod, LLVMTargetMachineRef tm, const CodeRequest *r,
                             Arena *a, Diag *d, CodeReply *out) {
  if (r->kind == CODE_LLVM) {
    char *text = LLVMPrintModuleToString(mod);
    Str s = str_of(text);
    out->bytes = (Str){arena_dup(a, s.p, s.n), s.n};
    LLVMDisposeMessage(text);
    return TENON_OK;
  }
  LLVMMemoryBufferRef buf;
  char *error = NULL;
  choose_reduction(mod, r->quick);
  LLVMCodeGenFileType type = r->kind == CODE_ASM ? LLVMAssemblyFile : LLVMObjectFile;
  if (LLVMTargetMachineEmitToMemoryBuffer(tm, mod, type, &error, &buf)) {
    tenon_status s = fail(d, TENON_EINTERNAL, (Where){0}, "%s", error);
    LLVMDisposeMessage(error);
    return s;
  }
  Str obj = {LLVMGetBufferStart(buf), (int64_t)LLVMGetBufferSize(buf)};
  tenon_status s = TENON_OK;
  out->bytes = (Str){arena_dup(a, obj.p, obj.n), obj.n};
  LLVMDisposeMemoryBuffer(buf);
  if (r->kind == CODE_IMAGE || r->kind == CODE_CHECKED)
    s = image_link(out->bytes, r->symbol, a, d, &out->bytes, &out->entry);
  return s;
}

// What has been verified before it came here and is refused is a defect of ours.
static tenon_status as_defect(tenon_status s, Diag *d) {
  if (s && s != TENON_ENOMEM) d->status = s = TENON_EINTERNAL;
  return s;
}

static tenon_status compile(const CodeRequest *r, Target *t, Arena *a, Diag *d, CodeReply *out) {
  TRY(choose_target(r, t, d));
  IntPool pool;
  intpool_init(&pool, a);
  LoopKernel *k;
  TRY(as_defect(loop_parse(r->kernel, "kernel", a, &pool, d, &k), d));
  if (r->kind != CODE_CHECKED) TRY(as_defect(loop_verify(k, d), d));  // what is checked need not be
  if (!r->symbol.n || memchr(r->symbol.p, 0, (size_t)r->symbol.n))
    return fail(d, TENON_EINVAL, (Where){0}, "the entry has no name");
  LLVMContextRef ctx = LLVMContextCreate();
  LLVMTargetMachineRef tm = t->tm[r->quick];
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(tm);
  Emit e = {.k = k,
            .m = &t->machine,
            .arena = a,
            .d = d,
            .ctx = ctx,
            .layout = layout,
            .checked = r->kind == CODE_CHECKED};
  tenon_status s = emit_kernel(&e, str_copy(a, r->symbol));
  LLVMDisposeTargetData(layout);
  if (!s) s = run_passes(e.mod, tm, d);
  if (!s) s = generate(e.mod, tm, r, a, d, out);
  LLVMDisposeModule(e.mod);
  LLVMContextDispose(ctx);
  return s;
}

// ---- the stream ----

// False: the stream ended before the first byte (`*torn` false) or within (true).
static bool read_all(void *p, int64_t n, bool *torn) {
  for (int64_t at = 0; at < n;) {
    int64_t got = 0;
    *torn = at > 0;
    if (platform->read(0, (char *)p + at, n - at, &got) || !got) return false;
    at += got;
  }
  return true;
}

static bool send(const CodeReply *r) {
  uint8_t head[PROTOCOL_HEADER];
  reply_header(r, head);
  return !fd_write(1, head, sizeof head) && !fd_write(1, r->message.p, r->message.n) &&
         !fd_write(1, r->bytes.p, r->bytes.n);
}

// False: no more of them.  That whoever asked is gone is no news for anybody.
static bool serve_one(const uint8_t *head, Target *t) {
  CodeRequest r;
  int64_t size;
  if (!request_parse(head, &r, &size)) {
    fputs("tenon-codegen: the stream holds no request\n", stderr);
    return false;
  }
  char *body = mem_alloc(size + 1);
  bool torn;
  if (!body) return false;
  if (!read_all(body, size, &torn)) {
    mem_free(body, size + 1);
    return false;
  }
  request_body(&r, body);
  Arena a;
  arena_init(&a);
  Diag d;
  diag_init(&d);
  CodeReply reply = {0};
  Trap trap;
  sandbox_begin_kernel();
  orphan_busy();
  trap_enter(&trap, &d);
  if (setjmp(trap.env) == 0) {
    codegen_test_hook(&r);
    trap.status = compile(&r, t, &a, &d, &reply);
  }
  trap_leave(&trap);
  orphan_idle();
  sandbox_end_kernel();
  reply.status = trap.status;
  if (reply.status) {
    reply.bytes = (Str){0};
    reply.entry = 0;
    reply.message = str_of(d.text);
  }
  bool ok = send(&reply);
  arena_deinit(&a);
  mem_free(body, size + 1);
  return ok;
}

static const char usage[] =
    "Usage: tenon-codegen [--help | --version | --layers | --parent PID [--memory MIB] "
    "[--background]]\n"
    "\n"
    "Makes machine code for kernels.  The library starts this program and speaks to it through a "
    "pipe:\n"
    "requests on standard input, replies on standard output, until the input ends.\n"
    "\n"
    "  --layers      confine this process as for requests, and print which layers hold\n"
    "  --parent PID  end at once when this process, which started it, has ended already\n"
    "  --memory MIB  memory that it may take on top of LLVM itself\n"
    "  --background  work at a lower priority, for code that nobody waits for\n";

static int64_t memory_mib = LIMIT_CODEGEN_MIB;
enum { BACKGROUND_NICE = 5 };  // a third of what a busy process of the usual priority gets

static SandboxLimits limits(void) {
  return (SandboxLimits){.memory = memory_mib << 20, .cpu_seconds = CPU_SECONDS};
}

static void print_layers(const Layers *l) {
  for (int i = 0; i < LAYERS; i++)
    printf("%s\t%s\t%s\n", layer_name[i], l->layer[i].active ? "active" : "missing",
           l->layer[i].text);
}

static bool serve(void) {
  Target t = {0};
  uint8_t head[PROTOCOL_HEADER];
  bool torn = false;
  while (read_all(head, sizeof head, &torn))
    if (!serve_one(head, &t)) return false;
  forget_target(&t);
  LLVMShutdown();
  return !torn;
}

// What a client gives: --parent first, the others after it.
static bool read_arguments(int argc, char **argv, int64_t *parent, bool *background) {
  if (argc < 3 || strcmp(argv[1], "--parent") || !str_to_i64(str_of(argv[2]), parent) ||
      *parent <= 0)
    return false;
  for (int i = 3; i < argc; i++) {
    if (!strcmp(argv[i], "--background"))
      *background = true;
    else if (strcmp(argv[i], "--memory") || ++i == argc ||
             !str_to_i64(str_of(argv[i]), &memory_mib) || memory_mib <= 0 ||
             memory_mib > LIMIT_CODEGEN_MIB)
      return false;
  }
  return true;
}

int main(int argc, char **argv) {
  bool layers = argc == 2 && !strcmp(argv[1], "--layers");
  int64_t parent = 0;
  if (argc == 2 && !strcmp(argv[1], "--help")) {
    fputs(usage, stdout);
    return 0;
  }
  if (argc == 2 && !strcmp(argv[1], "--version")) {
    printf("tenon-codegen %s, LLVM %s\n", TENON_VERSION, TENON_LLVM_VERSION);
    return 0;
  }
  bool background = false;
  if (argc != 1 && !layers && !read_arguments(argc, argv, &parent, &background)) {
    fprintf(stderr, "tenon-codegen: no argument '%s'\n%s", argv[1], usage);
    return 2;
  }
  if (!orphan_watch(parent)) return 1;
  // Where the system refuses, it works at the usual priority.
  if (background) (void)setpriority(PRIO_PROCESS, 0, BACKGROUND_NICE);
  init_llvm();
  SandboxLimits l = limits();
  Layers active;
  sandbox_enter(&l, &active);
  if (layers) print_layers(&active);
  return layers || serve() ? 0 : 1;
}
