package ipsec

import (
	"bytes"
	"testing"

	"github.com/warproute/warproute/batch"
	esp "github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
)

// hostOf is traffic through the host's half alone.
func hostOf(t *testing.T, d esp.Direction, ipv6 bool) *traffic {
	t.Helper()
	o := options("aes128gcm16", d)
	o.Engine, o.IPv6, o.Bed.Chunks = "gpu", ipv6, 3
	tr, err := newTraffic(&o)
	if err != nil {
		t.Fatal(err)
	}
	return tr.by(host)
}

// The host's half of sealing is everything but what the cipher makes: headers, the packet
// inside, its trailer.
func TestHostsHalfOfSealing(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		tr := hostOf(t, esp.Out, ipv6)
		var frames [][]byte
		for _, p := range tr.inner {
			frames = append(frames, p.frame)
		}
		sent, _, err := tr.run([][][]byte{frames}, 1)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range tr.inner {
			want := make([]byte, tr.espSize(len(p.frame)-packet.EthernetLen))
			inside := p
			inside.frame = hop(p.frame)
			tr.enclose(want, inside)
			got := sent[0][i]
			from, iv, icv := packet.EthernetLen, packet.EthernetLen+tr.ipLen()+headerLen, tr.suite.ICVLen
			if len(got) == len(want) { // what the device writes
				copy(got[iv:], want[iv:iv+tr.suite.IVLen])
				copy(got[len(got)-icv:], want[len(want)-icv:])
			}
			if !bytes.Equal(got[from:], want[from:]) {
				t.Fatalf("packet %d, IPv6 %v:\n got  % x\n want % x", i, ipv6, got, want)
			}
		}
	}
}

// That of opening refuses what was received before, and what came by an association of others.
func TestHostsHalfOfOpening(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		tr := hostOf(t, esp.In, ipv6)
		var frames [][]byte
		put := func(p inner) []byte {
			f := make([]byte, tr.espSize(len(p.frame)-packet.EthernetLen))
			tr.enclose(f, p)
			return f
		}
		for _, p := range tr.inner {
			frames = append(frames, put(p))
		}
		frames = append(frames, put(inner{tr.inner[8].frame, tr.inner[7].tunnel}))
		sent, stats, err := tr.run([][][]byte{frames}, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(sent[0]) != len(tr.inner) {
			t.Fatalf("%d of %d packets came out: %v", len(sent[0]), len(tr.inner), reasons(&stats.Ports[0]))
		}
		for i, p := range tr.inner {
			if from := packet.EthernetLen; !bytes.Equal(sent[0][i][from:], p.frame[from:]) {
				t.Fatalf("packet %d, IPv6 %v:\n got  % x\n want % x", i, ipv6, sent[0][i], p.frame)
			}
		}
		for reason, want := range map[batch.Reason]uint64{batch.XfrmInTmplMismatch: 1, batch.XfrmInStateSeqError: uint64(len(frames))} {
			if got := stats.Ports[0].Drops[reason]; got != want {
				t.Errorf("%d packets are dropped as %v, want %d", got, reason, want)
			}
		}
	}
}

// What is timed is what the gateway is timed with.
func TestHostsHalfIsTimed(t *testing.T) {
	for d, name := range names {
		tr := hostOf(t, esp.Direction(d), false)
		rings, err := tr.rings(tr.protect)
		if err != nil {
			t.Fatal(err)
		}
		halves, err := tr.hostRings(rings)
		if err != nil {
			t.Fatal(err)
		}
		r, err := tr.measure(halves)
		if err != nil || r.packets == 0 || r.engine != host {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}
