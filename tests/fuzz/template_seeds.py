#!/usr/bin/env python3
"""template_seeds.py FOLDER -- first inputs of the fuzz target template: random templates of tests/formats/chat_template_random.py."""
import json, os, random, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "formats"))
import chat_template_random as make

for i in range(400):
    r = random.Random(f"fuzz {i}")
    source, variables = (make.statement_case if i % 2 else make.expression_case)(r)
    text = source.encode() + b"\0" + json.dumps(variables, ensure_ascii=False).encode()
    with open(os.path.join(sys.argv[1], f"seed-{i}"), "wb") as f: f.write(text)
