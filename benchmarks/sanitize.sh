#!/usr/bin/env bash
# Plays benchmarks/sanitize.yaml on a real GPU under compute-sanitizer: memcheck, memcheck with its leak check, and initcheck.
#   benchmarks/sanitize.sh FOLDER [memcheck] [initcheck] [leaks]     all three where none is named; in an environment that has
#                                                                   the package with its cuda extra
# Writes FOLDER/{memcheck,leaks,bare,initcheck}/ with one log a process, and FOLDER/summary.txt. Exit code 1 where a tool finds
# an error or a run fails, 3 where there is no compute-sanitizer.
#
# Errors that API calls return are left out (--report-api-errors no): the runner asks the driver of every host pointer what it is,
# which for ordinary memory is answered by an error, and it checks the answer of every call itself.
# `bare` is a program of PyCUDA alone that takes the primary context, loads a kernel, runs it, frees all and gives the context back.
# What the leak check finds in it is PyCUDA's own; in `leaks` only what goes beyond that, process by process, counts as ours.
set -uo pipefail
out=${1:?the folder to write into}
cd "$(dirname "$0")/.."
mkdir -p "$out"
out=$(cd "$out" && pwd)
python=${PYTHON:-python3}
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
if [ -z "$sanitizer" ]; then
  echo "there is no compute-sanitizer: install that of the CUDA toolkit, or put it on PATH" >&2
  exit 3
fi
failed=()
steps=("${@:2}")
[ ${#steps[@]} -gt 0 ] || steps=(memcheck initcheck leaks)

wanted() { [[ " ${steps[*]} " == *" $1 "* ]]; }

check() { # NAME TOOL-OPTION... -- COMMAND...: runs a command under the tool, one log a process
  local name=$1 options=() code
  shift
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  shift
  rm -rf "${out:?}/$name"
  mkdir -p "$out/$name"
  echo "== $name"
  timeout 300 "$sanitizer" --target-processes all --report-api-errors no --log-file "$out/$name/%p.txt" "${options[@]}" "$@" \
    >"$out/$name/output.txt" 2>&1
  code=$?
  tail -n 3 "$out/$name/output.txt"
  [ "$code" -eq 0 ] || { echo "exit code $code"; failed+=("$name"); }
}

grid() { # NAME TOOL-OPTION...
  local name=$1
  shift
  check "$name" "$@" -- "$python" -m runner run benchmarks/sanitize.yaml --device cuda --out "$out/$name/results"
}

largest() { # NAME PATTERN: of the numbers that a pattern finds in the logs of a step the largest
  cat "$out/$1"/[0-9]*.txt 2>/dev/null | sed -n "s/.*$2.*/\1/p" | sort -n | tail -n 1
}

wanted memcheck && grid memcheck --tool memcheck --error-exitcode 9
wanted initcheck && grid initcheck --tool initcheck --error-exitcode 9
wanted leaks && grid leaks --tool memcheck --leak-check full
wanted leaks && check bare --tool memcheck --leak-check full -- "$python" - <<'PYTHON'
import numpy as np
import pycuda.driver as cuda
from pycuda.compiler import SourceModule

cuda.init()
context = cuda.Device(0).retain_primary_context()
context.push()
source = """extern "C" __global__ void increment(unsigned *data, unsigned long long words)
{
    if (threadIdx.x < words) data[threadIdx.x] += 1u;
}"""
kernel = SourceModule(source, no_extern_c=True).get_function("increment")
host, stream = cuda.pagelocked_empty(64, np.uint32), cuda.Stream()
host.fill(1)
device = cuda.mem_alloc(host.nbytes)
cuda.memcpy_htod_async(device, host, stream)
kernel(device, np.uint64(64), block=(64, 1, 1), stream=stream)
cuda.memcpy_dtoh_async(host, device, stream)
stream.synchronize()
assert (host == 2).all()
device.free()
host.base.free()
del kernel, stream
cuda.Context.pop()
context.detach()
PYTHON

{
  for step in memcheck initcheck leaks bare; do
    [ -d "$out/$step" ] || continue
    echo "$step:"
    grep -hE 'ERROR SUMMARY|LEAK SUMMARY' "$out/$step"/[0-9]*.txt 2>/dev/null | sort | uniq -c
  done
} | tee "$out/summary.txt"

for step in memcheck initcheck; do
  wanted "$step" || continue
  grep -qhE 'ERROR SUMMARY: 0 errors' "$out/$step"/[0-9]*.txt 2>/dev/null || failed+=("$step, whose logs hold no clean summary")
  ! grep -qhE 'ERROR SUMMARY: [1-9]' "$out/$step"/[0-9]*.txt 2>/dev/null || failed+=("$step, by a process whose log tells of errors")
done
if wanted leaks; then
  leaked='LEAK SUMMARY: [0-9]* bytes leaked in \([0-9]*\) allocations'
  ours=$(largest leaks "$leaked")
  bare=$(largest bare "$leaked")
  echo "allocations leaked by one process at most: ${ours:-unknown} by the runner, ${bare:-unknown} by PyCUDA alone" | tee -a "$out/summary.txt"
  [ -n "$ours" ] && [ -n "$bare" ] && [ "$ours" -le "$bare" ] || failed+=("leaks beyond PyCUDA's own")
fi
if [ ${#failed[@]} -gt 0 ]; then
  printf 'failed: %s\n' "${failed[@]}" | tee -a "$out/summary.txt"
  exit 1
fi
echo "nothing found" | tee -a "$out/summary.txt"
