"""The table of operators that the fuzzer makes, filled by `spec`."""

OPS = {}  # (domain, operator): function that adds one node to a Builder


def spec(names, domain=""):
    def enter(fn):
        for name in names.split():
            assert (domain, name) not in OPS, name
            OPS[domain, name] = fn
        return fn

    return enter
