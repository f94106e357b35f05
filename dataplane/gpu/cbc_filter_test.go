package gpu

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/suite"
)

// l4Shared is the shared memory of a block of an L4 in bytes.
const l4Shared = 101376

// smallOnHost is securedOnHost with a device that has the shape of a small one. It fails the test if the device gets a job to decrypt AES-CBC.
func smallOnHost(t *testing.T, net *testutil.Network, g *gateway.Gateway) secured {
	t.Helper()
	shape := got(gatewayNeeds.shape(ada))(t)
	s, sh := securedOnShim(t, net, g, shape, 1)
	fake := s.engine.fakeGPU
	s.engine.fakeGPU = func(f *flight) {
		for i := range f.jobs {
			if job := &f.jobs[i]; f.pass == lastPass && job.Kind == esp.Open && job.SA.Suite().Cipher == suite.CBC {
				t.Errorf("the device is to decrypt AES-CBC of SA %s", job.SA.Config().Name)
			}
		}
		fake(f)
	}
	for index := range uint32(shimKeys) {
		sa := g.ByKey(index)
		if key := sh.keys[int(index)*keyBytes:][:keyBytes]; sa != nil && withheld(sa) != bytes.Equal(key, make([]byte, keyBytes)) {
			t.Errorf("SA %s, direction %v: the device has the key: %v", sa.Config().Name, sa.Direction(), withheld(sa))
		}
	}
	return s
}

// withheld reports whether a small device does not get an SA.
func withheld(sa *ipsec.SA) bool {
	return sa.Direction() == ipsec.In && sa.Suite().Cipher == suite.CBC
}

// TestHostDecryptsCBCForSmallDevice: by jobs, with repetitions by the shadow, after first passes in which the device finds SAs, and with
// expected SAs. All packets have the results of the CPU engine.
func TestHostDecryptsCBCForSmallDevice(t *testing.T) {
	packets := 6000
	if testing.Short() {
		packets = 3000
	}
	for name, maker := range map[string]securedMaker{"jobs": smallOnHost, "SA lookup": unread(smallOnHost, true, true)} {
		t.Run(name, func(t *testing.T) {
			w := agreeOnSecured(t, maker, packets)
			decrypted := uint64(0)
			for _, a := range w.all {
				if withheld(a.in[1]) {
					decrypted += a.in[1].Stats().Packets
				}
			}
			if decrypted < uint64(packets)/50 || w.opened < packets/50 {
				t.Errorf("the host has decrypted %d packets with AES-CBC, the device %d others: too few", decrypted, w.opened)
			}
		})
	}
	t.Run("expected SAs", func(t *testing.T) { agreeOnExpected(t, smallOnHost, 1) })
}

