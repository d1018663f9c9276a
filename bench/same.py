#!/usr/bin/env python3
"""same.py -- the same bits for a request, however it is scheduled.

    bench/same.py MODEL... [--tiny] [--requests 200] [--threads 1,2,3,4,5,6,7] [--seed 1] [--only WAY...] [--text FILE]

Makes requests of random lengths and settings (greedy, sampled, penalties; some begin alike, some repeat themselves), runs
each alone, then all of them in other ways: in random batches, in chunks of 16, 64 and 512 rows, from cached pages, with so few
pages that sequences are preempted, with drafts, with 1 to 7 threads.  A way counts only where it did what its name says: pages were
found, sequences preempted, drafts accepted.  A request's hash is of its tokens, its log-probabilities' bits, those of the five
most probable tokens, and of why it ended.  Ends with status 1 where a hash differs from that of the request alone.

Needs numpy.  MODEL is a GGUF file or a folder; --tiny makes models of random weights (tests/system/tiny_llm.py).
"""
import argparse, hashlib, os, random, struct, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "python"), os.path.join(ROOT, "tests", "system")]
os.environ.setdefault("TENON_LIBRARY", os.path.join(ROOT, "build", "libtenon.so"))
import tenon, tiny_llm

SEQUENCES = 8
MOST_PROMPT, MOST_TOKENS = 160, 40
LONG = 300  # of some prompts that begin alike: enough that recurrent layers keep a state
NO_DRAFTS = ("mamba2", "qwen3next")  # a state cannot go back


def requests_of(llm, text, count, rng):
    """(prompt tokens, options) of each."""
    tokens = llm.tokenize(text[:40000])
    shared = [tokens[at : at + 40 + 30 * i] for i, at in enumerate((0, 500, 1500))]
    made = []
    for i in range(count):
        at, size = rng.randrange(max(len(tokens) - MOST_PROMPT, 1)), rng.randrange(1, MOST_PROMPT // 2)
        prompt = tokens[at : at + size]
        if i % 4 == 1: prompt = rng.choice(shared) + prompt[:20]
        if i % 12 == 3: prompt = (tokens[:LONG] * LONG)[:LONG] + prompt[:20]
        if i % 4 == 2: prompt = (prompt[: 1 + size % 12] * 12)[:60]
        options = {"max_tokens": rng.randrange(1, MOST_TOKENS), "logprobs": 5, "ignore_end": i % 5 != 0}
        if i % 3 == 0: options.update(temperature=0.5 + rng.random(), seed=i, top_p=rng.choice((1.0, 0.9)), top_k=rng.choice((0, 40)))
        if i % 7 == 0: options.update(repeat_penalty=1.1, presence_penalty=0.2)
        made.append((prompt, options))
    return made


def hash_of(answer):
    h = hashlib.sha256(struct.pack(f"<{len(answer.tokens)}i", *answer.tokens))
    h.update(struct.pack(f"<{len(answer.logprobs)}f", *answer.logprobs))
    for top in answer.top_logprobs:
        for token, logprob in top: h.update(struct.pack("<if", token, logprob))
    h.update(answer.finish_reason.encode())
    return h.hexdigest()[:16]


def alone(llm, made):
    return [hash_of(llm.generate(prompt, **options)) for prompt, options in made]


def together(llm, made, rng, priorities=1, window=24):
    """In random order, at most `window` at once; a request begins whenever another one has ended."""
    order = rng.sample(range(len(made)), len(made))
    hashes, live = [None] * len(made), []
    while order or live:
        while order and len(live) < window:
            i = order.pop()
            live.append((i, llm._submit(made[i][0], priority=rng.randrange(priorities), **made[i][1])))
            if rng.random() < 0.3: break  # some steps in between
        with llm._lock: llm._step()
        ended = [(i, n) for i, n in live if llm._live[n].done]
        for i, n in ended: hashes[i] = hash_of(llm._answer(n))
        live = [pair for pair in live if pair not in ended]
    return hashes


def pages_of(made):
    return max((len(p) + o["max_tokens"] - 2) // 32 + 1 for p, o in made)


def ways(made, threads, drafts):
    """(name, options of the model, how it is run, what its counts must show)."""
    few = pages_of(made)
    plain = {"threads": 1, "draft": 0, "sequences": SEQUENCES}
    yield "alone", {**plain, "prefix_cache": False}, "alone", None
    yield "batches", {**plain, "prefix_cache": False}, "together", None
    for chunk in (16, 64, 512): yield f"chunks of {chunk}", {**plain, "batch": chunk, "prefix_cache": False}, "together", None
    yield "cached", plain, "twice", "cached_tokens"
    yield "preempted", {**plain, "pages": few}, "urgent", "preempted"
    if drafts:
        yield "drafts", {**plain, "draft": 8}, "together", "accepted"
        yield "drafts alone", {**plain, "draft": 16}, "alone", "accepted"
    for n in threads: yield f"{n} threads", {**plain, "threads": n, "draft": 4, "pages": few + 4}, "together", None


def run_way(model, options, how, made, seed):
    rng = random.Random(seed)
    with tenon.LLM(model, **options) as llm:
        if how == "alone": hashes = alone(llm, made)
        else: hashes = together(llm, made, rng, 4 if how == "urgent" else 1)
        if how == "twice":  # the second time every beginning is there
            again = together(llm, made, rng)
            hashes = [a if a == b else f"{a} then {b}" for a, b in zip(hashes, again)]
        return hashes, llm.stats


def check_model(model, args, text):
    with tenon.LLM(model, threads=1) as llm:
        made = requests_of(llm, text, args.requests, random.Random(args.seed))
        drafts = llm.info["architecture"] not in NO_DRAFTS
    reference, bad = None, 0
    for number, (name, options, how, shows) in enumerate(ways(made, args.threads, drafts)):
        if args.only and name != "alone" and name not in args.only: continue
        begin = time.monotonic()
        hashes, stats = run_way(model, options, how, made, args.seed + number)
        reference = reference or hashes
        differ = [i for i, (a, b) in enumerate(zip(reference, hashes)) if a != b]
        idle = bool(shows) and not stats[shows]
        bad += bool(differ) + idle
        whole = hashlib.sha256("".join(hashes).encode()).hexdigest()[:16]
        note = f"  {shows} {stats[shows]}" if shows else ""
        if differ: note += f"  DIFFER: {len(differ)}, the first is request {differ[0]}: {made[differ[0]][1]}"
        if idle: note += "  NOTHING SHOWN"
        print(f"{os.path.basename(model):28} {name:14} {whole}  {stats['rows']:7} rows {time.monotonic() - begin:6.1f} s{note}", flush=True)
    return bad


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="*", metavar="MODEL")
    p.add_argument("--tiny", action="store_true", help="also models of random weights")
    p.add_argument("--requests", type=int, default=200)
    p.add_argument("--threads", type=lambda s: [int(x) for x in s.split(",")], default=list(range(1, 8)))
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", nargs="+", default=[], help="names of ways")
    p.add_argument("--text", default=os.path.join(ROOT, "docs", "architecture.md"))
    args = p.parse_args()
    with open(args.text, encoding="utf-8") as f: text = f.read()
    with tempfile.TemporaryDirectory() as folder:
        models = list(args.models)
        if args.tiny: models += [tiny_llm.make(os.path.join(folder, kind), kind=kind) for kind in tiny_llm.KINDS]
        bad = sum(check_model(model, args, text) for model in models)
    print(f"{len(models)} models, {args.requests} requests each, {bad} ways differ")
    return bad > 0


if __name__ == "__main__": sys.exit(main())
