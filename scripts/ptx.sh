#!/bin/sh
# ptx.sh KERNELS.cu: compiles kernels to KERNELS.ptx, which every GPU's driver compiles
# further, and needs no toolkit for it.
#
# KERNELS.ptx.sha256 lists the sums of the PTX and of all that it was made of, so that
# a test notices that a source changed and the PTX did not. Run it in the directory of
# the source.
set -eu

stem=${1%.cu}
deps=$(mktemp)
trap 'rm -f "$deps"' EXIT
clang-19 -x cuda --cuda-device-only --cuda-gpu-arch=sm_80 --cuda-feature=+ptx70 -nocudainc -nocudalib -S -O3 -Wall -Wextra -Werror \
	-MMD -MF "$deps" -o "$stem.ptx" "$1"
# shellcheck disable=SC2046 # a list of files
sha256sum -- "$stem.ptx" $(sed 's/^[^:]*://; s/\\$//' "$deps") >"$stem.ptx.sha256"
