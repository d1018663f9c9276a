// profile.c -- where a run's time goes (profile.h).
//
// A step takes at least the time of its operations at the peak of their kind, or of its bytes at
// the rate of the level of memory that they come from; the larger of the two is its roofline.
// Constants come from the level that holds all of the program's constants and its arena, since all
// of them are gone through in every run; other values from the level that holds those of the step,
// since they were written just before.  Bytes read and written in pairs go at the rate of copying.
// Kernels of a device are held to the device's peak (peak_device.c), and take at least a launch.
// Copies between the host and a device have no roofline: they are summed up by themselves.
#include "cli/bench/profile.h"

#include <stdlib.h>

enum { SHOWN_STEPS = 40 };

static const char *const kind_word[] = {"kernel", "host", "view", "copy"};
static const char *const level_word[] = {"L1", "L2", "L3", "memory"};
static const char *const ops_word[] = {"f32", "bf16", "i8", "tf32"};
static const char tensor_word[] = "tensor", launch_word[] = "launch", copy_word[] = "copy";

const char *profile_kind(const ProgStep *st) { return kind_word[st->kind]; }

static int by_time(const void *x, const void *y) {
  double a = ((const ProfileRow *)x)->ms, b = ((const ProfileRow *)y)->ms;
  return (a < b) - (a > b);
}

static int by_lost(const void *x, const void *y) {
  double a = ((const ProfileRow *)x)->lost_ms, b = ((const ProfileRow *)y)->lost_ms;
  return (a < b) - (a > b);
}

// ---- what a step needs ----

typedef struct Needs {
  double constants, read, written;  // bytes
  OpsKind ops;
} Needs;

#define NO_TYPE ((DType)0)
static bool is_byte(DType t) { return t == DT_I8 || t == DT_U8; }

// What a kernel multiplies in: the type of its largest constant, or of its operands where it has
// none.  Constants in words hold pairs of bf16 or four bytes, whichever the operands are.
static OpsKind ops_kind(const Program *p, const ProgFunction *f, const ProgStep *st) {
  DType constant = NO_TYPE, operand = NO_TYPE;
  int64_t largest = 0;
  bool bytes = false;
  for (int32_t i = 0; i < st->nargs; i++) {
    const ProgValue *v = &f->value[st->arg[i]];
    int64_t size = v->place == PLACE_CONST ? p->constant[v->slot].bytes : -1;
    if (size < 0) {
      operand = operand == NO_TYPE ? v->dtype : operand;
      bytes |= is_byte(v->dtype);
    } else if (size > largest) {
      largest = size;
      constant = v->dtype;
    }
  }
  DType t = constant == NO_TYPE ? operand : constant;
  if (constant == DT_U32) return bytes ? OPS_I8 : OPS_BF16;
  return t == DT_BF16 || t == DT_F16 ? OPS_BF16 : is_byte(t) ? OPS_I8 : OPS_F32;
}

static bool on_device(const Program *p, const ProgStep *st) {
  return st->kind == STEP_KERNEL && p->kernel[st->kernel].device > 0;
}

// Whether the kernel's products are on tensor cores: its schedule says so.
static bool on_tensor_cores(const ProgStep *st) {
  return st->op &&
         (str_starts(str_of(st->op), "gemm_mma") || str_starts(str_of(st->op), "attention_mma"));
}

// What a device's kernel computes in.
static OpsKind device_ops(const Program *p, const ProgFunction *f, const ProgStep *st) {
  OpsKind k = ops_kind(p, f, st);
  if (!on_tensor_cores(st)) return OPS_F32;
  return k == OPS_F32 ? OPS_TF32 : k;
}

// 0 where sizes are dynamic.
static double value_size(const Program *p, const int64_t *unbound, const ProgValue *v) {
  int64_t n = 1, bytes;
  for (int32_t i = 0; i < v->rank; i++) {
    int64_t dim;
    if (v->dim[i] < 0 || !prog_eval(p, v->dim[i], unbound, &dim) || !ck_mul(n, dim, &n)) return 0;
  }
  return v->rank >= 0 && dtype_bytes(v->dtype, n, &bytes) ? (double)bytes : 0;
}

