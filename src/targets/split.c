// split.c -- splits one graph over the host and a device, by cost (split.h).
//
// machine_costs estimates FLOP rate, bandwidth, launch and copy time of both sides.  A minimum cut
// (plan/placement.c) assigns each kernel.  Rules of `--place` override it; the last one that fits
// counts.
//
// Needs:      device_begin has opened the device; Target.with names the host's target.
// Guarantees: EINVAL for a rule that names neither side.  The assignment depends on the graph, the
//             machines' descriptions and the rules alone.
#include "targets/split.h"

#include "plan/placement.h"
#include "runtime/speed.h"

// What is reached of the peaks, and what nobody tells us: memory, and the way between the machines.
static void machine_costs(const Machine *host, const DeviceInfo *i, AssignCosts *out) {
  const double reached = 0.5, of_a_cpu = 0.25;
  out->machine[0] = (AssignMachine){machine_speed(host) * reached, 20e9, 2e-6};
  if (i->is_cpu) {
    // The same cores, by a compiler that knows less of the loops; memory is copied within itself.
    out->machine[1] = (AssignMachine){machine_speed(host) * of_a_cpu, 15e9, 30e-6};
    out->link = 5e9;
    out->copy = 10e-6;
    return;
  }
  double speed = device_speed(i) * reached;
  out->machine[1] = (AssignMachine){speed, speed / 12, 8e-6};
  out->link = 10e9;
  out->copy = 15e-6;
}

// ---- rules ----

static const char *word_of(const char *rule) {
  const char *equals = strrchr(rule, '=');
  return equals ? equals + 1 : "";
}

static tenon_status check_rules(const DeviceTarget *t, Diag *d) {
  for (int64_t i = 0; i < t->options->nplace; i++) {
    const char *rule = t->options->place[i], *word = word_of(rule);
    bool known = !strcmp(word, t->target->with->name) || !strcmp(word, t->target->driver);
    if (known || !strcmp(rule, "alternate")) continue;
    return fail(d, TENON_EINVAL, NOWHERE, "'%s' places nothing: give GLOB=%s, GLOB=%s or alternate",
                rule, t->target->with->name, t->target->driver);
  }
  return TENON_OK;
}

static int forced(void *ctx, const Node *n) {
  DeviceTarget *t = ctx;
  int on = -1;
  for (int64_t i = 0; i < t->options->nplace; i++) {
    const char *rule = t->options->place[i], *word = word_of(rule);
    if (!strcmp(rule, "alternate")) {
      on = t->nplaced % 2 == 0;
      continue;
    }
    const char *glob = str_copy(t->arena, (Str){rule, (int64_t)(strlen(rule) - strlen(word) - 1)});
    if (str_glob(glob, n->name ? n->name : "")) on = strcmp(word, t->target->with->name) != 0;
  }
  t->nplaced++;
  return on;
}

static int device_of(void *ctx, const Node *n) {
  const DeviceTarget *t = ctx;
  return assigned_to(t->assignment, n);
}

tenon_status split_begin(DeviceTarget *t, Graph *g, const MemPlan *plan, Arena *a, Diag *d,
                         LowerOptions *lo) {
  AssignCosts costs;
  Assignment *assignment = arena_new(a, Assignment);
  TRY(check_rules(t, d));
  machine_costs(t->options->machine, t->driver->info(t->device), &costs);
  t->arena = a;
  assign_kernels(g, lo->sizes ? lo->sizes : &plan->reference, &costs, forced, t, a, assignment);
  t->assignment = assignment;
  lo->host_kernels = true;
  lo->device_of = device_of;
  return TENON_OK;
}
