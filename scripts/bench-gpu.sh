#!/bin/sh
# bench-gpu.sh [WARPROUTE]: the figures of a GPU host, as README.md has them. Each
# measurement verifies before it times. It needs an NVIDIA GPU with its driver, 8 cores,
# for IPsec 16, and root for the demo, which comes last. Where there is more, more is
# measured: with 16 cores, forwarding with 8 of them as network cards, too; with 28,
# IPsec by as many workers; with 32, and two GPUs, both over two GPUs.
set -eu

warproute=${1:-bin/warproute}
cores=$(nproc)
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ') || gpus=0

run() {
	echo "\$ warproute $*"
	timeout -k 5 300 "$warproute" "$@"
	echo
}
forward() { run bench forward --table real --size 60 --batch 256 --rounds 3 --duration 500ms "$@"; }
ipsec() { run bench ipsec --engine gpu --batch 448 --rounds 3 --duration 300ms --ring 64 "$@"; }

run bench lookup --engine gpu --dest uniform,table,zipf
for cards in 0 8; do
	if [ $cards -gt 0 ] && [ "$cores" -lt 16 ]; then continue; fi
	forward --engine gpu --workers 8 --cards $cards
	forward --engine cpu --workers 8 --cards $cards
done
run bench latency --engine gpu --table real --sizes 16,60,120,240,1024,4096
run bench latency --engine gpu --table real --family 6 --sizes 60,240

# A chunk of a gateway occupies a multiprocessor, of which a GPU has some 130.
workers=16 chunks=8
if [ "$cores" -ge 28 ]; then workers=28 chunks=4; fi
ipsec --workers $workers --chunks $chunks --size 1408,64,imix
ipsec --workers $workers --chunks $chunks --size 1408 --direction encrypt --sas 1,10000
ipsec --workers 16 --size 1408 --direction encrypt --suite chacha20poly1305,aes128ctr-sha1,aes128-sha256

if [ "$gpus" -ge 2 ] && [ "$cores" -ge 32 ]; then
	forward --engine gpu --gpus 2 --workers 16
	ipsec --gpus 2 --workers 32 --size 1408,imix
fi
run demo --engine gpu
