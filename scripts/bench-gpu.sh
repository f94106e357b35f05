#!/bin/sh
# bench-gpu.sh [WARPROUTE]: the figures of a GPU host, as README.md has them. Each
# measurement verifies before it times. It needs an NVIDIA GPU with its driver, root
# for the demo, and 8 cores, of IPsec 16. Where there are 16, forwarding is measured with
# 8 of them as network cards, too.
set -eu

warproute=${1:-bin/warproute}
run() {
	echo "\$ warproute $*"
	timeout -k 5 300 "$warproute" "$@"
	echo
}

run bench lookup --engine gpu --dest uniform,table,zipf
for cards in 0 $([ "$(nproc)" -lt 16 ] || echo 8); do for engine in gpu cpu; do
	run bench forward --engine $engine --table real --size 60 --workers 8 --cards $cards --batch 256 --chunks $([ $engine = gpu ] && echo 8 || echo 1) --rounds 3 --duration 500ms
done; done
run bench latency --engine gpu --table real --sizes 16,60,240,1024,4096
run bench latency --engine gpu --table real --family 6 --sizes 60,240
ipsec() { run bench ipsec --engine gpu --workers 16 --batch 448 --rounds 3 --duration 300ms --ring 64 "$@"; }
ipsec --size 1408,64,imix
ipsec --size 1408 --direction encrypt --sas 1,10000
ipsec --size 1408 --direction encrypt --suite chacha20poly1305,aes128ctr-sha1,aes128-sha256
run demo --engine gpu
