// dot.c -- a view for Graphviz, which lays it out itself: bodies are clusters, joined to their node
// by a dashed edge.
#include "view/view.h"

static void put_node(StrBuf *b, const View *v, int64_t drawing, int64_t i) {
  const DrawNode *n = &v->drawing.v[drawing]->node.v[i];
  strbuf_printf(b, "  n%lld_%lld [label=\"", (long long)drawing, (long long)i);
  escape_dot(b, str_of(n->title));
  for (int64_t k = 0; k < n->row.n; k++) {
    const DrawRow *r = &n->row.v[k];
    strbuf_puts(b, "\\n");
    escape_dot(b, str_of(r->key));
    if (*r->key && *r->value) strbuf_putc(b, ' ');
    escape_dot(b, str_of(r->value));
  }
  strbuf_printf(b, "\", fillcolor=\"%s\"", family_info[n->family].light);
  if (n->kind == DRAW_INPUT || n->kind == DRAW_OUTPUT) strbuf_puts(b, ", style=\"rounded,filled\"");
  if (n->name) {
    strbuf_puts(b, ", tooltip=\"");
    escape_dot(b, str_of(n->name));
    strbuf_putc(b, '"');
  }
  strbuf_puts(b, "];\n");
}

static void put_edges(StrBuf *b, const View *v, int64_t drawing) {
  const Drawing *d = v->drawing.v[drawing];
  long long g = (long long)drawing;
  for (int64_t i = 0; i < d->edge.n; i++) {
    const DrawEdge *e = &d->edge.v[i];
    strbuf_printf(b, "  n%lld_%lld -> n%lld_%lld", g, (long long)e->from, g, (long long)e->to);
    if (e->label) {
      strbuf_puts(b, " [label=\"");
      escape_dot(b, str_of(e->label));
      strbuf_puts(b, "\"]");
    }
    strbuf_puts(b, ";\n");
  }
}

static void put_links(StrBuf *b, const View *v, int64_t drawing) {
  const Drawing *d = v->drawing.v[drawing];
  for (int64_t i = 0; i < d->node.n; i++)
    for (int64_t k = 0; k < d->node.v[i].body.n; k++) {
      const DrawBody *link = &d->node.v[i].body.v[k];
      if (!v->drawing.v[link->drawing]->node.n) continue;
      strbuf_printf(
          b, "n%lld_%lld -> n%lld_0 [style=dashed, constraint=false, lhead=cluster%lld, label=\"",
          (long long)drawing, (long long)i, (long long)link->drawing, (long long)link->drawing);
      escape_dot(b, str_of(link->attr));
      strbuf_puts(b, "\"];\n");
    }
}

void view_write_dot(const View *v, StrBuf *out) {
  strbuf_puts(out, "// " FILE_MARK " " TENON_VERSION "\ndigraph \"");
  escape_dot(out, str_of(v->model));
  strbuf_puts(
      out,
      "\" {\n  compound=true;\n"
      "  node [shape=box, style=filled, fontname=\"Helvetica\", fontsize=11, fontcolor=white, "
      "color=\"#ffffff00\"];\n"
      "  edge [fontname=\"Helvetica\", fontsize=9, color=\"#8a949f\", fontcolor=\"#57636f\"];\n");
  for (int64_t i = 0; i < v->drawing.n; i++) {
    const Drawing *d = v->drawing.v[i];
    if (i) {
      strbuf_printf(out,
                    "subgraph cluster%lld {\n  color=\"#c3cad2\"; fontname=\"Helvetica\"; label=\"",
                    (long long)i);
      escape_dot(out, str_of(d->title));
      strbuf_puts(out, "\";\n");
    }
    for (int64_t k = 0; k < d->node.n; k++) put_node(out, v, i, k);
    put_edges(out, v, i);
    if (i) strbuf_puts(out, "}\n");
  }
  for (int64_t i = 0; i < v->drawing.n; i++) put_links(out, v, i);
  strbuf_puts(out, "}\n");
}
