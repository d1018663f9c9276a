#!/usr/bin/env bash
# install-deps.sh -- installs what a task needs and this machine lacks.
#
#   tools/install-deps.sh GROUP...        groups: build wheel deb packages test cross embedded fuzz format demo nets
#   tools/install-deps.sh --list          every Debian and Python package, by group
#
# This is the only list of packages.  Debian packages that are missing are installed with apt-get (through
# sudo when not root); Python packages go into build/venv, never into the system.  When all is there
# nothing is called, so it costs milliseconds.  A missing "must" package is an error; a missing "may" package or
# Python package is said on stderr, and whatever wants it skips itself and says so.
set -u
cd "$(dirname "$0")/.." || exit

# ---- the list ----
declare -A MUST MAY PYTHON ALONE  # ALONE: a Python package for the data inside it, without what it depends on
MUST[build]="gcc libc6-dev binutils cmake ninja-build zlib1g-dev"
MAY[build]="ccache llvm-19-dev libsqlite3-dev libnghttp2-dev"
MUST[wheel]="llvm-19-dev lld libstdc++-12-dev libzstd-dev python3"
PYTHON[wheel]="auditwheel"
ALONE[wheel]="ziglang==0.17.0"
MUST[deb]="dpkg-dev llvm-19-dev"
MAY[deb]="lintian"
MAY[packages]="debootstrap qemu-user-static"
MUST[test]="clang clang-format libclang-rt-14-dev llvm-14 python3 python3-venv xz-utils pkg-config libonnx-testdata"
MAY[test]="json-schema-test-suite valgrind chromium qemu-user lld ocl-icd-libopencl1 pocl-opencl-icd"
PYTHON[test]="numpy onnx onnxruntime mkdocs jinja2 jsonschema"
MAY[cross]="qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-riscv64-linux-gnu libc6-dev-riscv64-cross"
MAY[embedded]="gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm"
MUST[fuzz]="clang libclang-rt-14-dev llvm-14 xz-utils"
MAY[fuzz]="libonnx-testdata"
MUST[format]="clang-format"
MUST[demo]="python3"
MAY[demo]="python3-venv"
ALONE[demo]="magika"
ALONE[test]="nvidia-cuda-nvrtc"
MUST[nets]="python3 python3-venv"
PYTHON[nets]="numpy onnx onnxruntime"
GROUPS_ALL="build wheel deb packages test cross embedded fuzz format demo nets"

if [ "${1:-}" = --list ]; then
  for g in $GROUPS_ALL; do
    echo "$g: ${MUST[$g]:-}; if it can be had: ${MAY[$g]:-none}; Python: ${PYTHON[$g]:-}${ALONE[$g]:-}"
  done
  exit 0
fi

must="" may="" python="" alone=""
for g in "$@"; do
  case " $GROUPS_ALL " in *" $g "*) ;; *) echo "install-deps: no group '$g' (there are: $GROUPS_ALL)" >&2; exit 2 ;; esac
  must+=" ${MUST[$g]:-}" may+=" ${MAY[$g]:-}" python+=" ${PYTHON[$g]:-}" alone+=" ${ALONE[$g]:-}"
done

# ---- Debian packages ----
is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
missing() { for p in "$@"; do is_installed "$p" || echo "$p"; done | sort -u | tr '\n' ' '; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else echo "install-deps: neither root nor sudo: cannot run $*" >&2; return 1
  fi
}
apt_install() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >&2
}

if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
  # shellcheck disable=SC2086
  need=$(missing $must) want=$(missing $may)
  if [ -n "$need$want" ]; then
    echo "install-deps: installing $need$want" >&2
    as_root apt-get update -q >&2 || echo "install-deps: the package lists could not be refreshed" >&2
    # shellcheck disable=SC2086
    if [ -n "$need" ] && ! apt_install $need; then
      echo "install-deps: could not install: $(missing $must)" >&2
      exit 1
    fi
    for p in $want; do
      apt_install "$p" || echo "install-deps: no $p here; what wants it is skipped" >&2
    done
  fi
else
  echo "install-deps: not a Debian system; wanted here:$must$may" >&2
fi

# ---- Python packages ----
# A stamp per package, so that the check needs no interpreter.  TENON_PYTHON names another interpreter to use as it is.
venv=build/venv
fetch() {  # pip option or "", package...
  local option=$1 p
  shift
  for p in $(printf '%s\n' "$@" | sort -u); do
    [ -e "$venv/have-$p" ] && continue
    if ! [ -x $venv/bin/pip ]; then
      mkdir -p build
      if ! python3 -m venv $venv >&2; then
        echo "install-deps: no Python environment can be made; what wants $p is skipped" >&2
        return
      fi
    fi
    echo "install-deps: fetching the Python package $p" >&2
    # shellcheck disable=SC2086
    if $venv/bin/pip install -q --disable-pip-version-check --retries 1 --timeout 15 $option "$p" >&2; then
      touch "$venv/have-$p"
    else
      echo "install-deps: the Python package $p cannot be had (no package index?); what wants it is skipped" >&2
    fi
  done
}
if [ -z "${TENON_PYTHON:-}" ]; then
  # shellcheck disable=SC2086
  fetch "" $python
  # shellcheck disable=SC2086
  fetch --no-deps $alone
fi
exit 0
