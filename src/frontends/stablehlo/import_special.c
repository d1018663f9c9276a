// import_special.c -- special functions of CHLO by their published approximations.
//
// lgamma and digamma are Lanczos' (g = 7, n = 9), erf_inv is Giles', erfc and bessel_i1e are those
// of Cephes.  Each is computed in the precision that StableHLO's own expansion uses: halves in f32,
// others in their own type.
#include "frontends/stablehlo/import.h"

#include <math.h>

#define NUM(v) hb_num(g, x, (v))

// clang-format off
static const double lanczos[] = {676.520368121885098567009190444019, -1259.13921672240287047156078755283, 771.3234287776530788486528258894, -176.61502916214059906584551354, 12.507343278686904814458936853, -0.13857109526572011689554707, 9.984369578019570859563e-6, 1.50563273514931155834e-7};
static const double inv32_low[] = {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164, 0.246640727, 1.50140941};
static const double inv32_high[] = {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047, 1.00167406, 2.83297682};
static const double inv64_low[] = {-3.6444120640178196996e-21, -1.685059138182016589e-19, 1.2858480715256400167e-18, 1.115787767802518096e-17, -1.333171662854620906e-16, 2.0972767875968561637e-17, 6.6376381343583238325e-15, -4.0545662729752068639e-14, -8.1519341976054721522e-14, 2.6335093153082322977e-12, -1.2975133253453532498e-11, -5.4154120542946279317e-11, 1.051212273321532285e-09, -4.1126339803469836976e-09, -2.9070369957882005086e-08, 4.2347877827932403518e-07, -1.3654692000834678645e-06, -1.3882523362786468719e-05, 0.0001867342080340571352, -0.00074070253416626697512, -0.0060336708714301490533, 0.24015818242558961693, 1.6536545626831027356};
static const double inv64_mid[] = {2.2137376921775787049e-09, 9.0756561938885390979e-08, -2.7517406297064545428e-07, 1.8239629214389227755e-08, 1.5027403968909827627e-06, -4.013867526981545969e-06, 2.9234449089955446044e-06, 1.2475304481671778723e-05, -4.7318229009055733981e-05, 6.8284851459573175448e-05, 2.4031110387097893999e-05, -0.0003550375203628474796, 0.00095328937973738049703, -0.0016882755560235047313, 0.0024914420961078508066, -0.0037512085075692412107, 0.005370914553590063617, 1.0052589676941592334, 3.0838856104922207635};
static const double inv64_high[] = {-2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09, -3.7894654401267369937e-09, 7.6157012080783393804e-09, -1.4960026627149240478e-08, 2.9147953450901080826e-08, -6.7711997758452339498e-08, 2.2900482228026654717e-07, -9.9298272942317002539e-07, 4.5260625972231537039e-06, -1.9681778105531670567e-05, 7.5995277030017761139e-05, -0.00021503011930044477347, -0.00013871931833623122026, 1.0103004648645343977, 4.8499064014085844221};
static const double i1e32_a[] = {9.38153738649577178388E-9, -4.44505912879632808065E-8, 2.00329475355213526229E-7, -8.56872026469545474066E-7, 3.47025130813767847674E-6, -1.32731636560394358279E-5, 4.78156510755005422638E-5, -1.61760815825896745588E-4, 5.12285956168575772895E-4, -1.51357245063125314899E-3, 4.15642294431288815669E-3, -1.05640848946261981558E-2, 2.47264490306265168283E-2, -5.29459812080949914269E-2, 1.02643658689847095384E-1, -1.76416518357834055153E-1, 2.52587186443633654823E-1};
static const double i1e32_b[] = {-3.83538038596423702205E-9, -2.63146884688951950684E-8, -2.51223623787020892529E-7, -3.88256480887769039346E-6, -1.10588938762623716291E-4, -9.76109749136146840777E-3, 7.78576235018280120474E-1};
static const double i1e64_a[] = {2.77791411276104639959E-18, -2.11142121435816608115E-17, 1.55363195773620046921E-16, -1.10559694773538630805E-15, 7.60068429473540693410E-15, -5.04218550472791168711E-14, 3.22379336594557470981E-13, -1.98397439776494371520E-12, 1.17361862988909016308E-11, -6.66348972350202774223E-11, 3.62559028155211703701E-10, -1.88724975172282928790E-9, 9.38153738649577178388E-9, -4.44505912879632808065E-8, 2.00329475355213526229E-7, -8.56872026469545474066E-7, 3.47025130813767847674E-6, -1.32731636560394358279E-5, 4.78156510755005422638E-5, -1.61760815825896745588E-4, 5.12285956168575772895E-4, -1.51357245063125314899E-3, 4.15642294431288815669E-3, -1.05640848946261981558E-2, 2.47264490306265168283E-2, -5.29459812080949914269E-2, 1.02643658689847095384E-1, -1.76416518357834055153E-1, 2.52587186443633654823E-1};
static const double i1e64_b[] = {7.51729631084210481353E-18, 4.41434832307170791151E-18, -4.65030536848935832153E-17, -3.20952592199342395980E-17, 2.96262899764595013876E-16, 3.30820231092092828324E-16, -1.88035477551078244854E-15, -3.81440307243700780478E-15, 1.04202769841288027642E-14, 4.27244001671195135429E-14, -2.10154184277266431302E-14, -4.08355111109219731823E-13, -7.19855177624590851209E-13, 2.03562854414708950722E-12, 1.41258074366137813316E-11, 3.25260358301548823856E-11, -1.89749581235054123450E-11, -5.58974346219658380687E-10, -3.83538038596423702205E-9, -2.63146884688951950684E-8, -2.51223623787020892529E-7, -3.88256480887769039346E-6, -1.10588938762623716291E-4, -9.76109749136146840777E-3, 7.78576235018280120474E-1};
static const double erfc_p[] = {2.46196981473530512524E-10, 5.64189564831068821977E-1, 7.46321056442269912687E0, 4.86371970985681366614E1, 1.96520832956077098242E2, 5.26445194995477358631E2, 9.34528527171957607540E2, 1.02755188689515710272E3, 5.57535335369399327526E2};
static const double erfc_q[] = {1.00000000000000000000E0, 1.32281951154744992508E1, 8.67072140885989742329E1, 3.54937778887819891062E2, 9.75708501743205489753E2, 1.82390916687909736289E3, 2.24633760818710981792E3, 1.65666309194161350182E3, 5.57535340817727675546E2};
static const double erfc_r[] = {5.64189583547755073984E-1, 1.27536670759978104416E0, 5.01905042251180477414E0, 6.16021097993053585195E0, 7.40974269950448939160E0, 2.97886665372100240670E0};
static const double erfc_s[] = {1.00000000000000000000E0, 2.26052863220117276590E0, 9.39603524938001434673E0, 1.20489539808096656605E1, 1.70814450747565897222E1, 9.60896809063285878198E0, 3.36907645100081516050E0};
static const double erf_t[] = {9.60497373987051638749E0, 9.00260197203842689217E1, 2.23200534594684319226E3, 7.00332514112805075473E3, 5.55923013010394962768E4};
static const double erf_u[] = {1.00000000000000000000E0, 3.35617141647503099647E1, 5.21357949780152679795E2, 4.59432382970980127987E3, 2.26290000613890934246E4, 4.92673942608635921086E4};
// clang-format on
static const double LANCZOS_G = 7, LANCZOS_BASE = 0.99999999999980993227684700473478;

