package mirror

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/internal/require"
)

// setVRF adds link 1 to a VRF or removes it.
func (s *state) setVRF(in bool) {
	l := s.links[1].Link
	if l.Master, l.SlaveOf = 0, ""; in {
		l.Master, l.SlaveOf = 9, "vrf"
	}
	s.setLink(&l)
	s.writeChanges()
}

// A port in a VRF neither forwards nor receives until it is removed from the VRF or deleted: the
// hook pauses it.
func TestPortInVRFIsPaused(t *testing.T) {
	s := newState(t)
	var calls []string
	s.hooks.PortPaused = func(port int, paused bool) { calls = append(calls, fmt.Sprint(port, " paused ", paused)) }
	s.hooks.PortGone = func(port int) { calls = append(calls, fmt.Sprint(port, " gone")) }
	gateway := netip.MustParseAddr("10.0.0.1")
	neighbor := rtnl.Neighbor{Family: unix.AF_INET, Index: 1, Addr: gateway, State: unix.NUD_PERMANENT, Address: [6]byte{2, 0, 0, 0, 1, 2}}
	s.setNeighbor(&neighbor, false)
	addRoute := func() {
		s.addRoute(&rtnl.Route{Family: unix.AF_INET, Type: unix.RTN_UNICAST, Table: unix.RT_TABLE_MAIN, Dst: netip.MustParsePrefix("20.0.0.0/8"),
			Paths: []rtnl.Path{{Index: 1, Gateway: gateway, Weight: 1}}}, unix.NLM_F_CREATE)
		s.writeChanges()
	}
	addRoute()
	expect := func(outcomeWant string, mtu uint16, callsWant ...string) {
		t.Helper()
		if got := outcome(s.fib, netip.MustParseAddr("20.0.0.1")); got != outcomeWant {
			t.Errorf("packets by the port: %q, want %q", got, outcomeWant)
		}
		if got := s.fib.Port(0).MTU(); got != mtu {
			t.Errorf("the port has an MTU of %d in the FIB, want %d", got, mtu)
		}
		if !slices.Equal(calls, callsWant) {
			t.Errorf("hooks: %q, want %q", calls, callsWant)
		}
		calls = nil
		checkState(t, s)
	}
	expect("lan 02:00:00:00:01:02", 1500)
	s.setVRF(true)
	expect("none", 0, "0 paused true") // Linux deletes the routes over the link
	addRoute()
	expect("no port", 0)
	s.setNeighbor(&neighbor, false) // the link is not a port now
	s.setTestLink(2, true)          // a new link
	expect("no port", 0)
	s.setVRF(false)
	addRoute()
	if !s.suspects.all {
		t.Error("the neighbors of the link are not requested again")
	}
	s.setNeighbor(&neighbor, false)
	s.writeChanges()
	expect("lan 02:00:00:00:01:02", 1500, "0 paused false")
	s.setVRF(true)
	addRoute()
	calls = calls[1:]
	s.deleteLink(1)
	s.writeChanges()
	expect("no port", 0, "0 paused false", "0 gone")
}

func TestStartRefusesPortInVRF(t *testing.T) {
	s := newState(t)
	require.NoError(t, s.checkPorts())
	s.setLink(&rtnl.Link{Index: 9, Name: "red"})
	s.setVRF(true)
	if err := s.checkPorts(); err == nil || !strings.Contains(err.Error(), "port lan: member of VRF red") || !strings.Contains(err.Error(), "ip link set lan nomaster") {
		t.Errorf("%v", err)
	}
}

// A member of a bond or team is paused like a member of a VRF, and cannot be a port at the start. A
// member of a bridge stays a port.
func TestPortInBondIsPaused(t *testing.T) {
	for kind, want := range map[string]bool{"bond": true, "team": true, "bridge": false} {
		s := newState(t)
		paused := false
		s.hooks.PortPaused = func(_ int, is bool) { paused = is }
		l := s.links[1].Link
		l.Master, l.SlaveOf = 9, kind
		s.setLink(&l)
		s.writeChanges()
		if paused != want || (s.fib.Port(0).MTU() == 0) != want {
			t.Errorf("the port is in a %s: paused %v, MTU %d", kind, paused, s.fib.Port(0).MTU())
		}
		if err := s.checkPorts(); (err != nil) != want || err != nil && !strings.Contains(err.Error(), "port lan: member of "+kind) {
			t.Errorf("a start with a port in a %s: %v", kind, err)
		}
		l.Master, l.SlaveOf = 0, ""
		s.setLink(&l)
		s.writeChanges()
		if paused || s.fib.Port(0).MTU() == 0 {
			t.Errorf("the port has left the %s: paused %v, MTU %d", kind, paused, s.fib.Port(0).MTU())
		}
		checkState(t, s)
	}
}
