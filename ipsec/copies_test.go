package ipsec

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec/device"
	"github.com/warproute/warproute/ipsec/suite"
)

// An SA has the key parts that a device needs for its direction. When it ends, devices forget them
// first, and then they are overwritten here.
func TestDeviceKeysEndWithTheSA(t *testing.T) {
	rnd := rand.New(rand.NewPCG(8, 1))
	for i := range suite.All {
		st := &suite.All[i]
		c := config(rnd, st.Name, Tunnel, true)
		c.Tunnel = 1 + rnd.Uint32N(1000)
		out, in := pair(t, c)
		for _, s := range []*SA{out, in} {
			want, err := device.NewKey(st, c.Key, c.AuthKey, s == in)
			require.NoError(t, err)
			key := s.DeviceKey()
			want.Tunnel = c.Tunnel
			sc := s.Config()
			var encap Encap
			if sc.Encap != nil {
				encap = *sc.Encap
			}
			want.SetHeaders(sc.Src, sc.Dst, sc.Encap != nil, encap.SrcPort, encap.DstPort)
			if s == out {
				want.SetOutbound(sc.SPI, [...]uint32{CopyDF: device.HeadersCopyDF, SetDF: device.HeadersSetDF, ClearDF: 0}[sc.DF])
			}
			if !bytes.Equal(key.Bytes(), want.Bytes()) {
				t.Errorf("%s, %v: not the keys of its direction", st.Name, s.direction)
			}
			if cbc := s == in && st.Cipher == suite.CBC; s.OpensCBC() != cbc || key.OpensCBC() != cbc {
				t.Errorf("%s, %v: the SA decrypts AES-CBC: %v, its key: %v", st.Name, s.direction, s.OpensCBC(), key.OpensCBC())
			}
			most, fixed := want.Used()
			for esp, want := range map[int]int{100: min(most, fixed+6*device.SegmentBytes), 1500: most} {
				if got := s.DeviceKeyUsed(esp); got != want {
					t.Errorf("%s, %v: a device needs %d bytes of the key for %d of ESP, want %d", st.Name, s.direction, got, esp, want)
				}
			}
			forgot := 0
			s.SetKeyIndex(7, func() {
				if forgot++; s.KeyIndex() != 7 || key.Segments == 0 {
					t.Errorf("%s, %v: the association has no number or keys any more when devices forget them", st.Name, s.direction)
				}
			})
			s.Zero()
			s.Zero()
			if forgot != 1 || s.KeyIndex() != NoKeyIndex || !bytes.Equal(key.Bytes(), make([]byte, device.KeyBytes)) {
				t.Errorf("%s, %v: devices forgot %d times, number %d, left are % x", st.Name, s.direction, forgot, s.KeyIndex(), key.Bytes())
			}
		}
	}
}
