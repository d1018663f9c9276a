// cmd_passes.c -- `tenon passes`: the optimiser's passes in order.
#include "cli/cli.h"

#include "passes/passes.h"

static void print_text(void) {
  for (int64_t i = 0; i < graph_npasses; i++) {
    const Pass *p = &graph_passes[i];
    if (p->flags & PASSF_REQUIRED)
      printf("%-20s  always  %s\n", p->name, p->doc);
    else
      printf("%-20s  -O%d     %s\n", p->name, p->level, p->doc);
    for (int64_t k = 0; k < graph_npass_orders; k++)
      if (!strcmp(graph_pass_order[k].before, p->name))
        printf("%24sbefore %s: %s\n", "", graph_pass_order[k].after, graph_pass_order[k].why);
  }
}

static void json_orders(JsonWriter *w, const Pass *p) {
  json_key(w, "before");
  json_begin_array(w);
  for (int64_t k = 0; k < graph_npass_orders; k++) {
    if (strcmp(graph_pass_order[k].before, p->name)) continue;
    json_begin_object(w);
    json_key(w, "pass");
    json_cstr(w, graph_pass_order[k].after);
    json_key(w, "why");
    json_cstr(w, graph_pass_order[k].why);
    json_end_object(w);
  }
  json_end_array(w);
}

static void print_json(Cli *c) {
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, &c->arena);
  json_init(&w, &b, false);
  json_begin_object(&w);
  json_key(&w, "passes");
  json_begin_array(&w);
  for (int64_t i = 0; i < graph_npasses; i++) {
    json_begin_object(&w);
    json_key(&w, "name");
    json_cstr(&w, graph_passes[i].name);
    json_key(&w, "doc");
    json_cstr(&w, graph_passes[i].doc);
    json_key(&w, "level");
    json_i64(&w, graph_passes[i].level);
    json_key(&w, "required");
    json_bool(&w, graph_passes[i].flags & PASSF_REQUIRED);
    json_orders(&w, &graph_passes[i]);
    json_end_object(&w);
  }
  json_end_array(&w);
  json_end_object(&w);
  cli_print(&b);
}

int cmd_passes(Cli *c) {
  if (opt_given(c, OPT_passes_json))
    print_json(c);
  else
    print_text();
  return CLI_OK;
}
