// quantize_report.c -- what a quantisation made, as a page of HTML (quantize.h).
//
// The page is whole: no script, no font and no picture from elsewhere.  Colours follow the
// reader's choice of light or dark.
#include "api/quantize.h"
#include "base/markup.h"

#include <math.h>
#include <stdio.h>

static const char style[] =
    ":root{--bg:#f6f7f9;--card:#fff;--line:#c3cad2;--ink:#1c2128;--soft:#5d6875;--accent:#0a66d6;"
    "--other:#b35c00;color-scheme:light}"
    "@media(prefers-color-scheme:dark){:root{--bg:#14171b;--card:#1f242a;--line:#3a424c;"
    "--ink:#e4e8ec;--soft:#98a3af;--accent:#6cb0ff;--other:#f5a54a;color-scheme:dark}}"
    "body{background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,sans-serif;margin:0 auto;"
    "max-width:900px;padding:24px 16px}"
    "h1{font-size:22px;overflow-wrap:anywhere}h2{font-size:17px;margin:28px 0 8px}"
    ".tiles{display:flex;flex-wrap:wrap;gap:12px}.tile{background:var(--card);border:1px solid "
    "var(--line);border-radius:8px;padding:10px 14px;flex:1 1 150px}"
    ".tile b{display:block;font-size:20px}.tile span,.soft{color:var(--soft);font-size:13px}"
    "table{border-collapse:collapse;width:100%;background:var(--card);border:1px solid var(--line)}"
    "td,th{padding:5px 9px;text-align:right;border-top:1px solid var(--line);font-variant-numeric:"
    "tabular-nums}th{color:var(--soft);font-weight:600}td:first-child,th:first-child{text-align:"
    "left;"
    "overflow-wrap:anywhere}.wide{overflow-x:auto}"
    ".bar{display:inline-block;height:9px;background:var(--accent);border-radius:2px;"
    "vertical-align:baseline;margin-right:6px}"
    "svg{box-sizing:border-box;width:100%;height:auto;background:var(--card);border:1px solid "
    "var(--line);"
    "border-radius:8px}svg text{fill:var(--soft);font-size:12px}"
    "pre{background:var(--card);border:1px solid var(--line);padding:12px;overflow:auto;"
    "font-size:12px}";

typedef struct ReportPage {
  StrBuf *out;
  const QuantizeOptions *o;
  const QuantizeResult *r;
  bool percent;
} ReportPage;

static void put_text(ReportPage *p, const char *text) { escape_xml(p->out, str_of(text)); }

static void put_value(ReportPage *p, double v) {
  strbuf_printf(p->out, p->percent ? "%.4g&#8239;%%" : "%.4g", p->percent ? 100 * v : v);
}

// ---- the figures on top ----

static void tile(ReportPage *p, const char *figure, const char *what) {
  strbuf_printf(p->out, "<div class=tile><b>%s</b><span>%s</span></div>\n", figure, what);
}

static void put_tiles(ReportPage *p) {
  const QuantizeResult *r = p->r;
  const QuantCertificate *c = &r->certificate;
  char text[2][200];
  strbuf_puts(p->out, "<div class=tiles>\n");
  if (r->bytes[1]) {
    snprintf(text[0], sizeof text[0], "%.2f &times;",
             (double)r->bytes[0] / (double)MAX(r->bytes[1], 1));
    snprintf(text[1], sizeof text[1], "smaller: %.4g of %.4g&#8239;MB", (double)r->bytes[1] / 1e6,
             (double)r->bytes[0] / 1e6);
    tile(p, text[0], text[1]);
  }
  if (r->certified) {
    snprintf(text[0], sizeof text[0], "%.2f &times;", 1 / r->time.ratio);
    snprintf(text[1], sizeof text[1], "as fast: %.4g &micro;s, %.4g before", r->time.ns[1] / 1e3,
             r->time.ns[0] / 1e3);
    tile(p, text[0], text[1]);
    strbuf_puts(p->out, "<div class=tile><b>");
    put_value(p, c->value);
    strbuf_printf(p->out, "</b><span>%s; with %.4g&#8239;%% confidence at %s ",
                  metric_row[c->metric].name, 100 * c->confidence,
                  metric_row[c->metric].sign > 0 ? "least" : "most");
    put_value(p, c->bound);
    strbuf_puts(p->out, "</span></div>\n");
  }
  snprintf(text[0], sizeof text[0], "%lld of %lld", (long long)r->quantized, (long long)r->groups);
  tile(p, text[0], p->o->pattern ? "contractions pruned" : "contractions quantised");
  strbuf_puts(p->out, "</div>\n");
}

// ---- the curve ----

enum { WIDTH = 860, HEIGHT = 320, LEFT = 78, RIGHT = 20, TOP = 18, BOTTOM = 44 };

