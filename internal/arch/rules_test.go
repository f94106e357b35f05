package arch

// tests stands for the test files of every package.
const tests = "tests"

// imports lists the permitted imports between packages of this module, bottom up. A package without a
// row, or an import that its row lacks, fails.
var imports = []struct {
	pkg    string
	may    []string
	reason string
}{
	{"lookup", nil, "types that both tables share"},
	{"packet", nil, "views of headers: bytes in, values out"},
	{"batch", nil, "describes packets in bulk; does no I/O and knows no engine"},
	{"umem", []string{"internal/hostmem"}, "owns the memory of frames; does not parse them"},
	{"cuda", nil, "calls the driver; knows no packets"},
	{"cuda/nvml", nil, "calls NVIDIA's management library; knows no kernels"},
	{"internal/affinity", nil, "a leaf"},
	{"internal/placement", nil, "a leaf"},
	{"internal/privilege", nil, "a leaf: what the process may do"},
	{"internal/prefetch", nil, "a leaf: addresses in, nothing out"},
	{"internal/prefetch/asm", nil, "writes assembly"},
	{"internal/hist", nil, "a leaf"},
	{"internal/ordered", nil, "a leaf: release stores"},
	{"internal/ordered/asm", nil, "writes assembly"},
	{"internal/counter", []string{"internal/ordered"}, "a leaf"},
	{"internal/hostmem", nil, "a leaf: maps memory"},

	{"lookup/trie", []string{"lookup", "internal/hostmem", "internal/ordered"}, "the image behind both tables; walked here and on devices"},
	{"lookup/ipv4", []string{"lookup", "lookup/trie"}, "maps addresses to numbers; knows no next hops"},
	{"lookup/ipv6", []string{"lookup", "lookup/trie"}, "as ipv4"},
	{"lookup/device", []string{"cuda", "lookup", "lookup/trie", "internal/hostmem"}, "a table's copy on a GPU, that answers as the table does; knows not what a next hop is"},
	{"lookup/trie/asm", []string{"lookup", "lookup/trie"}, "what both generators share"},
	{"lookup/ipv4/asm", []string{"lookup/trie", "lookup/trie/asm"}, "writes kernels; the layout is the one constants say"},
	{"lookup/ipv6/asm", []string{"lookup/trie", "lookup/trie/asm"}, "as for ipv4"},
	{"fib", []string{"batch", "lookup", "lookup/ipv4", "lookup/ipv6"}, "words that engines read; knows no Linux, so that memory ports and benchmarks can fill it"},

	{"afxdp", []string{"batch", "umem", "internal/counter", "internal/drivers", "internal/netdev"}, "moves frames between Linux and memory; knows no routes"},
	{"memport", []string{"batch", "umem", "internal/affinity", "internal/hostmem", "internal/prefetch"}, "a port without a kernel, for benchmarks"},

	{"packet/icmp", []string{"packet"}, "ICMP errors; packets in, packets out"},
	{"packet/fragment", []string{"packet"}, "as icmp"},
	{"packet/filter", nil, "filter expressions; frames are bytes to it"},

	{"ipsec/schedule", nil, "key schedules; knows no cipher modes"},
	{"ipsec/gcm/layout", []string{"ipsec/schedule"}, "constants that the generator and its code share"},
	{"ipsec/gcm", []string{"ipsec/schedule", "ipsec/gcm/layout"}, "a cipher"},
	{"ipsec/gcm/asm", []string{"ipsec/gcm/layout"}, "writes assembly"},
	{"ipsec/suite", []string{"ipsec/gcm"}, "ciphers; knows no packets"},
	{"ipsec/policy", []string{"internal/prefetch"}, "maps flows to numbers; knows no SAs"},
	{"ipsec/device", []string{"ipsec/schedule", "ipsec/suite"}, "keys in the format of GPUs; its C code belongs to the kernels"},
	{"ipsec/gateway", []string{"ipsec", "ipsec/device", "ipsec/policy", "packet", "internal/prefetch"}, "SAs and policies; knows no engines"},
	{"ipsec/sequences", []string{"ipsec"}, "files; knows no packets"},
	{"ipsec", []string{"packet", "ipsec/device", "ipsec/suite", "internal/counter", "internal/prefetch"}, "packets in, packets out; knows no frames, engines or workers"},

	{"dataplane", []string{"batch", "dataplane/lane", "fib", "packet", "packet/filter", "packet/fragment", "packet/icmp", "umem", "internal/affinity", "internal/counter", "internal/hist", "internal/offload", "internal/prefetch"},
		"gets queues and engines; knows no AF_XDP, configuration or netlink"},
	{"dataplane/lane", []string{"batch", "fib", "ipsec", "ipsec/gateway", "ipsec/policy", "packet", "internal/prefetch"}, "the lanes of packets by their headers; knows no workers or engines"},
	{"dataplane/inspect", []string{"batch", "fib", "lookup", "packet", "umem"}, "validation and frame views for both stages; decides nothing but drops"},
	{"dataplane/esp", []string{"batch", "dataplane/inspect", "fib", "ipsec", "ipsec/gateway", "packet", "umem", "internal/prefetch"}, "the IPsec stage of both engines, which call it; packets to look up again are returned to them"},
	{"dataplane/cpu", []string{"batch", "dataplane/esp", "dataplane/inspect", "fib", "internal/prefetch", "ipsec/gateway", "lookup", "packet", "umem"}, "lookup and rewrite, after the IPsec stage; does not know workers or the GPU engine"},

	{"dataplane/gpu/choice", []string{"batch"}, "times in, choices out; knows no engine"},
	{"dataplane/gpu", []string{"batch", "cuda", "dataplane/cpu", "dataplane/esp", "dataplane/gpu/choice", "fib", "ipsec", "ipsec/device", "ipsec/gateway", "lookup/trie", "packet", "internal/hostmem", "internal/ordered"}, "an engine with the CPU engine as fallback; only cuda calls the driver"},

	{"control/config", []string{"internal/netdev", "internal/placement", "internal/textfile", "ipsec/suite"}, "parses and validates the configuration, also against the host and the key lengths of suites"},
	{"control/socket", nil, "carries any values"},
	{"control/rtnl", nil, "netlink messages; knows no users of them"},
	{"control/mirror", []string{"batch", "fib", "lookup", "control/rtnl", "internal/hist"}, "copies Linux's routes into the forwarding tables; knows no workers"},
	{"control/xfrm", []string{"control/rtnl", "ipsec", "ipsec/gateway", "ipsec/policy", "ipsec/suite"}, "copies Linux's SAs and policies into the gateway; knows no engines"},
	{"control/routefile", []string{"internal/textfile", "lookup", "lookup/ipv4", "lookup/ipv6"}, "parses routes for lookups without a router"},
	{"control/status", []string{"batch", "dataplane", "control/config", "control/guard", "control/mirror", "internal/hist", "ipsec/gateway"}, "the state of a router for its users"},
	{"control/capture", []string{"batch", "dataplane"}, "writes records of a tap as pcapng"},
	{"control/metrics", []string{"batch", "dataplane", "control/guard", "control/mirror", "control/status", "internal/hist", "ipsec"}, "the state of a router for Prometheus"},
	{"control/page", []string{"control/status"}, "the state of a router for a browser"},
	{"control/web", nil, "serves any handlers"},
	{"control/addresses", nil, "addresses of interfaces; knows no users of them"},
	{"control/vmgenid", nil, "detects clones of the virtual machine; knows no nonces"},
	{"control/divert", []string{"control/rtnl"}, "changes filters of Linux's traffic control; knows no tunnels"},
	{"control/pathmtu", []string{"ipsec", "ipsec/gateway", "packet"}, "receives ICMP errors about ESP; knows no engines"},
	{"control/guard", []string{"control/rtnl"}, "keeps Linux from forwarding; knows no gateway"},
	{"control/netfilter", []string{"control/guard", "control/rtnl"}, "reads Linux's firewall; filters nothing"},
	{"control/doctor", []string{"afxdp", "cuda", "dataplane/gpu", "umem", "control/config", "control/guard", "control/mirror", "control/netfilter", "control/xfrm", "internal/drivers", "internal/netdev", "internal/placement", "internal/hostmem", "internal/privilege"}, "checks the host without a router"},

	{"internal/handover", []string{"ipsec"}, "messages between two routers; knows no ports"},
	{"internal/spawner", nil, "a leaf: starts a program; knows no routers"},
	{"internal/service", []string{
		"afxdp", "batch", "dataplane", "dataplane/cpu", "dataplane/gpu", "dataplane/lane", "dataplane/gpu/choice", "fib", "umem", "internal/affinity", "internal/drivers", "internal/handover", "internal/hist", "internal/netdev", "internal/placement", "internal/privilege", "internal/spawner", "internal/tun",
		"ipsec", "ipsec/gateway", "ipsec/policy", "ipsec/sequences", "packet", "packet/filter", "packet/icmp",
		"control/addresses", "control/capture", "control/config", "control/divert", "control/guard", "control/metrics", "control/mirror", "control/netfilter", "control/page", "control/pathmtu", "control/socket", "control/status", "control/vmgenid", "control/web", "control/xfrm",
	}, "assembles a router of parts that do not know each other"},

	{"internal/cli", []string{"control/config", "control/doctor", "control/metrics"}, "conventions of both commands"},
	{"internal/cli/clitest", nil, "tests of commands"},
	{"internal/textfile", nil, "a leaf"},
	{"internal/offload", []string{"packet"}, "a leaf: packets in, packets out"},
	{"internal/tun", []string{"batch", "internal/offload"}, "a leaf: the clock and large packets"},
	{"internal/cheader", nil, "a leaf, for tests: C headers generated from Go constants"},
	{"internal/race", nil, "a leaf, for tests"},
	{"internal/require", nil, "a leaf, for tests"},
	{"internal/drivers", nil, "a leaf: facts about drivers"},
	{"internal/netdev", []string{"internal/affinity"}, "queries and configures Linux network devices; knows no ports of ours"},
	{"internal/lab", []string{"internal/netdev"}, "networks of namespaces, for tests, the demo and benchmarks"},
	{"internal/lab/echo", nil, "a leaf"},
	{"internal/lab/document", nil, "a leaf, for tests: commands of documents"},
	{"internal/lab/labtest", []string{"control/socket", "control/status", "internal/lab", "internal/require"}, "routers as processes, for tests"},
	{"internal/lab/differential", []string{"internal/lab", "internal/lab/labtest", "internal/require", "internal/testutil"}, "random packets through Linux and a router, for tests"},
	{"internal/lab/seqload", []string{"bench/xdpgen", "internal/lab", "internal/netdev", "internal/testutil", "packet"}, "a load of numbered packets, for tests"},
	{"internal/lab/guest/wire", nil, "a leaf, between a host and its guest"},
	{"internal/lab/guest/agent", []string{"internal/lab/guest/wire"}, "the first process of a guest; needs few packages"},
	{"internal/lab/guest", []string{"internal/lab", "internal/lab/guest/wire", "internal/race", "internal/require"}, "a second kernel; knows no tests"},
	{"internal/lab/peer", []string{"internal/lab", "internal/lab/echo", "internal/lab/guest", "ipsec/suite"}, "Linux's ESP; shares only the names of suites"},
	{"internal/lab/peer/service", []string{"internal/lab/echo"}, "a program of the peer's guest"},
	{"internal/testutil", []string{"batch", "fib", "lookup", "packet", "umem"}, "helpers of several packages' tests"},
	{"internal/conformance", []string{"batch", "fib", "internal/testutil"}, "rules as packets and verdicts; knows no engine"},
	{"internal/conformance/generate", []string{"internal/conformance"}, "writes CONFORMANCE.md"},
	{"internal/reference", nil, "generates documents from source text; runs none of it"},
	{"internal/wycheproof", nil, "test vectors as packets; shares no code with the code under test"},
	{"internal/oracle", nil, "reference results; shares no code with the code under test"},
	{"internal/routes", []string{"lookup"}, "routes and destinations for tests and benchmarks, also of the table packages"},
	{"internal/arch", nil, "reads the source, runs none of it"},
	{"internal/e2e", nil, "tests the program from outside"},
	{"internal/e2e/strongswan", nil, "the same, in a virtual machine"},
	{"internal/e2e/stock", nil, "the same, on devices of a stock kernel"},
	{"internal/e2e/nics", nil, "the same, with drivers of emulated NICs"},
	{"internal/e2e/soak", nil, "the same, under load for a configured time"},
	{"internal/e2e/systemd", nil, "the same, with systemd"},
	{"internal/e2e/container", nil, "the same, in a container"},
	{"internal/e2e/scaleout", nil, "the same, several routers behind ECMP"},

	{"bench/...", []string{
		"afxdp", "batch", "cuda", "cuda/nvml", "dataplane", "dataplane/cpu", "dataplane/esp", "dataplane/gpu", "dataplane/lane", "fib", "lookup", "lookup/device", "lookup/ipv4", "lookup/ipv6", "lookup/trie", "memport", "packet", "umem",
		"internal/affinity", "internal/hist", "internal/lab", "internal/netdev", "internal/oracle", "internal/hostmem", "internal/routes", "bench/...",
		"ipsec", "ipsec/gateway", "ipsec/policy", "ipsec/suite",
	}, "benchmarks; only cmd imports them"},
	{"cmd/...", []string{"..."}, "programs; no package imports them"},
}

