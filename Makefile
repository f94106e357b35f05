# Targets install the Debian packages that they need (scripts/need.sh) if run as root. Building needs only Go.

# The commit of a release has a tag, vVERSION; other builds are VERSION-dev.
VERSION  := $(shell cat VERSION)$(shell git describe --tags --exact-match --match 'v*' >/dev/null 2>&1 || echo -dev)
REVISION := $(shell git describe --always --abbrev=40 --exclude '*' --dirty 2>/dev/null || echo unknown)
EPOCH    := $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
DATE     := $(shell date -u -d @$(EPOCH) +%Y-%m-%dT%H:%M:%SZ)
CLI      := github.com/warproute/warproute/internal/cli
LDFLAGS  := -s -w -buildid= -X $(CLI).version=$(VERSION) -X $(CLI).revision=$(REVISION) -X $(CLI).date=$(DATE)
PREFIX   ?= /usr/local
PROFILE  := cmd/warproute/default.pgo
TRIMPATH := -trimpath
PROGRAMS := warproute warproute-bench
export BIN := bin

# The race detector needs a C compiler; tests need Linux's tools and other implementations of ESP.
RACE_NEEDS := gcc:gcc /usr/include/stdlib.h:libc6-dev
NET_NEEDS  := ip:iproute2 nstat:iproute2 iperf3:iperf3 ping:iputils-ping ethtool:ethtool \
	nft:nftables iptables-legacy:iptables traceroute:traceroute tracepath:iputils-tracepath mtr:mtr-tiny
PEER_NEEDS := /usr/lib/python3/dist-packages/scapy:python3-scapy /usr/lib/python3/dist-packages/cryptography:python3-cryptography tshark:tshark tcpdump:tcpdump
MONITORING_NEEDS := promtool:prometheus chromium:chromium /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf:fonts-dejavu-core
ROUTING_NEEDS := bird:bird2 birdc:bird2 /usr/lib/frr/bgpd:frr keepalived:keepalived
VM_NEEDS   := linux.uml:user-mode-linux /lib/systemd/systemd:systemd modprobe:kmod xz:xz-utils qemu-system-x86_64:qemu-system-x86 /usr/lib/qemu/virtiofsd:qemu-system-common \
	/usr/lib/ipsec/charon:strongswan-charon swanctl:strongswan-swanctl /usr/lib/ipsec/plugins/libstrongswan-openssl.so:libstrongswan-standard-plugins \
	udevadm:udev
CONTAINER_NEEDS := podman:podman
HOWTO_NEEDS := promtool:prometheus /usr/sbin/charon-systemd:charon-systemd
GEN_NEEDS  := clang-19:clang-19 llvm-strip-19:llvm-19 /usr/include/bpf/bpf_helpers.h:libbpf-dev /usr/include/linux/bpf.h:linux-libc-dev

.PHONY: build test test-guests check words test-nics gpu-tests test-gpu sanitize test-scale soak fuzz demo install packages bench bench-lookup bench-veth gen profile clean bench-gpu man plots

# cmd/warproute/default.pgo is the compiler's profile (make profile); go build finds it by its name,
# and in cmd/warproute-bench by a link. Tests are compiled without it, which halves their compile time.
check test test-guests: export GOFLAGS += -pgo=off

# The binary needs the C library's loader to open the CUDA driver. With TAGS=nogpu it needs nothing.
build: ## build bin/warproute, the router, and bin/warproute-bench, without cgo
	CGO_ENABLED=0 go build $(TRIMPATH) -pgo=$(PROFILE) -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o $(BIN)/ $(addprefix ./cmd/,$(PROGRAMS))

words: ## reject words of our own (docs/glossary.md)
	scripts/words.sh

check: ## check words, format, generated files and house rules, and run vet and staticcheck
	scripts/need.sh $(GEN_NEEDS)
	scripts/words.sh
	scripts/check-gen.sh
	go vet ./...
	go vet -tags gpu $(addprefix ./,$(GPU_TESTS))
	go vet -tags nogpu ./cuda ./cuda/nvml
	go vet -tags man ./internal/cli
	GOARCH=arm64 go vet ./... # what has no assembly of ours
	go tool staticcheck ./...
	go test ./internal/arch

# Tests run with the race detector, but for these packages: nothing in them or in what they import starts a goroutine or,
# in them, does pointer arithmetic (internal/arch checks it).
SEQUENTIAL := bench/load bench/tenant dataplane/esp dataplane/gpu/choice dataplane/inspect dataplane/lane internal/arch internal/conformance internal/drivers internal/hist internal/lab/document internal/offload internal/oracle internal/reference internal/require internal/routes internal/wycheproof ipsec/gcm ipsec/policy ipsec/schedule packet packet/filter umem
# Tests that do less with the detector also run without it: those of these packages, and those with these names (internal/arch
# checks it). internal/lab runs without it only.
PLAIN := lookup lookup/trie dataplane/cpu ipsec bench/ipsec bench/ladder control/xfrm internal/prefetch internal/lab/...
PLAIN_TESTS := Alloc|^TestScripts$$|^TestRemovedKeysAreErasedFromMemory$$|^Test(Many)?VRFs$$|^TestVLANs$$|^TestKernelCodeAgrees(WithTheCPUEngine|OnSources|OnVRFs)$$|^TestInlineCompletionsAreApplied$$
NOT_RACE := internal/e2e internal/lab/ $(patsubst %,warproute/warproute/%$$,$(SEQUENTIAL))

