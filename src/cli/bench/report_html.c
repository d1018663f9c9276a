// report_html.c -- the page of a report: a table and two plots for each model (report.h).
//
// Guarantees: names of files, options and messages are escaped, whatever they hold.
#include "cli/bench/report.h"

#include "view/view.h"

#include <math.h>

enum {
  COLOURS = 8,
  LEFT = 210,  // room for labels
  WIDTH = 640,
  ROW = 22,
  PLOT_HEIGHT = 220,
  RIGHT = 90,
};

static const char style[] =
    ":root{--bg:#f6f7f9;--card:#fff;--line:#d3d9e0;--ink:#1c2128;--soft:#5d6875;"
    "--c0:#2f6fde;--c1:#d9622b;--c2:#2a9d6f;--c3:#9b51c9;--c4:#c2396b;--c5:#7a8a1f;--c6:#1f8fa8;"
    "--c7:#8a6d3b;color-scheme:light dark}"
    "@media(prefers-color-scheme:dark){:root{--bg:#14171b;--card:#1f242a;--line:#3a424c;"
    "--ink:#e4e8ec;--soft:#98a3af;--c0:#6c9fff;--c1:#ff9a66;--c2:#58cf9f;--c3:#c48bea;--c4:#ef7fa8;"
    "--c5:#b9c95a;--c6:#5cc4dc;--c7:#c9a877}}"
    "body{margin:0 auto;padding:24px;max-width:1100px;background:var(--bg);color:var(--ink);"
    "font:14px/1.5 system-ui,sans-serif}"
    "h1{font-size:22px;margin:0}h2{font-size:17px;margin:32px 0 8px;overflow-wrap:anywhere}"
    "h3{font-size:14px;margin:0 0 6px}p{color:var(--soft);margin:4px 0}"
    "code{overflow-wrap:anywhere}"
    ".card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:14px;"
    "margin:10px 0;overflow-x:auto}"
    "table{border-collapse:collapse;width:100%}"
    "th,td{padding:4px 10px;text-align:right;border-bottom:1px solid var(--line);"
    "white-space:nowrap;font-variant-numeric:tabular-nums}"
    "th{color:var(--soft);font-weight:600}td.why{text-align:left;white-space:normal;color:var(--c4)"
    "}"
    ".plots{display:flex;flex-wrap:wrap;gap:12px}.plots .card{flex:1 1 480px;margin:0}"
    "svg{width:100%;height:auto;max-width:660px}"
    "text{fill:var(--ink);font:12px system-ui,sans-serif}text.soft{fill:var(--soft)}"
    ".grid{stroke:var(--line)}.key{display:inline-block;margin-right:14px;white-space:nowrap}"
    ".dot{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:5px}";

static double items_per_second(const Case *one) {
  return 1e3 * (double)one->batch / one->figures.median_ms;
}

// The values of the axes that differ in this report, but for one.
static const char *label_of(const Report *r, const Case *one, const char *without, Arena *a) {
  StrBuf b;
  strbuf_init(&b, a);
  for (int i = 0; i < r->naxes; i++) {
    if (r->axis[i].n < 2 || !one->value[i] || !strcmp(r->axis[i].option, without)) continue;
    strbuf_printf(&b, "%s%s %s", b.n ? ", " : "", r->axis[i].option, one->value[i]);
  }
  return b.n ? strbuf_text(&b) : "all";
}

// ---- the table ----

static void put_cell(StrBuf *b, const char *text) {
  strbuf_puts(b, "<td>");
  escape_xml(b, str_of(text));
  strbuf_puts(b, "</td>");
}

static void put_head(const Report *r, StrBuf *b) {
  strbuf_puts(b, "<tr>");
  for (int i = 0; i < r->naxes; i++) {
    strbuf_puts(b, "<th>");
    escape_xml(b, str_of(r->axis[i].option));
    strbuf_puts(b, "</th>");
  }
  strbuf_puts(b, "<th>median ms</th><th>least</th><th>p99</th><th>items/s</th><th>GFLOP/s</th>"
                 "<th>of peak</th><th>memory</th><th>read ms</th><th>compile ms</th></tr>\n");
}

