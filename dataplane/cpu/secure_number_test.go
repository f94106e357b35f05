package cpu

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/packet"
)

// In blocks of packets of many tunnels, of one in a row, in clear, or refused, each association's
// numbers go up by one, and what was taken for packets that do not leave is given back.
func TestNumbersOfManyAssociationsHaveNoGaps(t *testing.T) {
	const n = 48
	w, frames := tunnels(t, n, 100)
	g := w.engine.ipsec.gateway
	rnd := rand.New(rand.NewPCG(3, 5))
	sent := map[uint32]uint64{} // the last number by SPI
	refused := 0
	for range 50 {
		var chunk [][]byte
		for len(chunk) < 200 {
			k := rnd.IntN(n)
			f := frames[k]
			switch rnd.IntN(8) {
			case 0:
				f = to4("10.5.0.9")
			case 1: // longer than its way permits, and not to be cut
				src := packet.IPv4(f[packet.EthernetLen : packet.EthernetLen+packet.IPv4Len])
				f = testutil.UDP4("192.0.2.1", "10.1.0.9", 1, 2, make([]byte, 1480)...)
				f = testutil.Edit(testutil.Edit(f, 12, src[12:16]...), 6, 0x40)
			}
			for range 1 + rnd.IntN(3)/2*rnd.IntN(70) {
				chunk = append(chunk, f)
			}
		}
		for i, r := range w.submit(0, chunk[:200]...) {
			p := w.bytes(r)[packet.EthernetLen:]
			switch {
			case r.Verdict == batch.Drop(batch.MTUExceeded):
				refused++
			case r.Verdict == batch.Forward(1) && p[9] == 50:
				spi, seq := binary.BigEndian.Uint32(p[20:]), uint64(binary.BigEndian.Uint32(p[24:]))
				if sent[spi]++; seq != sent[spi] {
					t.Fatalf("packet %d of SPI %#x has the number %d, want %d", i, spi, seq, sent[spi])
				}
			}
		}
	}
	if refused == 0 {
		t.Error("no packet is refused")
	}
	for s := range g.All {
		if last := sent[s.Config().SPI]; s.Sequence() != last || last == 0 {
			t.Errorf("SPI %#x: numbers up to %d are taken, and up to %d used", s.Config().SPI, s.Sequence(), last)
		}
	}
}
