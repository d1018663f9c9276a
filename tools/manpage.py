#!/usr/bin/env python3
"""manpage.py HEADER -- the manual page tenon(3) from the comments of the public header.

The first comment is the description.  A comment of the form `/* ---- name ---- */` begins a section; each declaration after it
is printed with the comment in front of it, or else with those inside it.
"""
import re, sys


def roff(text):
    """Plain text as roff: no line may begin as a request, and what is code keeps its hyphens."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"(?m)^([.'])", r"\\&\1", text)


def words(comment):
    """The text of a comment, paragraph by paragraph; what is indented is an example."""
    lines = [re.sub(r"^\s*\*? ?", "", line).rstrip() for line in comment.strip().split("\n")]
    return re.split(r"\n\s*\n", "\n".join(lines).strip())


def paragraphs(comment):
    out = []
    for p in words(comment):
        if p.startswith("  "): out.append(".PP\n.in +4n\n.nf\n" + roff(re.sub(r"(?m)^  ", "", p)) + "\n.fi\n.in")
        else: out.append(".PP\n" + roff(re.sub(r"\s*\n\s*", "\n", p)))
    return "\n".join(out)


def declaration(text):
    return ".PP\n.nf\n" + "\n".join("\\fB" + roff(line) + "\\fR" for line in text.strip().split("\n")) + "\n.fi"


def items(header):
    """(kind, text) of everything at the outermost level: 'comment' or 'code'."""
    body = header[header.index('extern "C" {'):]
    body = body[body.index("#endif") + 6:body.rindex("#ifdef __cplusplus")]
    at = 0
    for m in re.finditer(r"/\*(.*?)\*/|((?:typedef|TENON_API)\b.*?;[^\n]*?(?:/\*.*?\*/)?$)|(#if.*?#endif)|(#define [^\n]*)", body, re.S | re.M):
        if m.start() < at: continue
        at = m.end()
        if m.group(1) is not None:
            yield "comment", m.group(1)
        elif m.group(2):
            text = m.group(2)
            if text.startswith("typedef") and "{" in text:  # to the brace that ends it
                end = re.compile(r"^\} \w+;", re.M).search(body, m.start()).end()
                text, at = body[m.start():end], end
            yield "code", text.replace("TENON_API ", "")
        elif m.group(4) and "VERSION" not in m.group(4):
            yield "code", m.group(4)


def page(path):
    header = open(path, encoding="utf-8").read()
    version = re.search(r'TENON_VERSION +"([^"]+)"', header).group(1)
    first = re.match(r"/\* tenon\.h -- (.*?)\n \*\n(.*?)\*/", header, re.S)
    out = [f'.TH TENON 3 "" "Tenon {version}" "C interface"', ".SH NAME", "tenon \\- " + roff(first.group(1).rstrip(".")), ".SH SYNOPSIS",
           ".B #include <tenon/tenon.h>", ".PP", "cc main.c \\-ltenon", ".SH DESCRIPTION", paragraphs(first.group(2)), ".SH TYPES AND STATUS"]
    pending = None
    for kind, text in items(header):
        section = re.fullmatch(r" ---- (.*) ---- ", text) if kind == "comment" else None
        if section:
            out.append(".SH " + roff(section.group(1).upper()))
            pending = None
        elif kind == "comment":
            if pending: out.append(paragraphs(pending))
            pending = text
        else:
            out.append(declaration(text))
            if pending: out.append(paragraphs(pending))
            pending = None
    if pending: out.append(paragraphs(pending))
    return "\n".join(out + [".SH SEE ALSO", ".BR tenon (1)", ""])


if __name__ == "__main__":
    if len(sys.argv) != 2: sys.exit(__doc__)
    sys.stdout.write(page(sys.argv[1]))
