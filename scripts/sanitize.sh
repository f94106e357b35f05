#!/bin/sh
# sanitize.sh DIR runs the GPU tests that "make gpu-tests" compiled to DIR, on fewer packets, under
# compute-sanitizer: out-of-bounds accesses (memcheck), unsynchronized accesses to shared memory
# (racecheck), divergent barriers (synccheck). Racecheck waits for the end of every kernel, so it uses
# tests that launch a kernel per chunk. Failing driver calls are ignored: some tests provoke them.
set -eu

command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer is not installed, or not on PATH: it comes with CUDA's toolkit" >&2; exit 1; }
dir=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
check() {
	tool=$1 package=$2 tests=$3
	echo "$tool: $package $tests"
	(cd "$package" && timeout -k 5 "${SANITIZE_TIMEOUT:-600}" compute-sanitizer --tool "$tool" --report-api-errors no --error-exitcode 9 \
		"$dir/$(basename "$package").gpu.test" -test.short -test.run "$tests")
}
check memcheck dataplane/gpu '^TestGPUAgreesWithTheCPUEngine$/(traffic|low_latency)'
check memcheck dataplane/gpu '^TestGPU((Gateway|SALookup|Classification)AgreesWithTheCPUEngine|AgreesOnExpectedSAs|NumbersPackets|OverwritesKeys)$'
for tool in racecheck synccheck; do
	check $tool dataplane/gpu '^TestGPUChunkwise$'
done
check memcheck bench/gpulookup '^TestGPURunVerifiesEveryMethod$'
check memcheck bench/pcie '^TestGPURates$'
