// svg.c -- a view as one still picture: the main drawing, and below it a framed one for each body.
#include "view/view.h"

enum { FRAME_GAP = 40, FRAME_HEAD = 34, ROW_WIDTH = 2400, TITLE_MAX = 60 };

static const char style[] =
    "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif}"
    ".t{font-size:12.5px;font-weight:600;fill:#fff;text-anchor:middle}"
    ".k{font-size:10.5px;fill:#66707c}.v{font-size:10.5px;fill:#1c2128;text-anchor:end}"
    ".m{font-size:10.5px;fill:#44505c;text-anchor:middle}"
    ".c{fill:#fff;stroke:#c3cad2}.e{fill:none;stroke:#9aa4af;stroke-width:1.2}"
    ".l{font-size:10px;fill:#57636f;text-anchor:middle;stroke:#fff;stroke-width:3px;"
    "paint-order:stroke;stroke-linejoin:round}"
    ".d{font-size:15px;font-weight:600;fill:#1c2128}.b{fill:none;stroke:#c3cad2;stroke-dasharray:4 "
    "4}";

static void put_text(StrBuf *b, const char *class, double x, double y, const char *text) {
  strbuf_printf(b, "<text class=\"%s\" x=\"%.0f\" y=\"%.0f\">", class, x, y);
  escape_xml(b, str_of(text));
  strbuf_puts(b, "</text>");
}

static void put_row(StrBuf *b, const DrawNode *n, int64_t i) {
  const DrawRow *r = &n->row.v[i];
  double y = 24 + 15 * (double)i + 13.5;
  if (!*r->value || !*r->key) {
    put_text(b, "m", n->w / 2, y, *r->key ? r->key : r->value);
    return;
  }
  put_text(b, "k", 8, y, r->key);
  put_text(b, "v", n->w - 8, y, r->value);
}

static void put_node(StrBuf *b, const DrawNode *n) {
  const char *color = family_info[n->family].light;
  bool port = n->kind == DRAW_INPUT || n->kind == DRAW_OUTPUT;
  double r = port ? 11 : 4;
  strbuf_printf(b, "<g transform=\"translate(%.1f %.1f)\">", n->x, n->y);
  if (n->name) {
    strbuf_puts(b, "<title>");
    escape_xml(b, str_of(n->name));
    strbuf_puts(b, "</title>");
  }
  strbuf_printf(b, "<rect class=\"c\" width=\"%.1f\" height=\"%.1f\" rx=\"%.0f\"/>", n->w, n->h, r);
  if (n->row.n)
    strbuf_printf(b,
                  "<path fill=\"%s\" d=\"M0 24V%.0fa%.0f %.0f 0 0 1 %.0f-%.0fH%.1fa%.0f %.0f 0 0 1 "
                  "%.0f %.0fV24z\"/>",
                  color, r, r, r, r, r, n->w - r, r, r, r, r);
  else
    strbuf_printf(b, "<rect fill=\"%s\" width=\"%.1f\" height=\"24\" rx=\"%.0f\"/>", color, n->w,
                  r);
  if (n->body.n) strbuf_printf(b, "<a href=\"#d%lld\">", (long long)n->body.v[0].drawing);
  put_text(b, "t", n->w / 2, 16.5, n->title);
  if (n->body.n) strbuf_puts(b, "</a>");
  for (int64_t i = 0; i < n->row.n; i++) put_row(b, n, i);
  strbuf_puts(b, "</g>\n");
}

static void put_drawing(StrBuf *b, const Drawing *d, int64_t index, double x, double y) {
  strbuf_printf(b, "<g id=\"d%lld\" transform=\"translate(%.0f %.0f)\">\n", (long long)index, x, y);
  if (index) {
    strbuf_printf(b, "<rect class=\"b\" x=\"1\" y=\"1\" width=\"%.0f\" height=\"%.0f\" rx=\"8\"/>",
                  d->w - 2, d->h + FRAME_HEAD - 2);
    put_text(b, "d", 16, 24, view_text_cut(d->title, TITLE_MAX, b->arena));
    strbuf_printf(b, "<g transform=\"translate(0 %d)\">\n", FRAME_HEAD);
  }
  for (int64_t i = 0; i < d->edge.n; i++)
    strbuf_printf(b, "<path class=\"e\" d=\"%s\"/>\n", d->edge.v[i].path);
  for (int64_t i = 0; i < d->node.n; i++) put_node(b, &d->node.v[i]);
  for (int64_t i = 0; i < d->edge.n; i++) {
    const DrawEdge *e = &d->edge.v[i];
    if (e->label) put_text(b, "l", e->label_x, e->label_y, e->label);
    if (e->label) strbuf_putc(b, '\n');
  }
  strbuf_puts(b, index ? "</g></g>\n" : "</g>\n");
}

// Where each drawing goes: the main one on top, the others in rows below it.
typedef struct Places {
  double *x, *y, w, h;
} Places;

static Places find_places(const View *v) {
  const Drawing *top = v->drawing.v[0];
  Places p = {arena_array(v->arena, double, v->drawing.n),
              arena_array(v->arena, double, v->drawing.n), top->w, top->h};
  double row_w = MAX(top->w, ROW_WIDTH), x = 0, y = top->h + FRAME_GAP;
  for (int64_t i = 1; i < v->drawing.n; i++) {
    Drawing *d = v->drawing.v[i];
    d->w = MAX(d->w, view_text_width(view_text_cut(d->title, TITLE_MAX, v->arena), 15) + 32);
    if (x > 0 && x + d->w > row_w) {
      x = 0;
      y = p.h + FRAME_GAP;
    }
    p.x[i] = x;
    p.y[i] = y;
    x += d->w + FRAME_GAP;
    p.w = MAX(p.w, x - FRAME_GAP);
    p.h = MAX(p.h, y + d->h + FRAME_HEAD);
  }
  return p;
}

void view_write_svg(const View *v, StrBuf *out) {
  Places p = find_places(v);
  strbuf_printf(out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
                "viewBox=\"0 0 %.0f %.0f\">\n<!-- " FILE_MARK " " TENON_VERSION " -->\n",
                p.w, p.h, p.w, p.h);
  strbuf_puts(out, "<title>");
  escape_xml(out, str_of(v->model));
  strbuf_printf(out, "</title>\n<style>%s</style>\n", style);
  strbuf_puts(out, "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n");
  for (int64_t i = 0; i < v->drawing.n; i++) put_drawing(out, v->drawing.v[i], i, p.x[i], p.y[i]);
  strbuf_puts(out, "</svg>\n");
}
