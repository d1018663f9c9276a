#!/usr/bin/env python3
"""llm.py -- language models on a CPU: `tenon bench-llm` beside llama.cpp's llama-bench, on the same GGUF file.

usage: bench/cpu/llm.py MODEL.gguf... [--llama COMMAND] [--llama-models DIR] [--threads 1,2] [--prompt 512] [--generate 64] [--rounds 3] [--clock wall|cpu]

Both read a prompt of --prompt tokens (prefill) and generate --generate tokens from an empty context (decode).  The programs run in turn, in another order each
round; a figure is the median of the rounds, with the least and the most.  The ratio is Tenon's by llama.cpp's: above 1, Tenon is faster.  --llama is the
command that starts llama-bench ("chroot DIR /usr/bin/llama-bench"), --llama-models the folder in which it finds the files; without --llama there is Tenon alone.
--clock cpu counts processor time, for machines that others use as well: of a run of twice as many tokens less one of so many, so that loading does not count.
It is right for one thread alone, since llama.cpp's threads wait by spinning.
The share is of the memory bandwidth that `tenon doctor --measure` measured, over the bytes of weights that a token reads.
"""
import argparse, json, os, resource, shlex, statistics, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TENON = os.environ.get("TENON", os.path.join(ROOT, "build", "tenon"))


def said_json(command):
    r = subprocess.run(command, capture_output=True, text=True)
    if r.returncode: sys.exit(f"{shlex.join(command)}: status {r.returncode}: {r.stderr.strip()[-400:]}")
    return json.loads(r.stdout)


def run_tenon(args, model, threads):
    d = said_json([TENON, "bench-llm", model, "-p", str(args.prompt), "-n", str(args.generate), "--threads", str(threads), "--json"])
    return {"prefill": d["prefill_tokens_per_s"], "decode": d["decode_tokens_per_s"], "share": d["bandwidth_share"]}


def run_llama(args, model, threads):
    path = os.path.join(args.llama_models, os.path.basename(model)) if args.llama_models else model
    rows = said_json([*shlex.split(args.llama), "-m", path, "-p", str(args.prompt), "-n", str(args.generate), "-t", str(threads), "-r", "1", "-o", "json"])
    return {"prefill": next(r["avg_ts"] for r in rows if r["n_prompt"]), "decode": next(r["avg_ts"] for r in rows if r["n_gen"])}


def processor_time(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    said_json(command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def by_processor(command, args):
    """Tokens by second of processor time; `command` gives the run of a prompt and generated tokens."""
    rate = {}
    for what, n, run in (("prefill", args.prompt, lambda n: command(n, 0)), ("decode", args.generate, lambda n: command(0, n))):
        rate[what] = n / max(processor_time(run(2 * n)) - processor_time(run(n)), 1e-9)
    return rate


def cpu_tenon(args, model, threads):
    def command(p, n): return [TENON, "bench-llm", model, "-p", str(p), "-n", str(n), "--threads", str(threads), "-r", "1", "--json"]
    rate, d = by_processor(command, args), said_json(command(0, 2))
    return {**rate, "share": rate["decode"] / d["decode_tokens_per_s"] * d["bandwidth_share"]}


def cpu_llama(args, model, threads):
    path = os.path.join(args.llama_models, os.path.basename(model)) if args.llama_models else model
    return by_processor(lambda p, n: [*shlex.split(args.llama), "-m", path, "-p", str(p), "-n", str(n), "-t", str(threads), "-r", "1", "--no-warmup", "-o", "json"], args)


def shown(values):
    return f"{statistics.median(values):.1f} ({min(values):.1f}–{max(values):.1f})"


def measure(args, model, threads):
    own, peer = (cpu_tenon, cpu_llama) if args.clock == "cpu" else (run_tenon, run_llama)
    sides = {"tenon": own, **({"llama.cpp": peer} if args.llama else {})}
    rounds = {side: [] for side in sides}
    for i in range(args.rounds):
        for side in list(sides)[::1 if i % 2 else -1]: rounds[side].append(sides[side](args, model, threads))
    for what in ("prefill", "decode"):
        got = {side: [r[what] for r in rows] for side, rows in rounds.items()}
        ratio = f"{statistics.median(got['tenon']) / statistics.median(got['llama.cpp']):.2f}" if args.llama else "–"
        share = f"{100 * statistics.median(r['share'] for r in rounds['tenon']):.0f} %" if what == "decode" else "–"
        cells = [os.path.basename(model), str(threads), what, shown(got["tenon"]), shown(got["llama.cpp"]) if args.llama else "–", ratio, share]
        print("| " + " | ".join(cells) + " |", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="+", metavar="MODEL.gguf")
    p.add_argument("--llama", help="the command of llama-bench")
    p.add_argument("--llama-models", help="the folder in which llama-bench finds the files")
    p.add_argument("--threads", default="1,2")
    p.add_argument("--prompt", type=int, default=512)
    p.add_argument("--generate", type=int, default=64)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    args = p.parse_args()
    if args.clock == "cpu" and args.threads != "1": p.error("--clock cpu is for --threads 1")
    print("| model | threads | | Tenon, tokens/s | llama.cpp, tokens/s | ratio | of the memory bandwidth |\n|---|---|---|---|---|---|---|")
    for model in args.models:
        for threads in args.threads.split(","): measure(args, model, int(threads))


if __name__ == "__main__": main()
