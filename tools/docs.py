#!/usr/bin/env python3
"""docs.py -- writes the generated pages of docs/, or with --check says which are out of date.

The pages come from the program's own tables, the manual page of the C interface from its header, and the reference of
the Python package from its docstrings, so that they cannot say anything else than those do.  --check also
looks at the links of every Markdown file: a link to a file must lead to one; and at the README's table of ratios, which
must be those of docs/benchmarks/*.json.
"""
import fnmatch, json, math, os, re, subprocess, sys

import manpage, pypage

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
PROGRAM = os.path.join(ROOT, "build", "tenon")
PAGES = {
    # page: arguments of the program
    "docs/reference/cli.md": ["help", "--markdown"],
    "docs/reference/ops.md": ["ops", "--markdown"],
    "docs/reference/ops-pytorch.md": ["ops", "--frontend", "pytorch", "--markdown"],
    "docs/reference/ops-tflite.md": ["ops", "--frontend", "tflite", "--markdown"],
    "docs/reference/ops-stablehlo.md": ["ops", "--frontend", "stablehlo", "--markdown"],
    "docs/reference/templates.md": ["templates", "--markdown"],
    "docs/reference/diagnostics.md": ["verify", "--codes", "--markdown"],
}
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def generated(args):
    p = subprocess.run([PROGRAM, *args], capture_output=True, text=True)
    return p.stdout if p.returncode == 0 else None


def markdown_files():
    for folder, subs, names in os.walk(ROOT):
        subs[:] = [s for s in subs if not s.startswith((".", "build"))]
        for name in names:
            if name.endswith(".md"): yield os.path.relpath(os.path.join(folder, name), ROOT)


def bad_links():
    for path in markdown_files():
        text = re.sub(r"```.*?```", "", open(os.path.join(ROOT, path), encoding="utf-8").read(), flags=re.S)
        for target in LINK.findall(text):
            if "://" in target or target.startswith("mailto:"): continue
            if not os.path.exists(os.path.join(ROOT, os.path.dirname(path), target)):
                yield f"{path}: no file {target}"


def measured(name):
    with open(os.path.join(ROOT, "docs", "benchmarks", name), encoding="utf-8") as f:
        return next(iter(json.load(f)["machines"].values()))


def readme_rows():
    """The rows of README's table of ratios, from the measurements."""
    cpu, gpu = measured("cpu.json")["sections"], measured("gpu.json")["networks"].values()
    columns = [{n: r["ratio"]["median"] for n, r in cpu[s]["rows"].items() if "ratio" in r} for s in ("f32", "int8")]
    columns += [{r["name"]: r["ratio"] for r in gpu if r["precision"] == "bf16" and r["batch"] == b and "ratio" in r} for b in (1, 32)]
    cell = lambda x: "–" if x is None else f"{x:.2f}"
    for name, key in (("ResNet-50", "resnet50"), ("MobileNetV2", "mobilenet_v2"), ("BERT-base", "bert_base"), ("ViT-B/16", "vit_b_16")):
        yield f"| {name} | " + " | ".join(cell(c.get(key, c.get(key + ".new"))) for c in columns) + " |"
    means = [math.exp(sum(map(math.log, c.values())) / len(c)) for c in columns]
    yield "| geometric mean of all measured | " + " | ".join(map(cell, means)) + " |"


def stale_rows():
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as f: readme = f.read()
    for row in readme_rows():
        if row not in readme: yield f"README.md: the table of ratios lacks the row {row}"


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f: return f.read()


def bad_environment():
    """Variables that src/ or the Python package reads, against src/cli/environment.def."""
    rows, used = set(re.findall(r'^ENVIRONMENT\("(\w+)"', read("src/cli/environment.def"), re.M)), {}
    for top, pattern in (("src", r'getenv\(\s*"?(\w+)'), ("python/tenon", r'(?:environ(?:\.get\(|\[)|getenv\()\s*"?(\w+)')):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in names:
                if not name.endswith((".c", ".h", ".py")): continue
                path = os.path.relpath(os.path.join(folder, name), ROOT)
                for word in re.findall(pattern, read(path)): used.setdefault(word, path)
    for word in sorted(set(used) - rows): yield f"{used[word]}: reads the variable {word}, which has no row in src/cli/environment.def"
    for word in sorted(rows - set(used)): yield f"src/cli/environment.def: nothing reads {word}"


def bad_steps():
    """Steps of tests/steps.txt that docs/testing.md does not name, by themselves or by a glob, and globs that fit none."""
    steps = re.findall(r"^([a-zA-Z][\w-]*) *\|", read("tests/steps.txt"), re.M)
    table = read("docs/testing.md").split("<!-- steps -->")[1]
    named = [w for line in table.splitlines() if line.startswith("|") for w in re.findall(r"`([\w*-]+)`", line.split("|")[1])]
    for step in steps:
        if not any(fnmatch.fnmatchcase(step, word) for word in named): yield f"docs/testing.md: the table of steps lacks {step}"
    for word in named:
        if not fnmatch.filter(steps, word): yield f"docs/testing.md: no step has the name {word}"


