package afxdp

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/internal/require"
)

// The reason for generic mode has the driver's message and a hint.
func TestFallbackHasTheDriversMessage(t *testing.T) {
	enterNamespace(t)
	addVeth(t, "ra", "a", 1)
	setMTU(t, "a", 9000)
	s := open(t, Config{Ports: ports(Auto, "ra"), Workers: []WorkerMemory{newWorker(t, 64)}, RingSize: 64})
	p := s.Ports[0]
	if p.Mode != Generic {
		t.Fatalf("mode %v, want generic, because the MTU of the peer is 9000", p.Mode)
	}
	for _, want := range []string{"Peer MTU is too large to set XDP", "the MTU of the interface or its peer is too large: lower it"} {
		if !strings.Contains(p.ModeReason, want) {
			t.Errorf("the reason lacks %q: %s", want, p.ModeReason)
		}
	}
	works(t, s)
}

// WhyNotAttached leaves no program attached, even if the driver accepts it now, and never replaces
// another program.
func TestWhyNotAttachedLeavesNoProgram(t *testing.T) {
	enterNamespace(t)
	addVeth(t, "ra", "a", 1)
	l, err := netlink.LinkByName("ra")
	require.NoError(t, err)
	load := func() *program {
		p, err := loadProgram(0, 1, nil, false)
		require.NoError(t, err)
		t.Cleanup(func() { p.close() })
		return p
	}
	const driverMode = 1 << 2 // XDP_FLAGS_DRV_MODE
	asking := load()
	if message := netdev.WhyNotAttached(l.Attrs().Index, asking.Steer.FD(), driverMode); message != "" || attached(t, "ra") {
		t.Errorf("message %q, a program is left: %v", message, attached(t, "ra"))
	}
	other := load()
	require.NoError(t, netlink.LinkSetXdpFdWithFlags(l, other.Steer.FD(), driverMode))
	if message := netdev.WhyNotAttached(l.Attrs().Index, asking.Steer.FD(), driverMode); message == "" || !attached(t, "ra") {
		t.Errorf("message %q, the other program is still attached: %v", message, attached(t, "ra"))
	}
	l, err = netlink.LinkByName("ra")
	require.NoError(t, err)
	info, err := other.Steer.Info()
	require.NoError(t, err)
	if id, _ := info.ID(); l.Attrs().Xdp.ProgId != uint32(id) {
		t.Errorf("program %d is attached, want %d", l.Attrs().Xdp.ProgId, id)
	}
}

// The hint detaches the program of any owner, by link or netlink.
func TestHintDetachesTheProgram(t *testing.T) {
	enterNamespace(t)
	addVeth(t, "ra", "a", 1)
	l, err := netlink.LinkByName("ra")
	require.NoError(t, err)
	index := l.Attrs().Index
	p, err := loadProgram(0, 1, nil, false)
	require.NoError(t, err)
	t.Cleanup(func() { p.close() })
	info, err := p.Steer.Info()
	require.NoError(t, err)
	id, _ := info.ID()
	find := func(mode string) Attached {
		t.Helper()
		got, is, err := netdev.XDPProgram(index)
		if err != nil || got != uint32(id) || is != mode {
			t.Fatalf("program %d in mode %s, want %d in %s: %v", got, is, id, mode, err)
		}
		return FindAttached("ra", index, is, got)
	}

	held, err := link.AttachXDP(link.XDPOptions{Program: p.Steer, Interface: index, Flags: link.XDPDriverMode})
	require.NoError(t, err)
	a := find("native")
	if a.Program != "steer" || a.Link == 0 || !strings.HasPrefix(a.Owner, "afxdp.test (pid ") ||
		!strings.HasSuffix(a.Hint(), fmt.Sprint("sudo bpftool link detach id ", a.Link)) {
		t.Errorf("held by a link: %+v, %v, %s", a, a, a.Hint())
	}
	// The effect of the command; `ip link set ra xdpdrv off` has none.
	if err := netlink.LinkSetXdpFdWithFlags(l, -1, 1<<2); err == nil {
		t.Error("netlink detaches what a link holds")
	}
	other, err := link.NewFromID(link.ID(a.Link))
	require.NoError(t, err)
	require.NoError(t, other.Detach())
	other.Close()
	held.Close()
	if got, _, _ := netdev.XDPProgram(index); got != 0 {
		t.Fatalf("program %d is attached after its link was detached", got)
	}

	if err := netlink.LinkSetXdpFdWithFlags(l, p.Steer.FD(), 1<<1); err != nil { // XDP_FLAGS_SKB_MODE
		t.Fatal(err)
	}
	a = find("generic")
	if a.Link != 0 || a.Owner != "" || !strings.HasSuffix(a.Hint(), "or: sudo ip link set dev ra xdpgeneric off") {
		t.Errorf("set by netlink: %+v, %s", a, a.Hint())
	}
	if err := netlink.LinkSetXdpFdWithFlags(l, -1, 1<<1); err != nil {
		t.Error(err)
	}
}

// A running router has dropped CAP_SYS_ADMIN, which listing BPF links takes.
func TestHintWithoutPermissionNamesDoctor(t *testing.T) {
	runtime.LockOSThread() // the thread ends with the goroutine, with its capabilities
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	require.NoError(t, unix.Capget(&header, &data[0]))
	data[0].Effective &^= 1 << unix.CAP_SYS_ADMIN
	require.NoError(t, unix.Capset(&header, &data[0]))
	a := FindAttached("eth1", 1, "native", 1)
	if got, want := a.Hint(), "sudo warproute doctor --port eth1 finds its owner and how to detach it"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
