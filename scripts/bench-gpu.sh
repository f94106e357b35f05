#!/bin/sh
# bench-gpu.sh [WARPROUTE-BENCH [PART]...]: measures a GPU host, all parts by default. Results are verified before they are timed.
# JSON results go to $OUT, by default out/bench, for `warproute-bench report`.
#
# It needs an NVIDIA GPU with its driver, 8 cores, and root for the demo. Gateways need 16 cores, of which half emulate NICs, and
# 32 GiB of memory; two GPUs need 32 cores and 64 GiB.
set -eu

parts="lookup forward tenant ladder latency gateway suites sas tunnel small gpus2 load express choice demo"
bench=bin/warproute-bench
if [ $# -gt 0 ]; then
	bench=$1
	shift
fi
for part; do
	case " $parts " in
	*" $part "*) ;;
	*) echo "bench-gpu.sh: part $part: want some of $parts" >&2; exit 2 ;;
	esac
done
[ $# -eq 0 ] || parts=$*
out=${OUT:-out/bench}
cores=$(nproc)
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ') || gpus=0
mkdir -p "$out"

# want PART CORES: whether a part is to be measured.
want() {
	case " $parts " in
	*" $1 "*) ;;
	*) return 1 ;;
	esac
	[ "$cores" -ge "$2" ] || { echo "not measured: $1: it needs $2 cores, and there are $cores"; return 1; }
}

# run NAME ARGUMENT...: one measurement, its JSON in NAME.json. It may take $limit seconds. The others follow if it fails: on a
# host with pauses, load finds no rate without loss.
failed=
run() {
	name=$1
	shift
	echo "\$ warproute-bench $*"
	timeout -k 5 "${limit:-300}" "$bench" "$@" --output "$out/$name.json" || failed="$failed $name"
	echo
}
forward() { name=$1; shift; run "forward-$name" forward --table real --size 60 --batch 256 --rounds 3 --duration 500ms "$@"; }
gateway() { name=$1; shift; run "ipsec-$name" ipsec --engine-only --rounds 3 --duration 50ms "$@"; }
prepared() { gateway "$@" --dma none; }

if want lookup 8; then run lookup-gpu lookup --engine gpu --dest uniform,table,zipf; fi
if want forward 8; then
	for nics in 0 8; do
		if [ $nics -gt 0 ] && [ "$cores" -lt 16 ]; then continue; fi
		forward gpu-nics$nics --engine gpu --workers 8 --nics $nics
		forward cpu-nics$nics --engine cpu --workers 8 --nics $nics
	done
fi
if want tenant 8; then run tenant tenant; fi
if want ladder 8; then run ladder ladder --table real --rounds 3; fi
if want latency 8; then
	run latency4 latency --engine gpu --table real --sizes 16,60,120,240,1024,4096
	run latency6 latency --engine gpu --table real --family 6 --sizes 60,240
fi

# 64 bytes that are played once need fewer MiB per worker than long packets, and take less time to prepare.
if want gateway 16; then
	for engine in gpu cpu; do
		gateway $engine-copied-encrypt --engine $engine --workers 8 --nics 8 --size 64,imix,1408 --direction encrypt --ring 16
		gateway $engine-copied-decrypt --engine $engine --workers 8 --nics 8 --size 64,imix,1408 --direction decrypt --ring 300
		prepared $engine-64 --engine $engine --workers 8 --nics 8 --size 64 --memory 1536 --ring 195
		prepared $engine-long --engine $engine --workers 8 --nics 8 --size imix,1408 --memory 1536 --ring 1200
		prepared $engine-workers4 --engine $engine --workers 4 --nics 4 --size 1408 --memory 1536 --ring 1200
	done
fi
if want suites 16; then
	prepared suites --engine gpu --workers 4 --nics 4 --size 1408 --memory 1536 --ring 1200 --suite chacha20poly1305,aes128ctr-sha1,aes128-sha256,aes256-sha512
fi
if want sas 16; then prepared sas --engine gpu --workers 8 --nics 8 --size 64 --memory 1536 --ring 195 --sas 1000,10000,30000; fi
if want tunnel 8; then prepared tunnel --engine gpu --workers 1 --nics 2 --sas 1 --size 1408 --memory 1536 --ring 1200; fi
if want small 16; then # an L4
	for direction in encrypt decrypt; do
		prepared small-$direction --engine gpu --workers 8 --nics 8 --size 64,1408 --direction $direction --memory 1536 --ring 1200 --shared-limit 101376 --multiprocessors 58
	done
fi

if want gpus2 32; then
	if [ "$gpus" -lt 2 ]; then
		echo "not measured: gpus2: it needs two GPUs, and there are $gpus"
	else
		forward gpus2 --engine gpu --gpus 2 --workers 16
		for n in 1 2; do
			prepared gpus$n --engine gpu --gpus $n --workers $((8 * n)) --nics $((8 * n)) --size 64,1408 --memory 1536 --ring 1200
		done
	fi
fi

# Latency and loss under load: forwarding, a gateway, and one tunnel of one worker. Each trial of a search opens
# a router.
load() { name=$1; shift; limit=900 run "load-$name" load --engine gpu --trial 200ms --resolution 2 --confirm 1 "$@"; }
if want load 8; then
	load forward --table real --workers 2 --nics 4
	load gateway --suite aes128gcm16 --size 1408 --workers 2 --nics 4
	load tunnel --suite aes128gcm16 --size 1408 --sas 1 --dma none
fi
if want express 16; then limit=900 run express express --engine gpu --workers 7 --nics 7 --size imix --loads 10,50,90,100,110,130; fi
if want choice 16; then limit=900 run choice choice --workers 7 --nics 7 --ring 32 --trial 80ms; fi

if want demo 1; then "$bench" demo --engine gpu || failed="$failed demo"; fi
[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
