#!/bin/sh
# profile.sh [PROFILE...] writes cmd/warproute/default.pgo, the compiler's profile: the CPU engine in
# `warproute-bench forward` and `warproute-bench ipsec`, and the host's part of IPsec on a GPU. It adds profiles that were recorded on a
# host with a GPU:
# warproute-bench ipsec --suite aes128gcm16 --engine gpu --engine-only --workers 8 --nics 8 --rounds 3 --duration 50ms --cpu-profile PROFILE
# with --ring 16 --size 64 --direction encrypt, and with --ring 300 --size 64,1408 --direction decrypt. Only samples of workers count.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
CGO_ENABLED=0 go build -trimpath -o "$dir/warproute-bench" ./cmd/warproute-bench
CGO_ENABLED=0 go test -trimpath -c -o "$dir/esp.test" ./dataplane/esp
"$dir/warproute-bench" forward --cpu-profile "$dir/forward.prof"
"$dir/warproute-bench" ipsec --size 64,imix,1408 --rounds 3 --cpu-profile "$dir/ipsec.prof"
"$dir/esp.test" -test.run - -test.bench 'HostPart|ConfirmOpened|AcceptSealed' -test.cpuprofile "$dir/host.prof"
n=0
for profile; do
	n=$((n + 1))
	go tool pprof -proto -focus 'dataplane\.\(\*worker\)\.run' -output "$dir/gpu$n.prof" "$profile"
done
go tool pprof -proto -output "$dir/default.pgo" "$dir"/*.prof
mv "$dir/default.pgo" cmd/warproute/ # atomically: a damaged profile breaks every build
