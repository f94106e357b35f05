package afxdp

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// attached says whether an XDP program is on the interface.
func attached(t *testing.T, name string) bool {
	t.Helper()
	l, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return l.Attrs().Xdp != nil && l.Attrs().Xdp.Attached
}

// works sends a frame through the port.
func works(t *testing.T, s *Set) {
	t.Helper()
	newWire(t, "a").send(udp(s.Ports[0].MAC, 1, 1, 60))
	if got := receiveAll(s.Ports[0].Queues(0), 1); len(got) != 1 {
		t.Fatal("the port received nothing")
	}
}

func TestParseMode(t *testing.T) {
	for _, m := range []Mode{Auto, ZeroCopy, Native, Generic} {
		if got, err := ParseMode(m.String()); got != m || err != nil {
			t.Errorf("ParseMode(%q) = %v, %v", m, got, err)
		}
	}
	const want = `XDP mode "zerocopy": take one of auto, zero-copy, native, generic`
	if _, err := ParseMode("zerocopy"); err == nil || err.Error() != want {
		t.Errorf("ParseMode of no mode:\n got %v\nwant %s", err, want)
	}
}

// TestOpenRefuses expects errors that say what was tried, what stood against it
// and how to mend it, and nothing left behind.
func TestOpenRefuses(t *testing.T) {
	enterNamespace(t)
	addVeth(t, "ra", "a", 1)
	addVeth(t, "rb", "b", 1)
	addVeth(t, "jumbo", "j", 1)
	setMTU(t, "jumbo", 9000)
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.NumRxQueues, attrs.NumTxQueues = "narrow", 1, 1
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "n", PeerNumTxQueues: 2, PeerNumRxQueues: 2}); err != nil {
		t.Fatal(err)
	}
	attrs.Name, attrs.NumRxQueues, attrs.NumTxQueues = "mute", 2, 1
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "d"}); err != nil {
		t.Fatal(err)
	}
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
			"open ports: port rb is to be zero-copy and port ra generic: give both the same mode, because ports that exchange frames share memory"},
		{"no such mode", Config{Ports: ports(7, "ra"), Workers: one},
			"open ports: port ra: XDP mode 7 does not exist"},
		{"ring size", Config{Ports: ports(Auto, "ra"), Workers: one, RingSize: 1000},
			"open ports: ring size 1000: take a power of two up to 32768"},
		{"busy polling below a microsecond", Config{Ports: ports(Auto, "ra"), Workers: one, BusyPoll: 20},
			"open ports: busy polling for 20ns: take a microsecond or more, or 0 to turn it off"},
		{"a missing interface", Config{Ports: ports(Auto, "ra", "eth7"), Workers: one},
			"open port eth7: look up the interface: route ip+net: no such network interface (`ip link` lists those of this network namespace)"},
		{"not Ethernet", Config{Ports: ports(Auto, "lo"), Workers: one},
			"open port lo: not an Ethernet interface: it has no MAC address"},
		{"frames larger than memory's", Config{Ports: ports(Auto, "jumbo"), Workers: one},
			"open port jumbo: MTU of 9000: a frame in memory holds 1776 at most (`ip link set jumbo mtu 1776`)"},
		{"more workers than queues", Config{Ports: ports(Auto, "ra"), Workers: []WorkerMemory{worker, worker}},
			"open port ra: fewer queues (1) than workers (2): each worker needs one of every port (more by `ethtool -L ra`, or fewer workers)"},
		{"zero-copy on a veth", Config{Ports: ports(ZeroCopy, "ra"), Workers: one},
			"open queue 0 of port ra: bind zero-copy: operation not supported (the driver cannot do this mode: take auto, native or generic)"},
		{"a queue that cannot transmit", Config{Ports: ports(Auto, "mute"), Workers: one},
			"open port mute: fewer transmit queues (1) than receive queues (2): each queue must do both (`ethtool -L mute rx 1 tx 1`)"},
		{"native on a veth with fewer queues than its peer", Config{Ports: ports(Native, "ra", "narrow"), Workers: one},
			"open port narrow: attach the XDP program in native mode: failed to attach link: create link: no space left on device: veth: XDP expects number of rx queues not less than peer tx queues (on veth, it needs as many receive queues as its peer has transmit queues: `ethtool -L`, or take mode generic)"},
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

