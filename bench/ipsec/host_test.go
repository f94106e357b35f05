package ipsec

import (
	"bytes"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/internal/require"
	esp "github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
)

// newHostTraffic returns traffic through the GPU engine with a null device.
func newHostTraffic(t *testing.T, d esp.Direction, ipv6 bool) *traffic {
	t.Helper()
	o := options("aes128gcm16", d)
	o.Engine, o.IPv6, o.Testbed.Chunks = "gpu", ipv6, 3
	tr, err := newTraffic(&o)
	require.NoError(t, err)
	return tr.by(host)
}

// The host writes headers, inner packet and trailer; the device the IV and the ICV.
func TestHostPreparesEncryption(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		tr := newHostTraffic(t, esp.Out, ipv6)
		var frames [][]byte
		for _, p := range tr.inner {
			frames = append(frames, p.frame)
		}
		sent, _, err := tr.run([][][]byte{frames}, 1)
		require.NoError(t, err)
		for i, p := range tr.inner {
			want := make([]byte, tr.espSize(len(p.frame)-packet.EthernetLen))
			inside := p
			inside.frame = testbed.Hop(p.frame)
			tr.enclose(want, inside)
			got := sent[0][i]
			from, iv, icv := packet.EthernetLen, packet.EthernetLen+tr.ipLen()+headerLen, tr.suite.ICVLen
			if len(got) == len(want) { // written by the device
				copy(got[iv:], want[iv:iv+tr.suite.IVLen])
				copy(got[len(got)-icv:], want[len(want)-icv:])
			}
			if !bytes.Equal(got[from:], want[from:]) {
				t.Fatalf("packet %d, IPv6 %v:\n got  % x\n want % x", i, ipv6, got, want)
			}
		}
	}
}

func TestHostRefusesReplays(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		tr := newHostTraffic(t, esp.In, ipv6)
		var frames [][]byte
		put := func(p inner) []byte {
			f := make([]byte, tr.espSize(len(p.frame)-packet.EthernetLen))
			tr.enclose(f, p)
			return f
		}
		for _, p := range tr.inner {
			frames = append(frames, put(p))
		}
		sent, stats, err := tr.run([][][]byte{frames}, 2)
		require.NoError(t, err)
		if len(sent[0]) != len(tr.inner) {
			t.Fatalf("%d of %d packets transmitted: %v", len(sent[0]), len(tr.inner), testbed.Reasons(&stats.Ports[0]))
		}
		for i, p := range tr.inner {
			if from := packet.EthernetLen; !bytes.Equal(sent[0][i][from:], p.frame[from:]) {
				t.Fatalf("packet %d, IPv6 %v:\n got  % x\n want % x", i, ipv6, sent[0][i], p.frame)
			}
		}
		if got := stats.Ports[0].Drops[batch.XfrmInStateSeqError]; got != uint64(len(frames)) {
			t.Errorf("%d replays refused, want %d", got, len(frames))
		}
	}
}

func TestHostIsTimed(t *testing.T) {
	for d, name := range names {
		tr := newHostTraffic(t, esp.Direction(d), false)
		rings, err := tr.rings(tr.protect)
		require.NoError(t, err)
		hostRings, err := tr.hostRings(rings)
		require.NoError(t, err)
		r, err := tr.measure(hostRings, tr.limitPrepared(rings))
		if err != nil || r.Packets == 0 || r.Engine != host {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}
