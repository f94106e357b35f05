package service

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
)

// inbound is an association to receive by.
func inbound(name string, spi uint32, key byte) config.SA {
	return config.SA{
		Name: name, SPI: spi, Direction: config.DirectionIn, Mode: config.SATunnel, Src: netip.MustParseAddr("192.0.2.2"), Dst: netip.MustParseAddr("192.0.2.1"),
		Suite: "aes128gcm16", Key: config.NewKey(bytes.Repeat([]byte{key}, 20)), ReplayWindow: 64, DF: config.DFCopy,
	}
}

func outbound(name string, spi uint32, key byte) config.SA {
	sa := inbound(name, spi, key)
	sa.Direction, sa.Src, sa.Dst = config.DirectionOut, sa.Dst, sa.Src
	return sa
}

// policies protect what each association is for.
func policies(sas []config.SA) (list []config.Policy) {
	any := netip.MustParsePrefix("0.0.0.0/0")
	for _, sa := range sas {
		list = append(list, config.Policy{Direction: sa.Direction, Src: any, Dst: any, SrcPorts: config.AnyPort, DstPorts: config.AnyPort, Action: config.ActionProtect, SA: sa.Name})
	}
	return list
}

func protect(t *testing.T, state string, sas ...config.SA) *protection {
	t.Helper()
	idle := func() func() bool { return func() bool { return true } }
	p, err := newProtection(&config.IPsec{State: state, SAs: sas, Policies: policies(sas)}, 1, idle)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *protection) reload(sas ...config.SA) error {
	return p.apply(&config.IPsec{SAs: sas, Policies: policies(sas)})
}

