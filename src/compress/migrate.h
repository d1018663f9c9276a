// migrate.h -- scale that moves from a tensor's channels to the weights that read it, so that both
// lose less when they are rounded.
//
// A site is a tensor and the contractions that read it.  Channel c of the tensor is divided by
// s[c], and the weights that meet it are multiplied by s[c].  The division goes into what makes the
// tensor: a contraction before (cross-layer equalisation), the constants of a normalisation,
// product or sum; else it is a product of its own.  Factors are powers of two, so the model in
// floats keeps its bits, but for subnormal numbers.
//
// s[c] is max|x_c|^a / max|w_c|^b with exponents that are searched for each site: those of the
// least error that rounding is estimated to make.  Activations that become integers count their
// range over all channels; weights are rounded.
#ifndef TENON_COMPRESS_MIGRATE_H
#define TENON_COMPRESS_MIGRATE_H

#include "compress/groups.h"

typedef enum {
#define MIGRATION(id, ...) MIGRATION_##id,
#include "compress/migrations.def"
  MIGRATIONS
} Migration;
typedef struct MigrationRow {
  const char *name;
  bool floats, bytes, layers;
  const char *doc;
} MigrationRow;
extern const MigrationRow migration_row[MIGRATIONS];
int migration_find(Str name);  // -1: there is none

typedef struct MigrateSite {
  const Node *x;
  int axis;               // of channels
  const char *by;         // the node that takes the inverse; NULL: a product is put behind x
  Migration kind;         // as the certificate names it
  int64_t size, factors;  // channels; channel c has factor c / (size / factors)
  int *exponent;          // [factors] of two
  double before, after;   // estimated errors
} MigrateSite;
// An operand of a node that is multiplied along the axis of the channels.
typedef struct MigrateChange {
  const Node *node;
  uint32_t operand;
  int64_t site, size;
  int behind;  // of the constant's axes, those behind the one of the channels
  enum { MIGRATE_CONST, MIGRATE_INPUTS, MIGRATE_OUTPUTS, MIGRATE_PRODUCT } what;
  bool inverse;
} MigrateChange;
typedef struct MigratePlan {
  VEC(MigrateSite) site;
  VEC(MigrateChange) change;
  int64_t even, refused;  // tensors that would not gain; whose scale nothing could take
  Migration *of;          // by group: what its site is called, or MIGRATION_NONE
} MigratePlan;

typedef struct MigrateTask {
  Graph *g;
  const GroupList *groups;
  const StatsList *stats;  // of the tensors that contractions read
  Choice choice;           // of all groups that it is for
  int64_t block;           // of 4-bit weights
  Migration how;
} MigrateTask;
MUST_USE tenon_status migrate_find(const MigrateTask *t, Arena *a, Diag *d, MigratePlan *out);
// Replaces the main body.  *out: by group, its node in the new one.
MUST_USE tenon_status migrate_apply(const MigrateTask *t, const MigratePlan *p, Arena *a, Diag *d,
                                    const Node ***out);

// ---- factors (migrate_factors.c) ----
typedef struct MigrateReader {
  const QuantGroup *group;
  const float *w;  // [outputs][inputs][taps]
} MigrateReader;
typedef struct MigrateFactorTask {
  const MigrateReader *reader;
  int64_t nreaders;
  const TensorStats *stats;
  bool bytes;       // the tensor becomes integers
  int weight_bits;  // 8: one scale an output; 4: one a block
  int64_t block;
} MigrateFactorTask;
// Exponents, and the estimates without and with them, of a site whose sizes are known.
void migrate_factors(const MigrateFactorTask *t, Arena *a, MigrateSite *site);

#endif