typedef struct Curve {
  double x0, x1, y0, y1;  // speed, and the metric
} Curve;

static void stretch(Curve *c, double x, double y) {
  c->x0 = fmin(c->x0, x), c->x1 = fmax(c->x1, x);
  c->y0 = fmin(c->y0, y), c->y1 = fmax(c->y1, y);
}
static double at_x(const Curve *c, double x) {
  return LEFT + (x - c->x0) / (c->x1 - c->x0) * (WIDTH - LEFT - RIGHT);
}
static double at_y(const Curve *c, double y) {
  return TOP + (c->y1 - y) / (c->y1 - c->y0) * (HEIGHT - TOP - BOTTOM);
}

// What a model without any loss has.
static double perfect(Metric m) { return m == METRIC_AGREEMENT || m == METRIC_COSINE ? 1 : 0; }

static void put_axes(ReportPage *p, const Curve *c, Metric m) {
  enum { TICKS = 4 };
  for (int k = 0; k <= TICKS; k++) {
    double x = c->x0 + (c->x1 - c->x0) * k / TICKS, y = c->y0 + (c->y1 - c->y0) * k / TICKS;
    strbuf_printf(p->out,
                  "<line x1=%d x2=%d y1=%.1f y2=%.1f stroke=\"var(--line)\"/>"
                  "<text x=%d y=%.1f text-anchor=end>",
                  LEFT, WIDTH - RIGHT, at_y(c, y), at_y(c, y), LEFT - 6, at_y(c, y) + 4);
    put_value(p, y);
    strbuf_printf(p->out, "</text><text x=%.1f y=%d text-anchor=middle>%.2f&times;</text>\n",
                  at_x(c, x), HEIGHT - BOTTOM + 16, x);
  }
  strbuf_printf(p->out,
                "<text x=%d y=%d text-anchor=middle>times as fast</text>"
                "<text x=%d y=12 text-anchor=start>%s</text>\n",
                (WIDTH + LEFT) / 2, HEIGHT - 6, LEFT, metric_row[m].name);
}

static void put_point(ReportPage *p, const Curve *c, double x, double y, double bound,
                      const char *colour, const char *title) {
  strbuf_printf(p->out,
                "<g><title>%s</title><line x1=%.1f x2=%.1f y1=%.1f y2=%.1f stroke=\"var(--%s)\"/>"
                "<circle cx=%.1f cy=%.1f r=5 fill=\"var(--%s)\"/></g>\n",
                title, at_x(c, x), at_x(c, x), at_y(c, y), at_y(c, bound), colour, at_x(c, x),
                at_y(c, y), colour);
}

static void put_budget(ReportPage *p, const Curve *c) {
  double y = at_y(c, p->r->budget.limit);
  strbuf_printf(p->out,
                "<line x1=%d x2=%d y1=%.1f y2=%.1f stroke=\"var(--other)\" "
                "stroke-dasharray=\"6 4\"/><text x=%d y=%.1f text-anchor=end>the limit</text>\n",
                LEFT, WIDTH - RIGHT, y, y, WIDTH - RIGHT - 4, y - 5);
}

// Each choice that was judged on the search's samples; the one that is certified, on others.
static void put_curve(ReportPage *p) {
  const QuantizeResult *r = p->r;
  Metric m = r->has_budget ? r->budget.metric : r->certificate.metric;
  double best = perfect(m);
  Curve c = {1, 1, best, best};
  for (int64_t i = 0; i < r->search.point.n; i++) {
    const SearchPoint *s = &r->search.point.v[i];
    stretch(&c, 1 / s->time.ratio, s->value);
    stretch(&c, 1 / s->time.ratio, s->bound);
  }
  if (r->certified) stretch(&c, 1 / r->time.ratio, r->certificate.value);
  if (r->certified) stretch(&c, 1 / r->time.ratio, r->certificate.bound);
  if (r->has_budget) stretch(&c, 1, r->budget.limit);
  double wide = fmax(c.x1 - c.x0, 0.1) * 0.08, high = fmax(c.y1 - c.y0, 1e-9) * 0.08;
  c = (Curve){c.x0 - wide, c.x1 + wide, c.y0 - high, c.y1 + high};
  strbuf_printf(p->out, "<h2>Speed and loss</h2>\n<svg viewBox=\"0 0 %d %d\" role=img>\n", WIDTH,
                HEIGHT);
  put_axes(p, &c, m);
  if (r->has_budget) put_budget(p, &c);
  put_point(p, &c, 1, best, best, "soft", "the float model");
  for (int64_t i = 0; i < r->search.point.n; i++) {
    const SearchPoint *s = &r->search.point.v[i];
    char title[100];
    snprintf(title, sizeof title, "%lld %s%s", (long long)s->quantized,
             p->o->pattern ? "pruned" : "quantised", i == r->search.best ? ", taken" : "");
    put_point(p, &c, 1 / s->time.ratio, s->value, s->bound, "accent", title);
  }
  if (r->certified)
    put_point(p, &c, 1 / r->time.ratio, r->certificate.value, r->certificate.bound, "other",
              "certified");
  strbuf_puts(p->out, "</svg>\n<p class=soft>Grey: the float model. Orange: what is certified, on "
                      "samples that nothing else saw. Lines lead to the bound.");
  if (r->search.point.n) strbuf_puts(p->out, " Blue: choices judged by the search.");
  strbuf_puts(p->out, "</p>\n");
}

