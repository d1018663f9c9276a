#!/usr/bin/env python3
"""writers_test.py PROGRAM -- what becomes of files when many write them, writers are killed, limits are reached, or others own the cache.

Threads save one path while others load it; processes of several PID namespaces compile to one path with one cache; savers are
killed.  No save or load may fail, none may see a torn file, and the next write leaves nothing else in the folder.  With
WRITERS_FULL=1: 16 threads x 1,000 saves, 4 namespaces x 200 compilations, 1,000 kills.  The last line counts.
"""
import ctypes as C, glob, json, os, random, resource, shutil, signal, subprocess, sys, tempfile, threading, time

program = os.path.abspath(sys.argv[1])
FULL = os.environ.get("WRITERS_FULL") == "1"
THREADS, SAVES = (16, 1000) if FULL else (8, 25)
NAMESPACES, COMPILES = (4, 200) if FULL else (3, 5)
KILLS = 1000 if FULL else 30
EIO = 4  # TENON_EIO
passed, failures = 0, []


def check(what, good, why=""):
    global passed
    if good: passed += 1
    else: failures.append(f"{what}: {why}")


def tenon(*args, **more):
    return subprocess.run([program, *args], capture_output=True, text=True, **more)


def left_in(folder):
    return [n for n in os.listdir(folder) if n.startswith(".tenon-")]


# ---- the library ----


lib = C.CDLL(os.path.join(os.path.dirname(program), "libtenon.so"))
lib.tenon_model_open.argtypes = [C.c_char_p, C.c_void_p, C.c_void_p]
lib.tenon_compile.argtypes = [C.c_void_p, C.c_void_p, C.c_void_p, C.c_void_p]
lib.tenon_program_save.argtypes = [C.c_void_p, C.c_char_p, C.c_void_p]
lib.tenon_program_load.argtypes = [C.c_char_p, C.c_void_p, C.c_void_p, C.c_void_p]
lib.tenon_program_release.argtypes = [C.c_void_p]


def model(folder, n):
    """A model whose compiled form differs by `n` in many bytes."""
    path = os.path.join(folder, f"m{n}.tir")
    numbers = ", ".join(str(n) for _ in range(4096))
    with open(path, "w") as f: f.write(f'graph @"m"(%x: f32[4096]) {{\n  %c = const f32[4096] {{{numbers}}}\n  %y = add(%x, %c)\n  return %y\n}}\n')
    return path


def compiled(path):
    m, p = C.c_void_p(), C.c_void_p()
    assert lib.tenon_model_open(path.encode(), C.byref(m), None) == 0, path
    assert lib.tenon_compile(m, None, C.byref(p), None) == 0, path
    return p


def loads(path):
    p = C.c_void_p()
    if lib.tenon_program_load(path.encode(), None, C.byref(p), None): return False
    lib.tenon_program_release(p)
    return True


# ---- threads ----


def threads(folder):
    path = os.path.join(folder, "threads.tenon")
    programs = [compiled(model(folder, i)) for i in range(3)]
    counts = {"failed": 0, "torn": 0, "loads": 0}
    lock, done = threading.Lock(), threading.Event()
    assert lib.tenon_program_save(programs[0], path.encode(), None) == 0

    def save(i):
        for k in range(SAVES):
            if lib.tenon_program_save(programs[(i + k) % 3], path.encode(), None):
                with lock: counts["failed"] += 1

    def load():
        while not done.is_set():
            good = loads(path)
            with lock:
                counts["loads"] += 1
                counts["torn"] += not good

    savers = [threading.Thread(target=save, args=(i,)) for i in range(THREADS)]
    loaders = [threading.Thread(target=load) for _ in range(2)]
    for t in savers + loaders: t.start()
    for t in savers: t.join()
    done.set()
    for t in loaders: t.join()
    print(f"threads: {THREADS} x {SAVES} saves, {counts['failed']} failed; {counts['loads']} loads, {counts['torn']} torn; {len(left_in(folder))} left behind")
    check("threads", not counts["failed"] and not counts["torn"] and counts["loads"] and not left_in(folder), counts)


# ---- kills ----


