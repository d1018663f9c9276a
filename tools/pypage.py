"""pypage.py -- the reference of the Python package, docs/reference/python.md, from its docstrings.

The source is parsed, not imported: no library and no NumPy are needed.  A name of tenon.__all__ is shown with its signature and docstring, a class
with those of its methods and properties that have one.  A name without a docstring is an error.
"""
import ast, os, re

HEAD = """# The Python package

Generated from the docstrings of `python/tenon`; the [guide](../python.md) says how things belong together. Examples are run as tests.
"""


def parse(path):
    text = open(path, encoding="utf-8").read()
    return text, ast.parse(text)


def public(folder):
    """(name, source text, node) of what the package gives, in the order of __all__."""
    _, init = parse(os.path.join(folder, "__init__.py"))
    where, names = {}, []
    for node in init.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names: where[alias.asname or alias.name] = (node.module, alias.name)
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__": names = ast.literal_eval(node.value)
    for name in names:
        module, original = where[name]
        text, tree = parse(os.path.join(folder, *module.split(".")) + ".py")
        node = next(n for n in tree.body if getattr(n, "name", None) == original)
        yield name, text, node


def signature(text, node, name):
    """As it is written, without self and the quotes of annotations, on one line."""
    lines = text.split("\n")[node.lineno - 1:node.body[0].lineno]
    said = re.sub(r"\s+", " ", "\n".join(lines))
    first = at = said.index("(") + 1
    depth = 1
    while depth:
        depth += {"(": 1, ")": -1}.get(said[at], 0)
        at += 1
    args = re.sub(r"^(self|cls)(, |$)", "", said[first:at - 1].strip().rstrip(","))
    gives = re.sub(r"\s+", " ", ast.get_source_segment(text, node.returns)) if node.returns else "None"
    result = f"{name}({args})" + (f" -> {gives}" if gives != "None" else "")
    return re.sub(r'(?<!= )"([\w.\[\]]+)"', r"\1", result)


def markdown(doc):
    """A docstring as Markdown: examples in fences, definitions as a list."""
    out, example, lines = [], False, doc.split("\n")
    for k, line in enumerate(lines):
        begins = line.startswith(">>>")
        if begins and not example: out += ["```python"]
        if example and not line.strip(): out += ["```"]
        example = begins or (example and bool(line.strip()))
        term = re.fullmatch(r"((?:``[^`]+``(?:, )?)+)", line)
        if example: out.append(line)
        elif term and k + 1 < len(lines) and lines[k + 1].startswith("    "): out.append(f"- {line.replace('``', '`')}:")
        else: out.append(re.sub(r"^    (?=\S)", "  ", line).replace("``", "`"))
    if example: out.append("```")
    return "\n".join(out)


def doc_of(node, name):
    doc = ast.get_docstring(node)
    if not doc: raise SystemExit(f"pypage: {name} has no docstring")
    return markdown(doc)


def members(text, node, owner):
    for m in node.body:
        if not isinstance(m, ast.FunctionDef) or (m.name.startswith("_") and m.name != "__call__"): continue
        marks = [getattr(d, "id", getattr(d, "attr", "")) for d in m.decorator_list]
        if "setter" in marks or not ast.get_docstring(m): continue
        value = owner.lower() if owner.isupper() else owner[0].lower() + owner[1:]
        name = f"{value}.{m.name}" if m.name != "__call__" else value
        said = "" if "property" in marks else f"```python\n{signature(text, m, name)}\n```\n\n"
        yield f"#### `{owner}.{m.name}`\n\n{said}{doc_of(m, f'{owner}.{m.name}')}\n"


def group_of(name, node):
    return "Functions" if isinstance(node, ast.FunctionDef) else "Errors" if name.endswith(("Error", "Warning")) else "Classes"


def entry(name, text, node):
    if isinstance(node, ast.FunctionDef):
        yield f"### `{name}`\n\n```python\n{signature(text, node, f'tenon.{name}')}\n```\n\n{doc_of(node, name)}\n"
        return
    bases = ", ".join(b.id for b in node.bases if isinstance(b, ast.Name))
    yield f"### `{name}{f'({bases})' if bases else ''}`\n\n{doc_of(node, name)}\n"
    yield from members(text, node, name)


def page(folder):
    names, out = list(public(folder)), [HEAD]
    for group in ("Functions", "Classes", "Errors"):
        out.append(f"## {group}\n")
        for name, text, node in names:
            if group_of(name, node) == group: out += entry(name, text, node)
    return "\n".join(out)
