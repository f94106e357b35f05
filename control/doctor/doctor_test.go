package doctor

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/control/mirror"
	"github.com/warproute/warproute/control/netfilter"
	"github.com/warproute/warproute/control/xfrm"
	"github.com/warproute/warproute/dataplane/gpu"
	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/umem"
)

// root returns a root directory with files, given as names and contents.
func root(files ...string) fstest.MapFS {
	fs := fstest.MapFS{}
	for i := 0; i < len(files); i += 2 {
		fs[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return fs
}

// Files with the numbers of reserved and free huge pages.
const (
	hugeTotal = "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
	hugeFree  = "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"
)

// healthy returns a host on which every check is OK.
func healthy() *Host {
	return &Host{
		Root: root(
			hugeTotal, "100\n", hugeFree, "100\n",
			"proc/sys/net/ipv4/ip_forward", "0\n",
			"proc/sys/net/ipv6/conf/all/forwarding", "0\n",
		),
		Release: "6.18.1-amd64", MayLock: true, Cores: 4, Executable: "bin/warproute", Queues: 2, Workers: 1, Nodes: 2, node: 1,
		OpenSocket: func() error { return nil },
		LoadBPF:    func() error { return nil },
		Filters:    func() ([]netfilter.Chain, error) { return nil, nil },
		Refused:    func() ([]xfrm.Refused, error) { return nil, nil },
		Survey:     func([]mirror.Port) ([]mirror.UnsupportedRoutes, []string, error) { return nil, nil, nil },
		Guarded:    func() ([]string, error) { return nil, nil },
		Boards:     func() ([]gpu.Board, error) { return nil, nil },
	}
}

func healthyLink() *Link {
	return &Link{Name: "lan0", MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, Up: true, Carrier: true, MTU: 1500, Driver: "ice", Queues: 2, TxQueues: 2,
		Features: Features{Known: true, Native: true, ZeroCopy: true}, TagsUnread: "no metadata"}
}

func TestJumboFramesNeedAKernel(t *testing.T) {
	h := healthy()
	h.Release = "6.1.0-9-amd64"
	l := healthyLink()
	l.MTU = 9000
	expect(t, mtu(h, l), Fail, "multi-buffer frames", "boot Linux 6.6")
}

func TestLinkChecks(t *testing.T) {
	tests := []struct {
		name  string
		check func(*Host, *Link) []Finding
		make  func(*Link)
		level Level
		found string
		hint  string
	}{
		{"link that is up", linkState, nil, OK, "02:00:00:00:00:01", ""},
		{"loopback", linkState, func(l *Link) { l.Loopback = true }, Fail, "loopback", "Ethernet"},
		{"tunnel", linkState, func(l *Link) { l.MAC = nil }, Fail, "no Ethernet address", "Ethernet"},
		{"link that is down", linkState, func(l *Link) { l.Up = false }, Warn, "down", "sudo ip link set lan0 up"},
		{"no carrier", linkState, func(l *Link) { l.Carrier = false }, Warn, "carrier", "cable"},
		{"no master", master, nil, OK, "none", ""},
		{"in a VRF", master, func(l *Link) { l.Master, l.MasterKind = "red", "vrf" }, OK, "VRF red, whose table routes", ""},
		{"in a bridge", master, func(l *Link) { l.Master, l.MasterKind = "br0", "bridge" }, Warn, "member of bridge br0", "sudo ip link set lan0 nomaster"},
		{"member of a bond that is a port", master, func(l *Link) { l.Master, l.MasterKind, l.Bond = "bond0", "bond", "bond0" }, OK, "bond bond0, which is the port", ""},
		{"bond with members", linkState, func(l *Link) { l.Members = []string{"wan0", "wan1"} }, OK, "bond of wan0, wan1", ""},
		{"driver with zero-copy", driver, nil, OK, "ice, supports zero-copy", ""},
		{"driver with native XDP", driver, func(l *Link) { l.Features.ZeroCopy = false }, OK, "native", ""},
		{"driver without XDP", driver, func(l *Link) { l.Features = Features{Known: true} }, Warn, "only generic XDP", "another NIC"},
		{"kernel that does not report features", driver, func(l *Link) { l.Features, l.Driver = Features{}, "" }, OK, "unknown", ""},
		{"zero-copy that would cut packets", driver, func(l *Link) { l.Driver, l.NoZeroCopy = "igb", errors.New("rounds down") }, Warn, "igb, no zero-copy: rounds down", "none needed"},
		{"team", linkState, func(l *Link) { l.Refusal = &netdev.Refusal{Reason: "lan0 is a team", Hint: "use a bond"} }, Fail, "lan0 is a team", "use a bond"},
		{"mode that is not tried", mode, nil, OK, "try with `bin/warproute doctor --try --port lan0`", ""},
		{"mode of a port that is in use", mode, func(l *Link) { l.XDP = "native" }, OK, "cannot be opened", ""},
		{"zero-copy, tried", mode, func(l *Link) { l.Trial = &Trial{Mode: afxdp.ZeroCopy} }, OK, "zero-copy, tried", ""},
		{"native, tried", mode, func(l *Link) { l.Trial = &Trial{Mode: afxdp.Native, Reason: "bind: invalid argument"} }, OK, "not zero-copy: bind: invalid argument", ""},
		{"generic, tried", mode, func(l *Link) { l.Trial = &Trial{Mode: afxdp.Generic, Reason: "Too few free TX rings"} }, Warn, "not native: Too few free TX rings", "native XDP is faster"},
		{"a port that does not open", mode, func(l *Link) { l.Trial = &Trial{Err: errors.New("no memory")} }, Fail, "open failed: no memory", "error"},
		{"queues", queues, nil, OK, "2", ""},
		{"more queues than cores", queues, func(l *Link) { l.Queues, l.TxQueues = 64, 64 }, Warn, "64", "sudo ethtool -L lan0 combined 4"},
		{"queues that cannot transmit", queues, func(l *Link) { l.TxQueues = 1 }, Fail, "2 receive and 1 transmit queues", "sudo ethtool -L lan0 rx 1 tx 1"},
		{"NUMA node without one", numaNode, func(l *Link) { l.Node = -1 }, OK, "none", ""},
		{"NUMA node of the workers", numaNode, func(l *Link) { l.Node = 1 }, OK, "1, that of the workers", ""},
		{"another NUMA node", numaNode, nil, Warn, "0: workers and frames are on node 1", "slot of node 1"},
		{"MTU", mtu, nil, OK, "1500", ""},
		{"MTU beyond a frame", mtu, func(l *Link) { l.MTU = umem.MaxMTU + 1 }, OK, "several buffers", ""},
		{"MTU beyond a large frame", mtu, func(l *Link) { l.MTU = umem.MaxLargeMTU + 1 }, Fail, "above the maximum", "sudo ip link set lan0 mtu 16112"},
		{"no program", attached, nil, OK, "none", ""},
		{"program of someone else", attached, func(l *Link) {
			l.XDP, l.Attached = "native", afxdp.Attached{Interface: "lan0", Mode: "native", ID: 7, Program: "filter"}
		}, Fail, "in native mode: XDP program 7 (filter)", "sudo ip link set dev lan0 xdpdrv off"},
		{"program of someone else's link", attached, func(l *Link) {
			l.XDP, l.Attached = "generic", afxdp.Attached{Interface: "lan0", Mode: "generic", ID: 7, Program: "filter", Link: 9, Owner: "tool (pid 5)"}
		}, Fail, "held by BPF link 9 of tool (pid 5)", "stop tool (pid 5), or: sudo bpftool link detach id 9"},
		{"program of a router", attached, func(l *Link) { l.XDP, l.IsRouter = "generic", true }, Fail, "a running router uses the port, in generic mode", "stop the running router"},
		{"socket of someone else", attached, func(l *Link) { l.Sockets = []int{1} }, Fail, "queue 1 has an AF_XDP socket", "stop the process"},
		{"no offloads", offloads, nil, OK, "none", ""},
		{"LRO", offloads, func(l *Link) { l.Flags = netdev.FlagLRO }, Warn, "LRO", "sudo ethtool -K lan0 lro off"},
		{"VLAN stripping", offloads, func(l *Link) { l.Flags = netdev.FlagRxVLAN }, Warn, "the NIC strips VLAN tags before XDP, and they are not read: no metadata; tagged packets are routed as untagged", "sudo ethtool -K lan0 rxvlan off"},
		{"veth", offloads, func(l *Link) { l.Driver = "veth" }, Warn, "the peer can strip VLAN tags before XDP, and they are not read: no metadata", "ethtool -K PEER txvlan off"},
		{"VLAN stripping with metadata", offloads, func(l *Link) { l.Flags, l.TagsUnread = netdev.FlagRxVLAN, "" }, OK, "read from its metadata", ""},
		{"VLAN stripping with metadata in a generic port", offloads, func(l *Link) {
			l.Flags, l.TagsUnread, l.Predicted = netdev.FlagRxVLAN, "", &Prediction{Mode: "generic"}
		}, Warn, "not read: generic XDP has no metadata", "sudo ethtool -K lan0 rxvlan off"},
		{"VLAN stripping with metadata, tried", offloads, func(l *Link) { l.Flags, l.Trial = netdev.FlagRxVLAN, &Trial{Mode: afxdp.Native} }, OK, "read from its metadata", ""},
		{"VLAN stripping with metadata that the kernel refuses", offloads, func(l *Link) {
			l.Flags, l.TagsUnread, l.Trial = netdev.FlagRxVLAN, "", &Trial{Mode: afxdp.Native, TagsUnread: "load: invalid argument"}
		}, Warn, "not read: load: invalid argument", "sudo ethtool -K lan0 rxvlan off"},
		{"virtio", offloads, func(l *Link) { l.PartialChecksums = "virtio_net lan0" }, OK, "completes them", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := healthyLink()
			if tt.make != nil {
				tt.make(l)
			}
			expect(t, tt.check(healthy(), l), tt.level, tt.found, tt.hint)
		})
	}
}

func expect(t *testing.T, got []Finding, level Level, found, hint string) {
	t.Helper()
	if len(got) == 0 {
		t.Fatal("no finding")
	}
	f := got[0]
	if f.Level != level || !strings.Contains(f.Found, found) || !strings.Contains(f.Hint, hint) {
		t.Errorf("got %s %q → %q, want %s ...%q... → ...%q...", f.Level, f.Found, f.Hint, level, found, hint)
	}
	if level == Fail && f.Hint == "" {
		t.Error("FAIL without a hint")
	}
}

// The members of a bond are opened in its place, and the bond is the port.
func TestExamineOpensMembersOfBonds(t *testing.T) {
	h := healthy()
	h.Queues, h.Workers = 0, 0
	h.Link = func(name string) (*Link, error) {
		l := healthyLink()
		switch l.Name = name; name {
		case "bond0":
			l.Members, l.Queues = []string{"wan0", "wan1"}, 16
		case "wan0", "wan1":
			l.Master, l.MasterKind, l.Refusal, l.Driver = "bond0", "bond", &netdev.Refusal{Reason: "a member", Hint: "use bond0"}, "veth"
		}
		return l, nil
	}
	var tried []string
	h.Try = func(links []*Link, workers int) {
		for _, l := range links {
			tried = append(tried, l.Name)
			l.Trial = &Trial{Mode: afxdp.Native, Queues: workers}
		}
	}
	all := Examine(h, []string{"bond0"})
	if !Healthy(all) || h.Queues != 4 || h.Workers != 2 || !slices.Equal(h.Ports, []string{"bond0"}) || !slices.Equal(tried, []string{"wan0", "wan1"}) {
		t.Errorf("%d queues, %d workers, ports %v, tried %v: %v", h.Queues, h.Workers, h.Ports, tried, all)
	}
	checks := map[string]int{}
	for _, f := range all {
		checks[f.Port]++
	}
	if checks["bond0"] != 3 || checks["wan0"] != len(linkChecks) || checks["wan1"] != len(linkChecks) {
		t.Errorf("checks by port: %v", checks)
	}
}

func TestExamineNamesChecksAndPorts(t *testing.T) {
	h := healthy()
	h.Queues, h.Workers = 0, 0
	h.Link = func(name string) (*Link, error) {
		if name == "lan0" {
			return healthyLink(), nil
		}
		return nil, errors.New("this host has no interface \"" + name + "\"")
	}
	all := Examine(h, []string{"lan0"})
	if !Healthy(all) || len(all) != len(hostChecks)+len(linkChecks) || h.Queues != 2 || h.Workers != 2 || !slices.Equal(h.Ports, []string{"lan0"}) {
		t.Errorf("a healthy host with %d queues, %d workers: %v", h.Queues, h.Workers, all)
	}
	h.Guarded = func() ([]string, error) { return nil, nil }
	h.Filters = func() ([]netfilter.Chain, error) { return nil, errors.Join(unix.EPERM, unix.EACCES) }
	all = Examine(h, []string{"lan0", "wan0"})
	if Healthy(all) {
		t.Error("a missing interface is healthy")
	}
	var b strings.Builder
	require.NoError(t, Write(&b, all))
	for _, line := range []string{
		`FAIL  wan0: link         this host has no interface "wan0"`,
		"                         → choose an interface that `ip link` shows, or create it",
		"OK    kernel             Linux 6.18.1-amd64",
		"WARN  netfilter          operation not permitted; permission denied",
		"OK    lan0: MTU          1500",
		"the router would not start: fix the items marked FAIL",
	} {
		if !strings.Contains(b.String(), line+"\n") {
			t.Errorf("no line %q in\n%s", line, &b)
		}
	}
}