static Needs needs_of(const Program *p, const int64_t *unbound, const ProgFunction *f,
                      const ProgStep *st) {
  Needs n = {.ops = ops_kind(p, f, st)};
  for (int32_t i = 0; i < st->nargs; i++) {
    const ProgValue *v = &f->value[st->arg[i]];
    if (v->place == PLACE_CONST) n.constants += (double)p->constant[v->slot].bytes;
  }
  for (int32_t i = 0; i < st->nout; i++)
    n.written += st->out[i] < 0 ? 0 : value_size(p, unbound, &f->value[st->out[i]]);
  // A table is not read whole: no more is charged than the step was said to move.
  n.constants = MIN(n.constants, st->bytes);
  n.written = MIN(n.written, st->bytes - n.constants);
  n.read = st->bytes - n.constants - n.written;
  return n;
}

static MemLevel level_of(const Peak *p, double bytes) {
  return bytes <= (double)p->l2 ? LEVEL_L2 : bytes <= (double)p->l3 ? LEVEL_L3 : LEVEL_MEMORY;
}

// Seconds that a step takes at least, and what they are made of.
static double least_seconds(const Peak *p, const Needs *n, double flops, double program_bytes,
                            const char **bound) {
  MemLevel weights = level_of(p, program_bytes), values = level_of(p, n->read + n->written);
  double pairs = MIN(n->read, n->written), alone = n->read + n->written - 2 * pairs;
  double rest = n->read > n->written ? alone / p->read[values] : alone / p->copy[values];
  double moved = n->constants / p->read[weights];
  double memory = moved + 2 * pairs / p->copy[values] + rest;
  double compute = flops / p->ops[n->ops];
  *bound = compute >= memory     ? ops_word[n->ops]
           : 2 * moved >= memory ? level_word[weights]
                                 : level_word[values];
  return MAX(compute, memory);
}

typedef struct Rows {
  const Program *program;
  const Peaks *peaks;
  double program_bytes;
  const int64_t *unbound;
  int64_t runs;
  Profile *out;
} Rows;

// Seconds that a step takes at least, and what they are made of; 0: its machine's peak is unknown.
static double bound_of(const Rows *q, const ProgFunction *f, const ProgStep *st,
                       const char **bound) {
  Needs n = needs_of(q->program, q->unbound, f, st);
  if (!on_device(q->program, st))
    return least_seconds(&q->peaks->host, &n, st->flops, q->program_bytes, bound);
  const Peak *peak = &q->peaks->device;
  if (!peak->device) return 0;
  n.ops = device_ops(q->program, f, st);
  double least = least_seconds(peak, &n, st->flops, q->program_bytes, bound);
  bool tensor = *bound == ops_word[n.ops] && n.ops != OPS_F32;
  if (tensor) *bound = tensor_word;
  if (peak->launch_ms / 1e3 < least) return least;
  *bound = launch_word;
  return peak->launch_ms / 1e3;
}

static double copied_bytes(const Rows *q, const ProgFunction *f, const ProgStep *st) {
  double n = 0;
  for (int32_t i = 0; i < st->nout; i++)
    n += st->out[i] < 0 ? 0 : value_size(q->program, q->unbound, &f->value[st->out[i]]);
  return n;
}

static void add_part(ProfileParts *p, const ProfileRow *r, bool device) {
  bool memory = r->bound == level_word[LEVEL_L2] || r->bound == level_word[LEVEL_MEMORY];
  double *to = r->bound == copy_word     ? &p->copies
               : !device                 ? &p->host
               : r->bound == tensor_word ? &p->tensor
               : r->bound == launch_word ? &p->launch
               : memory                  ? &p->memory
                                         : &p->arithmetic;
  *to += r->ms;
}

