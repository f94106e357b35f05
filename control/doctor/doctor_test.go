package doctor

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/control/mirror"
	"github.com/warproute/warproute/control/netfilter"
	"github.com/warproute/warproute/control/xfrm"
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
		Release: "6.18.1-amd64", MayLock: true, Cores: 4, Executable: "bin/warproute", Queues: 2, Workers: 1,
		OpenSocket: func() error { return nil },
		LoadBPF:    func() error { return nil },
		Filters:    func() ([]netfilter.Chain, error) { return nil, nil },
		Refused:    func() ([]xfrm.Refused, error) { return nil, nil },
		Survey:     func([]mirror.Port) ([]mirror.UnsupportedRoutes, error) { return nil, nil },
		Guarded:    func() ([]string, error) { return nil, nil },
	}
}

func healthyLink() *Link {
	return &Link{Name: "lan0", MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, Up: true, Carrier: true, MTU: 1500, Driver: "ice", Queues: 2, TxQueues: 2,
		Features: Features{Known: true, Native: true, ZeroCopy: true}}
}

func TestHostChecks(t *testing.T) {
	fails := func(err error) func() error { return func() error { return err } }
	setcap := "sudo setcap cap_net_admin,cap_net_raw,cap_bpf,cap_perfmon,cap_ipc_lock+ep bin/warproute"
	tests := []struct {
		name  string
		check func(*Host) []Finding
		make  func(*Host)
		level Level
		found string // part of
		hint  string // part of
	}{
		{"kernel that can do all", kernel, nil, OK, "6.18.1", ""},
		{"kernel without busy polling", kernel, func(h *Host) { h.Release = "5.10.0-27" }, Warn, "busy polling", "5.11"},
		{"kernel too old", kernel, func(h *Host) { h.Release = "4.19.0" }, Fail, "4.19.0 cannot share", "5.10"},
		{"kernel with a strange name", kernel, func(h *Host) { h.Release = "custom" }, Warn, "unknown version", ""},
		{"all capabilities", capabilities, nil, OK, "", ""},
		{"a capability missing", capabilities, func(h *Host) { h.Missing = []Capability{{"CAP_BPF", "load XDP programs"}} }, Fail, "missing CAP_BPF (load XDP programs)", setcap},
		{"AF_XDP", afxdpSocket, nil, OK, "", ""},
		{"AF_XDP not allowed", afxdpSocket, func(h *Host) { h.OpenSocket = fails(unix.EPERM) }, Fail, "operation not permitted", setcap},
		{"AF_XDP not built", afxdpSocket, func(h *Host) { h.OpenSocket = fails(unix.EAFNOSUPPORT) }, Fail, "not supported", "CONFIG_XDP_SOCKETS"},
		{"AF_XDP forbidden otherwise", afxdpSocket, func(h *Host) { h.OpenSocket = fails(unix.EACCES) }, Fail, "permission denied", "seccomp"},
		{"BPF", bpf, nil, OK, "", ""},
		{"BPF not built", bpf, func(h *Host) { h.LoadBPF = fails(unix.ENOSYS) }, Fail, "not implemented", "CONFIG_BPF_SYSCALL"},
		{"BPF without capabilities", bpf, func(h *Host) {
			h.LoadBPF, h.Missing = fails(unix.EPERM), []Capability{{"CAP_BPF", ""}}
		}, Fail, "not permitted", setcap},
		{"BPF forbidden by the container", bpf, func(h *Host) { h.LoadBPF = fails(unix.EPERM) }, Fail, "not permitted", "--cap-add"},
		{"locked memory without limit", memlock, nil, OK, "no limit", ""},
		{"locked memory within the limit", memlock, func(h *Host) { h.MayLock, h.LockedMax = false, 64<<20 }, OK, "64 MiB", ""},
		{"locked memory beyond the limit", memlock, func(h *Host) { h.MayLock, h.LockedMax = false, 8<<20 }, Fail, "limit 8192 KiB, 45056 KiB needed", "LimitMEMLOCK=infinity"},
		{"locked memory of jumbo frames", memlock, func(h *Host) { h.MayLock, h.LockedMax, h.Jumbo = false, 8<<20, true }, Fail, "61440 KiB needed", "LimitMEMLOCK=infinity"},
		{"enough huge pages", hugePages, nil, OK, "100 free 2 MiB pages, 22 needed", ""},
		{"too few huge pages", hugePages, func(h *Host) {
			h.Root = root(hugeTotal, "10\n", hugeFree, "3\n")
		}, Warn, "3 free 2 MiB pages", "echo 29 | sudo tee /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"},
		{"huge pages of workers with a GPU", hugePages, func(h *Host) {
			h.Workers = 2 // each with one queue, and 8 chunks and one of 1024 frames more
			h.Root = root(hugeTotal, "40\n", hugeFree, "40\n",
				"dev/nvidia0", "", "dev/nvidiactl", "", "usr/lib64/libcuda.so.1", "")
		}, OK, "34 needed", ""},
		{"huge pages where others are the default", hugePages, func(h *Host) {
			h.Root = root("proc/meminfo", "HugePages_Total: 10\nHugePages_Free: 0\nHugepagesize: 1048576 kB\n", hugeTotal, "22\n", hugeFree, "22\n")
		}, OK, "22 free 2 MiB pages", ""},
		{"no huge pages in the kernel", hugePages, func(h *Host) { h.Root = root() }, Warn, "normal pages", ""},
		{"Linux does not forward", forwarding, nil, OK, "off", ""},
		{"Linux forwards IPv4 too", forwarding, func(h *Host) {
			h.Root = root("proc/sys/net/ipv4/ip_forward", "1\n")
		}, Warn, "net.ipv4.ip_forward=1", "sudo sysctl -w net.ipv4.ip_forward=0"},
		{"Linux forwards IPv6 too", forwarding, func(h *Host) {
			h.Root = root("proc/sys/net/ipv6/conf/all/forwarding", "1\n")
		}, Warn, "net.ipv6.conf.all.forwarding=1", "sudo sysctl -w net.ipv6.conf.all.forwarding=0"},
		{"Linux forwards IPv4 of a port", forwarding, func(h *Host) {
			h.Ports, h.Root = []string{"lan0", "wan0.7"}, root("proc/sys/net/ipv4/conf/lan0/forwarding", "0\n", "proc/sys/net/ipv4/conf/wan0.7/forwarding", "1\n")
		}, Warn, "net.ipv4.conf.wan0/7.forwarding=1", "sudo sysctl -w net.ipv4.conf.wan0/7.forwarding=0"},
		{"Linux forwards IPv6 of a port", forwarding, func(h *Host) {
			h.Ports, h.Root = []string{"lan0"}, root("proc/sys/net/ipv6/conf/lan0/force_forwarding", "1\n")
		}, Warn, "net.ipv6.conf.lan0.force_forwarding=1", "sudo sysctl -w net.ipv6.conf.lan0.force_forwarding=0"},
		{"Linux forwards IPv4 of others than the ports", forwarding, func(h *Host) {
			h.Ports, h.Root = []string{"lan0"}, root("proc/sys/net/ipv4/ip_forward", "1\n", "proc/sys/net/ipv4/conf/lan0/forwarding", "0\n")
		}, OK, "off", ""},
		{"no guard", guardOf, nil, OK, "not active", ""},
		{"the guard of a running gateway", guardOf, func(h *Host) {
			h.Guarded = func() ([]string, error) { return []string{"gone0", "lan0"}, nil }
			h.Link = func(name string) (*Link, error) {
				if name == "lan0" {
					return &Link{Name: name, IsRouter: true}, nil
				}
				return nil, unix.ENODEV
			}
		}, OK, "a running gateway blocks Linux forwarding from and to gone0, lan0", ""},
		{"the guard of a gateway that has ended", guardOf, func(h *Host) {
			h.Guarded = func() ([]string, error) { return []string{"lan0", "wan0"}, nil }
			h.Link = func(name string) (*Link, error) { return &Link{Name: name}, nil }
		}, Warn, "a stopped gateway still blocks Linux forwarding from and to lan0, wan0", "sudo warproute release"},
		{"a kernel without nf_tables", guardOf, func(h *Host) {
			h.Guarded = func() ([]string, error) { return nil, unix.EPROTONOSUPPORT }
		}, Warn, "protocol not supported", ""},
		{"no firewall", filters, nil, OK, "no rules", ""},
		{"a firewall that forwarded packets do not pass", filters, func(h *Host) {
			h.Filters = func() ([]netfilter.Chain, error) {
				return []netfilter.Chain{{Table: "inet filter", Name: "forward", Rules: 2, Drops: true}, {Table: "ip nat", Name: "POSTROUTING", Rules: 1}}, nil
			}
		}, Warn, "bypass inet filter forward (2 rules) (policy drop), ip nat POSTROUTING (1 rules)", "policies"},
		{"a firewall that the process may not read", filters, func(h *Host) {
			h.Filters = func() ([]netfilter.Chain, error) { return nil, unix.EPERM }
		}, Warn, "not permitted", "sudo"},
		{"no XFRM policy that would be refused", xfrmPolicies, nil, OK, "no unsupported policies", ""},
		{"an XFRM policy that would be refused", xfrmPolicies, func(h *Host) {
			h.Refused = func() ([]xfrm.Refused, error) {
				return []xfrm.Refused{{Policy: "0.0.0.0/0 to 0.0.0.0/0", Direction: "out", Reason: "belongs to an XFRM interface (if_id 42)", Hint: "use policy-based tunnels"}}, nil
			}
		}, Warn, "0.0.0.0/0 to 0.0.0.0/0 (out): belongs to an XFRM interface (if_id 42)", "policy-based"},
		{"a kernel without XFRM", xfrmPolicies, func(h *Host) {
			h.Refused = func() ([]xfrm.Refused, error) { return nil, unix.EPROTONOSUPPORT }
		}, OK, "not in this kernel", ""},
		{"XFRM that the process may not read", xfrmPolicies, func(h *Host) {
			h.Refused = func() ([]xfrm.Refused, error) { return nil, unix.EPERM }
		}, Warn, "not permitted", "sudo"},
		{"routes without ports", routes, nil, OK, "not checked", ""},
		{"routes by ports alone", routes, func(h *Host) { h.surveyed = []mirror.Port{{Name: "lan0", Ifindex: 2}} }, OK, "all supported", ""},
		{"routes by an interface that is not a port", routes, func(h *Host) {
			h.surveyed = []mirror.Port{{Name: "lan0", Ifindex: 2}}
			h.Survey = func([]mirror.Port) ([]mirror.UnsupportedRoutes, error) {
				return []mirror.UnsupportedRoutes{{Reason: mirror.NoPort, Dev: "wg0", Routes: 4, Prefixes: []netip.Prefix{netip.MustParsePrefix("10.73.0.0/24")}}}, nil
			}
		}, Warn, "4 over wg0 (10.73.0.0/24 and 3 more): routes leave by an interface that is not a port", "add the interface as a port"},
		{"cores", cores, nil, OK, "4", ""},
		{"one core", cores, func(h *Host) { h.Cores = 1 }, Warn, "1, shared", "two cores"},
		{"no GPU", gpu, nil, OK, "none", ""},
		{"GPU", gpu, func(h *Host) {
			h.Root = root("dev/nvidia0", "", "dev/nvidiactl", "", "usr/lib/x86_64-linux-gnu/libcuda.so.1", "")
		}, OK, "/usr/lib/x86_64-linux-gnu/libcuda.so.1", ""},
		{"GPU without its library", gpu, func(h *Host) { h.Root = root("dev/nvidia0", "", "dev/nvidiactl", "") }, Warn, "no libcuda.so.1", "libcuda1"},
		{"library without a GPU", gpu, func(h *Host) { h.Root = root("usr/lib64/libcuda.so.1", "") }, Warn, "no /dev/nvidia0", "modprobe nvidia"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := healthy()
			if tt.make != nil {
				tt.make(h)
			}
			expect(t, tt.check(h), tt.level, tt.found, tt.hint)
		})
	}
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
		{"in a VRF", master, func(l *Link) { l.Master, l.MasterKind = "red", "vrf" }, Fail, "VRF red", "sudo ip link set lan0 nomaster"},
		{"in a bridge", master, func(l *Link) { l.Master, l.MasterKind = "br0", "bridge" }, Warn, "member of bridge br0", "sudo ip link set lan0 nomaster"},
		{"driver with zero-copy", driver, nil, OK, "ice, supports zero-copy", ""},
		{"driver with native XDP", driver, func(l *Link) { l.Features.ZeroCopy = false }, OK, "native", ""},
		{"driver without XDP", driver, func(l *Link) { l.Features = Features{Known: true} }, Warn, "only generic XDP", "another NIC"},
		{"kernel that does not report features", driver, func(l *Link) { l.Features, l.Driver = Features{}, "" }, OK, "unknown", ""},
		{"zero-copy that would cut packets", driver, func(l *Link) { l.Driver, l.Truncates = "igb", errors.New("rounds down") }, Warn, "igb, no zero-copy: rounds down", "none needed"},
		{"bond", linkState, func(l *Link) { l.Refusal = &netdev.Refusal{Reason: "lan0 is a bond", Hint: "use a VLAN"} }, Fail, "lan0 is a bond", "use a VLAN"},
		{"mode that is not tried", mode, nil, OK, "try with `bin/warproute doctor --try --port lan0`", ""},
		{"mode of a port that is in use", mode, func(l *Link) { l.XDP = "native" }, OK, "cannot be opened", ""},
		{"zero-copy, tried", mode, func(l *Link) { l.Trial = &Trial{Mode: afxdp.ZeroCopy} }, OK, "zero-copy, tried", ""},
		{"native, tried", mode, func(l *Link) { l.Trial = &Trial{Mode: afxdp.Native, Reason: "bind: invalid argument"} }, OK, "not zero-copy: bind: invalid argument", ""},
		{"generic, tried", mode, func(l *Link) { l.Trial = &Trial{Mode: afxdp.Generic, Reason: "Too few free TX rings"} }, Warn, "not native: Too few free TX rings", "native XDP is faster"},
		{"a port that does not open", mode, func(l *Link) { l.Trial = &Trial{Err: errors.New("no memory")} }, Fail, "open failed: no memory", "error"},
		{"queues", queues, nil, OK, "2", ""},
		{"more queues than cores", queues, func(l *Link) { l.Queues, l.TxQueues = 64, 64 }, Warn, "64", "sudo ethtool -L lan0 combined 4"},
		{"queues that cannot transmit", queues, func(l *Link) { l.TxQueues = 1 }, Fail, "2 receive and 1 transmit queues", "sudo ethtool -L lan0 rx 1 tx 1"},
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
		{"LRO", offloads, func(l *Link) { l.Flags = flagLRO }, Warn, "LRO", "sudo ethtool -K lan0 lro off"},
		{"VLAN stripping", offloads, func(l *Link) { l.Flags = flagRxVLAN }, Warn, "VLAN", "sudo ethtool -K lan0 rxvlan off"},
		{"veth", offloads, func(l *Link) { l.Driver = "veth" }, Warn, "VLAN", "ethtool -K PEER txvlan off"},
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
