package service

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
)

// inbound returns an inbound SA.
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

// policies returns a policy per SA that protects all traffic of its direction.
func policies(sas []config.SA) (list []config.Policy) {
	any := netip.MustParsePrefix("0.0.0.0/0")
	for _, sa := range sas {
		list = append(list, config.Policy{Direction: sa.Direction, Src: any, Dst: any, SrcPorts: config.AnyPort, DstPorts: config.AnyPort, Action: config.ActionProtect, SA: sa.Name})
	}
	return list
}

func protect(t *testing.T, state string, sas ...config.SA) *ipsecGateway {
	t.Helper()
	idle := func() func() bool { return func() bool { return true } }
	p, err := newIPsecGateway(&config.IPsec{State: state, SAs: sas, Policies: policies(sas)}, 1, idle)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.close() }) // a test may have closed it
	return p
}

func (p *ipsecGateway) reload(sas ...config.SA) error {
	return p.apply(&config.IPsec{SAs: sas, Policies: policies(sas)})
}

// sender returns packets as the peer of an inbound association sends them.
func sender(t *testing.T, spi uint32, key byte) (next func() []byte) {
	t.Helper()
	s, err := ipsec.NewSA(ipsec.Config{SPI: spi, Src: netip.MustParseAddr("192.0.2.2"), Dst: netip.MustParseAddr("192.0.2.1"), Suite: "aes128gcm16", Key: bytes.Repeat([]byte{key}, 20)}, 1)
	require.NoError(t, err)
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

// receive processes a packet as a worker does.
func (p *ipsecGateway) receive(b []byte) ipsec.Error {
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
	return p.gateway.CheckInbound(&f, s)
}

// expect checks the result of a received packet.
func (p *ipsecGateway) expect(t *testing.T, what string, b []byte, want ipsec.Error) {
	t.Helper()
	if e := p.receive(b); e != want {
		t.Errorf("%s: %v, want %v", what, e, want)
	}
}

// An SA keeps its replay window when its configuration changes, except for its keys.
func TestReloadKeepsReplayWindows(t *testing.T) {
	p := protect(t, t.TempDir(), inbound("a", 0x100, 1))
	next := sender(t, 0x100, 1)
	old := next()
	p.expect(t, "the first packet", old, ipsec.OK)
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
		p.expect(t, name+": a packet that was received before", old, ipsec.InStateSeqError)
		if old = next(); p.receive(old) != ipsec.OK {
			t.Errorf("%s: the next packet is refused", name)
		}
	}
	require.NoError(t, p.reload(inbound("a", 0x100, 2)))
	p.expect(t, "the first packet with another key", sender(t, 0x100, 2)(), ipsec.OK)
}

// ESP does not authenticate the destination address: a packet received at one address is a
// replay at another.
func TestReplayWindowFollowsAnAddressChange(t *testing.T) {
	for _, name := range []string{"a", "b"} {
		p := protect(t, t.TempDir(), inbound("a", 0x100, 1))
		next := sender(t, 0x100, 1)
		old := next()
		p.expect(t, "the first packet", old, ipsec.OK)
		sa := inbound(name, 0x100, 1)
		sa.Dst = netip.MustParseAddr("192.0.2.9")
		require.NoError(t, p.reload(sa))
		moved := func(b []byte) []byte {
			b = bytes.Clone(b)
			b[19] = 9
			return b
		}
		p.expect(t, name+": a packet received at the old address before", moved(old), ipsec.InStateSeqError)
		new := next()
		p.expect(t, name+": the next packet", moved(new), ipsec.OK)
		if e := p.receive(new); e == ipsec.OK {
			t.Errorf("%s: the old address receives it, too", name)
		}
	}
}

// A replacement waits for workers that still receive by its predecessor.
func TestReplacementWaitsForWorkers(t *testing.T) {
	p := protect(t, t.TempDir(), inbound("a", 0x100, 1))
	done := false
	p.passed = func() func() bool { return func() bool { return done } }
	next := sender(t, 0x100, 1)
	first, last := next(), next()
	old := p.sas["a"]
	sa := inbound("a", 0x100, 1)
	sa.ReplayWindow = 128
	require.NoError(t, p.reload(sa))
	p.expect(t, "while a worker uses the old SA", first, ipsec.InNoStates)
	if !old.Accept(2) { // by that worker
		t.Fatal("sequence number 2 was received before")
	}
	done = true
	require.NoError(t, p.tick())
	p.expect(t, "a packet that the worker received", last, ipsec.InStateSeqError)
	p.expect(t, "the next packet", next(), ipsec.OK)
}

