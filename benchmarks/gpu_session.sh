#!/usr/bin/env bash
# Everything that needs a real GPU, in one command: the gpu tests, both experiments, the claims, the goals of speed, the peaks.
#   benchmarks/gpu_session.sh FOLDER     (about 15 minutes; in an environment that has the package with its cuda extra)
# Writes FOLDER/{machine,tests,alone,experiments,claims,speed,peak}.txt and results.tgz; fails where any step does.
set -uo pipefail
out=${1:?the folder to write into}
cd "$(dirname "$0")/.."
mkdir -p "$out"
python=${PYTHON:-python3}
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
failed=()

step() { # NAME SECONDS COMMAND...; `accepted` is an exit code that is well, too
  local name=$1 limit=$2 code
  shift 2
  echo "== $name"
  timeout "$limit" "$@" 2>&1 | tee "$out/$name.txt"
  code=${PIPESTATUS[0]}
  [ "$code" -eq 0 ] || [ "$code" -eq "${accepted:-0}" ] || failed+=("$name")
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
# Most of them need the GPU but not all of it: eight at a time take a minute instead of seven. pytest-benchmark, where it is
# installed, bears no neighbours.
step tests 300 "$python" -m pytest -m 'gpu and not alone' -q -p no:cacheprovider -p no:benchmark -n 8 tests
step alone 120 "$python" -m pytest -m 'gpu and alone' -q -p no:cacheprovider tests
step experiments 240 "$python" -m runner run experiments/bandwidth.yaml experiments/overlap.yaml --device cuda --out "$out/results"
if "$python" -m runner claims --help >/dev/null 2>&1; then
  # A claim that this machine refutes is an answer, not a failure.
  accepted=5 step claims 300 "$python" -m runner claims --device cuda --out "$out/results/claims"
fi
step speed 200 "$python" benchmarks/gpu.py --out "$out/results/speed"
step peak 150 "$python" benchmarks/peak.py --out "$out/results/peak"
[ -d "$out/results" ] && tar -czf "$out/results.tgz" -C "$out" results && rm -rf "$out/results"

if [ ${#failed[@]} -gt 0 ]; then
  echo "failed: ${failed[*]}"
  exit 1
fi
echo "all steps passed"
