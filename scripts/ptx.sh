#!/bin/sh
# ptx.sh KERNELS.cu compiles kernels to KERNELS.ptx, without a CUDA toolkit. Run it in the directory
# of the source.
#
# KERNELS.ptx.sha256 has the checksums of the PTX and its sources, so that a test detects stale PTX.
set -eu

stem=${1%.cu}
deps=$(mktemp)
trap 'rm -f "$deps"' EXIT
clang-19 -x cuda --cuda-device-only --cuda-gpu-arch=sm_80 --cuda-feature=+ptx70 -nocudainc -nocudalib -S -O3 -Wall -Wextra -Werror \
	-MMD -MF "$deps" -o "$stem.ptx" "$1"
# shellcheck disable=SC2046 # a list of files
sha256sum -- "$stem.ptx" $(sed 's/^[^:]*://; s/\\$//' "$deps") >"$stem.ptx.sha256"