// c[0] x^(n-1) + ... + c[n-1]
static Node *polynomial(Graph *g, Node *x, const double *c, int64_t n) {
  Node *p = NUM(c[0]);
  for (int64_t i = 1; i < n; i++) p = N(g, add, N(g, mul, p, x), NUM(c[i]));
  return p;
}

static Node *chebyshev(Graph *g, Node *x, const double *c, int64_t n) {
  Node *b0 = NUM(0), *b1 = b0, *b2 = b0;
  for (int64_t i = 0; i < n; i++) {
    b2 = b1;
    b1 = b0;
    b0 = N(g, add, N(g, sub, N(g, mul, x, b1), b2), NUM(c[i]));
  }
  return N(g, mul, N(g, sub, b0, b2), NUM(0.5));
}

typedef struct Lanczos {
  Node *reflects, *z, *a, *slope, *t, *log_t;
} Lanczos;
static Lanczos lanczos_of(Graph *g, Node *x) {
  Lanczos l = {.reflects = N(g, lt, x, NUM(0.5))};
  l.z = hb_where(g, l.reflects, N(g, neg, x), N(g, sub, x, NUM(1)));
  l.a = NUM(LANCZOS_BASE);
  l.slope = NUM(0);
  for (int i = 0; i < ARRAY_LEN(lanczos); i++) {
    Node *k = N(g, add, l.z, NUM(i + 1)), *q = N(g, div, NUM(lanczos[i]), k);
    l.a = N(g, add, l.a, q);
    l.slope = N(g, sub, l.slope, N(g, div, NUM(lanczos[i]), N(g, mul, k, k)));
  }
  l.t = N(g, add, NUM(LANCZOS_G + 0.5), l.z);
  Node *rest = hr_function(g, "log_plus_one", N(g, div, l.z, NUM(LANCZOS_G + 0.5)));
  l.log_t = N(g, add, NUM(log(LANCZOS_G + 0.5)), rest);
  return l;
}

