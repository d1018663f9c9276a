// meaning_unsigned.h -- the integer meanings of scalar.def read for uint64_t.  Takes the place of
// meaning_signed.h.
#undef INT_DIV
#undef INT_REM
#undef INT_MOD
#undef int_pow
#undef SHIFT_LEFT
#undef SHIFT_RIGHT
#define INT_DIV(x, y)     (x) / (y)
#define INT_REM(x, y)     (x) % (y)
#define INT_MOD(x, y)     (x) % (y)
#define int_pow           wrap_pow
#define SHIFT_LEFT(x, y)  shift_left(x, y)
#define SHIFT_RIGHT(x, y) shift_right(x, y)