static void fill_row(const Rows *q, const ProgFunction *f, const StepTime *t, ProfileRow *r) {
  const ProgStep *st = r->step;
  double runs = (double)MAX(q->runs, 1), ms = (double)t->ns / runs / 1e6;
  double calls = (double)t->calls / runs;
  r->bound = "";
  r->ms = ms;
  if (!f->index) q->out->total_ms += ms;
  if (ms <= 0) return;
  bool copy = st->kind == STEP_COPY;
  double bytes = copy ? copied_bytes(q, f, st) : st->bytes;
  double least = copy ? 0 : 1e3 * bound_of(q, f, st, &r->bound);
  if (copy) r->bound = copy_word;
  r->gflops = calls * st->flops / ms / 1e6;
  r->gbytes = calls * bytes / ms / 1e6;
  r->roofline = calls * least / ms;
  if (least > 0) r->lost_ms = MAX(ms - calls * least, 0);
  if (!f->index) add_part(&q->out->parts, r, on_device(q->program, st));
}

static void add_function(const Rows *q, const ProgFunction *f, const StepTime *times) {
  int32_t first = 0, more = -1;  // of those that run concurrently: the first, and how many are left
  for (int32_t i = 0; i < f->nsteps; i++) {
    if (more < 0) first = i, more = f->step[i].more;
    more--;
    if ((f->index || f->step[i].when >= 0) && !times[i].calls) continue;
    ProfileRow *r = &q->out->row[q->out->n++];
    *r = (ProfileRow){.step = &f->step[i], .function = f->index, .number = first};
    r->concurrent = f->step[first].more;
    fill_row(q, f, &times[i], r);
  }
}

void profile_make(const Session *s, const Peaks *peaks, bool by_loss, Arena *a, Profile *out) {
  const Program *p = session_program(s);
  int64_t n = 1;
  for (int32_t i = 0; i < p->nfunctions; i++) n += p->function[i]->nsteps;
  int64_t *unbound = arena_array(a, int64_t, MAX(p->nsyms, 1));
  for (int32_t i = 0; i < p->nsyms; i++) unbound[i] = SYM_UNBOUND;
  *out = (Profile){.row = arena_array(a, ProfileRow, n), .has_device = p->ndevices > 1};
  Rows q = {.program = p, .peaks = peaks, .unbound = unbound, .out = out};
  q.program_bytes = (double)p->constants_bytes + (double)session_arena_bytes(s);
  for (int32_t i = 0; i < p->function[0]->nsteps; i++)
    q.runs = MAX(q.runs, session_times(s, 0)[i].calls);
  for (int32_t i = 0; i < p->nfunctions; i++) add_function(&q, p->function[i], session_times(s, i));
  qsort(out->row, (size_t)out->n, sizeof *out->row, by_loss ? by_lost : by_time);
}

double profile_compute_seconds(const Program *p, const Peaks *peaks) {
  const ProgFunction *f = p->function[0];
  double sum = 0;
  for (int32_t i = 0; i < f->nsteps; i++) {
    const ProgStep *st = &f->step[i];
    if (!on_device(p, st))
      sum += st->flops / peaks->host.ops[ops_kind(p, f, st)];
    else if (peaks->device.device)
      sum += st->flops / peaks->device.ops[device_ops(p, f, st)];
  }
  return sum;
}

bool profile_beats(const Profile *p, const Peak *peak) {
  const double noise = 1.05, enough_ms = 0.05;
  if (p->has_device) return false;
  for (int32_t i = 0; i < p->n; i++) {
    const ProfileRow *r = &p->row[i];
    for (int k = 0; k < OPS_MEASURED; k++)
      if (r->ms > enough_ms && !strcmp(r->bound, ops_word[k]) &&
          r->gflops * 1e9 > noise * peak->ops[k])
        return true;
  }
  return false;
}

// ---- printing ----

static const char *name_of(const ProgStep *st) { return st->node ? st->node : ""; }

// Of the names that are shown; what is behind a longer one is moved, not cut.
static int name_columns(const Profile *p) {
  size_t most = strlen("node");
  for (int32_t i = 0; i < MIN(p->n, SHOWN_STEPS); i++)
    most = MAX(most, strlen(name_of(p->row[i].step)));
  return (int)MIN(most, NAME_COLUMNS);
}

