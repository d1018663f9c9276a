#!/usr/bin/env python3
"""packaging/Dockerfile without Docker: each line is followed in a Debian system that debootstrap makes.

usage: docker_test.py [--parse]      --parse only checks that every line is understood and every file of COPY exists

Understood are FROM (debian:RELEASE-slim or a stage), ENV, WORKDIR, COPY, RUN, ENTRYPOINT and CMD, in the forms that the file has; any
other is a failure.  The build context is what git tracks.  The image then runs a model.  Needs root and a Debian mirror; what
is missing is said.  The last line is `N passed, N failed`.
"""
import contextlib, glob, json, os, re, shlex, shutil, sys

from root import ROOT, Checks, Missing, Root, own_arch, skip

DOCKERFILE = os.path.join(ROOT, "packaging/Dockerfile")


def parse(text):
    """[(instruction, argument)], with continued lines joined and comments left out."""
    text = "".join(line for line in text.splitlines(True) if not line.startswith("#"))
    lines = [line.strip() for line in text.replace("\\\n", " ").split("\n") if line.strip()]
    return [(word, re.sub(r"\s+", " ", rest.strip())) for word, _, rest in (line.partition(" ") for line in lines)]


class Stage:
    """One FROM and what follows it."""

    def __init__(self, base, layer):
        self.base, self.layer, self.folder, self.env, self.entry, self.command = base, layer, "/", {}, [], []

    def run(self, command): return self.layer.run(["sh", "-c", f"mkdir -p {self.folder} && cd {self.folder} && {command}"], self.env)

    def image(self, arguments):
        """What `docker run IMAGE ARGUMENTS` executes."""
        return self.run(shlex.join(self.entry + (arguments or self.command)))

    def copy(self, argument, stages):
        source_stage = re.match(r"--from=(\S+) ", argument)
        source, target = shlex.split(argument)[-2:]
        target = os.path.normpath(os.path.join(self.folder, target))
        if source_stage:
            shutil.copytree(stages[source_stage[1]].layer.path(source), self.layer.path(target), dirs_exist_ok=True)
        else:
            self.layer.put_tree([source], target)


def release_of(image):
    m = re.fullmatch(r"debian:([a-z]+)-slim", image)
    if not m: raise ValueError(f"FROM {image}: not a slim image of Debian")
    return m[1]


def check_parsed(check, lines):
    known = {"FROM", "ENV", "WORKDIR", "COPY", "RUN", "ENTRYPOINT", "CMD"}
    check("every instruction is understood", {word for word, _ in lines} <= known, str({word for word, _ in lines} - known))
    stages = [a.split(" AS ") for word, a in lines if word == "FROM"]
    check("every base is Debian's", all(re.fullmatch(r"debian:[a-z]+-slim", s[0]) for s in stages), str(stages))
    names = {s[1] for s in stages if len(s) > 1}
    for word, argument in lines:
        if word != "COPY": continue
        m = re.match(r"--from=(\S+) ", argument)
        check(f"COPY {argument}", m[1] in names if m else os.path.exists(os.path.join(ROOT, shlex.split(argument)[0])))
    for word, argument in lines:
        if word == "RUN" and argument.startswith("packaging/"):
            check(f"RUN {argument}", os.access(os.path.join(ROOT, argument.split()[0]), os.X_OK))


def follow(check, lines, keep):
    """The last Stage, or None where a line fails."""
    stages, stage = {}, None
    for number, (word, argument) in enumerate(lines):
        if word == "FROM":
            base, _, name = argument.partition(" AS ")
            stage = Stage(base, keep.enter_context(Root(release_of(base), own_arch(), "ca-certificates").layer()))
            stages[name or str(number)] = stage
        elif word == "ENV": stage.env.update(pair.split("=", 1) for pair in shlex.split(argument))
        elif word == "WORKDIR": stage.folder = argument
        elif word == "COPY": stage.copy(argument, stages)
        elif word == "ENTRYPOINT": stage.entry = json.loads(argument)
        elif word == "CMD": stage.command = json.loads(argument)
        else:
            status, said = stage.run(argument)
            if status and "apt-get update" in argument and "Failed to fetch" in said: raise Missing("no Debian mirror in the new system")
            if not check(f"RUN {argument[:80]}", status == 0, said): return None
    return stage


def main(args):
    check = Checks()
    with open(DOCKERFILE) as f: lines = parse(f.read())
    check_parsed(check, lines)
    if "--parse" in args or check.failed: check.close()
    try:
        with contextlib.ExitStack() as keep:
            image = follow(check, lines, keep)
            if image:
                status, said = image.image([])
                check("the image by itself prints help", status == 0 and "tenon" in said, said)
                for path in glob.glob(os.path.join(ROOT, "examples/digits/digits.*")): image.layer.put(path, os.path.join(image.folder, os.path.basename(path)))
                status, said = image.image(["run", "digits.onnx", "--input", "image=digits.npy", "--target", "cpu"])
                check("the image runs a model that it compiles", status == 0 and "probability" in said, said)
    except Missing as missing:
        skip(missing)
    check.close()


if __name__ == "__main__": main(sys.argv[1:])