// ---- layers ----

static void put_layers(ReportPage *p) {
  const QuantCertificate *c = &p->r->certificate;
  double most = 0;
  bool shares = false;
  for (int64_t i = 0; i < c->layer.n; i++) {
    most = fmax(most, c->layer.v[i].share);
    shares |= c->layer.v[i].ns[0] > 0;
  }
  strbuf_printf(p->out,
                "<h2>Layers</h2>\n<div class=wide><table>\n<tr><th>contraction<th>choice%s</tr>\n",
                shares ? "<th>share of the error<th>&micro;s in f32<th>&micro;s as chosen" : "");
  for (int64_t i = 0; i < c->layer.n; i++) {
    const CertifiedLayer *l = &c->layer.v[i];
    strbuf_puts(p->out, "<tr><td>");
    put_text(p, l->node);
    if (l->kept) strbuf_puts(p->out, " <span class=soft>");
    if (l->kept) put_text(p, l->kept);
    strbuf_printf(p->out, "%s<td>%s%s%s", l->kept ? "</span>" : "", l->choice,
                  l->migrated ? ", " : "", l->migrated ? l->migrated : "");
    if (shares)
      strbuf_printf(p->out,
                    "<td><span class=bar style=\"width:%.0fpx\"></span>%.1f&#8239;%%<td>%.4g<td>"
                    "%.4g",
                    most > 0 ? 120 * l->share / most : 0, 100 * l->share, l->ns[0] / 1e3,
                    l->ns[1] / 1e3);
    strbuf_puts(p->out, "</tr>\n");
  }
  strbuf_puts(p->out, "</table></div>\n");
}

static const char *verdict_text(QuantizeVerdict v) {
  switch (v) {
  case QUANTIZE_SLOWER: return "Nothing is written: it would not be faster.";
  case QUANTIZE_MISSED: return "Nothing is written: the limit is not met.";
  case QUANTIZE_WRITTEN: break;
  }
  return "";
}

void quantize_report(const QuantizeOptions *o, const QuantizeResult *r, StrBuf *out) {
  Metric m = r->has_budget ? r->budget.metric : r->certificate.metric;
  bool share = metric_row[m].kind != METRIC_MEAN || m == METRIC_RMS;
  ReportPage p = {out, o, r, share};
  strbuf_puts(out, "<!doctype html>\n<!-- " FILE_MARK " " TENON_VERSION
                   " -->\n<html lang=en><meta charset=utf-8><meta name=viewport "
                   "content=\"width=device-width\">\n<title>");
  strbuf_puts(out, o->pattern ? "Pruning of " : "Quantisation of ");
  put_text(&p, o->model);
  strbuf_printf(out, "</title>\n<style>%s</style>\n<h1>", style);
  put_text(&p, o->model);
  strbuf_puts(out, " &rarr; ");
  put_text(&p, o->output ? o->output : o->pattern ? o->pattern : o->to);
  strbuf_printf(out, "</h1>\n<p class=soft>%s %s", o->pattern ? "--pattern" : "--to",
                o->pattern ? o->pattern : o->to);
  if (o->budget) strbuf_puts(out, " --budget ");
  if (o->budget) put_text(&p, o->budget);
  strbuf_printf(out, "</p>\n<p>%s</p>\n", verdict_text(r->verdict));
  put_tiles(&p);
  if (r->certified || r->search.point.n) put_curve(&p);
  if (!r->certified) return;
  put_layers(&p);
  strbuf_puts(out, "<h2>Certificate</h2>\n<pre>");
  for (Str rest = r->certificate_text; rest.n;) {
    const char *end = memchr(rest.p, '\n', (size_t)rest.n);
    int64_t n = end ? end - rest.p : rest.n;
    escape_xml(out, (Str){rest.p, n});
    strbuf_putc(out, '\n');
    n += end != NULL;
    rest = (Str){rest.p + n, rest.n - n};
  }
  strbuf_puts(out, "</pre>\n</html>\n");
}
