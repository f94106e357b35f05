// Package privilege reduces what the process of a router may do: capabilities, user, system calls, core dumps
// and swap.
package privilege

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Capability is a capability that a running router keeps.
type Capability struct {
	Name string // see capabilities(7)
	Bit  int
	Why  string // what needs it after the start
}

// Kept lists the capabilities of a running router. docs/install.md, the unit and the manifests of containers have
// the same list.
var Kept = []Capability{
	{"CAP_NET_ADMIN", unix.CAP_NET_ADMIN, "attach XDP to ports that come or return; neighbors, XFRM, nftables and tc by netlink; TUN devices"},
	{"CAP_NET_RAW", unix.CAP_NET_RAW, "open AF_XDP sockets of ports that come or return"},
	{"CAP_BPF", unix.CAP_BPF, "load XDP programs of ports that come or return; change BPF maps before Linux 5.19"},
	{"CAP_PERFMON", unix.CAP_PERFMON, "load XDP programs in Linux 6.1 and others whose verifier requires it"},
	{"CAP_IPC_LOCK", unix.CAP_IPC_LOCK, "packet memory of ports that come, and no swap, above the limit of locked memory"},
}

// Realtime is kept in addition with `napi: thread`.
var Realtime = Capability{"CAP_SYS_NICE", unix.CAP_SYS_NICE, "give real-time priority to NAPI threads of ports that come or return"}

// Set is a set of capabilities: bit n is capability n.
type Set uint64

func (s Set) has(bit int) bool { return s>>bit&1 != 0 }

// String returns the names of the kept capabilities in the set, and numbers for others.
func (s Set) String() string {
	var names []string
	for _, c := range append(Kept[:len(Kept):len(Kept)], Realtime) {
		if s.has(c.Bit) {
			names = append(names, c.Name)
			s &^= 1 << c.Bit
		}
	}
	for bit := range 64 {
		if s.has(bit) {
			names = append(names, fmt.Sprintf("capability %d", bit))
		}
	}
	return strings.Join(names, " ")
}

// kept returns the capabilities that a running router needs.
func kept(realtime bool) (s Set) {
	for _, c := range Kept {
		s |= 1 << c.Bit
	}
	if realtime {
		s |= 1 << Realtime.Bit
	}
	return s
}

var header = unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}

// permitted returns the permitted capabilities of the calling thread.
func permitted() (Set, error) {
	h := header
	var data [2]unix.CapUserData // version 3: 64 bits in two words
	if err := unix.Capget(&h, &data[0]); err != nil {
		return 0, fmt.Errorf("read capabilities: %w", err)
	}
	return Set(data[1].Permitted)<<32 | Set(data[0].Permitted), nil
}

// setThread makes a set the permitted, effective, inheritable and ambient capabilities of the calling thread.
func setThread(s Set) error {
	h, low, high := header, uint32(s), uint32(s>>32)
	data := [2]unix.CapUserData{{Effective: low, Permitted: low, Inheritable: low}, {Effective: high, Permitted: high, Inheritable: high}}
	if err := unix.Capset(&h, &data[0]); err != nil {
		return fmt.Errorf("set capabilities %v: %w", s, err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	for bit := range 64 {
		if s.has(bit) {
			if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(bit), 0, 0); err != nil {
				return fmt.Errorf("raise ambient capability %d: %w", bit, err)
			}
		}
	}
	return nil
}

// bound removes all capabilities but a set from the bounding set of the calling thread. It needs CAP_SETPCAP.
func bound(s Set) error {
	for bit := range 64 {
		if s.has(bit) {
			continue
		}
		in, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(bit), 0, 0, 0)
		if err != nil { // the kernel has no such capability
			return nil
		}
		if in == 1 {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(bit), 0, 0, 0); err != nil {
				return fmt.Errorf("drop capability %d from the bounding set: %w", bit, err)
			}
		}
	}
	return nil
}