def limits_table():
    """The rows of src/base/limits.def as a table."""
    with open(os.path.join(ROOT, "src", "base", "limits.def"), encoding="utf-8") as f: text = f.read()
    yield "| of | bounded | limit | beyond |"
    yield "|---|---|---|---|"
    for value, *words in re.findall(r'^LIMIT\(\w+, ([\d <]+), "(.*?)", "(.*?)", "(.*?)", "(.*?)"\)$', text, re.M):
        unit, of, what, beyond = words
        number = eval(value)  # digits and shifts alone
        yield f"| {of} | {what} | {number:,} {unit} | {beyond} |"


def security():
    """SECURITY.md with the table of limits."""
    with open(os.path.join(ROOT, "SECURITY.md"), encoding="utf-8") as f: text = f.read()
    head, rest = text.split("limits.def -->\n", 1)
    tail = rest.split("<!-- end of limits", 1)[1]
    return head + "limits.def -->\n" + "\n".join(limits_table()) + "\n\n<!-- end of limits" + tail


def rows_of(name):
    """Rows of a table of src/models, with the line breaks of long ones removed."""
    with open(os.path.join(ROOT, "src", "models", name), encoding="utf-8") as f: text = f.read()
    return re.sub(r"\s+", " ", re.sub(r"^//.*$", "", text, flags=re.M))


def architectures():
    yield "| name | models | class of config.json | `general.architecture` of GGUF |"
    yield "|---|---|---|---|"
    for name, doc, fields in re.findall(r'ARCH\((\w+), "(.*?)", (.*?)\)(?= ARCH| #undef)', rows_of("arch.def")):
        hf, gguf = (re.search(r"\.%s = \{(.*?)\}" % key, fields) for key in ("hf", "gguf"))
        yield f"| {name} | {doc} | {hf[1].replace(chr(34), '`')} | {gguf[1].replace(chr(34), '`') if gguf else ''} |"


def config_keys():
    text = rows_of("config.def")
    also = {}
    for other, name in re.findall(r"ALIAS\((\S+), (\w+)\)", text): also.setdefault(name, []).append(f"`{other}`")
    yield "| key | also spelled | meaning |"
    yield "|---|---|---|"
    for name, doc in re.findall(r'KEY\((\w+), "[^"]*", "(.*?)"\)', text): yield f"| `{name}` | {', '.join(also.get(name, []))} | {doc} |"
    yield ""
    yield "Refused, unless null or false: " + ", ".join(f"`{n}`" for n in re.findall(r"REFUSED\((\w+),", text)) + "."
    yield ""
    yield "| without influence on logits | why |"
    yield "|---|---|"
    by = {}
    for name, why in re.findall(r'IRRELEVANT\(([\w.]+), "(.*?)"\)', text): by.setdefault(why, []).append(f"`{name}`")
    for why, names in by.items(): yield f"| {', '.join(names)} | {why} |"


def llm():
    """docs/llm.md with the tables of architectures and keys."""
    with open(os.path.join(ROOT, "docs", "llm.md"), encoding="utf-8") as f: text = f.read()
    for name, rows in ("arch.def", architectures()), ("config.def", config_keys()):
        head, rest = text.split(f"{name} -->\n", 1)
        tail = rest.split(f"<!-- end of {name}", 1)[1]
        text = head + f"{name} -->\n" + "\n".join(rows) + f"\n\n<!-- end of {name}" + tail
    return text


def pages():
    """(page, its text or None, what makes it) of each."""
    for page, args in PAGES.items():
        yield page, generated(args) if os.path.exists(PROGRAM) else None, f"tenon {' '.join(args)}"
    yield "docs/man/tenon.3", manpage.page(os.path.join(ROOT, "include", "tenon", "tenon.h")), "tools/manpage.py"
    yield "docs/reference/python.md", pypage.page(os.path.join(ROOT, "python", "tenon")), "tools/pypage.py"
    yield "SECURITY.md", security(), "src/base/limits.def"
    yield "docs/llm.md", llm(), "src/models"


def main():
    check, bad = "--check" in sys.argv, 0
    for page, want, maker in pages():
        full = os.path.join(ROOT, page)
        if want is None:
            print(f"docs: `{maker}` gives nothing; {page} is left alone")
            bad += os.path.exists(PROGRAM) and check
        elif not check:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            open(full, "w", encoding="utf-8").write(want)
        elif not os.path.exists(full) or open(full, encoding="utf-8").read() != want:
            print(f"docs: {page} is out of date: make docs")
            bad += 1
    for line in [*bad_links(), *stale_rows(), *bad_environment(), *bad_steps()] if check else []:
        print(line)
        bad += 1
    return bad > 0


sys.exit(main())