# On a machine that other programs use, a test may be late once. Up to three tests that failed are run again, alone and
# once; not after a data race. The output shows both runs.
GOTEST = $$(CGO_ENABLED=0 go tool -n gotestsum) --format standard-quiet --no-color --rerun-fails=1 --rerun-fails-max-failures=3 --rerun-fails-abort-on-data-race \
	--packages="$(1)" -- -vet=off -timeout 20m

# Tests of internal/e2e run alone, because they measure time, but for those that say t.Parallel. Only the routers of internal/e2e have the race detector: guests have no
# room for it.
# All but the race detector do without cgo, as the programs and those in guests, so that no package is compiled a third time.
test: export CGO_ENABLED := 0
# By default the race detector sleeps for a second when a program exits.
test: export GORACE := atexit_sleep_ms=0
test: ## run the tests, but for test-guests; needs root
	scripts/need.sh $(RACE_NEEDS) $(NET_NEEDS) $(PEER_NEEDS) $(ROUTING_NEEDS) $(VM_NEEDS) $(CONTAINER_NEEDS) $(MONITORING_NEEDS)
	scripts/kernel.sh out/kernel
	scripts/nics.sh out/nics 7
	$(call GOTEST,$(addprefix ./,$(SEQUENTIAL) $(PLAIN)))
	$(call GOTEST,$$(grep -rlE 'AllocsPerRun|go:build !race|race.Enabled' --include=*_test.go . | xargs dirname | sort -u | grep -v -e internal/e2e $(patsubst %,-e '^./%$$',$(SEQUENTIAL) $(PLAIN)) | xargs)) -run '$(PLAIN_TESTS)'
	CGO_ENABLED=1 $(call GOTEST,$$(go list ./... | grep -v $(patsubst %,-e '%',$(NOT_RACE)) | xargs)) -race
	CGO_ENABLED=1 $(call GOTEST,./internal/e2e) -race -count=1 -parallel 2 # what it tests is built by it, so no earlier result counts
	$(call GOTEST,./internal/e2e/soak) -count=1
	$(call GOTEST,$$(go list ./internal/e2e/... | grep -v -e /e2e$$ -e /soak$$ $(patsubst %,-e %$$,$(GUESTS)) | xargs)) -count=1 -p 2

# Tests of networks in emulated guests: stock kernels, systemd, strongSwan.
GUESTS := e2e/stock e2e/strongswan e2e/systemd
test-guests: export CGO_ENABLED := 0
test-guests: ## test networks of virtual machines: stock kernels, systemd, strongSwan; needs root
	scripts/need.sh $(NET_NEEDS) $(PEER_NEEDS) $(ROUTING_NEEDS) $(VM_NEEDS)
	scripts/kernel.sh out/kernel
	scripts/nics.sh out/nics 7
	$(call GOTEST,$(addprefix ./internal/,$(GUESTS))) -count=1 -p 2 # most guests have one core

# Go runs one target at a time, on all cores.
TIME := 10s
fuzz: export GOFLAGS += -pgo=off
fuzz: export CGO_ENABLED := 0
fuzz: ## run every fuzz target for TIME (10s); needs root
	scripts/fuzz.sh $(TIME)

# GPU tests are compiled, to run on machines without Go (out/*.gpu.test -test.run '^TestGPU'). They fail
# without a GPU.
GPU_TESTS := cuda cuda/nvml lookup/device dataplane/gpu bench/gpulookup bench/ladder bench/pcie bench/tenant cmd/warproute

gpu-tests:
	mkdir -p out
	for pkg in $(GPU_TESTS); do CGO_ENABLED=0 go test -c -tags gpu -o out/$$(basename $$pkg).gpu.test ./$$pkg || exit; done

test-gpu: gpu-tests ## run the GPU tests; needs an NVIDIA GPU and its driver
	scripts/test-gpu.sh out $(GPU_TESTS)

sanitize: gpu-tests ## run kernels under compute-sanitizer; needs an NVIDIA GPU and the CUDA toolkit
	scripts/sanitize.sh out

