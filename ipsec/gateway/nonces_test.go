package gateway

import (
	"net/netip"
	"testing"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/device"
)

// bases records the bases of nonces that a device gets, by index of the key table.
type bases map[uint32]uint64

func (b bases) Store(index uint32, k *device.Key) {
	b[index] = uint64(k.NonceBase[1])<<32 | uint64(k.NonceBase[0])
}
func (b bases) Erase(index uint32)        { delete(b, index) }
func (b bases) AddSPI(uint32, uint32)     {}
func (b bases) RemoveSPI(uint32, uint32)  {}
func (b bases) SetPolicies(_, _ []uint32) {}

// Devices write nonces of the current base only: after RenewNonces they have the new one, also for SAs that are added
// later, and while the base changed without it, the host writes them.
func TestRenewedNoncesReachDevices(t *testing.T) {
	g, held := &Gateway{}, bases{}
	g.Follow(held)
	add := func(name string, spi uint32) *ipsec.SA {
		s, err := ipsec.NewSA(ipsec.Config{
			SPI: spi, Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"), Suite: "aes128gcm16", Key: make([]byte, 20), Tunnel: g.Tunnel(name), Nonces: &g.Nonces,
		}, 1)
		require.NoError(t, err)
		require.NoError(t, g.Add(s))
		return s
	}
	byDevice := func(s *ipsec.SA) bool {
		_, n, e := s.NumberUnread(0, 1, 100)
		return e == ipsec.OK && n == 1 && held[s.KeyIndex()] == g.Nonces.Base()
	}
	a := add("a", 0x1001)
	if !byDevice(a) {
		t.Fatal("the device does not write nonces of the first base")
	}
	g.Nonces.Renew()
	if byDevice(a) {
		t.Fatal("the device writes nonces of the previous base")
	}
	a.Release(0)
	g.RenewNonces()
	if b := add("b", 0x1002); !byDevice(a) || !byDevice(b) {
		t.Error("the device does not write nonces of the new base")
	}
}
