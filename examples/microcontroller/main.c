// main.c -- a digit recogniser on a microcontroller: one image in, the digit and its probability
// out.
//
//   tenon compile ../digits/digits.onnx --fix batch=1 --target c --embedded -o digits.c
//   cc -O2 main.c digits.c -lm -o digits && ./digits                          # on this machine
//   arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb -O2 main.c digits.c -lm ...     # on a board
//
// digits.c allocates nothing: DIGITS_ARENA_BYTES, DIGITS_WEIGHT_BYTES and DIGITS_STACK_BYTES of
// digits.h are all its memory.  The image is stored as bytes, as a sensor gives it.  printf is the
// only call of the C library here: replace it by the board's serial line.
#include "digits.h"

#include <stdint.h>
#include <stdio.h>

static const uint8_t sensor[64] = {
    0, 0, 10, 16, 16, 10, 1,  0, 0, 4, 16, 11, 11, 16, 3,  0,  //
    0, 1, 9,  1,  10, 15, 1,  0, 0, 0, 0,  5,  16, 10, 0,  0,  //
    0, 0, 0,  0,  7,  15, 10, 0, 0, 0, 0,  0,  0,  7,  16, 0,  //
    0, 2, 12, 7,  4,  14, 15, 1, 0, 0, 11, 16, 16, 15, 4,  0,
};

int main(void) {
  static float image[64], probability[10];
  for (int i = 0; i < 64; i++) image[i] = sensor[i];
  int code = digits(image, probability);
  if (code) {
    printf("error: %s\n", digits_error(code));
    return 1;
  }
  int best = 0;
  for (int i = 1; i < 10; i++)
    if (probability[i] > probability[best]) best = i;
  printf("digit %d, %d %%, %d bytes of RAM, %d of weights\n", best,
         (int)(probability[best] * 100 + 0.5f), DIGITS_ARENA_BYTES + DIGITS_SCRATCH_BYTES,
         DIGITS_WEIGHT_BYTES);
  return 0;
}
