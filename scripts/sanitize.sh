#!/bin/sh
# sanitize.sh DIR: runs the tests of kernels in DIR, as "make gpu-tests" leaves them there,
# on fewer packets, under compute-sanitizer: accesses outside of memory (memcheck), words of
# shared memory that lanes use with nothing between them (racecheck), barriers that not all
# come to (synccheck). Racecheck has every launch wait for the kernel's end, and so takes those
# that stay by the chunk. Calls of the driver that fail on purpose are not its business.
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
check memcheck dataplane/gpu '^TestGPUAgreesWithTheCPUEngine$/(traffic|hurry)'
check memcheck dataplane/gpu '^TestGPU(GatewayAgreesWithTheCPUEngine|ForgetsKeys)$'
for tool in racecheck synccheck; do
	check $tool dataplane/gpu '^TestGPUChunkwise$'
	check $tool dataplane/gpu '^TestGPUAgreesWithTheCPUEngine$/launched_traffic'
done
check memcheck bench/gpulookup '^TestGPUEveryWay$'
check memcheck bench/inplace '^TestGPURates$'
