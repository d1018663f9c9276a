"""Models in text form for tests and measurements of the graph page."""


def branching(n, name=lambda i: f"n{i}"):
    """n operations: chains that branch, join and skip."""
    lines = []
    for i in range(n):
        a = f"%{name(i - 1)}" if i else "%x"
        b = f"%{name(i - 7)}" if i % 5 == 0 and i >= 7 else f"%{name(i // 2)}" if i % 97 == 0 and i else a
        lines.append(f"  %{name(i)} = {'add' if i % 2 else 'mul'}({a}, {b})" if b != a or i % 3 else f"  %{name(i)} = exp({a})")
    body = "\n".join(lines)
    return f"graph(%x: f32[8]) -> (y: f32[8]) {{\n{body}\n  return %{name(n - 1)}\n}}\n"