// |sin(pi x)| by the distance to the nearest integer.
static Node *lgamma_of(Graph *g, Node *x) {
  Lanczos l = lanczos_of(g, x);
  Node *r = N(g, sub, N(g, add, l.z, NUM(0.5)), N(g, div, l.t, l.log_t));
  r = N(g, add, NUM((log(2) + log(M_PI)) / 2), N(g, add, N(g, mul, r, l.log_t), N(g, log, l.a)));
  Node *ax = N(g, abs, x), *frac = N(g, sub, ax, N(g, floor, ax));
  frac = hb_where(g, N(g, lt, NUM(0.5), frac), N(g, sub, NUM(1), frac), frac);
  Node *den = N(g, log, N(g, sin, N(g, mul, NUM(M_PI), frac)));
  Node *other = N(g, sub, N(g, sub, NUM(log(M_PI)), den), r);
  other = hb_where(g, N(g, lt, N(g, abs, den), NUM(INFINITY)), other, N(g, neg, den));
  Node *y = hb_where(g, l.reflects, other, r);
  return hb_where(g, N(g, is_inf, x), NUM(INFINITY), y);
}

static Node *digamma_of(Graph *g, Node *x) {
  Lanczos l = lanczos_of(g, x);
  Node *y = N(g, sub, N(g, add, l.log_t, N(g, div, l.slope, l.a)), N(g, div, NUM(LANCZOS_G), l.t));
  Node *near = N(g, add, x, N(g, abs, N(g, floor, N(g, add, x, NUM(0.5)))));
  Node *angle = N(g, mul, NUM(M_PI), near);
  Node *cot = N(g, div, N(g, mul, NUM(M_PI), N(g, cos, angle)), N(g, sin, angle));
  y = hb_where(g, l.reflects, N(g, sub, y, cot), y);
  Node *pole = N(g, and, N(g, le, x, NUM(0)), N(g, eq, x, N(g, floor, x)));
  return hb_where(g, pole, NUM(NAN), y);
}

#define POLY(x, c) polynomial(g, (x), (c), ARRAY_LEN(c))
static Node *erfc_of(Graph *g, Node *x) {
  DType t = type_of(x)->dtype;
  x = hb_cast(g, x, DT_F64);
  Node *ax = N(g, abs, x), *square = N(g, mul, x, x), *e = N(g, exp, N(g, neg, square));
  Node *low = N(g, div, N(g, mul, e, POLY(ax, erfc_p)), POLY(ax, erfc_q));
  Node *high = N(g, div, N(g, mul, e, POLY(ax, erfc_r)), POLY(ax, erfc_s));
  Node *far = hb_where(g, N(g, lt, ax, NUM(8)), low, high);
  far = hb_where(g, N(g, lt, NUM(709.782712893384), square), NUM(0), far);
  far = hb_where(g, N(g, lt, x, NUM(0)), N(g, sub, NUM(2), far), far);
  Node *near = N(g, div, N(g, mul, x, POLY(square, erf_t)), POLY(square, erf_u));
  Node *y = hb_where(g, N(g, lt, ax, NUM(1)), N(g, sub, NUM(1), near), far);
  return hb_cast(g, hb_where(g, N(g, is_nan, x), x, y), t);
}

