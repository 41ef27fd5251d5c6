#!/usr/bin/env bash
# Everything that needs a real GPU, in one command: the gpu tests, both experiments, the ratios to native code.
#   benchmarks/gpu_session.sh FOLDER     (about 5 minutes; in an environment that has the package with its cuda extra)
# Writes FOLDER/{machine,tests,experiments,native}.txt, native.json and results.tgz; fails where any step does.
set -uo pipefail
out=${1:?the folder to write into}
cd "$(dirname "$0")/.."
mkdir -p "$out"
python=${PYTHON:-python3}
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
failed=()

step() { # NAME SECONDS COMMAND...
  local name=$1 limit=$2
  shift 2
  echo "== $name"
  timeout "$limit" "$@" 2>&1 | tee "$out/$name.txt" || failed+=("$name")
}

machine() {
  nvidia-smi
  nvidia-smi -q -d CLOCK,PERFORMANCE | head -60
  nvcc --version
  lscpu
  uname -a
  "$python" -m pip list 2>/dev/null | grep -iE 'cuda|numpy|pandas|pydantic'
}

echo "== machine"
machine >"$out/machine.txt" 2>&1
step tests 200 "$python" -m pytest -m gpu -q -p no:cacheprovider tests
step experiments 240 "$python" -m runner run experiments/bandwidth.yaml experiments/overlap.yaml --device cuda --out "$out/results"
step native 200 "$python" benchmarks/gpu.py --out "$out/native.json"
[ -d "$out/results" ] && tar -czf "$out/results.tgz" -C "$out" results && rm -rf "$out/results"

if [ ${#failed[@]} -gt 0 ]; then
  echo "failed: ${failed[*]}"
  exit 1
fi
echo "all steps passed"