// TestAutoFallsBack expects the best mode of each port and the reason why it is
// not a better one.
func TestAutoFallsBack(t *testing.T) {
	enterNamespace(t)
	addVeth(t, "rb", "b", 1)
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.NumRxQueues, attrs.NumTxQueues = "ra", 1, 1
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "a", PeerNumTxQueues: 2, PeerNumRxQueues: 2}); err != nil {
		t.Fatal(err)
	}
	setUp(t, "ra", true)
	setUp(t, "a", true)
	s := open(t, Config{Ports: ports(Auto, "ra", "rb"), Workers: []WorkerMemory{newWorker(t, 64)}, RingSize: 64})
	for i, want := range []struct {
		mode   Mode
		reason string
	}{
		{Generic, "attach the XDP program in native mode: failed to attach link: create link: no space left on device: veth: XDP expects number of rx queues not less than peer tx queues (on veth, it needs as many receive queues as its peer has transmit queues: `ethtool -L`, or take mode generic)"},
		{Native, "port ra has generic XDP only, and all share memory"},
	} {
		if p := s.Ports[i]; p.Mode != want.mode || p.ModeReason != want.reason {
			t.Errorf("%s: mode %v because %q, want %v because %q", p.Name, p.Mode, p.ModeReason, want.mode, want.reason)
		}
	}
	works(t, s)
}

// TestEveryPortNamesWhichOneHasNoZeroCopy has two ports, of which the first to be opened tells.
func TestEveryPortNamesWhichOneHasNoZeroCopy(t *testing.T) {
	enterNamespace(t)
	addVeth(t, "ra", "a", 1)
	addVeth(t, "rb", "b", 1)
	s := open(t, Config{Ports: ports(Auto, "ra", "rb"), Workers: []WorkerMemory{newWorker(t, 64)}, RingSize: 64})
	for _, p := range s.Ports {
		if want := "open queue 0 of port ra: bind zero-copy: operation not supported, and all share memory"; p.ModeReason != want {
			t.Errorf("%s: %v because %q, want %q", p.Name, p.Mode, p.ModeReason, want)
		}
	}
}

// TestReopen closes and opens at once, several times, with frames in the rings.
func TestReopen(t *testing.T) {
	for _, mode := range []Mode{Native, Generic} {
		t.Run(mode.String(), func(t *testing.T) {
			enterNamespace(t)
			addVeth(t, "ra", "a", 2)
			addVeth(t, "rb", "b", 2)
			for range 4 {
				w := newWorker(t, 1024)
				s, err := Open(Config{Ports: ports(mode, "ra", "rb"), Workers: []WorkerMemory{w}, RingSize: 64})
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Admit(); err != nil {
					t.Fatal(err)
				}
				works(t, s)
				s.Ports[1].Queues(0)[0].Transmit(compose(w, otherMAC, 10, 60))
				for range 2 {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
				}
				if attached(t, "ra") || attached(t, "rb") {
					t.Fatal("an XDP program is left after Close")
				}
			}
		})
	}
}

// TestDetachKeepsRings detaches a port that has frames in its RX ring, reads and
// transmits them.
func TestDetachKeepsRings(t *testing.T) {
	enterNamespace(t)
	addVeth(t, "ra", "a", 1)
	w := newWorker(t, 256)
	s := open(t, Config{Ports: ports(Native, "ra"), Workers: []WorkerMemory{w}, RingSize: 64})
	wire, q := newWire(t, "a"), s.Ports[0].Queues(0)[0]
	for i := range uint32(5) {
		wire.send(udp(s.Ports[0].MAC, 1, i, 60))
	}
	for range 2 {
		if err := s.Detach(); err != nil {
			t.Fatal(err)
		}
	}
	if attached(t, "ra") {
		t.Error("an XDP program is left after Detach")
	}
	wire.send(udp(s.Ports[0].MAC, 1, 99, 60))
	got := receiveAll([]*Queue{q}, 6)
	if len(got) != 5 {
		t.Errorf("%d frames received, want the 5 from before Detach", len(got))
	}
	transmitAll(t, q, got)
	for i := range got {
		if wire.receive() == nil {
			t.Errorf("frame %d was not transmitted", i)
		}
	}
}

