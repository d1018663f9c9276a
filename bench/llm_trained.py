#!/usr/bin/env python3
"""llm_trained.py -- trained language models: greedy tokens beside transformers, perplexity beside llama.cpp, on the same GGUF file.

    bench/llm_trained.py MODEL.gguf... [--prompts 50] [--tokens 128] [--forms exact,default] [--no-tokens] [--llama COMMAND [--llama-models DIR]]

Tokens: Tenon continues --prompts beginnings of paragraphs of this repository's documentation and sources by --tokens tokens each, without
drafts, ends ignored.  transformers computes the logits of the same tokens in f32, of the weights that the `gguf` package dequantises.  At each
step whose margin (the best logit less the second) is above the limit, Tenon's token must be the best one.  Steps behind a difference are
compared too, since both sides read the same tokens.  Limits: 1e-3 for `exact` (f32 activations), 0.2 for `default` (int8 activations).
Perplexity: of the first 64 kB of the documentation, by `tenon perplexity` and, with --llama, by the command of llama-perplexity
("chroot DIR /usr/bin/llama-perplexity"), which finds its files in --llama-models.  They must agree within 0.3 %.

Needs numpy, torch, transformers and gguf for the tokens.  Ends with status 1 where something differs.
"""
import argparse, glob, json, os, re, shlex, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "python"))
os.environ.setdefault("TENON_LIBRARY", os.path.join(ROOT, "build", "libtenon.so"))
TENON = os.environ.get("TENON", os.path.join(ROOT, "build", "tenon"))

LIMIT = {"exact": 1e-3, "default": 0.2}
TEXT_BYTES, WINDOW, WITHIN = 65536, 512, 0.003


def paragraphs():
    """Of prose and code, in the order of their files."""
    for path in sorted(glob.glob(ROOT + "/docs/*.md")) + sorted(glob.glob(ROOT + "/src/base/*.c")):
        with open(path) as f: yield from (p.strip() for p in f.read().split("\n\n") if 120 < len(p) < 1200)


def prompts_of(count):
    """Beginnings of as many paragraphs, which are spread over all of them, of some 40 to 300 characters."""
    every = list(paragraphs())
    for i in range(count):
        p = every[i * len(every) // count]
        yield p[: 40 + i * 53 % 260].rsplit(" ", 1)[0]


def text_of_docs():
    text = ""
    for path in sorted(glob.glob(ROOT + "/docs/*.md")):
        with open(path) as f: text += f.read()
    return text.encode()[:TEXT_BYTES].decode(errors="ignore")


def reference_of(path):
    import torch, transformers
    torch.set_num_threads(1)  # threads that wait for one another are slow where others work too
    model = transformers.AutoModelForCausalLM.from_pretrained(os.path.dirname(os.path.abspath(path)), gguf_file=os.path.basename(path), dtype=torch.float32,
                                                              attn_implementation="eager")
    return model.eval()


def margins(model, prompt, tokens):
    """Of each token: the best one of the reference, and how far the second is below it."""
    import torch
    with torch.no_grad(): logits = model(torch.tensor([prompt + tokens[:-1]])).logits[0, len(prompt) - 1 :]
    top = logits.topk(2)
    return list(zip(top.indices[:, 0].tolist(), (top.values[:, 0] - top.values[:, 1]).tolist()))


def compare(model, prompts, answers, limit):
    """Tokens, those with a margin above the limit, those of them that differ, and the largest margin of a token that differs."""
    count = sure = wrong = 0
    worst = 0.0
    for prompt, answer in zip(prompts, answers):
        for token, (best, margin) in zip(answer.tokens, margins(model, prompt, answer.tokens)):
            count += 1
            sure += margin > limit
            if token == best: continue
            wrong += margin > limit
            worst = max(worst, margin)
    return count, sure, wrong, worst


def check_tokens(path, args):
    import tenon
    answers, ok = {}, True
    for form in args.forms.split(","):
        with tenon.LLM(path, exact=form == "exact", draft=0, threads=args.threads) as llm:
            prompts = [llm.tokenize(p) for p in prompts_of(args.prompts)]
            answers[form] = llm.generate(prompts, max_tokens=args.tokens, ignore_end=True)
    model = reference_of(path)
    for form, got in answers.items():
        count, sure, wrong, worst = compare(model, prompts, got, LIMIT[form])
        ok &= not wrong and count == args.prompts * args.tokens
        print(f"| {os.path.basename(path)} | {form} | {count} | {sure} | {wrong} | {worst:.2g} |{'' if not wrong else ' WRONG'}", flush=True)
    return ok


def check_perplexity(path, args, text):
    r = subprocess.run([TENON, "perplexity", path, "--file", text, "--window", str(WINDOW), "--json"], capture_output=True, text=True, check=True)
    own = json.loads(r.stdout)["perplexity"]
    if not args.llama:
        print(f"{os.path.basename(path)}: perplexity {own:.4f}", flush=True)
        return True
    there, file = path, text
    if args.llama_models:
        there, file = os.path.join(args.llama_models, os.path.basename(path)), os.path.join(args.llama_models, os.path.basename(text))
    r = subprocess.run([*shlex.split(args.llama), "-m", there, "-f", file, "-c", str(WINDOW), "-t", str(args.threads or 2)], capture_output=True, text=True)
    found = re.search(r"Final estimate: PPL = ([0-9.]+)", r.stdout + r.stderr)
    if not found: sys.exit(f"llama-perplexity: status {r.returncode}: {r.stderr.strip()[-400:]}")
    peer = float(found[1])
    ok = abs(own / peer - 1) <= WITHIN
    print(f"{os.path.basename(path)}: perplexity {own:.4f}, llama.cpp {peer:.4f} ({100 * (own / peer - 1):+.2f} %){'' if ok else '  WRONG'}", flush=True)
    return ok


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="+", metavar="MODEL.gguf")
    p.add_argument("--prompts", type=int, default=50)
    p.add_argument("--tokens", type=int, default=128)
    p.add_argument("--forms", default="exact,default")
    p.add_argument("--threads", type=int)
    p.add_argument("--no-tokens", action="store_true", help="perplexity alone")
    p.add_argument("--no-perplexity", action="store_true", help="tokens alone")
    p.add_argument("--llama", help="the command of llama-perplexity")
    p.add_argument("--llama-models", help="the folder in which llama-perplexity finds the files")
    p.add_argument("--text", default=os.path.join(ROOT, "build", "perplexity.txt"), help="where the text is written")
    args = p.parse_args()
    ok = True
    if not args.no_perplexity:
        with open(args.text, "w") as f: f.write(text_of_docs())
        for path in args.models: ok &= check_perplexity(path, args, args.text)
    if not args.no_tokens:
        print("| model | activations | tokens | margin above the limit | of them wrong | largest margin of a token that differs |\n|---|---|---|---|---|---|")
        for path in args.models: ok &= check_tokens(path, args)
    return not ok


if __name__ == "__main__": sys.exit(main())
