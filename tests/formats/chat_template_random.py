"""chat_template_random.py -- conversations, and random templates with random values, for chat_template_test.py."""

WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "The weather of a place.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "description": "Name of the city"},
                                     "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                                     "days": {"type": ["integer", "null"], "minimum": 1, "maximum": 14}},
    "required": ["city"]}}}
SEARCH = {"type": "function", "function": {"name": "search", "description": "Looks <things> up & \"quotes\" them.\nIn two lines.", "parameters": {
    "type": "object", "properties": {"query": {"type": "string"}, "filters": {"type": "array", "items": {"type": "object", "properties": {
        "field": {"type": "string"}, "value": {"anyOf": [{"type": "string"}, {"type": "number"}]}}}}, "exact": {"type": "boolean"}},
    "required": ["query", "filters"]}, "return": {"type": "string"}}}


def user(text, **more): return {"role": "user", "content": text, **more}
def system(text): return {"role": "system", "content": text}
def says(text, **more): return {"role": "assistant", "content": text, **more}


def call(name, arguments, id="call00001"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def conversations():
    """Twenty: a title, and the variables of the template."""
    base = {"bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True}
    image = [{"type": "image"}, {"type": "text", "text": "What is on it?"}]
    uses = [user("Weather in Oslo?"), says("", tool_calls=[call("get_weather", {"city": "Oslo", "days": 3})]),
            {"role": "tool", "tool_call_id": "call00001", "name": "get_weather", "content": '{"temperature": -2.5}'}, says("Minus 2.5 degrees.")]
    two = [system("Use tools."), user("Oslo and Paris?"), says("I look.", reasoning_content="Two places.", tool_calls=[
        call("get_weather", {"city": "Oslo", "unit": "celsius"}), call("search", {"query": "a \"b\" <c>", "filters": [{"field": "x", "value": 1.5}], "exact": True}, "call00002")]),
        {"role": "tool", "tool_call_id": "call00001", "name": "get_weather", "content": "cold"},
        {"role": "tool", "tool_call_id": "call00002", "name": "search", "content": [{"type": "text", "text": "mild"}]}, user("Thanks. And tomorrow?")]
    long = [system("Be brief.")]
    for i in range(40): long += [user(f"Question {i}: " + "why? " * (i % 7)), says(f"<think>\nstep {i}\n</think>\n\nAnswer {i}.")]
    long.append(user("The last one."))
    talks = {
        "plain": {"messages": [user("Hello!")]},
        "system": {"messages": [system("You are terse."), user("Hello!")]},
        "several turns": {"messages": [system("You are terse."), user("Hi"), says("Hello."), user("Bye"), says("Bye.")], "add_generation_prompt": False},
        "turns and prompt": {"messages": [user("Hi"), says("Hello."), user("What is 1 + 1?")]},
        "tools": {"messages": [user("Weather in Oslo?")], "tools": [WEATHER, SEARCH]},
        "tool call": {"messages": uses, "tools": [WEATHER]},
        "two tool calls": {"messages": two, "tools": [WEATHER, SEARCH]},
        "arguments as text": {"messages": [user("Oslo?"), says(None, tool_calls=[call("get_weather", '{"city": "Oslo"}')]),
                                           {"role": "tool", "tool_call_id": "call00001", "content": "cold"}], "tools": [WEATHER]},
        "image": {"messages": [user(image)]},
        "text parts": {"messages": [system([{"type": "text", "text": "Be kind."}]), user([{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]), says([{"type": "text", "text": "Three."}])]},
        "empty content": {"messages": [user(""), says(""), user("   ")]},
        "null content": {"messages": [user(None), says(None)]},
        "unicode": {"messages": [system("Sprich: ÄÖÜß \u2028 \x7f"), user("日本語 🎉 e\u0301 'q' \"d\" <b>&amp;</b> \\n"), says("naïve\r\n\tça va?")], "tools": [SEARCH]},
        "missing fields": {"messages": [{"role": "user"}, {"content": "no role"}]},
        "wrong order": {"messages": [says("I begin."), user("No."), user("Again."), says("x"), says("y")]},
        "system in the middle": {"messages": [user("Hi"), system("Late."), {"role": "developer", "content": "later"}, user("Hm")]},
        "unknown role": {"messages": [user("Hi"), {"role": "narrator", "content": "Night fell."}]},
        "no messages": {"messages": []},
        "reasoning": {"messages": [user("Think."), says("<think>deep\n</think>\nDone.", reasoning_content="deep", thinking="deep"), user("More.")], "enable_thinking": False, "thinking": True, "reasoning_effort": "high"},
        "long": {"messages": long, "documents": [{"title": "T", "text": "A document.", "contents": "A document."}], "enable_thinking": True, "date_string": "26 Jul 2024"},
    }
    return {k: {**base, **v} for k, v in talks.items()}


# ---- random values ----

WORDS = ["", "a", "b", "role", "user", "Ab cD", "x y  z", " pad\t", "<b>&'\"", "line1\nline2\r\n\n end", "ÄßΣ", "日本", "🎉é", "12", "-7", "3.50", "1e3", "0x1F", "%s|%d", "{}{0}",
         "true", "ΑΣ. ΣΑ", "ǆx", "a,b,,c", "\\n'", "tool_calls", "none", " ", "aXbXc", "\x00\x1f\x7f\u2028"]
KEYS = ["a", "b", "role", "content", "items", "get", "x y", "0", "name", "Z"]


def value(r, depth=2):
    k = r.random()
    if depth and k < 0.17: return [value(r, depth - 1) for _ in range(r.randrange(4))]
    if depth and k < 0.32: return {r.choice(KEYS): value(r, depth - 1) for _ in range(r.randrange(4))}
    if k < 0.38: return None
    if k < 0.45: return r.random() < 0.5
    if k < 0.6: return r.choice([0, 1, 2, 3, -1, 7, 10, 255, 1000000])
    if k < 0.7: return r.choice([0.0, -0.0, 0.5, 1.0, 2.5, -3.25, 1e16, 1e-5, 123456.789, 1e300, 0.1])
    return r.choice(WORDS)


def variables(r):
    return {"s": r.choice(WORDS), "t": r.choice(WORDS), "n": r.choice([0, 1, 2, 3, -1, 7, 12]), "f": r.choice([0.5, 2.0, -1.75, 1e20, 3.14159]), "z": None, "y": r.random() < 0.5,
            "l": [value(r, 1) for _ in range(r.randrange(5))], "d": {r.choice(KEYS): value(r, 1) for _ in range(r.randrange(5))},
            "w": [r.choice(WORDS) for _ in range(r.randrange(5))], "i": [r.randrange(-5, 20) for _ in range(r.randrange(6))],
            "m": [{"role": r.choice(["user", "tool", "User"]), "content": r.choice(WORDS), "n": r.randrange(4)} for _ in range(r.randrange(4))], "v": value(r)}


# ---- random expressions ----

def quoted(r):
    return r.choice(['"a"', "'b'", '""', "' '", "','", "'role'", "'content'", "'x'", "'%s-%s'", "'{} {1}'", "'é日'", "'a' 'b'", r"'\n\t\x41\u00e9\\'", "'ab,c'", "'<x>'", "'%5.2f'", "'{:>5}'", "'{0!r:^9}'", "'n'", "'user'"])


def number(r):
    return r.choice(["0", "1", "2", "3", "-1", "7", "10", "1.5", "0.0", "2.0", "1e3", "0x10", "1_000", "-2"])


def small(r):
    return r.choice(["0", "1", "2", "3", "-1", "-2", "5"])


FILTERS = """upper lower capitalize title trim length count first last list string int float abs round sum min max sort unique reverse
join escape e safe tojson items dictsort wordcount default indent""".split()
TESTS = "defined undefined none boolean true false integer float number string mapping sequence iterable callable odd even lower upper escaped".split()


def with_args(r, e):
    """Filters and tests with arguments."""
    a, b = lambda: expression(r, 1), lambda: quoted(r)
    return r.choice([
        lambda: f"{e}|default({a()})", lambda: f"{e}|default({a()}, true)", lambda: f"{e}|join({b()})", lambda: f"{e}|join(', ', attribute='role')",
        lambda: f"{e}|replace({b()}, {b()})", lambda: f"{e}|replace({b()}, {b()}, {small(r)})", lambda: f"{e}|trim({b()})", lambda: f"{e}|indent({small(r)})",
        lambda: f"{e}|indent(2, first=true, blank={r.choice(['true', 'false'])})", lambda: f"{e}|indent('> ')", lambda: f"{e}|round({small(r)})", lambda: f"{e}|round({small(r)}, 'floor')",
        lambda: f"{e}|round(method='ceil')", lambda: f"{e}|tojson(indent={small(r)})", lambda: f"{e}|tojson(ensure_ascii=true)", lambda: f"{e}|tojson(sort_keys=true, separators=(',', ':'))",
        lambda: f"{e}|map(attribute='role')|list", lambda: f"{e}|map(attribute='n', default=4)|list", lambda: f"{e}|map('{r.choice(FILTERS)}')|list", lambda: f"{e}|map('replace', 'a', 'X')|join('|')",
        lambda: f"{e}|select('{r.choice(TESTS)}')|list", lambda: f"{e}|reject('{r.choice(TESTS)}')|list", lambda: f"{e}|select|list", lambda: f"{e}|selectattr('role', 'equalto', 'user')|list",
        lambda: f"{e}|selectattr('n', '{r.choice(['==', 'gt', 'le', '!=', 'lt', 'in'])}', {a()})|list|length", lambda: f"{e}|rejectattr('role')|list", lambda: f"{e}|selectattr('n', 'odd')|map(attribute='content')|first",
        lambda: f"{e}|sort(attribute='{r.choice(['role', 'n', 'n,role', 'content', '0'])}')", lambda: f"{e}|sort(reverse=true)", lambda: f"{e}|sort(case_sensitive=true)", lambda: f"{e}|unique(attribute='role')|list",
        lambda: f"{e}|sum(attribute='n')", lambda: f"{e}|sum(start={a()})", lambda: f"{e}|min(attribute='n')", lambda: f"{e}|max(attribute='content')", lambda: f"{e}|batch({small(r)})|list", lambda: f"{e}|batch(2, 'f')|list",
        lambda: f"{e}|slice({small(r)})|list", lambda: f"{e}|slice(3, none)|list", lambda: f"{e}|groupby('{r.choice(['role', 'n', 'content'])}')", lambda: f"{e}|groupby('role')|map(attribute='grouper')|list", lambda: f"{e}|groupby('n', default=1)|map('last')|list",
        lambda: f"{e}|dictsort(by='value')", lambda: f"{e}|dictsort(true, reverse=true)", lambda: f"{e}|truncate({small(r)}, end='')", lambda: f"{e}|truncate(5, true, '..', 0)", lambda: f"{e}|truncate(4, leeway=0, end='-')", lambda: f"{e}|center(9)",
        lambda: f"{e}|int({a()})", lambda: f"{e}|int(base={r.choice(['16', '2', '0', '36'])})", lambda: f"{e}|float({a()})", lambda: f"{b()}|format({e}, {a()})", lambda: f"'%(a)s %(b)r'|format(a={e}, b={a()})", lambda: f"{e}|attr({b()})",
        lambda: f"{e} is divisibleby {small(r)}", lambda: f"{e} is divisibleby({small(r)})", lambda: f"{e} is eq {a()}", lambda: f"{e} is in {a()}", lambda: f"{e} is not sameas none", lambda: f"{e} is gt({a()})", lambda: f"{e} is filter", lambda: f"{e} is test",
    ])()


def method(r, e):
    a, b = lambda: expression(r, 1), lambda: quoted(r)
    return r.choice([
        lambda: f"{e}.{r.choice('upper lower title capitalize swapcase casefold strip lstrip rstrip split rsplit splitlines isdigit isalpha isalnum isspace isupper islower istitle isnumeric isdecimal isprintable isascii keys values items copy expandtabs'.split())}()",
        lambda: f"{e}.{r.choice(['split', 'rsplit', 'strip', 'lstrip', 'rstrip', 'startswith', 'endswith', 'find', 'rfind', 'count', 'partition', 'rpartition', 'removeprefix', 'removesuffix', 'index', 'join', 'get'])}({b()})",
        lambda: f"{e}.{r.choice(['find', 'count', 'startswith', 'rfind', 'endswith', 'index'])}({b()}, {small(r)})", lambda: f"{e}.find({b()}, {small(r)}, {small(r)})", lambda: f"{e}.split({b()}, {small(r)})", lambda: f"{e}.rsplit(none, 1)", lambda: f"{e}.split(maxsplit=1)",
        lambda: f"{e}.replace({b()}, {b()})", lambda: f"{e}.replace({b()}, {b()}, {small(r)})", lambda: f"{e}.{r.choice(['center', 'ljust', 'rjust', 'zfill'])}({r.choice(['7', '8', '3'])})", lambda: f"{e}.center(8, {b()})", lambda: f"{e}.startswith(({b()}, {b()}))",
        lambda: f"{e}.get({b()}, {a()})", lambda: f"{e}.get({a()})", lambda: f"{b()}.join({e})", lambda: f"{e}.splitlines(true)", lambda: f"{e}.index({a()})", lambda: f"{e}.count({a()})", lambda: f"{e}.items()|list", lambda: f"{e}.keys()|sort", lambda: f"{e}.format({a()}, {a()})", lambda: f"{b()}.format({e}, {a()})",
        lambda: f"'{{a}} {{b[0]}} {{b.role}}'.format(a={e}, b={a()})", lambda: f"'{{:{r.choice(['>8', '<6', '^7', '05', '+', '.2f', ',', '_', 'x', '#x', 'b', 'e', 'g', '%', '.3', '*^9s', '08.3f', ' d', 'c', 'n', '010,', 'X', 'o', '-^+9,.1f'])}}}'.format({e})",
        lambda: f"'%{r.choice(['s', 'd', '5d', '-5d|', '05d', '+d', 'x', '#x', 'o', '.2f', '8.3f', 'e', 'g', 'r', '5s|', '-5s|', '.2s', 'c', '%', '#o', '.3d', '+.1e', ' d', '08.2f', 'i', 'X', 'a'])}' % {paren(r, e)}", lambda: f"'%s %s' % ({e}, {a()})",
        lambda: f"{e}.append({a()})", lambda: f"{e}.pop()", lambda: f"{e}.update(a=1)", lambda: f"{e}._x", lambda: f"{e}.__class__", lambda: f"{e}.nosuch",
    ])()


def paren(r, e):
    return f"({e})"


def atom(r):
    return r.choice([lambda: r.choice(["s", "t", "n", "f", "z", "y", "l", "d", "w", "i", "m", "v", "nothing"]), lambda: quoted(r), lambda: number(r), lambda: r.choice(["true", "false", "none", "True", "None"]),
                     lambda: "[" + ", ".join(expression(r, 1) for _ in range(r.randrange(4))) + "]", lambda: "{" + ", ".join(f"{quoted(r)}: {expression(r, 1)}" for _ in range(r.randrange(3))) + "}",
                     lambda: "(" + expression(r, 1) + ", " + expression(r, 1) + ")", lambda: f"range({small(r)})", lambda: f"range({small(r)}, {r.choice(['4', '9', '-3'])}, {r.choice(['1', '2', '-1'])})", lambda: "m[0]", lambda: "m[-1].role", lambda: "d.a",
                     lambda: "(s|safe)", lambda: "dict(a=n, b=s)", lambda: "dict(d, c=1)"])()


def expression(r, depth=3):
    if depth <= 0 or r.random() < 0.12: return atom(r)
    e = lambda: expression(r, depth - 1)
    p = lambda: r.choice([atom, lambda q: paren(q, expression(q, depth - 1))])(r)
    return r.choice([
        lambda: f"{p()} {r.choice(['+', '-', '*', '/', '//', '%', '~', '~', '+'])} {p()}", lambda: f"{p()} ** {r.choice(['2', '3', '-1', '0.5'])}", lambda: f"{p()} {r.choice(['==', '!=', '<', '<=', '>', '>=', 'in', 'not in'])} {p()}",
        lambda: f"{p()} < {p()} <= {p()}", lambda: f"{p()} {r.choice(['and', 'or'])} {p()}", lambda: f"not {p()}", lambda: f"-{p()}", lambda: f"{e()} if {e()} else {e()}", lambda: f"({e()} if {e()})",
        lambda: f"{p()}|{r.choice(FILTERS)}", lambda: f"{p()}|{r.choice(FILTERS)}|{r.choice(FILTERS)}", lambda: with_args(r, p()), lambda: with_args(r, p()), lambda: method(r, p()), lambda: method(r, p()), lambda: method(r, r.choice("stdlwm")),
        lambda: with_args(r, r.choice("lwimd")), lambda: f"{p()} is {r.choice(['', 'not '])}{r.choice(TESTS)}", lambda: f"{p()}[{small(r)}]", lambda: f"{r.choice('stlwimvd')}[{r.choice(['', small(r)])}:{r.choice(['', small(r)])}{r.choice(['', ':' + r.choice(['1', '2', '-1', '-2'])])}]",
        lambda: f"{p()}[{quoted(r)}]", lambda: f"{p()}.{r.choice(KEYS[:5])}", lambda: f"{e()} ~ {e()}", lambda: f"({e()})|tojson", lambda: f"({e()})|string|length",
    ])()


def expression_case(r):
    return "{{ " + expression(r) + " }}", variables(r)


# ---- random statements ----

def name(r): return r.choice(["a", "b", "c", "n", "s", "x"])
def space(r, text): return "{%" + r.choice(["", "", "-", "+"]) + r.choice([" ", ""]) + text + r.choice([" ", ""]) + r.choice(["", "", "-", "+"]) + "%}"
def data(r): return r.choice(["", " ", "\n", "  \n", "text", "\n  text\n", " x ", "\t", "\r\n  ", "{# note #}", "\n {#- note -#} \n", "{ ", " }", "% }", "\u00a0\n"])


def simple(r):
    if r.random() < 0.5: return r.choice(["s", "t", "l", "w", "i", "n", "1", "'q'", "x|default(3)", "a is defined", "b is defined", "c|default('C')", "(a|default(0))|string ~ n", "x is string", "m|length", "s|upper"])
    return r.choice([lambda: expression(r, 1), lambda: name(r), lambda: f"{name(r)} ~ {name(r)}", lambda: "n + 1", lambda: "loop.index" if r.random() < 0.2 else "n", lambda: "ns.a", lambda: f"{name(r)}|default('D')", lambda: "a"])()


def statement(r, depth, loop):
    body = lambda more=loop: block(r, depth - 1, more)
    options = [lambda: "{{" + r.choice(["", "-", "+"]) + " " + simple(r) + " " + r.choice(["", "-"]) + "}}", lambda: space(r, f"set {name(r)} = {simple(r)}"), lambda: space(r, f"set ns.{r.choice('ab')} = {simple(r)}") if r.random() < 0.5 else "{{ ns }}", lambda: data(r),
               lambda: space(r, f"set {name(r)}, {name(r)} = {simple(r)}, {simple(r)}")]
    if loop: options += [lambda: space(r, r.choice(["break", "continue"])) if r.random() < 0.4 else "{{ x }}",
                         lambda: "{{ loop." + r.choice("index index0 first last length revindex revindex0 depth depth0 previtem nextitem".split()) + " }}", lambda: "{{ loop.cycle('A', 'B', 3) }}", lambda: "{{ loop }}", lambda: "{{ loop.changed(x) }}"]
    if depth: options += [
        lambda: space(r, f"for {r.choice(['x', 'x', 'x', 'a', 'a', 'c', 'x, b'])} in {r.choice(['l', 'w', 'i', 'm', 's', 'd', 'd.items()', 'range(3)', 'nothing', simple(r)])}{r.choice(['', '', ' if ' + r.choice(['x', 'x is string', 'n', 'not loop', 'x != a'])])}") + body(True)
                + (space(r, "else") + body() if r.random() < 0.25 else "") + space(r, "endfor"),
        lambda: space(r, f"if {simple(r)}") + body() + (space(r, f"elif {simple(r)}") + body() if r.random() < 0.4 else "") + (space(r, "else") + body() if r.random() < 0.4 else "") + space(r, "endif"),
        lambda: space(r, f"macro g({r.choice(['', 'a', 'a, b', 'a, b=2', 'a=n, b=a'])})") + block(r, depth - 1, False) + r.choice(["", "{{ varargs }}", "{{ kwargs }}", "{{ caller() if caller }}", "{{ caller(1) }}"]) + space(r, "endmacro")
                + "{{ g(" + r.choice(["", "1", "s", "1, 2", "1, 2, 3", "b=3", "a=s, c=4", "*i", "**d"]) + ") }}",
        lambda: space(r, "call" + r.choice(["", "(q)", "(q, w=5)"]) + " g(" + r.choice(["", "1", "s, n"]) + ")") + block(r, depth - 1, False) + space(r, "endcall"),
        lambda: space(r, f"set {name(r)}" + r.choice(["", "", " | upper", " | trim | length", " | default(n)"])) + body() + space(r, "endset"),
        lambda: space(r, "filter " + r.choice(["upper", "trim", "replace('x', n)", "upper|trim", "indent(2)"])) + body() + space(r, "endfilter"),
        lambda: space(r, f"with {name(r)} = {simple(r)}, c = {simple(r)}") + body() + space(r, "endwith"),
        lambda: space(r, "generation") + block(r, depth - 1, False) + space(r, "endgeneration"),
        lambda: r.choice(["{% raw %}", "{%- raw -%}", "{%+ raw -%}"]) + r.choice(["{{ x }}", "{% if %}\n", " {# #} "]) + space(r, "endraw"),
    ] * 2
    return r.choice(options)()


def block(r, depth, loop):
    return data(r) + "".join(statement(r, depth, loop) + data(r) for _ in range(r.randrange(1, 4)))


def statement_case(r):
    head = r.choice(["", "{% set ns = namespace(a=1, b='q') %}", "{% set ns = namespace() %}\n", "{% set ns = namespace(a=1) -%}\n"])
    head += r.choice(["", "{% macro g(a, b=2) %}[{{ a }}{{ n }}{{ varargs }}{{ kwargs }}{% if caller %}{{ caller(3) }}{% endif %}]{% endmacro %}", "{%- macro g(q=n) -%} {{ q }} {{ s }}{{ caller(*varargs) if caller }} {% endmacro %}"])
    return head + block(r, 3, False) + r.choice(["", "\n", "\n\n"]), variables(r)