// TestInterfaceDeleted takes the interface away under an open port.
func TestInterfaceDeleted(t *testing.T) {
	for _, mode := range []Mode{Native, Generic} {
		t.Run(mode.String(), func(t *testing.T) {
			enterNamespace(t)
			addVeth(t, "ra", "a", 1)
			addVeth(t, "rb", "b", 1)
			w := newWorker(t, 256)
			s := open(t, Config{Ports: ports(mode, "ra", "rb"), Workers: []WorkerMemory{w}, RingSize: 64})
			l, err := netlink.LinkByName("rb")
			if err != nil {
				t.Fatal(err)
			}
			if err := netlink.LinkDel(l); err != nil {
				t.Fatal(err)
			}
			q := s.Ports[1].Queues(0)[0]
			q.Refill()
			if got := receiveAll([]*Queue{q}, 1); len(got) != 0 {
				t.Errorf("%d frames received from an interface that is gone", len(got))
			}
			if n, pending := q.Transmit(compose(w, otherMAC, 10, 60)), q.Reclaim(); n != 10 || pending != 10 {
				t.Errorf("%d frames taken, %d pending, want 10: an interface that is gone sends nothing", n, pending)
			}
			if _, err := s.Ports[1].Stats(); err != nil {
				t.Error(err)
			}
			works(t, s)
		})
	}
}

// TestAdmit checks that Linux has every frame until the ports are told to let
// them in, also when their address changes before.
func TestAdmit(t *testing.T) {
	enterNamespace(t)
	addVeth(t, "ra", "a", 1)
	w := newWorker(t, 64)
	s, err := Open(Config{Ports: ports(Native, "ra"), Workers: []WorkerMemory{w}, RingSize: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p, sender := s.Ports[0], newWire(t, "a")
	if err := p.SetMAC(p.MAC); err != nil {
		t.Fatal(err)
	}
	frame := udp(p.MAC, 1, 2, 60)
	sender.send(frame)
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		st, err := p.Stats()
		if err != nil {
			t.Fatal(err)
		}
		if st.Frames[OtherMAC] > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the frame did not go to Linux: %v", st.Frames)
		}
	}
	if err := s.Admit(); err != nil {
		t.Fatal(err)
	}
	sender.send(frame)
	if got := receiveAll(p.Queues(0), 1); len(got) != 1 || !bytes.Equal(bytesOf(w, got[0]), frame) {
		t.Errorf("received %v after Admit", got)
	}
}

// What a port that is lent receives is Linux's, whatever its address becomes and though
// the others are admitted meanwhile.
func TestLend(t *testing.T) {
	enterNamespace(t)
	addVeth(t, "ra", "a", 1)
	w := newWorker(t, 64)
	s := open(t, Config{Ports: ports(Native, "ra"), Workers: []WorkerMemory{w}, RingSize: 64})
	p, sender := s.Ports[0], newWire(t, "a")
	frame := udp(p.MAC, 1, 2, 60)
	for _, again := range []func() error{func() error { return nil }, func() error { return p.SetMAC(p.MAC) }, s.Admit} {
		before, err := p.Stats()
		if err = errors.Join(err, p.Lend(), again()); err != nil {
			t.Fatal(err)
		}
		sender.send(frame)
		if got := receiveAll(p.Queues(0), 1); len(got) != 0 {
			t.Fatalf("received %v from a port that is lent", got)
		}
		if after, err := p.Stats(); err != nil || after.Frames[OtherMAC] != before.Frames[OtherMAC]+1 {
			t.Errorf("Linux got %d frames (%v)", after.Frames[OtherMAC]-before.Frames[OtherMAC], err)
		}
		if err := p.Recall(); err != nil {
			t.Fatal(err)
		}
		sender.send(frame)
		if got := receiveAll(p.Queues(0), 1); len(got) != 1 {
			t.Fatal("nothing is received from a port that was taken back")
		}
	}
}