static void put_row(const Report *r, const Case *one, StrBuf *b) {
  const Figures *f = &one->figures;
  NumText memory, rate;
  strbuf_puts(b, "<tr>");
  for (int i = 0; i < r->naxes; i++) put_cell(b, one->value[i] ? one->value[i] : "fixed");
  if (one->why) {
    strbuf_puts(b, "<td class=\"why\" colspan=\"9\">");
    escape_xml(b, str_of(one->why));
    strbuf_puts(b, "</td></tr>\n");
    return;
  }
  strbuf_printf(b, "<td>%.4g</td><td>%.4g</td><td>%.4g</td>", f->median_ms, f->min_ms, f->p99_ms);
  put_cell(b, text_si(&rate, items_per_second(one)));
  strbuf_printf(b, "<td>%.4g</td><td>%.1f %%</td>", f->gflops, 100 * f->peak_share);
  put_cell(b, text_bytes(&memory, f->peak_rss_bytes));
  strbuf_printf(b, "<td>%.1f</td><td>%.1f</td></tr>\n", f->load_ms, f->compile_ms);
}

// ---- plots ----

static void put_text(StrBuf *b, double x, double y, const char *anchor, bool soft,
                     const char *text) {
  strbuf_printf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>", x, y, anchor,
                soft ? " class=\"soft\"" : "");
  escape_xml(b, str_of(text));
  strbuf_puts(b, "</text>");
}

// Bars of the time, with a line from the least to the 99th percentile.
static void put_bars(const Report *r, const Case *from, int64_t n, Arena *a, StrBuf *b) {
  double most = 0;
  for (int64_t i = 0; i < n; i++)
    if (!from[i].why) most = fmax(most, from[i].figures.p99_ms);
  double scale = (WIDTH - LEFT - RIGHT) / most;
  strbuf_printf(b, "<svg viewBox=\"0 0 %d %lld\" role=\"img\" aria-label=\"time of a run\">", WIDTH,
                (long long)(n * ROW + 4));
  for (int64_t i = 0; i < n; i++) {
    const Figures *f = &from[i].figures;
    double y = (double)(i * ROW);
    put_text(b, LEFT - 8, y + 15, "end", false, label_of(r, &from[i], "", a));
    if (from[i].why) {
      put_text(b, LEFT, y + 15, "start", true, "failed");
      continue;
    }
    strbuf_printf(
        b,
        "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"2\" fill=\"var(--c0)\"/>"
        "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"var(--ink)\"/>",
        LEFT, y + 3, fmax(1, f->median_ms * scale), ROW - 6, LEFT + f->min_ms * scale,
        LEFT + f->p99_ms * scale, y + ROW / 2.0, y + ROW / 2.0);
    put_text(b, LEFT + f->p99_ms * scale + 6, y + 15, "start", true,
             str_printf(a, "%.4g ms", f->median_ms));
  }
  strbuf_puts(b, "</svg>");
}

// A place on the plot of throughput over batch: x by its logarithm.
typedef struct Scale {
  double low, high, most;
} Scale;
static double x_of(const Scale *s, int64_t batch) {
  double span = s->high > s->low ? s->high - s->low : 1;
  return 60 + (log2((double)batch) - s->low) / span * (WIDTH - 60 - 30);
}
static double y_of(const Scale *s, double rate) {
  return PLOT_HEIGHT - 25 - rate / s->most * (PLOT_HEIGHT - 40);
}

static void put_frame(const Scale *s, StrBuf *b) {
  NumText text;
  for (int i = 0; i <= 4; i++) {
    double rate = s->most * i / 4, y = y_of(s, rate);
    strbuf_printf(b, "<line class=\"grid\" x1=\"60\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>",
                  WIDTH - 30, y, y);
    put_text(b, 54, y + 4, "end", true, text_si(&text, rate));
  }
}