static Node *erf_inv_of(Graph *g, Node *x) {
  Node *w = N(g, neg, hr_function(g, "log_plus_one", N(g, neg, N(g, mul, x, x)))), *p;
  if (type_of(x)->dtype == DT_F64) {
    Node *root = N(g, sqrt, w);
    Node *low = POLY(N(g, sub, w, NUM(3.125)), inv64_low);
    Node *mid = POLY(N(g, sub, root, NUM(3.25)), inv64_mid);
    Node *high = POLY(N(g, sub, root, NUM(5)), inv64_high);
    p = hb_where(g, N(g, lt, w, NUM(6.25)), low, hb_where(g, N(g, lt, w, NUM(16)), mid, high));
  } else {
    Node *low = POLY(N(g, sub, w, NUM(2.5)), inv32_low);
    Node *high = POLY(N(g, sub, N(g, sqrt, w), NUM(3)), inv32_high);
    p = hb_where(g, N(g, lt, w, NUM(5)), low, high);
  }
  Node *edge = N(g, eq, N(g, abs, x), NUM(1));
  return hb_where(g, edge, N(g, mul, x, NUM(INFINITY)), N(g, mul, p, x));
}

static Node *bessel_i1e_of(Graph *g, Node *x) {
  bool wide = type_of(x)->dtype == DT_F64;
  Node *z = N(g, abs, x), *u = N(g, sub, N(g, mul, NUM(0.5), z), NUM(2));
  Node *v = N(g, sub, N(g, div, NUM(32), z), NUM(2));
  Node *low = wide ? chebyshev(g, u, i1e64_a, ARRAY_LEN(i1e64_a))
                   : chebyshev(g, u, i1e32_a, ARRAY_LEN(i1e32_a));
  Node *high = wide ? chebyshev(g, v, i1e64_b, ARRAY_LEN(i1e64_b))
                    : chebyshev(g, v, i1e32_b, ARRAY_LEN(i1e32_b));
  Node *y = hb_where(g, N(g, le, z, NUM(8)), N(g, mul, z, low), N(g, div, high, N(g, sqrt, z)));
  return N(g, mul, N(g, sign, x), y);
}

// Halved before the sum, so that it overflows only where the result does.
static Node *cosh_of(Graph *g, Node *x) {
  if (type_of(x)->dtype == DT_F64) return N(g, cosh, x);
  Node *half = NUM(log(0.5));
  return N(g, add, N(g, exp, N(g, add, x, half)), N(g, exp, N(g, sub, half, x)));
}
static Node *sinh_of(Graph *g, Node *x) {
  if (type_of(x)->dtype == DT_F64) return N(g, sinh, x);
  Node *half = NUM(log(0.5)), *e = hr_function(g, "exponential_minus_one", x);
  Node *far = N(g, sub, N(g, exp, N(g, add, x, half)), N(g, exp, N(g, sub, half, x)));
  Node *near = N(g, mul, NUM(0.5), N(g, add, e, N(g, div, e, N(g, add, e, NUM(1)))));
  return hb_where(g, N(g, lt, N(g, abs, x), NUM(1)), near, far);
}

static const struct {
  const char *name;
  Node *(*fn)(Graph *g, Node *x);
} functions[] = {
    {"lgamma", lgamma_of},   {"digamma", digamma_of}, {"erfc", erfc_of},
    {"erf_inv", erf_inv_of}, {"cosh", cosh_of},       {"bessel_i1e", bessel_i1e_of},
    {"sinh", sinh_of},
};

Node *hr_special(Graph *g, const char *name, Node *x) {
  if (g->status) return g->poison;
  DType t = type_of(x)->dtype, wide = t == DT_F64 ? DT_F64 : DT_F32;
  for (int64_t i = 0; i < ARRAY_LEN(functions); i++)
    if (!strcmp(functions[i].name, name))
      return hb_cast(g, functions[i].fn(g, hb_cast(g, x, wide)), t);
  return NULL;
}
