// bytecode_ir.c -- the IR section of MLIR bytecode: blocks, ops, and the numbers of values.
//
// An isolated op (a function, a module) has its regions in a section of its own and counts its
// values from 0; within it a region's values continue the numbers around it, and regions beside one
// another use the same.
#include "frontends/stablehlo/bytecode.h"

enum {
  OP_ATTRS = 1,
  OP_RESULTS = 2,
  OP_OPERANDS = 4,
  OP_SUCCESSORS = 8,
  OP_REGIONS = 16,
  OP_ORDERS = 32,
  OP_PROPERTIES = 64
};

typedef struct Scope {
  VEC(MlirValue *) value;
  int64_t next;
} Scope;

static MlirValue *new_value(Bytes *b, Scope *s, const MlirType *t) {
  Bytecode *f = b->file;
  MlirValue *v = arena_new(f->arena, MlirValue);
  v->type = t;
  v->id = f->nvalues++;
  v->name = str_printf(f->arena, "%%%lld", (long long)v->id);
  if (s->next < s->value.n)
    s->value.v[s->next++] = v;
  else
    bc_fail(b, "more values than the region has");
  return v;
}

// How the uses of values are ordered; it means nothing here.
static void skip_orders(Bytes *b, int64_t nvalues) {
  int64_t n = nvalues > 1 ? bc_count(b) : 1;
  for (int64_t i = 0; i < n && !bc_bad(b); i++) {
    if (nvalues > 1) bc_varint(b);
    uint64_t count = bc_varint(b) >> 1;
    for (uint64_t k = 0; k < count && !bc_bad(b); k++) bc_varint(b);
  }
}

static MlirBlock *read_block(Bytes *b, Scope *s, bool in_function);

static void read_arguments(Bytes *b, Scope *s, MlirBlock *block) {
  int64_t n = bc_count(b);
  MlirValue **args = arena_array(b->file->arena, MlirValue *, MAX(n, 1));
  for (int64_t i = 0; i < n && !bc_bad(b); i++) {
    const MlirType *t;
    bool has_loc = true;
    if (b->file->version >= 4) {
      uint64_t v = bc_varint(b);
      if (v >> 1 >= (uint64_t)b->file->ntypes)
        bc_fail(b, "type %llu", (unsigned long long)(v >> 1));
      has_loc = v & 1;
      t = bc_bad(b) ? bc_new_type(b, MT_NONE) : bc_type_at(b, (int64_t)(v >> 1));
    } else {
      t = bc_type(b);
    }
    if (has_loc) bc_varint(b);
    args[i] = new_value(b, s, t);
    args[i]->index = i;
  }
  block->args = args;
  block->nargs = bc_bad(b) ? 0 : n;
  if (b->file->version >= 3 && bc_byte(b)) skip_orders(b, n);
}

static MlirRegion *read_region(Bytes *b, Scope *s, bool in_function) {
  Bytecode *f = b->file;
  MlirRegion *r = arena_new(f->arena, MlirRegion);
  int64_t nblocks = bc_count(b);
  if (!nblocks) return r;
  uint64_t nvalues = bc_varint(b);
  int64_t start = s->value.n, next = s->next;
  // a value is an argument or a result, each of which takes bytes of what is left
  if (nvalues > (uint64_t)(b->end - b->p))
    bc_fail(b, "%llu values of a region", (unsigned long long)nvalues);
  if (bc_bad(b)) return r;
  for (uint64_t i = 0; i < nvalues; i++) vec_push(f->arena, &s->value, (MlirValue *)NULL);
  s->next = start;
  MlirBlock **blocks = arena_array(f->arena, MlirBlock *, nblocks);
  for (int64_t i = 0; i < nblocks && !bc_bad(b); i++) {
    blocks[i] = read_block(b, s, in_function);
    r->nblocks = i + 1;
  }
  r->blocks = blocks;
  s->value.n = start;
  s->next = next;
  return r;
}

static void read_regions(Bytes *b, Scope *s, MlirOp *op) {
  uint64_t v = bc_varint(b);
  bool isolated = v & 1, in_function = !strcmp(op->name, "func.func");
  Bytes inner = *b, *from = b;
  Scope own = {0};
  if (isolated && b->file->version >= 2) {
    if (bc_section(b, &inner) != 4) bc_fail(b, "an op's regions are no section of IR");
    from = &inner;
  }
  if (v >> 1 > (uint64_t)(from->end - from->p))
    bc_fail(from, "%llu regions", (unsigned long long)(v >> 1));
  if (bc_bad(b)) return;
  int64_t n = (int64_t)(v >> 1);
  MlirRegion **r = arena_array(b->file->arena, MlirRegion *, MAX(n, 1));
  for (int64_t i = 0; i < n; i++) r[i] = read_region(from, isolated ? &own : s, in_function);
  op->regions = r;
  op->nregions = n;
}

static void add_fields(Bytes *b, MlirOp *op, const MlirAttr *dict) {
  if (dict->kind != MA_DICT) {
    bc_fail(b, "the attributes of %s are no dictionary", op->name);
    return;
  }
  MlirField *f = arena_array(b->file->arena, MlirField, MAX(op->nattrs + dict->n, 1));
  for (int64_t i = 0; i < op->nattrs; i++) f[i] = op->attrs[i];
  for (int64_t i = 0; i < dict->n; i++) f[op->nattrs + i] = dict->fields[i];
  op->attrs = f;
  op->nattrs += dict->n;
}

static void one_property(Bytes *b, MlirOp *op, const char *name, const MlirAttr *value) {
  MlirField f = {name, mlir_plain_attr(b->file->arena, name, value)};
  MlirAttr one = {.kind = MA_DICT, .fields = &f, .n = 1};
  add_fields(b, op, &one);
}

