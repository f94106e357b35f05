package doctor

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/mirror"
	"github.com/warproute/warproute/control/netfilter"
	"github.com/warproute/warproute/control/xfrm"
	"github.com/warproute/warproute/internal/placement"
)

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
		{"locked memory beyond the limit", memlock, func(h *Host) { h.MayLock, h.LockedMax = false, 8<<20 }, Fail, "limit 8192 KiB, 45056 KiB or more needed", "LimitMEMLOCK=infinity"},
		{"locked memory of jumbo frames", memlock, func(h *Host) { h.MayLock, h.LockedMax, h.Jumbo = false, 8<<20, true }, Fail, "61440 KiB or more needed", "LimitMEMLOCK=infinity"},
		{"enough huge pages", hugePages, nil, OK, "100 free 2 MiB pages, 22 or more needed", ""},
		{"too few huge pages", hugePages, func(h *Host) {
			h.Root = root(hugeTotal, "10\n", hugeFree, "3\n")
		}, Warn, "3 free 2 MiB pages", "echo 29 | sudo tee /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"},
		{"huge pages of workers with a GPU", hugePages, func(h *Host) {
			h.Workers = 2 // each with one queue, and 8 chunks and one of 1024 frames more
			h.Root = root(hugeTotal, "40\n", hugeFree, "40\n",
				"dev/nvidia0", "", "dev/nvidiactl", "", "usr/lib64/libcuda.so.1", "")
		}, OK, "34 or more needed", ""},
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
				return []xfrm.Refused{{Policy: "0.0.0.0/0 to 0.0.0.0/0", Direction: "out", Reason: "has a mark", Hint: "change the policy"}}, nil
			}
		}, Warn, "0.0.0.0/0 to 0.0.0.0/0 (out): has a mark", "change the policy"},
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
			h.Survey = func([]mirror.Port) ([]mirror.UnsupportedRoutes, []string, error) {
				return []mirror.UnsupportedRoutes{{Reason: mirror.NoPort, Dev: "wg0", Routes: 4, Prefixes: []netip.Prefix{netip.MustParsePrefix("10.73.0.0/24")}}}, nil, nil
			}
		}, Warn, "4 over wg0 (10.73.0.0/24 and 3 more): routes leave by an interface that is not a port", "add the interface as a port"},
		{"a rule that is not followed", routes, func(h *Host) {
			h.surveyed = []mirror.Port{{Name: "lan0", Ifindex: 2}}
			h.Survey = func([]mirror.Port) ([]mirror.UnsupportedRoutes, []string, error) {
				return nil, []string{"policy rules are not supported: rule with priority 100"}, nil
			}
		}, Warn, "rule with priority 100", ""},
		{"cores", cores, nil, OK, "4", ""},
		{"a CPU that it may not use", cores, func(h *Host) {
			h.Placement = placement.Request{Workers: 1, Allowed: []int{0, 1, 2, 3}, Cores: []int{2, 9}}
		}, Fail, "CPU 9 is offline or not among those that the process may use (0-3)", "choose others"},
		{"fewer CPUs than queues", cores, func(h *Host) {
			h.Workers, h.Placement = 2, placement.Request{Allowed: []int{0, 1, 2, 3}, Cores: []int{2}}
		}, Fail, "cores names 1 of 2 CPUs", "set workers: 1"},
		{"a CPU for each worker", cores, func(h *Host) {
			h.Workers, h.Placement = 2, placement.Request{Workers: 1, Allowed: []int{0, 1, 2, 3}, Cores: []int{2}}
		}, OK, "4", ""},
		{"one core", cores, func(h *Host) { h.Cores = 1 }, Warn, "1, shared", "two cores"},
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
