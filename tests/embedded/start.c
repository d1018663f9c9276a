// start.c -- a Cortex-M board of QEMU's (mps2-an386 and its like): vectors, memory set up, output
// by semihosting, and how much stack a call takes.
//
// main.c gives `run_model`.  The stack is filled with a pattern first; what a call overwrites of it
// is what it took.
#include <stddef.h>
#include <stdint.h>

extern uint32_t data_from[], data_begin[], data_end[], bss_begin[], bss_end[], stack_begin[],
    stack_end[];
int run_model(void);

static int semihost(int op, const void *arg) {
  register int r0 __asm__("r0") = op;
  register const void *r1 __asm__("r1") = arg;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

static void put_text(const char *text) { semihost(0x04, text); }

static void put_number(const char *name, long v) {
  char s[16];
  int n = (int)sizeof s - 1;
  unsigned long u = v < 0 ? 0ul - (unsigned long)v : (unsigned long)v;
  s[n] = 0;
  do s[--n] = (char)('0' + u % 10);
  while (u /= 10);
  if (v < 0) s[--n] = '-';
  put_text(name);
  put_text(&s[n]);
  put_text("\n");
}

enum { PATTERN = 0x5a5aa5a5 };

// The stack pointer, about: no array, whose bounds a compiler would know.
static uintptr_t stack_now(void) { return (uintptr_t)__builtin_frame_address(0); }

__attribute__((noinline)) static long stack_taken(void) {
  uint32_t *p = stack_begin;
  while ((uintptr_t)p < stack_now() && *p == (uint32_t)PATTERN) p++;
  return (long)(stack_now() - (uintptr_t)p);
}

__attribute__((noinline)) static void fill_stack(void) {
  for (volatile uint32_t *p = stack_begin; (uintptr_t)p < stack_now() - 128; p++)
    *p = (uint32_t)PATTERN;
}

static void leave(int code) {
  const uint32_t why[2] = {0x20026, (uint32_t)code};
  semihost(0x20, why);
  for (;;) continue;
}

static void reset(void) {
  *(volatile uint32_t *)0xe000ed88 |= 0xfu << 20;  // the floating-point unit
  __asm__ volatile("dsb\nisb");
  for (uint32_t *p = data_begin, *q = data_from; p < data_end;) *p++ = *q++;
  for (uint32_t *p = bss_begin; p < bss_end;) *p++ = 0;
  fill_stack();
  int code = run_model();
  put_number("stack ", stack_taken());
  leave(code);
}

static void stop(void) {
  put_text("fault\n");
  leave(99);
}

typedef void Handler(void);
typedef struct Vectors {
  uint32_t *stack;
  Handler *handler[15];
} Vectors;
__attribute__((section(".vectors"), used)) static const Vectors vectors = {
    stack_end, {reset, stop, stop, stop, stop, stop}};

// What newlib asks for, should something pull it in: nothing here allocates or writes files.
void *_sbrk(ptrdiff_t n);
void *_sbrk(ptrdiff_t n) {
  (void)n;
  return (void *)-1;
}
