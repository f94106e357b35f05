#!/bin/sh
# bench-gpu.sh [WARPROUTE-BENCH]: measures a GPU host. Results are verified before they are timed.
# JSON results go to $OUT, by default out/bench, for `warproute-bench report`.
#
# It needs an NVIDIA GPU with its driver, 8 cores (16 for IPsec), and root for the demo. With 16 cores it
# also measures forwarding with 8 of them as emulated NICs, with 28 IPsec on as many workers, and with 32
# and two GPUs both over two GPUs.
set -eu

bench=${1:-bin/warproute-bench}
out=${OUT:-out/bench}
cores=$(nproc)
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ') || gpus=0
mkdir -p "$out"

# run NAME ARGUMENT...: one measurement, its JSON in NAME.json. It may take $limit seconds.
run() {
	name=$1
	shift
	echo "\$ warproute-bench $*"
	timeout -k 5 "${limit:-300}" "$bench" "$@" --output "$out/$name.json"
	echo
}
forward() { name=$1; shift; run "forward-$name" forward --table real --size 60 --batch 256 --rounds 3 --duration 500ms "$@"; }
ipsec() { name=$1; shift; run "ipsec-$name" ipsec --engine gpu --batch 448 --rounds 3 --duration 300ms --ring 64 "$@"; }

run lookup-gpu lookup --engine gpu --dest uniform,table,zipf
for nics in 0 8; do
	if [ $nics -gt 0 ] && [ "$cores" -lt 16 ]; then continue; fi
	forward gpu-nics$nics --engine gpu --workers 8 --nics $nics
	forward cpu-nics$nics --engine cpu --workers 8 --nics $nics
done
run tenant tenant
run ladder ladder --table real --rounds 3
run latency4 latency --engine gpu --table real --sizes 16,60,120,240,1024,4096
run latency6 latency --engine gpu --table real --family 6 --sizes 60,240

# As many chunks in flight as a gateway has slots on the GPU, one per multiprocessor, or nearly.
workers=16 chunks=8
if [ "$cores" -ge 28 ]; then workers=28 chunks=4; fi
ipsec sizes --workers $workers --chunks $chunks --size 1408,64,imix
ipsec sas --workers $workers --chunks $chunks --size 1408 --direction encrypt --sas 1,10000
ipsec suites --workers 16 --size 1408 --direction encrypt --suite chacha20poly1305,aes128ctr-sha1,aes128-sha256

if [ "$gpus" -ge 2 ] && [ "$cores" -ge 32 ]; then
	forward gpus2 --engine gpu --gpus 2 --workers 16
	ipsec gpus2 --gpus 2 --workers 32 --size 1408,imix
fi

# Latency and loss under load: forwarding, a gateway, and one tunnel of one worker. Each trial of a search opens
# a router.
load() { name=$1; shift; limit=900 run "load-$name" load --engine gpu --trial 200ms --resolution 2 --confirm 1 "$@"; }
if [ "$cores" -ge 8 ]; then
	load forward --table real --workers 2 --nics 4
	load gateway --suite aes128gcm16 --size 1408 --workers 2 --nics 4
	load tunnel --suite aes128gcm16 --size 1408 --sas 1 --dma none
fi

"$bench" demo --engine gpu