test-scale: ## test full tables, 4,094 VLANs, 256 VRFs, 100,000 packets on each kind of logical ports, and all labs of documents, in minutes; needs root
	scripts/need.sh $(NET_NEEDS) $(ROUTING_NEEDS) $(VM_NEEDS) $(HOWTO_NEEDS)
	scripts/kernel.sh out/kernel
	WARPROUTE_SCALE=full go test -count=1 -timeout 30m -v -run 'TestBGPInstallsAFullTable|TestBorderRouterWithFullTables|TestKilledRouterForwards|TestFlapping|TestKeepalived|TestPortsComeAndGo' ./internal/e2e
	WARPROUTE_SCALE=full go test -count=1 -timeout 0 -v -run 'TestLogicalPortsEqualLinux|TestFRRWith' ./internal/e2e/stock
	# limits the processor time of a start to 50 s: 5 s, on an emulated processor that is ten times slower or more
	WARPROUTE_SCALE=full go test -count=1 -timeout 30m -v -run 'TestManyLogicalPorts' ./internal/e2e/stock
	WARPROUTE_SCALE=full go test -count=1 -timeout 60m -v -run 'HowTos?$$' ./internal/e2e/systemd
	WARPROUTE_SCALE=full go test -count=1 -timeout 30m -v ./internal/e2e/scaleout

# `make test` includes 10 seconds of it.
soak: TIME := 10m
soak: ## test for TIME (10m) at 80 % of the maximum load, with changes and failures; needs root
	scripts/need.sh $(RACE_NEEDS) $(NET_NEEDS)
	WARPROUTE_SOAK=$(TIME) go test -count=1 -timeout 0 -v -run '^TestSoak$$' ./internal/e2e/soak

# `make test` includes its tests of Linux 7, in two minutes. FLAP=1h flaps links and drivers for an hour.
test-nics: FLAP := 1m
test-nics: ## test drivers of emulated NICs under Linux 6.1, 6.12 and 7; needs root
	scripts/need.sh $(NET_NEEDS) $(VM_NEEDS)
	scripts/nics.sh out/nics
	WARPROUTE_NICS=full WARPROUTE_NICS_FLAP=$(FLAP) go test -count=1 -timeout 0 -v ./internal/e2e/nics

man: ## write manual pages to bin/man
	rm -rf $(BIN)/man
	for name in $(PROGRAMS); do SOURCE_DATE_EPOCH=$(EPOCH) go run -pgo=off -tags man -ldflags '$(LDFLAGS)' ./cmd/$$name man $(BIN)/man/$$name || exit; done

install: build man ## install programs, units, manual pages and completion under DESTDIR and PREFIX (/usr/local)
	for name in $(PROGRAMS); do scripts/install.sh $$name '$(DESTDIR)' '$(PREFIX)' || exit; done

packages: build man ## build .deb, .rpm and SBOM of each program in bin/packages, the same bytes for the same commit
	scripts/packages.sh '$(VERSION)' '$(EPOCH)' $(BIN)/packages $(PROGRAMS)

demo: build ## route packets between network namespaces; needs root
	mkdir -p out
	bin/warproute-bench demo --capture out/demo-tunnel.pcap

bench: build ## measure forwarding on memory ports
	bin/warproute-bench forward

bench-lookup: build ## measure the lookup tables next to bart and DPDK
	scripts/need.sh gcc:gcc /usr/include/stdlib.h:libc6-dev pkg-config:pkg-config /usr/include/dpdk/rte_fib.h:libdpdk-dev
	bin/warproute-bench lookup

bench-gpu: build ## measure PARTS (all) on one or two GPUs, with JSON in out/bench; needs root
	scripts/bench-gpu.sh bin/warproute-bench $(PARTS)

PLOTS := $(wildcard docs/data/*.json)

plots: build ## draw docs/data/*.json to docs/plots
	$(if $(PLOTS),bin/warproute-bench report --dir docs/plots $(PLOTS),@echo "docs/data has no results")

bench-veth: build ## measure on veth next to Linux and DPDK; needs root
	scripts/need.sh $(NET_NEEDS) dpdk-testpmd:dpdk-dev /usr/lib/x86_64-linux-gnu/librte_net_af_xdp.so.23:librte-net-af-xdp23
	bin/warproute-bench veth

# A test compares the checksums of sources and objects; scripts/ptx.sh writes those of kernels.
gen: ## generate C headers, XDP programs, GPU kernels and CONFORMANCE.md
	scripts/need.sh $(GEN_NEEDS)
	go generate -run TestCHeader ./... # before the kernels that include them
	go generate -skip TestCHeader ./...
	for dir in $$(find . -name '*.bpf.c' -not -path './.git/*' -exec dirname {} + | sort -u); do \
		(cd $$dir && sha256sum -- *.bpf.c *_bpfel.go *_bpfel.o >bpf.sha256) || exit; \
	done

profile: ## record the compiler's profile; merge it with those in GPU_PROFILES
	scripts/profile.sh $(GPU_PROFILES)

clean: ## delete bin and out
	rm -rf bin out
