#!/usr/bin/env python3
"""llm_start.py -- a language model from process start: seconds to the first token, and resident memory beside the formula.

    bench/llm_start.py MODEL.gguf... [--context 4096] [--threads N] [--rounds 3] [--llama COMMAND [--llama-models DIR]]

Starts `tenon generate` with a short prompt, with an empty cache of kernels and then with the filled one, and takes the time to the first byte of the
answer; the file is read once before, so that it is in the page cache.  Resident memory is the largest RSS of the process (/proc/PID/status), in all and
of mapped files, beside what `generate -v` reserves: the mapped weights and the total besides them.  Rows of the embedding that no token has met,
and pages of the KV cache, are not resident before they are touched.
--llama is the command of llama-completion, whose first byte is awaited likewise.  Medians, with the least and the most.
"""
import argparse, os, re, shlex, statistics, subprocess, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TENON = os.environ.get("TENON", os.path.join(ROOT, "build", "tenon"))
PROMPT = "The capital of France is"
MIB = 1 << 20


def first_byte(command, env=None):
    """Seconds until the process writes something."""
    began = time.perf_counter()
    p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env)
    got = p.stdout.read(1)
    took = time.perf_counter() - began
    p.stdout.read()
    if p.wait() or not got: sys.exit(f"{shlex.join(command)}: status {p.returncode}")
    return took


def resident(command, env):
    """The largest RSS of the process and of its mapped files, and what it says of its memory."""
    p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env, text=True)
    most = {"VmRSS": 0, "RssFile": 0}
    while p.poll() is None:
        try:
            with open(f"/proc/{p.pid}/status") as f: now = {k: int(v) * 1024 for k, v in re.findall(r"(VmRSS|RssFile):\s+(\d+) kB", f.read())}
        except OSError: break
        if now.get("VmRSS", 0) > most["VmRSS"]: most = now
        time.sleep(0.005)
    said = {name.strip(): float(n) * {"B": 1, "KiB": 1024, "MiB": MIB, "GiB": 1024 * MIB}[unit]
            for name, n, unit in re.findall(r"^([a-zA-Z ,]+?) +([0-9.]+) (B|KiB|MiB|GiB)", p.stderr.read(), re.M)}
    return most, said


def shown(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="+", metavar="MODEL.gguf")
    p.add_argument("--context", type=int, default=4096)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--llama", help="the command of llama-completion")
    p.add_argument("--llama-models", help="the folder in which it finds the files")
    args = p.parse_args()
    print("| model | no kernels cached, s | kernels cached, s | llama.cpp, s | resident, MiB | of files, MiB | weights, MiB | total, MiB |\n|---|---|---|---|---|---|---|---|")
    for model in args.models:
        with open(model, "rb") as f:
            while f.read(1 << 24): pass
        command = [TENON, "generate", model, "-p", PROMPT, "-n", "1", "--threads", str(args.threads), "--context", str(args.context)]
        cold, warm, peer = [], [], []
        for _ in range(args.rounds):
            with tempfile.TemporaryDirectory() as cache:
                env = {**os.environ, "TENON_CACHE": cache}
                cold.append(first_byte(command, env))
                warm.append(first_byte(command, env))
                most, said = resident([*command[:-6], "-n", "32", "-v", *command[-4:]], env)
            if args.llama:
                there = os.path.join(args.llama_models, os.path.basename(model)) if args.llama_models else model
                peer.append(first_byte([*shlex.split(args.llama), "-m", there, "-p", PROMPT, "-n", "1", "-t", str(args.threads), "-c", str(args.context), "-no-cnv", "--no-warmup"]))
        print(f"| {os.path.basename(model)} | {shown(cold)} | {shown(warm)} | {shown(peer) if peer else '–'} | {most['VmRSS'] / MIB:.0f} | "
              f"{most['RssFile'] / MIB:.0f} | {said['weights'] / MIB:.0f} | {said['total'] / MIB:.0f} |", flush=True)


if __name__ == "__main__": sys.exit(main())
