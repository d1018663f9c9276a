// main.c -- a fuzz target without libFuzzer: executes each file that is named once.  For builds
// that libFuzzer does not suit (coverage, valgrind); prints what libFuzzer prints, so that
// tests/fuzz/replay.sh reads both.
#include "fuzz.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);

// A mutator of a target is linked and never called.
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max) {
  (void)data, (void)max;
  return size;
}

static int execute(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f || fseek(f, 0, SEEK_END)) return 1;
  long n = ftell(f);
  rewind(f);
  uint8_t *bytes = malloc(n > 0 ? (size_t)n : 1);
  bool whole = bytes && n >= 0 && fread(bytes, 1, (size_t)n, f) == (size_t)n;
  fclose(f);
  if (whole) LLVMFuzzerTestOneInput(bytes, (size_t)n);
  free(bytes);
  if (whole) printf("Executed %s\n", path);
  return !whole;
}

int main(int argc, char **argv) {
  int failed = 0;
  for (int i = 1; i < argc; i++)
    if (argv[i][0] != '-') failed |= execute(argv[i]);  // an option is libFuzzer's
  return failed;
}
