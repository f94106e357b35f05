#!/bin/sh
# profile.sh: cmd/warproute/default.pgo, which tells the compiler what of the router is
# hot: the CPU engine's ways through `bench forward` and `bench ipsec`, and the host's part
# of a gateway whose packets a GPU seals and opens.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
CGO_ENABLED=0 go build -trimpath -o "$dir/warproute" ./cmd/warproute
CGO_ENABLED=0 go test -trimpath -c -o "$dir/cpu.test" ./dataplane/cpu
"$dir/warproute" bench forward --cpu-profile "$dir/forward.prof"
"$dir/warproute" bench ipsec --size 64,imix,1408 --rounds 3 --cpu-profile "$dir/ipsec.prof"
"$dir/cpu.test" -test.run - -test.bench Half -test.cpuprofile "$dir/half.prof"
go tool pprof -proto -output "$dir/default.pgo" "$dir"/*.prof
mv "$dir/default.pgo" cmd/warproute/ # whole, or not at all: nothing builds with a damaged one
