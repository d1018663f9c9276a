// page.c -- GET /: the chat page, one file without others (page.html).
#include "serve/routes.h"

extern const char serve_html[];  // made by cmake/embed.cmake

static void page(HttpExchange *x) {
  // The page is its own, and talks to this server alone.
  http_header(x, "Content-Security-Policy",
              "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
              "connect-src 'self'; img-src data:; base-uri 'none'; frame-ancestors 'none'");
  http_header(x, "X-Content-Type-Options", "nosniff");
  http_reply(x, 200, "text/html; charset=utf-8", str_of(serve_html));
}

const HttpRoute page_routes[] = {{.methods = HTTP_GET, .path = "/", .handle = page, .open = true},
                                 {0}};
