#!/usr/bin/env python3
"""site.py [--check] -- builds the documentation as a searchable site with mkdocs: build/site/html.

The pages are README.md, the other pages at the top, and docs/, as they are in the repository.  A link between pages
stays one; a link to anything else of the repository becomes its text.  mkdocs.yml has the order, and every page must
be in it.  With --check the result is looked at: every page can be searched, and none loads anything from elsewhere.
"""
import json
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGES, HTML = os.path.join(ROOT, "build/site/pages"), os.path.join(ROOT, "build/site/html")
TOP = {"README.md": "index.md", "CHANGELOG.md": "CHANGELOG.md", "CONTRIBUTING.md": "CONTRIBUTING.md", "SECURITY.md": "SECURITY.md"}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.S)


def place(path):
    """Where a file of the repository lies among the pages; None: it is none of them."""
    if path in TOP: return TOP[path]
    if path.startswith("docs/") and os.path.isfile(os.path.join(ROOT, path)): return path[len("docs/"):]
    if os.path.isdir(os.path.join(ROOT, path)): return place(os.path.join(path, "README.md")) if path.startswith("docs/") else None
    return None


def rewrite(text, source):
    """The text of a page, with its links as the site needs them."""
    here = os.path.dirname(place(source))

    def link(m):
        picture, words, target = m.groups()
        path, hash_, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target) or not path: return m.group(0)
        to = place(os.path.normpath(os.path.join(os.path.dirname(source), path)))
        if to is None: return words
        return f"{picture}[{words}]({os.path.relpath(to, here or '.')}{hash_}{anchor})"

    # Code stays as it is, but for a link around it.
    kept = []

    def keep(m):
        kept.append(m.group(0))
        return f"\0{len(kept) - 1}\0"

    text = LINK.sub(link, CODE.sub(keep, text))
    return re.sub("\0(\\d+)\0", lambda m: kept[int(m.group(1))], text)


def collect():
    shutil.rmtree(PAGES, ignore_errors=True)
    files = list(TOP)
    for folder, _, names in os.walk(os.path.join(ROOT, "docs")):
        files += [os.path.relpath(os.path.join(folder, n), ROOT) for n in names]
    pages = []
    for source in sorted(files):
        to = place(source)
        if not to.endswith((".md", ".svg", ".png")): continue
        os.makedirs(os.path.dirname(os.path.join(PAGES, to)), exist_ok=True)
        if to.endswith(".md"):
            pages.append(to)
            with open(os.path.join(ROOT, source), encoding="utf-8") as f: text = rewrite(f.read(), source)
            with open(os.path.join(PAGES, to), "w", encoding="utf-8") as f: f.write(text)
        else:
            shutil.copy(os.path.join(ROOT, source), os.path.join(PAGES, to))
    return pages


def check(pages):
    """The faults of the site, as lines."""
    faults = []
    with open(os.path.join(HTML, "search/search_index.json"), encoding="utf-8") as f:
        searched = {d["location"].partition("#")[0] for d in json.load(f)["docs"]}
    for page in pages:
        made = page[:-3] + ".html" if not page.endswith("README.md") else os.path.join(os.path.dirname(page), "index.html")
        path = os.path.join(HTML, made)
        if not os.path.isfile(path):
            faults.append(f"{page}: no {made}")
            continue
        if made not in searched: faults.append(f"{made}: cannot be searched")
        with open(path, encoding="utf-8") as f: text = f.read()
        for tag in re.findall(r"<(?:script|link|img|iframe)\b[^>]*", text):
            if re.search(r"(?:src|href)=\"?(?:https?:)?//", tag): faults.append(f"{made}: loads {tag}")
    return faults


def main():
    pages = collect()
    if subprocess.run([sys.executable, "-m", "mkdocs", "build", "--quiet", "--clean"], cwd=ROOT).returncode: sys.exit(1)
    faults = check(pages) if "--check" in sys.argv else []
    for fault in faults: print(fault)
    print(f"site: {len(pages)} pages in build/site/html, {len(faults)} faults")
    sys.exit(bool(faults))


main()
