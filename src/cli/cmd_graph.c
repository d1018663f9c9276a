// cmd_graph.c -- `tenon graph`: a model's graph as a page, a picture or for Graphviz.
//
// A model with operators that Tenon does not know is drawn, too: those nodes stand out.
#include "cli/cli.h"

#include "api/model.h"
#include "view/view.h"

#include <unistd.h>

typedef void WriteFn(const View *v, StrBuf *out);
static const struct {
  const char *ending;
  WriteFn *write;
} format[] = {{".html", view_write_html}, {".svg", view_write_svg}, {".dot", view_write_dot}};

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static const char *default_output(Cli *c, const char *model) {
  if (!strcmp(model, "-")) return "model.html";
  Str name = str_of(base_name(model));
  if (str_ends(name, ".onnx") || str_ends(name, ".tir")) name.n = strrchr(name.p, '.') - name.p;
  return str_printf(&c->arena, "%.*s.html", (int)name.n, name.p);
}

static WriteFn *writer_of(const char *output) {
  if (!strcmp(output, "-")) return view_write_html;
  for (int64_t i = 0; i < ARRAY_LEN(format); i++)
    if (str_ends(str_of(output), format[i].ending)) return format[i].write;
  return NULL;
}

static tenon_status draw(Cli *c, Model *m, const char *path, const char *output, WriteFn *write) {
  View v;
  StrBuf b;
  strbuf_init(&b, &c->arena);
  view_build(&v, m->graph, strcmp(path, "-") ? base_name(path) : "model", &c->arena);
  write(&v, &b);
  return file_write(output, b.p, b.n, &c->diag);
}

int cmd_graph(Cli *c) {
  const char *path = c->pos[0];
  const char *output = opt_text(c, OPT_graph_output, NULL);
  if (!output) output = default_output(c, path);
  WriteFn *write = writer_of(output);
  if (!write)
    return cli_usage(c, "cannot tell the format of '%s': the name must end in .html, .svg or .dot",
                     output);
  Model *m;
  tenon_status s = model_open(path, NULL, &c->diag, &m);
  if (!s) s = draw(c, m, path, output, write);
  model_free(m);
  if (!s && strcmp(output, "-") && isatty(STDOUT_FILENO)) printf("%s\n", output);
  return cli_exit_of(s);
}
