// meaning_signed.h -- the integer meanings of scalar.def read for int64_t.  Included before the
// list, to be read again as unsigned afterwards (meaning_unsigned.h): so it has no guard.
#define INT_DIV(x, y)     trunc_div(x, y)
#define INT_REM(x, y)     trunc_rem(x, y)
#define INT_MOD(x, y)     floor_mod(x, y)
#define int_pow           signed_pow
#define SHIFT_LEFT(x, y)  (int64_t) shift_left((uint64_t)(x), (uint64_t)(y))
#define SHIFT_RIGHT(x, y) (y)<0 || (y)> 63 ? ((x) < 0 ? -1 : 0) : (x) >> (y)
