package afxdp

import (
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/warproute/warproute/internal/netdev"
)

// The message of the driver, and what to do about it, are in the reason for generic mode.
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

// Asking for the message leaves no program attached, though the driver takes it this time,
// and never replaces another's.
func TestAskingTheDriverLeavesNoProgram(t *testing.T) {
	enterNamespace(t)
	addVeth(t, "ra", "a", 1)
	l, err := netlink.LinkByName("ra")
	if err != nil {
		t.Fatal(err)
	}
	load := func() *program {
		p, err := loadProgram(1, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.close() })
		return p
	}
	const driverMode = 1 << 2 // XDP_FLAGS_DRV_MODE
	asking := load()
	if message := netdev.WhyNotAttached(l.Attrs().Index, asking.Steer.FD(), driverMode); message != "" || attached(t, "ra") {
		t.Errorf("message %q, a program is left: %v", message, attached(t, "ra"))
	}
	other := load()
	if err := netlink.LinkSetXdpFdWithFlags(l, other.Steer.FD(), driverMode); err != nil {
		t.Fatal(err)
	}
	if message := netdev.WhyNotAttached(l.Attrs().Index, asking.Steer.FD(), driverMode); message == "" || !attached(t, "ra") {
		t.Errorf("message %q, the other program is still attached: %v", message, attached(t, "ra"))
	}
	if l, err = netlink.LinkByName("ra"); err != nil {
		t.Fatal(err)
	}
	info, err := other.Steer.Info()
	if err != nil {
		t.Fatal(err)
	}
	if id, _ := info.ID(); l.Attrs().Xdp.ProgId != uint32(id) {
		t.Errorf("program %d is attached, want %d", l.Attrs().Xdp.ProgId, id)
	}
}
