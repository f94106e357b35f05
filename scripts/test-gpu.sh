#!/bin/sh
# test-gpu.sh DIR PACKAGE...: runs the GPU tests of the packages, as "make gpu-tests" leaves them in DIR. Each
# runs in its package's folder, as `go test` would, where its files are. It stops at the first that fails.
set -eu

dir=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/.."
for package in "$@"; do
	echo "$package"
	(cd "$package" && "$dir/$(basename "$package").gpu.test" -test.run '^TestGPU' -test.v)
done
