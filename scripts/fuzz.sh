#!/usr/bin/env bash
# fuzz.sh TIME [PACKAGE...] runs every fuzz target for TIME, and fails if an input fails.
# Inputs that reach new code are kept in Go's cache, failing ones in testdata/fuzz next to the target.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:?usage: scripts/fuzz.sh TIME [PACKAGE...]}
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT
targets=0 failed=()
while IFS=: read -r file target; do
	package=./$(dirname "$file")
	if [ $# -gt 0 ] && [[ " $* " != *" $package "* ]]; then
		continue
	fi
	targets=$((targets + 1))
	echo "$package $target"
	# Go minimizes each input that reaches new code for up to a minute by default.
	go test -vet=off -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 100ms "$package" </dev/null 2>&1 | tee "$log" && continue
	# Before 1.27, Go can report the end of the time as an error (golang.org/issue/75804).
	if ! grep -q '^ *context deadline exceeded$' "$log" || grep -q -e 'Failing input written' -e panic: "$log"; then
		failed+=("$package $target")
	fi
done < <(git grep --untracked -o -E '^func Fuzz[A-Za-z0-9]*' -- '*_test.go' | sed 's/func //')
if [ "$targets" = 0 ]; then
	echo "scripts/fuzz.sh: no fuzz target; name packages as in ./ipsec" >&2
	exit 1
fi
if [ ${#failed[@]} -gt 0 ]; then
	printf 'scripts/fuzz.sh: failed: %s\n' "${failed[@]}" >&2
	exit 1
fi
echo "$targets fuzz targets ran for $time each"
