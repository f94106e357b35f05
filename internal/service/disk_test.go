package service

import (
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
)

// hungDisk is a store on a disk that blocks until answer is closed.
type hungDisk struct {
	store
	entered chan string
	answer  chan struct{}
}

func (d *hungDisk) wait(what string) {
	select {
	case d.entered <- what:
	default:
	}
	<-d.answer
}

func (d *hungDisk) Extend() error { d.wait("extend"); return d.store.Extend() }
func (d *hungDisk) Note() error   { d.wait("note"); return d.store.Note() }
func (d *hungDisk) Release(l ...*ipsec.SA) error {
	d.wait("release")
	return d.store.Release(l...)
}

// soon fails if f waits for the disk.
func soon(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Errorf("%s: waits for the disk", what)
	}
}

// A hung disk blocks only its writers, and no packet leaves with an unreserved sequence number.
func TestHungDiskBlocksOnlyItsWriters(t *testing.T) {
	p := protect(t, t.TempDir(), outbound("a", 0x100, 1), outbound("b", 0x101, 2))
	disk := &hungDisk{store: p.store, entered: make(chan string, 1), answer: make(chan struct{})}
	p.store = disk
	s := &Service{ipsec: p, log: slog.New(slog.DiscardHandler), ports: ports{Set: &afxdp.Set{}, local: map[netip.Addr]bool{}, links: make([]link, 1)}}
	stop := s.startIPsecTimers()
	answered := false
	answer := func() {
		if !answered {
			answered = true
			close(disk.answer)
		}
	}
	defer stop()
	defer answer()
	<-disk.entered

	clock := p.gateway.Clock.Now()
	soon(t, "SAs, for snapshots and metrics", func() {
		s.withGateway(func(g *gateway.Gateway) {
			n := 0
			for range g.All {
				n++
			}
			if n != 2 || len(g.Traffic()) == 0 {
				t.Errorf("%d SAs, want 2", n)
			}
		})
	})
	soon(t, "the engine's state", func() { s.engine.current() })
	soon(t, "addresses", func() {
		s.ports.mu.Lock()
		s.ports.local[netip.MustParseAddr("10.7.0.1")] = true
		s.ports.mu.Unlock()
		if !s.ports.isLocal(netip.MustParseAddr("10.7.0.1")) {
			t.Error("an address is not local")
		}
	})
	soon(t, "a link that changes", func() {
		s.ports.mu.Lock()
		s.ports.links[0].up = true
		s.ports.mu.Unlock()
	})

	send := func(name string) ipsec.Error {
		buf := make([]byte, 512)
		n := copy(buf[128:], testutil.UDP4("10.7.0.1", "10.8.0.1", 1, 2)[packet.EthernetLen:])
		_, _, e := p.sas[name].Encapsulate(0, buf, 128, n)
		return e
	}
	if e := send("a"); e != ipsec.OK {
		t.Errorf("while the disk hangs: %v", e)
	}
	if _, n := p.sas["a"].Reserve(1 << 30); n == 0 || n == 1<<30 {
		t.Errorf("%d more sequence numbers without the disk", n)
	}
	if e := send("a"); e != ipsec.OutStateSeqError {
		t.Errorf("without reserved sequence numbers: %v", e)
	}
	if e := send("b"); e != ipsec.OK {
		t.Errorf("another SA: %v", e)
	}
	for by := time.Now().Add(5 * time.Second); p.gateway.Clock.Now() == clock; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(by) {
			t.Fatal("the SAs' clock stands still while the disk hangs")
		}
	}
	answer()
	for by := time.Now().Add(5 * time.Second); send("a") != ipsec.OK; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(by) {
			t.Fatal("no sequence numbers after the disk answers again")
		}
	}
}
