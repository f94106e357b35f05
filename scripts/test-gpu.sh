#!/bin/sh
# test-gpu.sh DIR PACKAGE... runs the GPU tests that "make gpu-tests" compiled to DIR, each in its package's
# directory, and stops at the first failure.
set -eu

dir=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/.."
for package in "$@"; do
	echo "$package"
	(cd "$package" && "$dir/$(basename "$package").gpu.test" -test.run '^TestGPU' -test.v)
done