type moduleRow struct {
	path   string
	by     []string
	reason string
}

// modules lists the importers of other modules. A module without a row fails.
var modules = []moduleRow{
	{"C", nil, "building needs only Go"},
	{"golang.org/x/sys", []string{"..."}, "system calls"},
	{"github.com/cilium/ebpf", []string{"afxdp", "bench/...", "internal/lab/seqload"}, "XDP programs of ports and load generators"},
	{"github.com/ebitengine/purego", []string{"cuda", "cuda/nvml"}, "these packages call C functions, without cgo"},
	{"github.com/vishvananda/netlink", []string{"cmd/...", "control/addresses", "control/doctor", "control/xfrm", "internal/lab", "internal/netdev", tests}, "set-up and diagnosis; the mirrors parse messages without allocations"},
	{"github.com/vishvananda/netns", []string{"internal/lab", tests}, "namespaces of the lab"},
	{"golang.org/x/crypto", []string{"ipsec/suite", "bench/ipsec", "internal/wycheproof", tests}, "ChaCha20-Poly1305, internal to the standard library"},
	{"github.com/chromedp", []string{tests}, "tests of the status page"},
	{"golang.org/x/net", []string{"control/web", "internal/privilege", "internal/lab", tests}, "limits of connections, seccomp filters, pings of the lab"},
	{"github.com/goccy/go-yaml", []string{"control/config", tests}, "one package knows the file format"},
	{"github.com/prometheus/exporter-toolkit", []string{"control/config", "control/web"}, "web configuration files: TLS and passwords"},
	{"github.com/prometheus", []string{"control/metrics"}, "one package knows the metrics' format"},
	{"github.com/spf13/cobra", []string{"cmd/...", "internal/cli"}, "the command line"},
	{"github.com/coreos/go-systemd", []string{"cmd/..."}, "notifications of the service manager"},
	{"github.com/gaissmai/bart", []string{"lookup/trie", "control/mirror", "bench/lookup", tests}, "routes before they are compiled"},
	{"github.com/mmcloughlin/avo", []string{"lookup/ipv4/asm", "lookup/ipv6/asm", "lookup/trie/asm", "ipsec/gcm/asm", "internal/prefetch/asm", "internal/ordered/asm"}, "assembly is generated"},
	{"github.com/gopacket/gopacket", []string{"cmd/...", "control/capture", "internal/testutil", tests}, "an opinion on packets that shares no code with ours, too slow to be one of ours; and pcapng"},
	{"gonum.org/v1/plot", []string{"bench/report"}, "plots"},
	{"github.com/google/go-cmp", []string{tests}, "differences"},
	{"github.com/rogpeppe/go-internal", []string{tests, "internal/cli/clitest"}, "scripts"},
	{"pgregory.net/rapid", []string{tests}, "properties"},
}
