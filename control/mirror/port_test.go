package mirror

import (
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

func TestPortChanges(t *testing.T) {
	w := newWorld(t)
	w.ip("link set lan address 02:00:00:00:00:aa", "link set wan address 02:00:00:00:00:bb")
	w.start()
	expect := func(events ...string) {
		t.Helper()
		w.note(func() {
			if !slices.Equal(w.events, events) {
				t.Errorf("hooks reported %q, want %q", w.events, events)
			}
			w.events = nil
		})
	}
	expect("lan 02:00:00:00:00:aa mtu 1500 up true", "wan 02:00:00:00:00:bb mtu 1500 up true")
	w.ip("link set wan mtu 1400")
	expect("wan 02:00:00:00:00:bb mtu 1400 up true")
	w.ip("link set lan address 02:00:00:00:00:a2")
	expect("lan 02:00:00:00:00:a2 mtu 1500 up true")
	if p := w.fib.Port(0); p.MAC().String() != "02:00:00:00:00:a2" || p.MTU() != 1500 {
		t.Errorf("port 0 has %v and an MTU of %d", p.MAC(), p.MTU())
	}
	w.ip("link set lan down")
	expect("lan 02:00:00:00:00:a2 mtu 1500 up false")
	if got := w.fib.Port(0).MTU(); got != 0 {
		t.Errorf("a port that is down has an MTU of %d in the FIB, want 0", got)
	}
}

func TestPortIsDeletedAndCreatedAgain(t *testing.T) {
	w := newWorld(t)
	w.ip(known...)
	w.start()
	w.ip("route add 20.0.0.0/8 via 10.1.0.2", "route add 21.0.0.0/8 nexthop via 10.1.0.2 nexthop via 10.2.0.2")
	w.ip("link del lan")
	w.want("20.0.0.1", "none", "10.1.0.9", "none", "10.1.0.1", "none", "21.0.0.1", "none")
	w.note(func() { w.events = nil })

	w.join("lan")
	w.ip("addr add 10.1.0.1/24 dev lan", "route add 20.0.0.0/8 via 10.1.0.2", known[0])
	w.want("20.0.0.1", lan2, "10.1.0.9", "lan ?", "10.1.0.2", lan2)
	w.note(func() {
		if len(w.events) == 0 || w.events[0] != "lan back" {
			t.Errorf("hooks reported %q, want \"lan back\" first", w.events)
		}
	})
	w.sameAsFresh()
}

// A new link that PortBack refuses stays down: its packets are dropped. PortBack is called once for
// each time the link is set up.
func TestRefusedPortStaysDown(t *testing.T) {
	w := newWorld(t)
	w.refusePorts = true
	w.ip(known...)
	w.start()
	w.ip("link del lan")
	w.note(func() { w.events = nil })
	w.join("lan")
	w.ip("addr add 10.1.0.1/24 dev lan", "route add 20.0.0.0/8 via 10.1.0.2", known[0], "link set lan mtu 1400", "link set lan down", "link set lan up")
	w.m.settle()
	if got := w.fib.Port(0).MTU(); got != 0 {
		t.Errorf("the port has an MTU of %d in the FIB, want 0", got)
	}
	if r, ok := w.m.Lookup(netip.MustParseAddr("20.0.0.1")); ok && r.Kind == "forward" {
		t.Errorf("a route by the refused port: %v", r)
	}
	w.note(func() {
		if !slices.Equal(w.events, []string{"lan back", "lan back"}) {
			t.Errorf("hooks: %q", w.events)
		}
	})
}

// A port that was moved to another namespace has lost its sockets, even if it returns with its
// index: PortBack decides.
func TestPortReturnsFromAnotherNamespace(t *testing.T) {
	w := newWorld(t)
	w.refusePorts = true
	w.start()
	inside := func(ns *lab.Namespace) string {
		p, err := ns.Start(exec.Command("sleep", "60"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = p.Stop(time.Second) })
		return strconv.Itoa(p.Pid())
	}
	elsewhere := newNamespace(t, "elsewhere")
	here, there := inside(w.router), inside(elsewhere)
	was := w.m.ports[0].Ifindex
	w.ip("link set lan netns " + there)
	w.note(func() { w.events = nil })
	_, err := w.batch(elsewhere, "link set lan netns "+here)
	require.NoError(t, err)
	w.ip("link set lan up")
	if link, err := w.router.Link("lan"); err != nil || link.Attrs().Index != was {
		t.Fatalf("it came back as %v (%v), so this test tests nothing", link, err)
	}
	w.note(func() {
		if !slices.Equal(w.events, []string{"lan back"}) {
			t.Errorf("hooks: %q", w.events)
		}
	})
}

// A port that was deleted and created while events were lost is found by the dump alone.
func TestPortReplacedDuringLostEvents(t *testing.T) {
	w := newWorld(t)
	w.ip(known...)
	w.start()
	w.ip("route add 20.0.0.0/8 via 10.1.0.2")
	w.want("20.0.0.1", lan2)
	w.note(func() { w.events = nil })
	w.m.do(func() { // simulates that the port was another link
		const before = 4711
		s := &w.m.state
		now := s.ports[0].ifindex
		s.links[before] = s.links[now]
		s.links[before].Index = before
		delete(s.links, now)
		s.ports[0].ifindex, s.ports[0].Ifindex = before, before
		w.m.resynchronize()
	})
	w.m.settle()
	w.want("20.0.0.1", lan2, "10.1.0.9", "lan ?")
	w.note(func() {
		if !slices.Contains(w.events, "lan back") {
			t.Errorf("hooks reported %q, not that lan is back", w.events)
		}
	})
	w.sameAsFresh()
}
