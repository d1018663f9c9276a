"""root.py -- Debian systems in folders, made by debootstrap, in which tests install what a user installs.

A Root is made once, in build/roots/RELEASE-ARCH, and never written to: what runs in it writes into a layer (overlayfs) of its own.
Nothing is mounted where other processes see it (unshare).  Programs of another architecture run under qemu, by a rule of binfmt_misc
in a user namespace of its own, so that the machine's own rules stay as they are.  Needs root, debootstrap and a Debian mirror;
DEBIAN_MIRROR names one, otherwise debootstrap's own is used.  Where something is missing, Missing says what.
"""
import contextlib, glob, os, shutil, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
QEMU = "qemu-aarch64-static"
# The head of an AArch64 program: \\x7fELF, 64 bits, little-endian, a program or library of machine 0xb7.
RULE = (r":tenon-aarch64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
        r":\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:{qemu}:F")
# lower, layer, then the command.  Mounts are seen by this process and its children alone.
ENTER = """set -e
if [ -n "$RULE" ]; then mount -t binfmt_misc none /proc/sys/fs/binfmt_misc; printf '%s' "$RULE" > /proc/sys/fs/binfmt_misc/register; fi
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
mount -t proc proc "$2/root/proc"
mount --rbind /dev "$2/root/dev"
root=$2/root
shift 2
exec chroot "$root" "$@"
"""


class Missing(Exception):
    """What this machine lacks."""


class Root:
    def __init__(self, release, arch, packages):
        self.arch, self.foreign = arch, arch != own_arch()
        self.folder = os.path.join(ROOT, "build/roots", f"{release}-{arch}")
        if os.geteuid(): raise Missing("not root: debootstrap and chroot need it")
        self.space = ["unshare", "--mount", "--pid", "--fork"]
        self.rule = ""
        if self.foreign: self._find_qemu()
        if subprocess.run([*self.space, "true"], capture_output=True).returncode: raise Missing("no namespaces (unshare fails)")
        if not self._has(packages): self._make(release, packages)

    def _find_qemu(self):
        qemu = shutil.which(QEMU)
        if not qemu: raise Missing(f"no {QEMU} (Debian: qemu-user-static)")
        self.space += ["--user", "--map-root-user"]
        self.rule = RULE.format(qemu=qemu)
        tried = subprocess.run([*self.space, "sh", "-c", "mount -t binfmt_misc none /proc/sys/fs/binfmt_misc"], capture_output=True)
        if tried.returncode: raise Missing("no binfmt_misc in a user namespace (Linux 6.7)")

    def _has(self, packages):
        try:
            with open(os.path.join(self.folder, ".packages")) as f: return f.read() == packages
        except FileNotFoundError: return False

    def _make(self, release, packages):
        debootstrap = shutil.which("debootstrap") or next(iter(glob.glob("/usr/sbin/debootstrap")), None)
        if not debootstrap: raise Missing("no debootstrap")
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(os.path.dirname(self.folder), exist_ok=True)
        mirror = os.environ.get("DEBIAN_MIRROR")
        command = [debootstrap, "--variant=minbase", f"--arch={self.arch}", f"--include={packages}",
                   *(["--foreign"] if self.foreign else []), release, self.folder, *([mirror] if mirror else [])]
        print(f"making {os.path.relpath(self.folder, ROOT)} with debootstrap", flush=True)
        made = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if made.returncode: raise Missing("debootstrap failed (no Debian mirror?): " + " ".join(made.stdout.split("\n")[-3:]).strip())
        if self.foreign: self._unpack()
        if os.path.exists("/etc/resolv.conf"): shutil.copy("/etc/resolv.conf", os.path.join(self.folder, "etc/resolv.conf"))
        with open(os.path.join(self.folder, ".packages"), "w") as f: f.write(packages)

    def _unpack(self):
        """All packages without their scripts, which would take minutes under qemu; Python needs none of them."""
        for deb in glob.glob(os.path.join(self.folder, "var/cache/apt/archives/*.deb")):
            with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as files:
                subprocess.run(["tar", "-x", "--keep-directory-symlink", "-C", self.folder], stdin=files.stdout, check=True)
            os.remove(deb)

    @contextlib.contextmanager
    def layer(self):
        """A Layer over the root, removed afterwards."""
        with tempfile.TemporaryDirectory(dir=os.path.join(ROOT, "build/roots"), ignore_cleanup_errors=True) as folder:
            for part in ("upper", "work", "root"): os.mkdir(os.path.join(folder, part))
            os.chmod(folder, 0o755), os.chmod(os.path.join(folder, "upper"), 0o755)
            yield Layer(self, folder)


class Layer:
    def __init__(self, root, folder): self.root, self.folder = root, folder

    def put(self, source, path):
        """A file of this machine at a path of the root."""
        inside = os.path.join(self.folder, "upper", path.lstrip("/"))
        os.makedirs(os.path.dirname(inside), exist_ok=True)
        shutil.copy(source, inside)

    def put_tree(self, paths, folder):
        """What git tracks, and what it would if it were added, of these paths of the repository."""
        names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "--", *paths], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
        for name in names:
            if name and os.path.exists(os.path.join(ROOT, name)): self.put(os.path.join(ROOT, name), os.path.join(folder, name))

    def path(self, path):
        """Where a path of the root that was written to lies on this machine."""
        return os.path.join(self.folder, "upper", path.lstrip("/"))

    def run(self, command, env=(), limit=1800, show=False):
        """(exit status, output) of a command in the root."""
        env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8",
               "DEBIAN_FRONTEND": "noninteractive", **dict(env)}
        inside = ["env", "-i", *(f"{k}={v}" for k, v in env.items()), *command]
        done = subprocess.run([*self.root.space, "sh", "-c", ENTER, "enter", self.root.folder, self.folder, *inside], timeout=limit, text=True,
                              env={"PATH": os.environ["PATH"], "RULE": self.root.rule}, stdin=subprocess.DEVNULL,
                              stdout=None if show else subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout or ""


def own_arch():
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)


def release():
    """The code name of this machine's Debian."""
    with contextlib.suppress(FileNotFoundError), open("/etc/os-release") as f:
        for line in f:
            if line.startswith("VERSION_CODENAME="): return line.strip().partition("=")[2]
    raise Missing("not a Debian system")


class Checks:
    """Counts, and the closing line that tests/run.py reads."""

    def __init__(self): self.passed = self.failed = 0

    def __call__(self, what, good, detail=""):
        self.passed, self.failed = self.passed + bool(good), self.failed + (not good)
        print(f"{'ok  ' if good else 'FAIL'} {what}{': ' + detail.strip()[-3000:] if detail and not good else ''}", flush=True)
        return good

    def close(self):
        print(f"{self.passed} passed, {self.failed} failed")
        sys.exit(self.failed > 0)


def skip(why):
    print(f"skipped: {why}")
    print("0 passed, 0 failed")
    sys.exit(0)