static void print_parts(const Profile *p) {
  const ProfileParts *x = &p->parts;
  double all = p->total_ms > 0 ? p->total_ms / 100 : 1;
  printf("by what bounds the steps: tensor cores %.1f%%, other arithmetic %.1f%%, memory %.1f%%, "
         "launches %.1f%%; copies between host and device %.1f%%, host %.1f%%\n",
         x->tensor / all, x->arithmetic / all, x->memory / all, x->launch / all, x->copies / all,
         x->host / all);
}

void profile_print(Cli *c, const Profile *p) {
  bool concurrent = false, inner = false;
  double rest = 0, lost = 0, rest_lost = 0;
  int wide = name_columns(p);
  printf("\n%6s %10s %10s %10s %9s %9s %-6s  %-6s %5s %-*s  %s\n", "share", "ms", "lost ms",
         "GFLOP/s", "GB/s", "roofline", "of", "kind", "step", wide, "node", "what");
  for (int32_t i = 0; i < p->n; i++) {
    const ProfileRow *r = &p->row[i];
    double own = r->function ? 0 : 1;  // what a body takes is in the step that calls it
    lost += own * r->lost_ms;
    if (i >= SHOWN_STEPS) {
      rest += own * r->ms;
      rest_lost += own * r->lost_ms;
      continue;
    }
    concurrent |= r->concurrent > 0;
    inner |= r->function > 0;
    say(c, "%5.1f%% %10.4f %10.4f %10.1f %9.1f %8.1f%% %-6s  %-6s %4d%s %-*s  %s\n",
        p->total_ms > 0 ? 100 * r->ms / p->total_ms : 0, r->ms, r->lost_ms, r->gflops, r->gbytes,
        100 * r->roofline, r->bound, profile_kind(r->step), r->number,
        r->function     ? ">"
        : r->concurrent ? "|"
                        : " ",
        wide, name_of(r->step), r->step->op ? r->step->op : "");
  }
  if (p->n > SHOWN_STEPS)
    printf("%5.1f%% %10.4f %10.4f  in %d more steps\n", 100 * rest / p->total_ms, rest, rest_lost,
           p->n - SHOWN_STEPS);
  if (p->total_ms > 0)
    printf("all steps %.4f ms, of which the roofline explains %.1f%%\n", p->total_ms,
           100 * (1 - lost / p->total_ms));
  if (p->has_device) print_parts(p);
  if (inner) printf("> in the body of a step, whose time has this in it\n");
  if (concurrent)
    printf("| kernels of one number run concurrently; each has its share of their time\n");
}

static void parts_json(JsonWriter *w, const ProfileParts *x) {
  json_key(w, "parts_ms");
  json_begin_object(w);
  json_key_f64(w, "tensor", x->tensor);
  json_key_f64(w, "arithmetic", x->arithmetic);
  json_key_f64(w, "memory", x->memory);
  json_key_f64(w, "launch", x->launch);
  json_key_f64(w, "copies", x->copies);
  json_key_f64(w, "host", x->host);
  json_end_object(w);
}

void profile_json(JsonWriter *w, const Profile *p) {
  if (p->has_device) parts_json(w, &p->parts);
  json_key(w, "steps");
  json_begin_array(w);
  for (int32_t i = 0; i < p->n; i++) {
    const ProfileRow *r = &p->row[i];
    json_begin_object(w);
    json_key(w, "kind");
    json_cstr(w, profile_kind(r->step));
    json_key(w, "what");
    json_cstr(w, r->step->op);
    json_key(w, "node");
    json_cstr(w, r->step->node);
    json_key(w, "ms");
    json_f64(w, r->ms);
    json_key(w, "lost_ms");
    json_f64(w, r->lost_ms);
    json_key(w, "step");
    json_i64(w, r->number);
    json_key(w, "function");
    json_i64(w, r->function);
    json_key(w, "concurrent");
    json_i64(w, r->concurrent);
    json_key(w, "flops");
    json_f64(w, r->step->flops);
    json_key(w, "bytes");
    json_f64(w, r->step->bytes);
    json_key(w, "bound");
    json_cstr(w, r->bound);
    json_key(w, "roofline_share");
    json_f64(w, r->roofline);
    json_end_object(w);
  }
  json_end_array(w);
}