// sender returns packets as the peer of an inbound association sends them.
func sender(t *testing.T, spi uint32, key byte) (next func() []byte) {
	t.Helper()
	s, err := ipsec.NewSA(ipsec.Config{SPI: spi, Src: netip.MustParseAddr("192.0.2.2"), Dst: netip.MustParseAddr("192.0.2.1"), Suite: "aes128gcm16", Key: bytes.Repeat([]byte{key}, 20)}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return func() []byte {
		buf := make([]byte, 512)
		n := copy(buf[128:], testutil.UDP4("10.8.0.1", "10.7.0.1", 1, 2)[packet.EthernetLen:])
		at, n, e := s.Encapsulate(0, buf, 128, n)
		if e != ipsec.OK {
			t.Fatal(e)
		}
		return buf[at : at+n]
	}
}

// receive says what becomes of a packet that arrives.
func (p *protection) receive(b []byte) ipsec.Error {
	b = bytes.Clone(b)
	spi, _, _ := ipsec.Inbound(b)
	s := p.gateway.Inbound(spi, ipsec.Destination(b))
	if s == nil {
		return ipsec.InNoStates
	}
	at, _, e := s.Decapsulate(0, b, 0, len(b))
	if e != ipsec.OK {
		return e
	}
	f := gateway.FlowIPv4(b[at:])
	return p.gateway.MayEnter(&f, s)
}

// What an association has received it does not take again when its configuration
// changes, unless that is its keys: then it is another one.
func TestReloadKeepsWhatWasReceived(t *testing.T) {
	p := protect(t, t.TempDir(), inbound("a", 0x100, 1))
	next := sender(t, 0x100, 1)
	old := next()
	if e := p.receive(old); e != ipsec.OK {
		t.Fatal(e)
	}
	for name, change := range map[string]func(*config.SA){
		"lifetime": func(sa *config.SA) { sa.Lifetime.Hard.Seconds = 1000 },
		"window":   func(sa *config.SA) { sa.ReplayWindow = 1024 },
		"name":     func(sa *config.SA) { sa.Name = "b" },
		"nothing":  func(*config.SA) {},
	} {
		sa := inbound("a", 0x100, 1)
		change(&sa)
		if err := p.reload(sa); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if e := p.receive(old); e != ipsec.InStateSeqError {
			t.Errorf("%s: a packet that was received before: %v", name, e)
		}
		if old = next(); p.receive(old) != ipsec.OK {
			t.Errorf("%s: the next packet is refused", name)
		}
	}
	if err := p.reload(inbound("a", 0x100, 2)); err != nil {
		t.Fatal(err)
	}
	if e := p.receive(sender(t, 0x100, 2)()); e != ipsec.OK {
		t.Errorf("with another key, whose sender begins anew: %v", e)
	}
}

// The new association waits for workers that still use the old one, whose numbers
// go on meanwhile.
func TestReloadWaitsForWorkers(t *testing.T) {
	p := protect(t, t.TempDir(), inbound("a", 0x100, 1))
	done := false
	p.passed = func() func() bool { return func() bool { return done } }
	next := sender(t, 0x100, 1)
	first, last := next(), next()
	old := p.sas["a"]
	sa := inbound("a", 0x100, 1)
	sa.ReplayWindow = 128
	if err := p.reload(sa); err != nil {
		t.Fatal(err)
	}
	if e := p.receive(first); e != ipsec.InNoStates {
		t.Errorf("while a worker uses the old association: %v", e)
	}
	if !old.Accept(2) { // by that worker
		t.Fatal("number 2 was received before")
	}
	done = true
	if err := p.tick(); err != nil {
		t.Fatal(err)
	}
	if e := p.receive(last); e != ipsec.InStateSeqError {
		t.Errorf("what the worker received is taken again: %v", e)
	}
	if e := p.receive(next()); e != ipsec.OK {
		t.Errorf("the next packet: %v", e)
	}
}

// A reload that fails in the middle changes nothing.
func TestAFailedReloadChangesNothing(t *testing.T) {
	state := t.TempDir()
	p := protect(t, state, inbound("a", 0x100, 1), outbound("b", 0x200, 2))
	before := p.sas["b"].Sequence()
	next := sender(t, 0x100, 1)
	third := func() config.SA { return outbound("c", 0x300, 4) }
	files := func() (names []string) {
		all, _ := filepath.Glob(filepath.Join(state, "*"))
		return all
	}
	known := files()
	if err := p.reload(inbound("a", 0x100, 1), outbound("b", 0x200, 2), third()); err != nil {
		t.Fatal(err)
	}
	if err := p.reload(inbound("a", 0x100, 1), outbound("b", 0x200, 2)); err != nil {
		t.Fatal(err)
	}
	if err := p.tick(); err != nil { // which ends the third
		t.Fatal(err)
	}
	for _, f := range files() {
		if !strings.Contains(strings.Join(known, " "), f) {
			if err := os.WriteFile(f, []byte("damaged"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := p.reload(inbound("a", 0x100, 3), outbound("b", 0x200, 5), third()); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Fatalf("%v", err)
	}
	if e := p.receive(next()); e != ipsec.OK {
		t.Errorf("the inbound association: %v", e)
	}
	f := gateway.FlowIPv4(testutil.UDP4("10.7.0.1", "10.8.0.1", 1, 2)[packet.EthernetLen:])
	if s, e := p.gateway.Protect(&f); s != p.sas["b"].SA || e != ipsec.OK || s.Sequence() != before {
		t.Errorf("the outbound one: %v, %v", s, e)
	}
	if err := p.reload(inbound("a", 0x100, 1), outbound("b", 0x200, 2)); err != nil {
		t.Errorf("the configuration before: %v", err)
	}
}

// Soft lifetimes are told, once, also of associations that nothing uses.
func TestSoftLifetimesAreTold(t *testing.T) {
	a, b := inbound("a", 0x100, 1), inbound("b", 0x101, 2)
	a.Lifetime.Soft.Packets, b.Lifetime.Soft.Packets = 2, 3
	p := protect(t, t.TempDir(), a, b)
	for _, spi := range []uint32{0x100, 0x101} {
		next := sender(t, spi, byte(spi-0xff))
		for range 2 {
			p.receive(next())
		}
	}
	if names := p.old(); len(names) != 1 || names[0] != "a" {
		t.Errorf("to be replaced: %q", names)
	}
	if names := p.old(); len(names) != 0 {
		t.Errorf("told again: %q", names)
	}
}

// Ages do not begin with the last packet that came.
func TestAgesBeginWithTheAssociation(t *testing.T) {
	p := protect(t, t.TempDir(), inbound("a", 0x100, 1))
	now := batch.Clock()
	if d := now - p.gateway.Clock.Now(); d > time.Second {
		t.Errorf("the clock is %v late", d)
	}
	time.Sleep(20 * time.Millisecond)
	if err := p.tick(); err != nil {
		t.Fatal(err)
	}
	if p.gateway.Clock.Now() < now {
		t.Error("the clock stands while no packets come")
	}
}
