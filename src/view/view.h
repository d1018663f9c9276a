// view.h -- drawings of a graph: what `tenon graph` shows, before it becomes a page, a picture or
// text.
//
// view_add makes one Drawing for each body (the main one first): inputs, operations and outputs are
// nodes, values are edges; constants are folded into the nodes that use them.  drawing_layout gives
// every node a place and every edge a path.  The writers (html.c, svg.c, dot.c) only read.
//
// All strings come from the model and are not trusted: they may hold markup, quotes, control
// characters or bytes that are not UTF-8.  Each writer escapes for its own format (escape.c).
//
// An optimised graph is drawn from a second main body of the same Graph (view_add): its kernels are
// nodes, and what is in them are bodies.  ViewOpt then says what became of what; only the page and
// its data show it.
#ifndef TENON_VIEW_VIEW_H
#define TENON_VIEW_VIEW_H

#include "base/markup.h"
#include "base/json.h"
#include "analyse/explain.h"
#include "plan/plan.h"

// ---- families: what colour a node has ----
// clang-format off
//        id        what the legend says         light      dark
#define FAMILIES(X)                                                     \
  X(port,     "input, output",          "#5b6573", "#8d99a8") \
  X(contract, "contraction",            "#2f6fbf", "#5b9bea") \
  X(arith,    "element-wise",           "#66707c", "#7f8b99") \
  X(activate, "activation",             "#b4443c", "#e0736a") \
  X(move,     "movement, indexing",     "#3d8a57", "#58b57a") \
  X(window,   "pooling, image, signal", "#2b8a97", "#4fb8c6") \
  X(reduce,   "reduction, norm, loss",  "#9a6a1c", "#d0993f") \
  X(quant,    "quantisation",           "#8a4f9e", "#b983cc") \
  X(make,     "constant, generator",    "#6b7a2f", "#a2b356") \
  X(control,  "control, sequence",      "#c2571b", "#ee8a50") \
  X(table,    "text, trees, tables",    "#7a5a48", "#b08f7b") \
  X(foreign,  "not supported",          "#c01f4a", "#ff5c86")
// clang-format on
typedef enum {
#define X(id, text, light, dark) FAMILY_##id,
  FAMILIES(X)
#undef X
      FAMILY_COUNT
} Family;
typedef struct FamilyInfo {
  const char *name, *light, *dark;
} FamilyInfo;
extern const FamilyInfo family_info[FAMILY_COUNT];
Family family_of(const Node *n);

// ---- drawings ----
typedef enum {
  DRAW_INPUT,
  DRAW_OP,
  DRAW_CONST,
  DRAW_OUTPUT,
  // in parts of a Fold alone:
  DRAW_MODULE,   // nodes with a common path
  DRAW_PORT_IN,  // where a value comes from outside
  DRAW_PORT_OUT  // where one leaves
} DrawKind;
typedef struct DrawRow {
  const char *key, *value;
} DrawRow;
typedef struct DrawBody {
  const char *attr;
  int64_t drawing;
} DrawBody;
typedef struct DrawNode {
  DrawKind kind;
  Family family;
  const Node *node;   // what it shows; DRAW_OUTPUT: what the value comes from
  const char *title;  // the op's name, the input's or the output's; never NULL
  const char *name;   // in the model; may be NULL
  VEC(DrawRow) row;   // lines under the title
  VEC(DrawBody) body;
  double x, y, w, h;  // of the box, from the upper left corner of the drawing
  double label_w;     // room that the labels below it need
  // What it costs at the sizes of the view, with all that is in it; of DRAW_OP.
  double flops;
  int64_t bytes;
  bool known;         // false: a size depends on data, and counts as 0
  double ms;          // of a run, as the profile says; < 0: not measured
  double share_ms;    // its part of it, where nodes share a kernel: those of all nodes add up
  int64_t shared;     // nodes that the kernel with this time was made of
  const char *timed;  // that kernel's name; may be NULL
  // In parts of a Fold.
  int64_t leaf;   // node of the drawing that it is; of a port: the node at the other end, or -1
  int64_t part;   // of DRAW_MODULE: what is in it; else -1
  int64_t holds;  // of DRAW_MODULE: nodes in it, at any depth
} DrawNode;
typedef struct DrawEdge {
  int64_t from, to;   // nodes; from < to
  int result;         // of `from`
  const char *label;  // the value's type, on one edge of each value; else NULL
  double label_x, label_y;
  // Edges of one value share their way: a path begins where the path of `parent` (-1: none) was
  // left.
  int64_t parent;
  const char *path;  // SVG path data, with the head of the arrow
} DrawEdge;
typedef struct Drawing {
  const Body *body;
  const char *title;
  int64_t parent, parent_node;  // the drawing and node that hold this body; -1 for a main one
  bool main;
  VEC(DrawNode) node;  // operands before users
  VEC(DrawEdge) edge;
  double w, h;
} Drawing;

// A drawing with its modules folded (fold.c).
enum { FOLD_MODULES = 1, FOLD_HOST = 2 };
typedef struct Fold {
  int64_t of;           // the drawing
  int by;               // FOLD_MODULES, FOLD_HOST or both
  VEC(Drawing *) part;  // 0: the whole; `parent` is the part that holds another one
} Fold;

