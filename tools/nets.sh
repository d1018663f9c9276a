#!/usr/bin/env bash
# nets.sh [NAME...] -- fills the weights of the well-known networks into build/nets, and has ONNX Runtime write an
# input and its output beside each (NAME.in.npz, NAME.out.npz).  What is there already is left alone.
set -eu
cd "$(dirname "$0")/.."
data=$(realpath -m "${TENON_DATA:-../shared/data}")
python=${TENON_PYTHON:-build/venv/bin/python}
tools=$data/../tools
if ! [ -d "$data/nets" ]; then
  echo "nets: no networks in $data/nets (set TENON_DATA)" >&2
  exit 1
fi
mkdir -p build/nets
exec 9>build/nets/.lock  # two steps of the tests may want the same network at the same time
flock 9
names=("$@")
if [ $# = 0 ]; then
  for f in "$data"/nets/*.onnx; do names+=("$(basename "$f" .onnx)"); done
fi
for name in "${names[@]}"; do
  # fill_nets copies the model last, so that its presence means the weights are whole.
  [ -e "build/nets/$name.onnx" ] || "$python" "$tools/fill_nets.py" "$data/nets" build/nets "$name"
  [ -e "build/nets/$name.out.npz" ] || "$python" "$tools/ort_reference.py" "build/nets/$name.onnx" build/nets
done
echo "nets: ${#names[@]} networks in build/nets"