func TestFailedReloadChangesNothing(t *testing.T) {
	state := t.TempDir()
	third := func() config.SA { return outbound("c", 0x300, 4) }
	damaged := sha256.Sum256(append([]byte("warproute sequence numbers\x00"), third().Key.Bytes()...))
	require.NoError(t, os.WriteFile(filepath.Join(state, hex.EncodeToString(damaged[:16])), []byte("damaged"), 0o600))
	wide := inbound("wide", 0x101, 6)
	wide.ReplayWindow = 1 << 20
	noPrefix := policies([]config.SA{inbound("a", 0x100, 3)})
	noPrefix[0].Src = netip.Prefix{}
	for _, c := range []struct {
		step, want string
		sa         config.SA
		policies   []config.Policy
	}{
		{"creating an SA", "replay window", wide, nil},
		{"reserving its sequence numbers", "damaged", third(), nil},
		{"building the policies", "prefix", outbound("d", 0x301, 7), noPrefix},
	} {
		p := protect(t, state, inbound("a", 0x100, 1), outbound("b", 0x200, 2))
		before := p.sas["b"].Sequence()
		sas := []config.SA{inbound("a", 0x100, 3), outbound("b", 0x200, 5), c.sa}
		if c.policies == nil {
			c.policies = policies(sas)
		}
		if err := p.apply(&config.IPsec{SAs: sas, Policies: c.policies}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Fatalf("%s: %v", c.step, err)
		}
		p.expect(t, c.step+" fails: the inbound SA", sender(t, 0x100, 1)(), ipsec.OK)
		f := gateway.FlowIPv4(testutil.UDP4("10.7.0.1", "10.8.0.1", 1, 2)[packet.EthernetLen:])
		if s, e := p.gateway.LookupOutbound(&f); s != p.sas["b"].SA || e != ipsec.OK || s.Sequence() != before {
			t.Errorf("%s fails: the outbound one: %v, %v", c.step, s, e)
		}
		if err := p.reload(inbound("a", 0x100, 1), outbound("b", 0x200, 2)); err != nil {
			t.Errorf("%s fails: the old configuration: %v", c.step, err)
		}
		if err := p.close(); err != nil {
			t.Error(err)
		}
		for _, name := range []string{"used", "received", "lifetimes"} { // each sender begins with 1
			require.NoError(t, os.Remove(filepath.Join(state, name)))
		}
	}
}

// Packets in flight during a change of SPI are received for drainTime, also across another reload.
func TestOldSPIDrains(t *testing.T) {
	p := protect(t, t.TempDir(), inbound("a", 0x100, 1))
	old, new := sender(t, 0x100, 1), sender(t, 0x101, 2)
	first := old()
	p.expect(t, "the first packet", first, ipsec.OK)
	require.NoError(t, p.reload(inbound("a", 0x101, 2)))
	for what, packet := range map[string][]byte{"the old": old(), "the new": new()} {
		p.expect(t, "after the reload, by "+what+" SPI", packet, ipsec.OK)
	}
	require.NoError(t, p.reload(inbound("a", 0x101, 2), outbound("b", 0x200, 3)))
	p.expect(t, "after another reload, by the old SPI", old(), ipsec.OK)
	end := func() {
		t.Helper()
		p.drainEnd = time.Time{}
		require.NoError(t, p.tick())
	}
	if end(); p.receive(old()) != ipsec.InNoStates {
		t.Error("the old SPI is received after drainTime")
	}
	require.NoError(t, p.reload(inbound("a", 0x100, 1)))
	p.expect(t, "with the first SPI again, a replay", first, ipsec.InStateSeqError)
	p.expect(t, "with the first SPI again, the next packet", old(), ipsec.OK)
	if end(); p.receive(new()) != ipsec.InNoStates {
		t.Error("the SPI between is received after drainTime")
	}
}
