"""server.py -- tenon-serve and other servers as child processes, what they use, and the load of bench/serve_load.c."""
import http.client, json, os, re, resource, shutil, signal, subprocess, sys, tempfile, threading, time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TENON = os.environ.get("TENON", os.path.join(ROOT, "build", "tenon"))
TICK = os.sysconf("SC_CLK_TCK")


def allow_descriptors(n):
    """Raises the soft limit to the hard one; says so where that is too low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < n and hard > soft: resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and hard < n: print(f"note: this system allows {hard} descriptors for a process, {n} are wanted (ulimit -Hn)")
    return hard == resource.RLIM_INFINITY or hard >= n


def children(pid):
    found = []
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            if int(open(f"/proc/{p}/stat").read().rsplit(")", 1)[1].split()[1]) == pid: found.append(int(p))
        except (OSError, IndexError): continue
    return found


def cpu_seconds(pid):
    try: fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    except OSError: return 0.0
    return (int(fields[11]) + int(fields[12])) / TICK


def memory(pid, row="Pss"):
    """Bytes of a process: Pss (what it has alone, and its part of what is shared) or Anonymous."""
    try: text = open(f"/proc/{pid}/smaps_rollup").read()
    except OSError: return 0
    return int(re.search(rf"^{row}:\s+(\d+)", text, re.M)[1]) * 1024


def descriptors(pid):
    try: return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError: return 0


class Server:
    """A server on a free port of 127.0.0.1; `ready` is the path that answers 200 once it serves."""

    def __init__(self, command, port=None, ready="/ready", env=None):
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=dict(os.environ, **(env or {})))
        self.log, self.port = [], port
        if not port:
            line = self.process.stderr.readline()
            found = re.search(r'"port":(\d+)', line)
            if not found: raise SystemExit(f"{command}: {line}{self.process.stderr.read()}")
            self.port = int(found[1])
        threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True).start()
        end = time.time() + 600
        while self.ask("GET", ready)[0] != 200:
            failed = [line for line in self.log if '"state":"failed"' in line]  # of a model: it will never be ready
            if failed or self.process.poll() is not None or time.time() > end:
                self.process.kill()
                raise SystemExit(f"{command}: {''.join(failed or self.log[-5:])}")
            time.sleep(0.05)

    def ask(self, method, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        try:
            c.request(method, path, json.dumps(body) if isinstance(body, (dict, list)) else body)
            r = c.getresponse()
            return r.status, r.read()
        except OSError: return 0, b""
        finally: c.close()

    def pids(self): return [self.process.pid, *children(self.process.pid)]
    def cpu(self): return {p: cpu_seconds(p) for p in self.pids()}

    def stop(self):
        if self.process.poll() is None: self.process.send_signal(signal.SIGTERM)
        try: return self.process.wait(60)
        except subprocess.TimeoutExpired: self.process.kill()


def tenon(*args): return Server([TENON, "serve", "--port", "0", *map(str, args)])


# ---- the load ----
def load_program():
    source, program = os.path.join(ROOT, "bench", "serve_load.c"), os.path.join(ROOT, "build", "serve_load")
    if not os.path.exists(program) or os.path.getmtime(program) < os.path.getmtime(source):
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-std=c11", "-o", program, source], check=True)
    return program


def write_body(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "wb") as f: f.write(text if isinstance(text, bytes) else text.encode())
    return path


def load(port, path, body, *flags, **options):
    """The report of bench/serve_load.c, as a dictionary."""
    command = [load_program(), str(port), "--path", path, "--body", body, *flags]
    for name, value in options.items(): command += ["--" + name, str(value)]
    r = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if r.returncode: raise SystemExit(f"serve_load: status {r.returncode}")
    return json.loads(r.stdout)


def folder(): return tempfile.TemporaryDirectory(prefix="tenon-serve-bench")
