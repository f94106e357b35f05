package afxdp

import (
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/warproute/warproute/internal/require"
)

func TestParseMode(t *testing.T) {
	for _, m := range []Mode{Auto, ZeroCopy, Native, Generic} {
		if got, err := ParseMode(m.String()); got != m || err != nil {
			t.Errorf("ParseMode(%q) = %v, %v", m, got, err)
		}
	}
	const want = `XDP mode "zerocopy": use auto, zero-copy, native or generic`
	if _, err := ParseMode("zerocopy"); err == nil || err.Error() != want {
		t.Errorf("ParseMode of no mode:\n got %v\nwant %s", err, want)
	}
}

// TestOpenRefuses checks that errors have the operation, the cause and a hint, and that nothing
// stays open.
func TestOpenRefuses(t *testing.T) {
	enterNamespace(t)
	addVeth(t, "ra", "a", 1)
	addVeth(t, "rb", "b", 1)
	addVeth(t, "jumbo", "j", 1)
	setMTU(t, "jumbo", 9000)
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.NumRxQueues, attrs.NumTxQueues = "narrow", 1, 1
	require.NoError(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "n", PeerNumTxQueues: 2, PeerNumRxQueues: 2}))
	attrs.Name, attrs.NumRxQueues, attrs.NumTxQueues = "mute", 2, 1
	require.NoError(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "d"}))
	worker := newWorker(t, 64)
	one := []WorkerMemory{worker}

	for _, c := range []struct {
		rule string
		cfg  Config
		want string
	}{
		{"no ports", Config{Workers: one},
			"open ports: at least one port and one worker are needed"},
		{"no workers", Config{Ports: ports(Auto, "ra")},
			"open ports: at least one port and one worker are needed"},
		{"a worker without memory", Config{Ports: ports(Auto, "ra"), Workers: []WorkerMemory{{}}},
			"open ports: worker 0 has no memory or no pool"},
		{"a port given twice", Config{Ports: ports(Auto, "ra", "rb", "ra"), Workers: one},
			"open ports: port ra is given twice"},
		{"modes that cannot share memory", Config{Ports: append(ports(Generic, "ra"), ports(ZeroCopy, "rb")...), Workers: one},
			"open ports: port rb is configured as zero-copy and port ra as generic: ports share the UMEM, so they need the same mode"},
		{"no such mode", Config{Ports: ports(7, "ra"), Workers: one},
			"open ports: port ra: unknown XDP mode 7"},
		{"ring size", Config{Ports: ports(Auto, "ra"), Workers: one, RingSize: 1000},
			"open ports: ring size 1000: use a power of two up to 32768"},
		{"busy polling below a microsecond", Config{Ports: ports(Auto, "ra"), Workers: one, BusyPoll: 20},
			"open ports: busy polling for 20ns: use a microsecond or more, or 0 to disable it"},
		{"a missing interface", Config{Ports: ports(Auto, "ra", "eth7"), Workers: one},
			"open port eth7: this network namespace has no interface \"eth7\" (`ip link` lists them)"},
		{"not Ethernet", Config{Ports: ports(Auto, "lo"), Workers: one},
			"open port lo: not an Ethernet interface: it has no MAC address"},
		{"frames larger than memory's", Config{Ports: ports(Auto, "jumbo"), Workers: one},
			"open port jumbo: MTU of 9000: a frame in memory holds 1776 at most (`ip link set jumbo mtu 1776`)"},
		{"more workers than queues", Config{Ports: ports(Auto, "ra"), Workers: []WorkerMemory{worker, worker}},
			"open port ra: fewer queues (1) than workers (2): each worker needs one of every port (more by `ethtool -L ra`, or fewer workers)"},
		{"zero-copy on a veth", Config{Ports: ports(ZeroCopy, "ra"), Workers: one},
			"open queue 0 of port ra: bind zero-copy: operation not supported (the driver does not support this mode: use auto, native or generic)"},
		{"a queue that cannot transmit", Config{Ports: ports(Auto, "mute"), Workers: one},
			"open port mute: fewer transmit queues (1) than receive queues (2): each queue must do both (`ethtool -L mute rx 1 tx 1`)"},
		{"native on a veth with fewer queues than its peer", Config{Ports: ports(Native, "ra", "narrow"), Workers: one},
			"open port narrow: attach the XDP program in native mode: failed to attach link: create link: no space left on device: veth: XDP expects number of rx queues not less than peer tx queues (veth needs as many receive queues as its peer has transmit queues: `ethtool -L`, or use mode generic)"},
	} {
		s, err := Open(c.cfg)
		if err == nil {
			s.Close()
			t.Errorf("%s: opened", c.rule)
			continue
		}
		if err.Error() != c.want {
			t.Errorf("%s:\n got %v\nwant %s", c.rule, err, c.want)
		}
	}
	for _, name := range []string{"ra", "rb", "narrow"} {
		if attached(t, name) {
			t.Errorf("an XDP program is left on %s", name)
		}
	}
	works(t, open(t, Config{Ports: ports(Auto, "ra", "rb"), Workers: []WorkerMemory{newWorker(t, 64)}, RingSize: 64}))
}

// TestAutoFallsBack checks the best mode of each port, and the reason for not using a better one.
func TestAutoFallsBack(t *testing.T) {
	enterNamespace(t)
	addVeth(t, "rb", "b", 1)
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.NumRxQueues, attrs.NumTxQueues = "ra", 1, 1
	require.NoError(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "a", PeerNumTxQueues: 2, PeerNumRxQueues: 2}))
	setUp(t, "ra", true)
	setUp(t, "a", true)
	s := open(t, Config{Ports: ports(Auto, "ra", "rb"), Workers: []WorkerMemory{newWorker(t, 64)}, RingSize: 64})
	for i, want := range []struct {
		mode   Mode
		reason string
	}{
		{Generic, "attach the XDP program in native mode: failed to attach link: create link: no space left on device: veth: XDP expects number of rx queues not less than peer tx queues (veth needs as many receive queues as its peer has transmit queues: `ethtool -L`, or use mode generic)"},
		{Native, "port ra supports only generic XDP, and all ports share the UMEM"},
	} {
		if p := s.Ports[i]; p.Mode != want.mode || p.ModeReason != want.reason {
			t.Errorf("%s: mode %v because %q, want %v because %q", p.Name, p.Mode, p.ModeReason, want.mode, want.reason)
		}
	}
	works(t, s)
}

// TestModeReasonNamesThePort opens two ports. The reason is that of the first.
func TestModeReasonNamesThePort(t *testing.T) {
	enterNamespace(t)
	addVeth(t, "ra", "a", 1)
	addVeth(t, "rb", "b", 1)
	s := open(t, Config{Ports: ports(Auto, "ra", "rb"), Workers: []WorkerMemory{newWorker(t, 64)}, RingSize: 64})
	for _, p := range s.Ports {
		if want := "open queue 0 of port ra: bind zero-copy: operation not supported, and all ports share the UMEM"; p.ModeReason != want {
			t.Errorf("%s: %v because %q, want %q", p.Name, p.Mode, p.ModeReason, want)
		}
	}
}