// Throughput over the batch: one line for each combination of the other axes.
static void put_lines(const Report *r, const Case *from, int64_t n, Arena *a, StrBuf *b) {
  Scale s = {.low = INFINITY, .high = -INFINITY};
  const char *key[MAX_CASES];
  int64_t nkeys = 0;
  for (int64_t i = 0; i < n; i++) {
    if (from[i].why) continue;
    s.low = fmin(s.low, log2((double)from[i].batch));
    s.high = fmax(s.high, log2((double)from[i].batch));
    s.most = fmax(s.most, items_per_second(&from[i]));
  }
  strbuf_printf(b, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"throughput over batch\">",
                WIDTH, PLOT_HEIGHT);
  put_frame(&s, b);
  for (int64_t i = 0; i < n; i++) {
    const char *label = label_of(r, &from[i], "batch", a);
    bool seen = from[i].why != NULL;
    for (int64_t k = 0; k < nkeys && !seen; k++) seen = !strcmp(key[k], label);
    if (seen) continue;
    int colour = (int)(nkeys % COLOURS);
    key[nkeys++] = label;
    strbuf_printf(b, "<polyline fill=\"none\" stroke=\"var(--c%d)\" stroke-width=\"2\" points=\"",
                  colour);
    for (int64_t k = i; k < n; k++)
      if (!from[k].why && !strcmp(label_of(r, &from[k], "batch", a), label))
        strbuf_printf(b, "%.1f,%.1f ", x_of(&s, from[k].batch),
                      y_of(&s, items_per_second(&from[k])));
    strbuf_puts(b, "\"/>");
    for (int64_t k = i; k < n; k++)
      if (!from[k].why && !strcmp(label_of(r, &from[k], "batch", a), label)) {
        strbuf_printf(b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"var(--c%d)\"/>",
                      x_of(&s, from[k].batch), y_of(&s, items_per_second(&from[k])), colour);
        if (nkeys == 1)
          put_text(b, x_of(&s, from[k].batch), PLOT_HEIGHT - 6, "middle", true,
                   str_printf(a, "%lld", (long long)from[k].batch));
      }
  }
  strbuf_puts(b, "</svg><div>");
  for (int64_t k = 0; k < nkeys; k++) {
    strbuf_printf(b,
                  "<span class=\"key\"><span class=\"dot\" style=\"background:var(--c%d)\"></span>",
                  (int)(k % COLOURS));
    escape_xml(b, str_of(key[k]));
    strbuf_puts(b, "</span>");
  }
  strbuf_puts(b, "</div>");
}

// ---- the page ----

static bool has_batches(const Case *from, int64_t n) {
  for (int64_t i = 1; i < n; i++)
    if (from[i].batch != from[0].batch) return true;
  return false;
}

static void put_model(const Report *r, const Case *from, int64_t n, Arena *a, StrBuf *b) {
  bool any = false;
  double flops = 0;
  for (int64_t i = 0; i < n; i++) any |= !from[i].why;
  for (int64_t i = 0; i < n && !flops; i++) flops = from[i].figures.flops / (double)from[i].batch;
  NumText work;
  strbuf_puts(b, "<h2>");
  escape_xml(b, str_of(from->model));
  strbuf_puts(b, "</h2>\n");
  if (flops > 0) strbuf_printf(b, "<p>%s FLOPs an item</p>\n", text_si(&work, flops));
  if (any) {
    strbuf_puts(
        b, "<div class=\"plots\"><div class=\"card\"><h3>Time of a run: median, least to p99</h3>");
    put_bars(r, from, n, a, b);
    strbuf_puts(b, "</div>");
  }
  if (any && has_batches(from, n)) {
    strbuf_puts(b, "<div class=\"card\"><h3>Items a second over the batch</h3>");
    put_lines(r, from, n, a, b);
    strbuf_puts(b, "</div>");
  }
  strbuf_puts(b, any ? "</div>\n<div class=\"card\"><table>" : "<div class=\"card\"><table>");
  put_head(r, b);
  for (int64_t i = 0; i < n; i++) put_row(r, &from[i], b);
  strbuf_puts(b, "</table></div>\n");
}

void report_html(const Report *r, Arena *a, StrBuf *out) {
  strbuf_puts(out, "<!doctype html>\n<!-- " FILE_MARK " " TENON_VERSION
                   " -->\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                   "<meta name=\"viewport\" content=\"width=device-width\">"
                   "<title>Tenon benchmark report</title><style>");
  strbuf_puts(out, style);
  strbuf_puts(out, "</style></head><body>\n<h1>Benchmark report</h1>\n<p>");
  escape_xml(out, str_of(r->machine));
  strbuf_printf(out, ", %d threads, measured to do %.0f GFLOP/s in f32", r->peak.threads,
                r->peak.ops[OPS_F32] / 1e9);
  if (r->peak.ops[OPS_BF16] > r->peak.ops[OPS_F32])
    strbuf_printf(out, ", %.0f in bf16", r->peak.ops[OPS_BF16] / 1e9);
  strbuf_printf(out,
                " and to read %.1f GB/s from memory. Tenon " TENON_VERSION ", %s.</p>\n<p><code>",
                r->peak.read[LEVEL_MEMORY] / 1e9, r->when);
  escape_xml(out, str_of(r->command));
  strbuf_puts(out, "</code></p>\n");
  for (int64_t i = 0; i < r->n;) {
    int64_t n = 1;
    while (i + n < r->n && r->item[i + n].model == r->item[i].model) n++;
    put_model(r, &r->item[i], n, a, out);
    i += n;
  }
  strbuf_puts(out, "</body></html>\n");
}
