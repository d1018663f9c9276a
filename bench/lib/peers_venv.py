"""peers_venv.py -- the Python environment with the peers, in build/peers (PEERS names another); made where it is not there."""
import os, subprocess, sys

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
venv = os.environ.get("PEERS", os.path.join(root, "build", "peers"))
PACKAGES = ["onnxruntime==1.31.*", "openvino==2026.4.*", "mnn==3.6.*", "numpy", "onnx"]


def enter_venv():
    """Goes on as the Python that has the peers."""
    python = os.path.join(venv, "bin", "python")
    if os.path.realpath(sys.prefix) == os.path.realpath(venv): return
    done = os.path.join(venv, "ready")
    if not os.path.exists(done) or open(done).read().split() != PACKAGES:
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q"] + PACKAGES, check=True)
        with open(done, "w") as f: f.write("\n".join(PACKAGES))
    os.execv(python, [python] + sys.argv)
