# Every target does its own set-up: scripts/need.sh installs the Debian packages
# that it needs when root, and names them when not. Building needs Go alone.

VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
REVISION := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS  := -s -w -X main.version=$(VERSION) -X main.revision=$(REVISION)

# The race detector needs a C compiler; tests and labs need Linux's tools, and other
# implementations of ESP than ours.
RACE_NEEDS := gcc:gcc /usr/include/stdlib.h:libc6-dev
NET_NEEDS  := ip:iproute2 nstat:iproute2 iperf3:iperf3 ping:iputils-ping ethtool:ethtool \
	nft:nftables iptables-legacy:iptables traceroute:traceroute tracepath:iputils-tracepath mtr:mtr-tiny
PEER_NEEDS := /usr/lib/python3/dist-packages/scapy:python3-scapy /usr/lib/python3/dist-packages/cryptography:python3-cryptography tshark:tshark tcpdump:tcpdump
BGP_NEEDS  := bird:bird2 birdc:bird2 /usr/lib/frr/bgpd:frr
VM_NEEDS   := linux.uml:user-mode-linux /lib/systemd/systemd:systemd modprobe:kmod qemu-system-x86_64:qemu-system-x86 /usr/lib/qemu/virtiofsd:qemu-system-common \
	/usr/lib/ipsec/charon:strongswan-charon swanctl:strongswan-swanctl /usr/lib/ipsec/plugins/libstrongswan-openssl.so:libstrongswan-standard-plugins
GEN_NEEDS  := clang-19:clang-19 llvm-strip-19:llvm-19 /usr/include/bpf/bpf_helpers.h:libbpf-dev /usr/include/linux/bpf.h:linux-libc-dev

E2E := ./internal/e2e/...

.PHONY: build test check gpu-tests test-gpu sanitize test-scale soak fuzz demo bench bench-lookup bench-veth gen profile clean bench-gpu

# cmd/warproute/default.pgo tells the compiler what is hot (make profile), and takes effect by
# its name. Tests are compiled without: it would have them compile everything once more.
check test: export GOFLAGS += -pgo=off

# The CUDA driver is a library of the host's C library, so a binary that can open
# it needs that library's loader. TAGS=nogpu makes one that needs nothing.
build: ## bin/warproute: one binary, without cgo
	CGO_ENABLED=0 go build -trimpath -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o bin/warproute ./cmd/warproute

check: ## seconds: format, vet, staticcheck, house rules
	go vet ./...
	go vet -tags gpu $(addprefix ./,$(GPU_TESTS))
	go vet -tags nogpu ./cuda
	GOARCH=arm64 go vet ./... # what has no assembly of ours
	go tool staticcheck ./...
	go test ./internal/arch

# The tests between namespaces measure time, so they have the machine to
# themselves. Without the race detector, allocations are counted too.
test: ## everything; needs root
	scripts/need.sh $(RACE_NEEDS) $(NET_NEEDS) $(PEER_NEEDS) $(BGP_NEEDS) $(VM_NEEDS)
	scripts/kernel.sh out/kernel
	go vet ./...
	go tool staticcheck ./...
	go test $$(go list ./... | grep -v internal/e2e)
	CGO_ENABLED=1 go test -race $$(go list ./... | grep -v -e internal/e2e -e internal/lab/) # the lab's guests are kernels
	CGO_ENABLED=1 go test -race -count=1 -p 1 $(E2E) # what it tests is built by it, so no earlier result counts

# Go runs one target at a time, on all cores. TIME=1h gives each target an hour.
TIME := 10s
fuzz: export GOFLAGS += -pgo=off
fuzz: ## every fuzz target for TIME, from its corpus in testdata/fuzz; needs root
	scripts/fuzz.sh $(TIME)

# Compiled tests, so that they can also be carried to a GPU machine without Go
# (out/*.gpu.test -test.run '^TestGPU'). They skip nothing: without a GPU they fail.
GPU_TESTS := cuda lookup/device dataplane/gpu bench/gpulookup bench/inplace cmd/warproute

gpu-tests:
	mkdir -p out
	for pkg in $(GPU_TESTS); do CGO_ENABLED=0 go test -c -tags gpu -o out/$$(basename $$pkg).gpu.test ./$$pkg || exit; done

test-gpu: gpu-tests ## what needs an NVIDIA GPU and its driver
	scripts/test-gpu.sh out $(GPU_TESTS)

sanitize: gpu-tests ## the kernels under compute-sanitizer, which comes with CUDA's toolkit; needs an NVIDIA GPU
	scripts/sanitize.sh out

# Announcing, flapping and withdrawing a table of the internet's size takes minutes.
test-scale: ## 1,000,000 and 200,000 routes by BGP; 100,000 that flap under half the maximum load; needs root
	scripts/need.sh $(NET_NEEDS) $(BGP_NEEDS)
	WARPROUTE_SCALE=full go test -count=1 -timeout 30m -v -run 'TestTheInternetsTable|TestFlapping' ./internal/e2e

# Its ten seconds are part of `make test`.
soak: TIME := 10m
soak: ## TIME=10m at 80 % of the maximum load, with changes and outages of everything; needs root
	scripts/need.sh $(RACE_NEEDS) $(NET_NEEDS)
	WARPROUTE_SOAK=$(TIME) go test -count=1 -timeout 0 -v -run '^TestSoak$$' ./internal/e2e/soak

demo: build ## a router between two hosts, in namespaces; needs root
	mkdir -p out
	bin/warproute demo --capture out/demo-tunnel.pcap

bench: build ## the whole way of a packet, on memory ports
	bin/warproute bench forward

bench-lookup: build ## the tables, beside bart and DPDK's
	scripts/need.sh gcc:gcc /usr/include/stdlib.h:libc6-dev pkg-config:pkg-config /usr/include/dpdk/rte_fib.h:libdpdk-dev
	bin/warproute bench lookup

bench-gpu: build ## lookups, forwarding, latency and IPsec on a GPU, or two; the demo through it; needs root
	scripts/bench-gpu.sh

bench-veth: build ## beside Linux's own forwarding and DPDK, on veth; needs root
	scripts/need.sh $(NET_NEEDS) dpdk-testpmd:dpdk-dev /usr/lib/x86_64-linux-gnu/librte_net_af_xdp.so.23:librte-net-af-xdp23
	bin/warproute bench veth

# The sums let a test notice that a source changed and its object did not; kernels have
# theirs from scripts/ptx.sh.
gen: ## XDP programs and GPU kernels, from C; CONFORMANCE.md
	scripts/need.sh $(GEN_NEEDS)
	go generate ./...
	for dir in $$(find . -name '*.bpf.c' -not -path './.git/*' -exec dirname {} + | sort -u); do \
		(cd $$dir && sha256sum -- *.bpf.c *_bpfel.go *_bpfel.o >bpf.sha256) || exit; \
	done

profile: ## what is hot, for the compiler
	scripts/profile.sh

clean: ## what the targets above built
	rm -rf bin out
