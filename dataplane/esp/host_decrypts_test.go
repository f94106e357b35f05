package esp_test

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/suite"
	"github.com/warproute/warproute/umem"
)

// TestHostDecryptsCBCInPlaceOfDevice: a device gets no jobs to decrypt AES-CBC, may not expect such packets, and its report of a decrypted
// one is refused. It keeps other ciphers, and AES-CBC encryption. By default the device decrypts AES-CBC, too.
func TestHostDecryptsCBCInPlaceOfDevice(t *testing.T) {
	for i := range suite.All {
		for _, host := range []bool{false, true} {
			st := &suite.All[i]
			withSuite := func(c *ipsec.Config) {
				c.Suite, c.Key, c.AuthKey = st.Name, bytes.Repeat([]byte{7}, st.KeyLen+st.SaltLen), bytes.Repeat([]byte{8}, st.AuthKeyLen)
			}
			a, _, out := secured(t, config(ipsec.Out, false), withSuite)
			b, _, in := secured(t, config(ipsec.In, false), withSuite)
			wire := bytes.Clone(a.Sent(a.Submit(0, to4("10.1.0.9"))[0]))
			a.Engine.ESP().SetHostDecryptsCBC(host)
			b.Engine.ESP().SetHostDecryptsCBC(host)
			byDevice := !host || st.Cipher != suite.CBC
			if a.Engine.ESP().HostDecrypts(out) || b.Engine.ESP().HostDecrypts(in) == byDevice {
				t.Errorf("%s, AES-CBC by the host: %v: the host decrypts: %v", st.Name, host, !byDevice)
			}

			jobs, c := make([]esp.Job, 1), b.Chunk
			received := batch.Frame{Addr: umem.DataOffset, Len: uint16(len(wire)), Origin: batch.From(wan)}
			c.In[0] = received
			copy(b.Mem.Bytes()[received.Addr:], wire)
			b.Engine.ESP().Begin(c.In[:1], c.Out[:1], jobs, gateway.MaxKeys)
			if isJob := jobs[0].Kind == esp.Open; isJob != byDevice || c.Out[0].Verdict != 0 || isJob != (c.In[0] == received) {
				t.Errorf("%s, AES-CBC by the host: %v: %+v, %v, a job for the device: %v", st.Name, host, c.In[0], c.Out[0].Verdict, isJob)
			}
			if b.Engine.ESP().MayExpect(in, gateway.MaxKeys) != byDevice {
				t.Errorf("%s, AES-CBC by the host: %v: packets may be expected: %v", st.Name, host, !byDevice)
			}
			b.Engine.ESP().BeginOpened(c.In[:1], c.Out[:1], jobs, gateway.MaxKeys)
			if _, ok := b.Engine.ESP().MakeOpenJob(received, &jobs[0], 1<<32|esp.SAReport(in.KeyIndex())); ok != byDevice {
				t.Errorf("%s, AES-CBC by the host: %v: the device is believed that it has decrypted a packet: %v", st.Name, host, ok)
			}

			copy(a.Mem.Bytes()[umem.DataOffset:], to4("10.1.0.9"))
			a.Chunk.In[0] = batch.Frame{Addr: umem.DataOffset, Len: uint16(len(to4("10.1.0.9"))), Origin: batch.From(lan)}
			if a.Engine.ESP().Begin(a.Chunk.In[:1], a.Chunk.Out[:1], jobs, gateway.MaxKeys); jobs[0].Kind != esp.Seal {
				t.Errorf("%s, AES-CBC by the host: %v: no job to encrypt", st.Name, host)
			}
		}
	}
}

// TestDeviceOpensESPWithinCBC: if the host decrypts AES-CBC, a packet within it of another SA is the device's, so that it is confirmed in the
// order of chunks, like packets of that SA alone.
func TestDeviceOpensESPWithinCBC(t *testing.T) {
	cbc := func(c *ipsec.Config) {
		c.Suite, c.Key, c.AuthKey = "aes128-sha256", bytes.Repeat([]byte{7}, 16), bytes.Repeat([]byte{8}, 32)
	}
	inner := func(c *ipsec.Config) { c.SPI, c.Src = 0x5555, netip.MustParseAddr("192.0.2.200") }
	first, _, _ := secured(t, config(ipsec.Out, false), inner)
	second, _, _ := secured(t, config(ipsec.Out, false), cbc)
	wire := first.Sent(first.Submit(0, to4("10.1.0.9"))[0])
	wire = bytes.Clone(second.Sent(second.Submit(0, wire)[0]))
	for _, host := range []bool{false, true} {
		b, g, outer := secured(t, config(ipsec.In, false), cbc)
		c := config(ipsec.In, false)
		inner(&c)
		sa, err := ipsec.NewSA(c, 2)
		require.NoError(t, err)
		require.NoError(t, g.Add(sa))
		b.Engine.ESP().SetHostDecryptsCBC(host)
		jobs, want := make([]esp.Job, 1), outer
		if host {
			want = sa
		}
		b.Chunk.In[0] = batch.Frame{Addr: umem.DataOffset, Len: uint16(len(wire)), Origin: batch.From(wan)}
		copy(b.Mem.Bytes()[umem.DataOffset:], wire)
		b.Engine.ESP().Begin(b.Chunk.In[:1], b.Chunk.Out[:1], jobs, gateway.MaxKeys)
		if jobs[0].Kind != esp.Open || jobs[0].SA != want || b.Engine.ESP().OpensInner() != host || b.Chunk.Out[0].Verdict != 0 {
			t.Errorf("AES-CBC by the host: %v: job %+v, verdict %v, of an inner packet: %v", host, jobs[0], b.Chunk.Out[0].Verdict, b.Engine.ESP().OpensInner())
		}
	}
}
