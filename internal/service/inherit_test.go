package service

import (
	"bytes"
	"log/slog"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/internal/handover"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/device"
	"github.com/warproute/warproute/ipsec/gateway"
)

// handedOver returns the gateway of the process that continues the SAs of another one, with a configuration of its own.
// fail is set if that process had to give up.
func handedOver(t *testing.T, state string, from *ipsecGateway, fail bool, sas ...config.SA) *ipsecGateway {
	t.Helper()
	idle := func() func() bool { return func() bool { return true } }
	next, err := newGatewayWith(&pendingStore{}, &config.IPsec{State: state, SAs: sas, Policies: policies(sas)}, 1, idle)
	require.NoError(t, err)
	device := keyTable{}
	next.gateway.Follow(device)
	old := &Service{ipsec: from}
	base, resume, err := old.suspendIPsec()
	require.NoError(t, err)
	last := handover.State{NonceBase: base}
	require.NoError(t, old.saveSAs(&last))
	resume()
	if fail {
		last.Exact, last.SAs = false, nil
	}
	s := &Service{ipsec: next, cfg: &config.Config{IPsec: config.IPsec{State: state}}, log: slog.New(slog.DiscardHandler)}
	require.NoError(t, s.continueIPsec(&last))
	require.NoError(t, from.close())
	t.Cleanup(func() { _ = next.close() })
	device.check(t, next.gateway)
	return next
}

// keyTable is a device that records the bases of nonces in its key records.
type keyTable map[uint32]uint64

func (k keyTable) Store(index uint32, key *device.Key) {
	k[index] = uint64(key.NonceBase[1])<<32 | uint64(key.NonceBase[0])
}
func (k keyTable) Erase(index uint32)      { delete(k, index) }
func (keyTable) AddSPI(uint32, uint32)     {}
func (keyTable) RemoveSPI(uint32, uint32)  {}
func (keyTable) SetPolicies(_, _ []uint32) {}

// check fails unless devices write nonces of the current base: their key records have it.
func (k keyTable) check(t *testing.T, g *gateway.Gateway) {
	t.Helper()
	base, outbound := g.Nonces.Base(), 0
	if g.Nonces.DeviceBase() != base {
		t.Errorf("devices have the nonce base %#x, and the current one is %#x", g.Nonces.DeviceBase(), base)
	}
	for s := range g.All {
		if s.Direction() == ipsec.Out {
			if outbound++; k[s.KeyIndex()] != base {
				t.Errorf("the key record of %s has the nonce base %#x, and the current one is %#x", s.Config().Name, k[s.KeyIndex()], base)
			}
		}
	}
	if outbound == 0 {
		t.Error("no outbound SA")
	}
}

// With SAs from Linux, the next process draws its own base, which its key records have.
func TestDevicesHaveTheBaseOfTheNextProcess(t *testing.T) {
	g, device := &gateway.Gateway{}, keyTable{}
	g.Follow(device)
	sa, err := ipsec.NewSA(ipsec.Config{
		Name: "a", SPI: 0x100, Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"), Suite: "aes128gcm16", Key: make([]byte, 20), Tunnel: g.Tunnel("a"), Nonces: &g.Nonces,
	}, 1)
	require.NoError(t, err)
	require.NoError(t, g.Add(sa))
	g.Nonces.Use(g.Nonces.Reserve())
	g.PutNonceBase()
	device.check(t, g)
	g.RenewNonces()
	device.check(t, g)
}

// Over a chain of upgrades no SA repeats a number or an IV, though callers overwrite the keys of configurations. Numbers
// are in a row, and those of an SA that an upgrade adds start at 1. After an upgrade that failed late, numbers are skipped.
func TestSAsContinueInTheNextProcess(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	all := func() []config.SA { return append(tunnels(t), inbound("in", 0x900, 77)) }
	p := protect(t, state, all()...)
	w, next, want := wire{ivs: map[string]string{}}, sender(t, 0x900, 77), uint64(0)
	var first []byte
	for i, process := range []string{"first", "second", "third"} {
		w.send(t, process, p, 10)
		want += 10
		for _, name := range nonceSuites {
			if n := p.sas[name].Sequence(); n != want {
				t.Errorf("%s process, %s: number %d, want %d", process, name, n, want)
			}
		}
		packets := [][]byte{next(), next()}
		if first == nil {
			first = bytes.Clone(packets[0])
		}
		if e := p.receive(packets[1]); e != ipsec.OK { // before the other
			t.Errorf("%s process: %v", process, e)
		}
		sas := all()
		if i == 1 {
			sas = append(sas, outbound("added", 0xa00, 99))
		}
		p = handedOver(t, state, p, false, sas...)
		if e := p.receive(packets[0]); e != ipsec.OK {
			t.Errorf("after the %s process, a new packet in the window: %v", process, e)
		}
	}
	if e := p.receive(first); e != ipsec.InStateSeqError {
		t.Errorf("a packet of the first process again: %v", e)
	}
	limit := p.sas[nonceSuites[0]].State().Limit
	p = handedOver(t, state, p, true, all()...)
	w.send(t, "after a failure", p, 10)
	if n := p.sas[nonceSuites[0]].Sequence(); n != limit+10 {
		t.Errorf("after a failure: number %d, want %d", n, limit+10)
	}
}