// What a constant holds; filled when its bytes could be read.
typedef struct ConstView {
  const Node *node;
  bool readable;
  bool has_stats;  // min, max and mean of the finite elements
  double min, max, mean;
  int64_t nonfinite;
  const char **value;  // the first elements as text
  int64_t nvalues;
} ConstView;

// What optimising did.
typedef struct ViewOpt {
  const Explain *explain;
  const OptReport *report;
  const MemPlan *plan;      // NULL: there is none, and `no_plan` says why
  const char *no_plan;      // may be NULL
  const DimBinding *sizes;  // at which costs were counted, and at which the plan is shown first
  KernelCount kernels;
  GraphCost before, after;
  int64_t drawing;  // number of the optimised graph's main drawing
} ViewOpt;

// What a run was measured to take, step by step (profile.c).
typedef struct ViewStep {
  const char *node;    // name
  double ms;           // of a run
  int64_t at;          // place in the run
  bool inner, placed;  // in the body of a step; a node of the view has its time
} ViewStep;
typedef struct ViewProfile {
  const char *file;  // its name
  VEC(ViewStep) step;
  double total_ms, placed_ms;  // of the steps of the main body
  int64_t nplaced;
} ViewProfile;

// Lines under the title of each node of a name.
typedef struct ViewNote {
  const char *node;
  DrawRow row[2];  // without a value: none
} ViewNote;

typedef struct View {
  Graph *graph;
  Arena *arena;
  const char *model;  // what to call it
  VEC(Drawing *) drawing;
  VEC(ConstView) constant;
  IntMap const_index;    // node id -> index
  IntMap body_index;     // body -> drawing
  int64_t stats_budget;  // elements that may still be read
  IntMap kernel_index;   // node id -> number of the kernel (explain.h)
  VEC(Fold *) fold;
  const ViewNote *note;  // [nnotes]; set before drawings are added
  int64_t nnotes;
  const DimBinding *sizes;     // for costs; NULL: none are counted
  const ViewProfile *profile;  // NULL: nothing was measured
  const ViewOpt *opt;          // NULL: the graph was not optimised
  Diag *quiet;
} View;

// Everything lives in the arena.  The graph's scratch arena is used, and left as it was.
void view_init(View *v, Graph *g, const char *model, Arena *a);
// Draws a main body and those in it; the number of its drawing.
int64_t view_add(View *v, const Body *main);
void view_name_kernels(View *v, const Explain *x);  // numbers for the drawings that follow
// Folds a drawing; false: there is nothing to fold.
bool view_fold(View *v, int64_t drawing, int by);
// Reads what `tenon bench --profile --json`, `tenon bench --trace` or a profile of the Python
// package wrote.  All of it is copied into the arena.
MUST_USE tenon_status view_read_profile(Str json, const char *file, Arena *a, Diag *d,
                                        ViewProfile *out);
// Gives the nodes of all drawings their times.  `x` says which kernel has which nodes of drawing 0;
// `after` is the drawing of the optimised graph, -1: none.
void view_set_times(View *v, ViewProfile *p, const Explain *x, int64_t after);
void drawing_measure(Drawing *d, Arena *a);                 // sizes of boxes and labels
void drawing_layout(Drawing *d, Arena *a, Arena *scratch);  // scratch is left as it was
// What place.c needs to give coordinates to one layered graph (layout.c).
typedef struct Layered {
  int64_t n, nlayers, nsegs;
  double *width;         // [n] with the gap to its neighbours
  const bool *dummy;     // [n]
  int32_t *pos;          // [n] place within its layer
  int32_t *order;        // [n] items, layer by layer
  int64_t *layer_start;  // [nlayers + 1] into order
  // Segments between items of adjacent layers, by lower and by upper end, sorted by the other end's
  // pos.
  int64_t *up_start, *down_start;  // [n + 1]
  int32_t *up, *down;              // [nsegs] the other end
  int64_t *up_seg, *down_seg;      // [nsegs] number of the segment
} Layered;
void layout_place(const Layered *l, Arena *a, double *out_x);  // centres

// The constant's index in v->constant, read on first use.
int64_t view_constant(View *v, const Node *n);
const char *view_operand_name(const OpInfo *op, int64_t i, Arena *a);
const char *view_result_name(const OpInfo *op, int64_t i, Arena *a);
const char *view_type_text(const Type *t, Arena *a);
// One attribute's value as text; NULL for bodies.  At most `most` elements of a list are written.
const char *view_attr_text(const AttrDesc *d, const void *attrs, int64_t most, Arena *a);

// ---- writers ----
void view_write_html(const View *v, StrBuf *out);
void view_write_svg(const View *v, StrBuf *out);
void view_write_dot(const View *v, StrBuf *out);
void view_write_json(const View *v, StrBuf *out);       // what the page shows, as one object
void view_put_optimised(JsonWriter *w, const View *v);  // v->opt, as the value of a key

// ---- escape.c ----
// Between the quotes of a DOT string that is a label.
void escape_dot(StrBuf *b, Str s);
// JSON that is safe inside <script>: no < > & remains.
void escape_script(StrBuf *b, Str json);
double view_text_width(const char *s, double size);  // estimate, in the units of the font size
// Of the label of a value, with room on both sides.
static inline double view_label_width(const char *s) { return view_text_width(s, 10) + 10; }
// At most `most` characters of s, with an ellipsis in the middle when it was longer.
const char *view_text_cut(const char *s, int64_t most, Arena *a);

#endif
