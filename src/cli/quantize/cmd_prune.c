// cmd_prune.c -- `tenon prune`: its options (api/quantize.h, compress/prune.h).
#include "cli/cli.h"
#include "cli/files.h"
#include "cli/quantize/quantize.h"

int cmd_prune(Cli *c) {
  QuantizeOptions o = {.model = c->pos[0],
                       .data = opt_text(c, OPT_prune_data, NULL),
                       .labels = opt_text(c, OPT_prune_labels, NULL),
                       .pattern = opt_text(c, OPT_prune_pattern, "auto"),
                       .zeros = (int)opt_int(c, OPT_prune_zeros, 0),
                       .budget = opt_text(c, OPT_prune_budget, NULL),
                       .metric = opt_text(c, OPT_prune_metric, NULL),
                       .output = opt_text(c, OPT_prune_output, NULL),
                       .report = opt_text(c, OPT_prune_report, NULL),
                       .keep = c->opt[OPT_prune_keep].text,
                       .nkeep = c->opt[OPT_prune_keep].count,
                       .threads = (int)opt_int(c, OPT_prune_threads, 0),
                       .seed = (uint64_t)opt_int(c, OPT_prune_seed, 0),
                       .allow_slower = opt_given(c, OPT_prune_allow_slower)};
  if (!o.output || !str_ends(str_of(o.output), ".onnx"))
    return cli_usage(c, "prune needs -o F.onnx");
  int rc =
      files_output(c, str_printf(&c->arena, "%s.certificate.json", o.output), "the certificate");
  if (!rc) rc = quantize_target(c, "prune", opt_text(c, OPT_prune_target, NULL), &o.target);
  return rc ? rc : quantize_run(c, &o, opt_given(c, OPT_prune_json));
}
