package arch

// tests stands for the test files of every package.
const tests = "tests"

// imports says what the packages of this module may import of it, bottom up. A
// package that is not here, and an import that is not in its row, fails.
var imports = []struct {
	pkg    string
	may    []string
	reason string
}{
	{"lookup", nil, "types that both tables share"},
	{"packet", nil, "views of headers: bytes in, values out"},
	{"batch", nil, "describes packets in bulk; does no I/O and knows no engine"},
	{"umem", []string{"internal/pages"}, "owns the memory of frames; knows not what is in them"},
	{"cuda", nil, "calls the driver; knows no packets"},
	{"internal/affinity", nil, "a leaf"},
	{"internal/prefetch", nil, "a leaf: addresses in, nothing out"},
	{"internal/prefetch/asm", nil, "writes assembly"},
	{"internal/hist", nil, "a leaf"},
	{"internal/counter", nil, "a leaf"},
	{"internal/pages", nil, "a leaf: memory from Linux"},

	{"lookup/trie", []string{"lookup"}, "the image behind both tables; walked here and on devices"},
	{"lookup/ipv4", []string{"lookup", "lookup/trie"}, "maps addresses to numbers; knows not what a next hop is"},
	{"lookup/ipv6", []string{"lookup", "lookup/trie"}, "as ipv4"},
	{"lookup/device", []string{"cuda", "lookup", "lookup/trie", "internal/pages"}, "a table's copy on a GPU, that answers as the table does; knows not what a next hop is"},
	{"lookup/ipv4/asm", []string{"lookup", "lookup/trie"}, "writes kernels; the layout is the one constants say"},
	{"lookup/ipv6/asm", []string{"lookup", "lookup/trie"}, "as for ipv4"},
	{"fib", []string{"batch", "lookup", "lookup/ipv4", "lookup/ipv6"}, "words that engines read; knows no Linux, so that memory ports and benchmarks can fill it"},

	{"afxdp", []string{"batch", "umem", "internal/counter", "internal/ethtool", "internal/netdev"}, "moves frames between Linux and memory; knows no routes"},
	{"memport", []string{"batch", "umem", "internal/affinity", "internal/pages", "internal/prefetch"}, "a port without a kernel, to compare with"},

	{"packet/icmp", []string{"packet"}, "errors that a router sends; packets in, packets out"},
	{"packet/fragment", []string{"packet"}, "as icmp"},
	{"packet/filter", nil, "expressions of people; frames are bytes to it"},

	{"ipsec/schedule", nil, "from keys; knows no ciphers' modes"},
	{"ipsec/gcm/layout", []string{"ipsec/schedule"}, "what the generator and its code agree on"},
	{"ipsec/gcm", []string{"ipsec/schedule", "ipsec/gcm/layout"}, "a cipher"},
	{"ipsec/gcm/asm", []string{"ipsec/gcm/layout"}, "writes assembly"},
	{"ipsec/suite", []string{"ipsec/gcm"}, "ciphers; knows no packets"},
	{"ipsec/policy", []string{"internal/prefetch"}, "flows to numbers; knows no associations"},
	{"ipsec/device", []string{"ipsec/schedule", "ipsec/suite"}, "keys as devices want them; the C beside it is the kernels'"},
	{"ipsec/gateway", []string{"ipsec", "ipsec/device", "ipsec/policy", "packet", "internal/prefetch"}, "associations and policies together; knows no engines"},
	{"ipsec/sequences", []string{"ipsec"}, "files; knows no packets"},
	{"ipsec", []string{"packet", "ipsec/device", "ipsec/suite", "internal/counter", "internal/prefetch"}, "packets in, packets out; knows no frames, engines or workers"},

	{"dataplane", []string{"batch", "fib", "packet", "packet/filter", "packet/fragment", "packet/icmp", "umem", "internal/affinity", "internal/hist"},
		"is given queues and engines: knows no AF_XDP, no configuration, no netlink"},
	{"dataplane/cpu", []string{"batch", "fib", "ipsec", "ipsec/gateway", "lookup", "packet", "umem", "internal/prefetch"}, "an engine; engines do not know workers, nor each other"},

	{"dataplane/gpu", []string{"batch", "cuda", "dataplane/cpu", "fib", "ipsec", "ipsec/device", "ipsec/gateway", "lookup/trie", "packet"}, "an engine, and the one to fall back on; the driver's calls are cuda's"},

	{"control/config", []string{"internal/ethtool", "internal/netdev", "internal/textfile", "ipsec/suite"}, "text to values, which it holds against the host; whoever wires the router turns them into parts. Suites say how long keys are"},
	{"control/socket", nil, "carries any values"},
	{"control/rtnl", nil, "netlink messages; knows not what they are for"},
	{"control/mirror", []string{"batch", "fib", "lookup", "control/rtnl", "internal/hist"}, "Linux's routes into the forwarding base; workers are not its business"},
	{"control/xfrm", []string{"control/rtnl", "ipsec", "ipsec/gateway", "ipsec/policy", "ipsec/suite"}, "Linux's IPsec into the gateway; engines are not its business"},
	{"control/routefile", []string{"internal/textfile", "lookup", "lookup/ipv4", "lookup/ipv6"}, "routes from text, for lookups without a router"},
	{"control/status", []string{"batch", "dataplane", "control/config", "control/guard", "control/mirror", "internal/hist", "ipsec/gateway"}, "what a router tells of itself"},
	{"control/capture", []string{"batch", "dataplane"}, "records of a tap to a file format; whoever asks for them chooses"},
	{"control/metrics", []string{"batch", "dataplane", "control/guard", "control/status", "internal/hist", "ipsec"}, "the same, to Prometheus"},
	{"control/addresses", nil, "addresses of interfaces; knows not who speaks by them"},
	{"control/vmgenid", nil, "tells of copies of the virtual machine; what they endanger is not its business"},
	{"control/pathmtu", []string{"ipsec", "ipsec/gateway", "packet"}, "what routers tell a gateway; who is to know is not its business"},
	{"control/guard", []string{"control/rtnl"}, "keeps Linux from forwarding; knows no gateway"},
	{"control/netfilter", []string{"control/guard", "control/rtnl"}, "looks at Linux's firewall; filters nothing"},
	{"control/doctor", []string{"afxdp", "umem", "control/config", "control/guard", "control/mirror", "control/netfilter", "control/xfrm", "internal/ethtool", "internal/genl", "internal/netdev", "internal/pages"}, "looks at the host before there is a router"},

	{"internal/service", []string{
		"afxdp", "batch", "dataplane", "dataplane/cpu", "dataplane/gpu", "fib", "umem", "internal/affinity", "internal/ethtool", "internal/hist", "internal/napi", "internal/netdev", "internal/tun",
		"ipsec", "ipsec/gateway", "ipsec/policy", "ipsec/sequences", "packet", "packet/filter", "packet/icmp",
		"control/addresses", "control/capture", "control/config", "control/guard", "control/metrics", "control/mirror", "control/netfilter", "control/pathmtu", "control/socket", "control/status", "control/vmgenid", "control/xfrm",
	}, "puts the parts of a router together; below it, parts do not know each other"},

	{"internal/sysfs", nil, "a leaf"},
	{"internal/textfile", nil, "a leaf"},
	{"internal/tun", nil, "a leaf"},
	{"internal/race", nil, "a leaf, for tests"},
	{"internal/ethtool", nil, "a leaf"},
	{"internal/genl", nil, "a leaf"},
	{"internal/netdev", []string{"internal/ethtool"}, "asks Linux about network devices; knows no ports of ours"},
	{"internal/napi", []string{"internal/affinity", "internal/genl", "internal/sysfs"}, "where the kernel receives; knows no ports of ours"},
	{"internal/lab", []string{"internal/sysfs"}, "networks of namespaces, for tests, the demo and benchmarks"},
	{"internal/lab/echo", nil, "a leaf"},
	{"internal/lab/guest/wire", nil, "a leaf, between a host and its guest"},
	{"internal/lab/guest/agent", []string{"internal/lab/guest/wire"}, "the first process of a guest, which has little but it"},
	{"internal/lab/guest", []string{"internal/lab", "internal/lab/guest/wire"}, "a kernel beside the host's; knows not what for"},
	{"internal/lab/peer", []string{"internal/lab", "internal/lab/echo", "internal/lab/guest", "ipsec/suite"}, "Linux's ESP; shares the suites' names with ours and nothing else"},
	{"internal/lab/peer/service", []string{"internal/lab/echo"}, "a program of the peer's guest"},
	{"internal/testutil", []string{"batch", "fib", "lookup", "packet", "umem"}, "what several packages' tests share"},
	{"internal/conformance", []string{"batch", "fib", "internal/testutil"}, "rules as packets and verdicts; knows no engine, so that it can judge all"},
	{"internal/conformance/generate", []string{"internal/conformance"}, "writes the rules down"},
	{"internal/wycheproof", nil, "test vectors, and packets made of them; shares no code with what they test"},
	{"internal/oracle", nil, "answers that share no code with what they check"},
	{"internal/routes", []string{"lookup"}, "tables and destinations for tests and benchmarks; those of the tables' own packages too, so it knows no table"},
	{"internal/arch", nil, "reads the source, runs none of it"},
	{"internal/e2e", nil, "tests the program from outside"},
	{"internal/e2e/strongswan", nil, "the same, in a virtual machine"},
	{"internal/e2e/stock", nil, "the same, on devices of a stock kernel"},
	{"internal/e2e/soak", nil, "the same, under load for as long as one likes"},
	{"internal/e2e/systemd", nil, "the same, with systemd"},

	{"bench/...", []string{
		"afxdp", "batch", "cuda", "dataplane", "dataplane/cpu", "dataplane/gpu", "fib", "lookup", "lookup/device", "lookup/ipv4", "lookup/ipv6", "lookup/trie", "memport", "packet", "umem",
		"internal/affinity", "internal/ethtool", "internal/hist", "internal/lab", "internal/napi", "internal/oracle", "internal/pages", "internal/routes", "bench/...",
		"ipsec", "ipsec/gateway", "ipsec/policy", "ipsec/suite",
	}, "drives the dataplane as an operator would; nothing but cmd drives it"},
	{"cmd/...", []string{"..."}, "wires; is wired by none"},
}