def kills(folder):
    path = os.path.join(folder, "killed.tenon")
    programs = [compiled(model(folder, i)) for i in range(2)]
    torn = stale = left = 0
    random.seed(1)
    assert lib.tenon_program_save(programs[0], path.encode(), None) == 0
    for _ in range(KILLS):
        pid = os.fork()
        if not pid:
            while True:
                for p in programs: lib.tenon_program_save(p, path.encode(), None)
        time.sleep(random.random() * 0.03)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        torn += not loads(path)
        stale += len(left_in(folder)) > 0
        if lib.tenon_program_save(programs[0], path.encode(), None): torn += 1
        left += len(left_in(folder))
    print(f"kills: {KILLS}, {stale} of them left a file; {torn} torn, {left} left behind after the next write")
    check("kills", not torn and not left, (torn, left))


# ---- PID namespaces ----


def unshare():
    """The command that starts a process in a PID namespace of its own, or None where that is not permitted."""
    for options in (["-p", "-f"], ["-r", "-p", "-f"]):
        command = ["unshare", *options]
        try:
            if subprocess.run([*command, "true"], capture_output=True).returncode == 0: return command
        except FileNotFoundError: pass
    return None


def namespaces(folder):
    command = unshare()
    if not command:
        print("namespaces: skipped, unshare is not permitted")
        return
    source, out = model(folder, 7), os.path.join(folder, "spaces.tenon")
    # One process id in all of them: that of the shell's first child.
    loop = f"for i in $(seq {COMPILES}); do '{program}' compile '{source}' -o '{out}' >/dev/null || echo failed; '{program}' run '{out}' --target cpu >/dev/null || echo torn; done"
    processes = [subprocess.Popen([*command, "sh", "-c", loop], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(NAMESPACES)]
    said = "".join(p.communicate()[0] for p in processes)
    report = json.loads(tenon("cache", "--check", "--json").stdout)
    print(f"namespaces: {NAMESPACES} x {COMPILES} compilations, {said.count('failed')} failed, {said.count('torn')} torn; {len(left_in(folder))} left behind, {report['left_behind']} in the cache")
    check("namespaces", not said and not left_in(folder) and not report["damaged"] and not report["left_behind"], said[:500] + str(report))


# ---- outputs that a C compiler makes ----


def linked(folder):
    """A compiler that fails, dies, or is left alone by a killed parent: the old output stays, and the next one leaves nothing behind."""
    if not shutil.which("cc"): return print("linked: skipped, no C compiler")
    broken = os.path.join(folder, "broken-cc")
    with open(broken, "w") as f:
        f.write('#!/bin/sh\nout=\nfor a in "$@"; do [ "$last" = -o ] && out=$a; last=$a; done\nprintf torn > "$out"\neval "$BREAK"\n')
    os.chmod(broken, 0o755)
    source, outputs, temporary = model(folder, 5), os.path.join(folder, "out"), os.path.join(folder, "tmp")
    os.mkdir(outputs)
    os.mkdir(temporary)
    for kind in ("exe", "so"):
        out = os.path.join(outputs, "m." + kind)

        def make(**more):
            return tenon("compile", source, "--emit", kind, "-o", out, "--force", env={**os.environ, "TMPDIR": temporary, **more}).returncode

        check(f"{kind} is linked", make() == 0 and os.access(out, os.X_OK) and not os.listdir(temporary), os.listdir(temporary))
        with open(out, "rb") as f: before = f.read()
        names = sorted(os.listdir(outputs))
        for what, code in (("exit 1", 1), ("kill -9 $$", 1), ("kill -9 $PPID", -9)):
            got = make(CC=broken, BREAK=what)
            with open(out, "rb") as f: same = f.read() == before
            left = os.listdir(temporary)
            check(f"{kind}, {what}", got == code and same and sorted(os.listdir(outputs)) == names and bool(left) == (code < 0), (got, same, left))
        check(f"{kind} after a kill", make() == 0 and not os.listdir(temporary) and sorted(os.listdir(outputs)) == names, os.listdir(temporary))


# ---- the cache is code ----


def cache_of_others(folder):
    """A cache that another user could have written to is not run, and that is said once, with the remedy."""
    cache, source, out = os.path.join(folder, "shared-cache"), model(folder, 9), os.path.join(folder, "c.tenon")
    env = {**os.environ, "TENON_CACHE": cache}

    def compile_here(cached, notice):
        r = tenon("compile", source, "-o", out, "--timings", env=env)
        said = r.stderr.count("not used")
        check(f"cache, {notice or 'ours'}", r.returncode == 0 and said == bool(notice) and notice in r.stderr and cached == (" yes " in r.stderr), r.stdout + r.stderr)

    compile_here(False, "")
    check("the cache is private", os.stat(cache).st_mode & 0o7777 == 0o700 and all(os.stat(f).st_mode & 0o7777 == 0o600 for f in glob.glob(cache + "/*")), os.listdir(cache))
    compile_here(True, "")
    os.chmod(cache, 0o777)
    compile_here(False, "chmod go-w")
    os.chmod(cache, 0o700)
    for f in glob.glob(cache + "/*.kernel"): os.chmod(f, 0o666)
    compile_here(False, "tenon cache clear")
    compile_here(True, "")
    if os.geteuid(): return print("cache: files of another user skipped, not root")
    for f in glob.glob(cache + "/*.kernel"): os.chown(f, 12345, 12345)
    compile_here(False, "tenon cache clear")
    compile_here(True, "")
    os.chown(cache, 12345, 12345)
    compile_here(False, "TENON_CACHE")


# ---- the library never ends its caller ----


def in_child(work):
    """What `work` returns, 0 to 9, in a child with the signals that a program starts with; the signal's name where one ends it."""
    pid = os.fork()
    if not pid:
        for number in (signal.SIGXFSZ, signal.SIGPIPE, signal.SIGFPE, signal.SIGINT): signal.signal(number, signal.SIG_DFL)
        os._exit(work())
    status = os.waitpid(pid, 0)[1]
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def caller_lives(folder):
    """Limits of files and closed pipes are errors; the signals of the caller stay as they are."""
    source, out = model(folder, 11), os.path.join(folder, "small.tenon")
    os.environ["TENON_CACHE"] = os.path.join(folder, "cache")

    def beyond_the_limit():
        m, p = C.c_void_p(), C.c_void_p()
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        if lib.tenon_model_open(source.encode(), C.byref(m), None): return 1
        if lib.tenon_compile(m, None, C.byref(p), None): return 2  # a cache that cannot be written is no error
        if not lib.tenon_program_save(p, out.encode(), None): return 3
        if os.path.exists(out) or left_in(folder): return 4
        kept = [signal.getsignal(n) == signal.SIG_DFL for n in (signal.SIGXFSZ, signal.SIGPIPE, signal.SIGFPE)]
        if not all(kept) or signal.sigpending() or signal.pthread_sigmask(signal.SIG_BLOCK, []): return 5
        return 0

    got = in_child(beyond_the_limit)
    check("ulimit -f", got == 0, got)

    def into_a_closed_pipe():
        r, w = os.pipe()
        os.close(r)
        p = compiled(source)
        return 0 if lib.tenon_program_save(p, f"/dev/fd/{w}".encode(), None) else 1

    got = in_child(into_a_closed_pipe)
    check("a closed pipe", got == 0, got)
    # A full disk: the file, and standard output by its name.
    for full in ("/dev/full", "/dev/fd/{}"):
        fd = os.open("/dev/full", os.O_WRONLY)
        got = in_child(lambda: 0 if lib.tenon_program_save(compiled(source), full.format(fd).encode(), None) == EIO else 1)
        os.close(fd)
        check(f"a full disk, {full}", got == 0, got)
    # The one quotient that overflows, in both widths, evaluated and compiled.
    path = os.path.join(folder, "quotient.tir")
    lines = [f"  %{op}{t} = {op}(%{t}, %one{t})" for t in "ab" for op in ("div", "mod")]
    with open(path, "w") as f:
        f.write('graph @"m"() {\n  %a = const i32[2] {-2147483648, 7}\n  %onea = const i32[2] {-1, -1}\n'
                "  %b = const i64[2] {-9223372036854775808, 7}\n  %oneb = const i64[2] {-1, -1}\n" + "\n".join(lines) +
                "\n  return %diva, %moda, %divb, %modb\n}\n")
    for how in (["--target", "interp"], ["--target", "cpu", "-O0"], ["--target", "cpu"]):
        r = tenon("run", path, *how)
        check(f"the least integer by -1, {how}", r.returncode == 0 and "first -9223372036854775808 -7" in r.stdout, r.stdout + r.stderr)


def main():
    folder = tempfile.mkdtemp(prefix="tenon-writers-")
    os.environ["TENON_CACHE"] = os.path.join(folder, "cache")
    for test in (kills, threads, namespaces, linked, cache_of_others, caller_lives):
        inside = os.path.join(folder, test.__name__)
        os.mkdir(inside)
        begin = time.time()
        test(inside)
        print(f"  {time.time() - begin:.1f} s")
    shutil.rmtree(folder)
    for f in failures[:10]: print(f)
    print(f"{passed} passed, {len(failures)} failed")
    return 1 if failures else 0


sys.exit(main())