// TestOnlySmallDeviceIsWithoutCBC: of two devices of a gateway, that with the shared memory of an L4 gets no inbound SAs with AES-CBC, whether these are
// added before or after it is opened, and with indexes that other SAs had. It gets all other SAs.
func TestOnlySmallDeviceIsWithoutCBC(t *testing.T) {
	f, library := newFake(t)
	f.copies = 1
	net, g := testutil.NewNetwork(), &gateway.Gateway{}
	sas := addSAOfEachSuite(t, g)
	var devices [2]*Device
	var stages [2]*esp.Stage
	for i, found := range got(find(library, 0))(t) {
		o := Options{Library: library, Gateway: g}
		if i == 0 {
			o.SharedLimit = l4Shared
		}
		d := got(open(found, i, net.FIB, o))(t)
		fallback := cpu.New(net.FIB, mapMemory(t, 1<<20), make([]bool, 1))
		fallback.Secure(g, 0)
		stages[i] = got(d.NewEngine(mapMemory(t, 1<<20), 1, 100, fallback))(t).esp
		devices[i] = d
		if p := d.ipsecTables.params(); d.State().Shape.WithoutCBC != (i == 0) || (p.AESBytes == aesBytes) != (i == 1) || (p.AESBytes == aesEncryptBytes) != (i == 0) {
			t.Errorf("device %d: %v, and %d bytes of AES tables", i, d.State().Shape, p.AESBytes)
		}
	}
	for range 2 {
		for i, d := range devices {
			for _, s := range sas {
				checkOnDevice(t, d, stages[i], s, !(i == 0 && withheld(s)))
			}
		}
		for _, s := range sas { // their indexes are used again in reverse order, by SAs of both directions
			g.Remove(s)
			s.Zero()
		}
		for i, d := range devices {
			if n := len(slices.Compact(slices.Clone(d.ipsecTables.words))); n != 1 {
				t.Errorf("device %d finds removed SAs", i)
			}
			if keys := onDevice[byte](d.ipsecTables.keys.Ptr(), len(sas)*keyBytes); !bytes.Equal(keys, make([]byte, len(keys))) {
				t.Errorf("device %d has keys of removed SAs", i)
			}
		}
		sas = append(sas[:0], addSA(t, g, &suite.All[0], ipsec.Out, 0x2000))
		sas = append(sas, addSAOfEachSuite(t, g)...)
	}
	for _, d := range devices {
		require.NoError(t, d.Close())
	}
}

// addSAOfEachSuite adds an inbound and an outbound SA of each suite.
func addSAOfEachSuite(t *testing.T, g *gateway.Gateway) (sas []*ipsec.SA) {
	t.Helper()
	for i := range suite.All {
		for _, direction := range []ipsec.Direction{ipsec.In, ipsec.Out} {
			sas = append(sas, addSA(t, g, &suite.All[i], direction, 0x1000+uint32(i)))
		}
	}
	return sas
}

// addSA adds an SA in tunnel mode.
func addSA(t *testing.T, g *gateway.Gateway, of *suite.Suite, direction ipsec.Direction, spi uint32) *ipsec.SA {
	t.Helper()
	c := ipsec.Config{
		Name: fmt.Sprint(of.Name, " ", direction), SPI: spi, Src: far4, Dst: ours4, Suite: of.Name, Direction: direction, Tunnel: g.Tunnel(of.Name),
		Key: bytes.Repeat([]byte{1}, of.KeyLen+of.SaltLen), AuthKey: bytes.Repeat([]byte{2}, of.AuthKeyLen),
	}
	if direction == ipsec.Out {
		c.Src, c.Dst = c.Dst, c.Src
	}
	s := got(ipsec.NewSA(c, 1))(t)
	require.NoError(t, g.Add(s))
	return s
}

// checkOnDevice checks that a device has the key of an SA and finds it, and that the stage gives it the SA's packets, or that all are false.
func checkOnDevice(t *testing.T, d *Device, stage *esp.Stage, s *ipsec.SA, want bool) {
	t.Helper()
	what := fmt.Sprintf("GPU %d, SA %s", d.number, s.Config().Name)
	key := onDevice[byte](d.ipsecTables.keys.Ptr().Add(int(s.KeyIndex())*keyBytes), keyBytes)
	if has := bytes.Equal(key, s.DeviceKey().Bytes()); has != want || !has && !bytes.Equal(key, make([]byte, keyBytes)) {
		t.Errorf("%s: the device has the key: %v, want %v", what, has, want)
	}
	if stage.HostDecrypts(s) == want {
		t.Errorf("%s: the host decrypts: %v, want %v", what, !want, !want)
	}
	if s.Direction() == ipsec.Out {
		return
	}
	if finds := slices.Contains(d.ipsecTables.words, uint64(s.SPI())<<32|uint64(s.KeyIndex())); finds != want {
		t.Errorf("%s: the device finds the SA: %v, want %v", what, finds, want)
	}
	if may := stage.MayExpect(s, maxKeys); may != want {
		t.Errorf("%s: packets may be expected: %v, want %v", what, may, want)
	}
}