type moduleRow struct {
	path   string
	by     []string
	reason string
}

// modules says who may import what is not of this module, nor of Go's standard
// library. A module that is not here fails.
var modules = []moduleRow{
	{"C", nil, "building needs Go alone, and the binary runs anywhere"},
	{"golang.org/x/sys", []string{"..."}, "system calls"},
	{"github.com/cilium/ebpf", []string{"afxdp", "bench/..."}, "XDP programs are the ports' business, and the live-frames sender's"},
	{"github.com/ebitengine/purego", []string{"cuda"}, "one package calls C, and the binary needs no C to be built"},
	{"github.com/vishvananda/netlink", []string{"cmd/...", "control/addresses", "control/doctor", "internal/genl", "internal/lab", "internal/napi", "internal/netdev", tests}, "asks Linux for set-up and diagnosis; the mirror reads messages itself, without allocating"},
	{"github.com/vishvananda/netns", []string{"internal/lab", tests}, "namespaces are the lab's"},
	{"golang.org/x/crypto", []string{"ipsec/suite", "bench/ipsec", "internal/wycheproof", tests}, "ChaCha20-Poly1305, which the standard library keeps to itself"},
	{"golang.org/x/net", []string{"internal/lab", tests}, "pings of the lab"},
	{"github.com/goccy/go-yaml", []string{"control/config"}, "one package knows the file format"},
	{"github.com/prometheus", []string{"control/metrics"}, "one package knows the metrics' format"},
	{"github.com/spf13/cobra", []string{"cmd/..."}, "flags are the command line's"},
	{"github.com/coreos/go-systemd", []string{"cmd/..."}, "what the program reports to the service manager that started it"},
	{"github.com/gaissmai/bart", []string{"lookup/trie", "control/mirror", "bench/lookup", tests}, "routes before they are compiled"},
	{"github.com/mmcloughlin/avo", []string{"lookup/ipv4/asm", "lookup/ipv6/asm", "ipsec/gcm/asm", "internal/prefetch/asm"}, "assembly is generated"},
	{"github.com/gopacket/gopacket", []string{"cmd/...", "control/capture", "internal/testutil", tests}, "an opinion on packets that shares no code with ours, too slow to be one of ours; and pcapng"},
	{"github.com/google/go-cmp", []string{tests}, "differences"},
	{"github.com/rogpeppe/go-internal", []string{tests}, "scripts"},
	{"pgregory.net/rapid", []string{tests}, "properties"},
}
