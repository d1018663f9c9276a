#!/usr/bin/env python3
"""template_seeds.py FOLDER -- first inputs of the fuzz target template: random templates of tests/formats/chat_template_random.py."""
import json, os, random, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "formats"))
import chat_template_random as make

def write(name, source, variables):
    text = source.encode() + b"\0" + json.dumps(variables, ensure_ascii=False).encode()
    with open(os.path.join(sys.argv[1], name), "wb") as f: f.write(text)


r = random.Random("fuzz")
for i, name in enumerate(make.FILTERS + ["batch(2, 'f')", "slice(2)", "groupby('n')", "map('upper')", "selectattr('n', 'odd')", "format(1, 'a')"]):
    write(f"filter-{i}", "{{ m|%s }}{{ s|%s }}{{ l|%s }}" % (name, name, name), make.variables(r))
for i, text in enumerate(["{} {1} {0!r:^9}", "{:08.2f}", "{:>+10,d}", "{a.b} {a[0]}", "%s %r %5.1f", "%(a)-6s|", "{{}}"]):
    write(f"format-{i}", "{{ '%s'.format(1.5, 2, a=l) }}{{ '%s' %% (s, s, f) }}" % (text, text), make.variables(r))
    write(f"percent-{i}", "{{ '%s' %% (s, s, f) }}{{ '%s' %% d }}{{ '%s'.format(s, 7) }}" % (text, text, text), make.variables(r))
for i in range(400):
    r = random.Random(f"fuzz {i}")
    source, variables = (make.statement_case if i % 2 else make.expression_case)(r)
    write(f"seed-{i}", source, variables)