// Attributes by position: a module's two are optional, those of VHLO's ops are all there.
static void read_properties(Bytes *b, MlirOp *op, const OpName *name) {
  Bytecode *f = b->file;
  int64_t i = bc_index(b, f->property.n, "properties");
  if (bc_bad(b)) return;
  Str s = f->property.v[i];
  Bytes p = {(const uint8_t *)s.p, (const uint8_t *)s.p + s.n, f};
  bool module = !strcmp(name->dialect, "builtin");
  const char *at = module ? "sym_name sym_visibility" : vhlo_attrs(name->name);
  if (!at || (!module && strcmp(name->dialect, "vhlo"))) {
    bc_unsupported(b, "the properties of %s.%s in bytecode", name->dialect, name->name);
    return;
  }
  while (*at && !bc_bad(b)) {
    const char *end = strchr(at, ' ') ? strchr(at, ' ') : at + strlen(at);
    const char *key = str_copy(f->arena, (Str){at, end - at});
    if (module) {
      uint64_t v = bc_varint(&p);
      if (v >> 1 >= (uint64_t)f->nattrs && v & 1)
        bc_fail(&p, "attribute %llu", (unsigned long long)(v >> 1));
      if (v & 1 && !bc_bad(b)) one_property(&p, op, key, bc_attr_at(&p, (int64_t)(v >> 1)));
    } else {
      one_property(&p, op, key, bc_attr(&p));
    }
    at = *end ? end + 1 : end;
  }
  if (!bc_bad(b) && p.p != p.end)
    bc_fail(&p, "properties of %s.%s that are not known", name->dialect, name->name);
}

static void read_operands(Bytes *b, Scope *s, MlirOp *op) {
  int64_t n = bc_count(b);
  MlirValue **v = arena_array(b->file->arena, MlirValue *, MAX(n, 1));
  for (int64_t i = 0; i < n && !bc_bad(b); i++) {
    int64_t k = bc_index(b, s->value.n, "value");
    if (!bc_bad(b)) v[i] = s->value.v[k];
    if (!bc_bad(b) && !v[i]) bc_fail(b, "value %lld is used before it is defined", (long long)k);
  }
  op->operands = v;
  op->noperands = bc_bad(b) ? 0 : n;
}

static MlirOp *read_op(Bytes *b, Scope *s, bool in_function) {
  Bytecode *f = b->file;
  MlirOp *op = arena_new(f->arena, MlirOp);
  op->name = "";
  op->offset = b->p - (const uint8_t *)f->bytes.p;
  int64_t index = bc_index(b, f->op.n, "operation");
  int mask = bc_byte(b);
  if (bc_bad(b)) return op;
  const OpName *name = &f->op.v[index];
  op->name = str_printf(f->arena, "%s.%s", name->dialect, name->name);
  op->loc = bc_attr(b)->text;
  if (mask & OP_ATTRS) add_fields(b, op, bc_attr(b));
  if (mask & OP_PROPERTIES) read_properties(b, op, name);
  const MlirType **types = NULL;
  if (mask & OP_RESULTS) {
    op->nresults = bc_count(b);
    types = arena_array(f->arena, const MlirType *, MAX(op->nresults, 1));
    for (int64_t i = 0; i < op->nresults; i++) types[i] = bc_type(b);
  }
  if (mask & OP_OPERANDS) read_operands(b, s, op);
  if (mask & OP_SUCCESSORS) bc_unsupported(b, "%s branches to other blocks", op->name);
  if (mask & OP_ORDERS) skip_orders(b, op->nresults);
  MlirValue **results = arena_array(f->arena, MlirValue *, MAX(op->nresults, 1));
  for (int64_t i = 0; i < op->nresults && !bc_bad(b); i++) {
    results[i] = new_value(b, s, types[i]);
    results[i]->op = op;
    results[i]->index = i;
  }
  op->results = results;
  if (bc_bad(b)) op->nresults = 0;
  if (!bc_bad(b)) vhlo_plain(f, op, in_function);
  if (mask & OP_REGIONS && !bc_bad(b)) {
    if (++f->depth > MLIR_DEPTH_MAX) bc_fail(b, "regions nested too deeply");
    if (!bc_bad(b)) read_regions(b, s, op);
    f->depth--;
  }
  return op;
}

static MlirBlock *read_block(Bytes *b, Scope *s, bool in_function) {
  Bytecode *f = b->file;
  MlirBlock *block = arena_new(f->arena, MlirBlock);
  uint64_t v = bc_varint(b);
  if (v & 1) read_arguments(b, s, block);
  if (v >> 1 > (uint64_t)(b->end - b->p))
    bc_fail(b, "%llu operations", (unsigned long long)(v >> 1));
  if (bc_bad(b)) return block;
  int64_t n = (int64_t)(v >> 1);
  MlirOp **ops = arena_array(f->arena, MlirOp *, MAX(n, 1));
  for (int64_t i = 0; i < n && !bc_bad(b); i++) {
    ops[i] = read_op(b, s, in_function);
    block->nops = i + 1;
  }
  block->ops = ops;
  return block;
}

tenon_status bc_read_ir(Bytes *ir, MlirModule **out) {
  Bytecode *f = ir->file;
  Scope top = {0};
  MlirBlock *block = read_block(ir, &top, false);
  if (!f->status && ir->p != ir->end) bc_fail(ir, "bytes behind the last operation");
  return f->status ? f->status : mlir_make_module(f->arena, block, f->nvalues, out, f->diag);
}
