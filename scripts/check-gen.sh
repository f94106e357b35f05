#!/bin/sh
# check-gen.sh compiles GPU kernels and XDP programs again, in a copy of the repository, and fails if a file differs
# from the committed one. It needs the packages of `make gen`.
set -eu

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z | xargs -0 cp --parents -t "$copy"
root=$(pwd)
(
	cd "$copy"
	find . -name '*.cu' | while read -r source; do
		(cd "${source%/*}" && "$copy/scripts/ptx.sh" "${source##*/}")
	done
	find . -name '*.bpf.c' -exec dirname {} + | sort -u | while read -r dir; do
		(cd "$dir" && go generate -run bpf2go .)
	done
)
status=0
for file in $(git ls-files '*.ptx' '*.ptx.sha256' '*_bpfel.o' '*_bpfel.go'); do
	cmp "$root/$file" "$copy/$file" || status=1
done
exit $status
