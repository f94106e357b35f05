package gpu

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/internal/wycheproof"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/suite"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// vectorSA returns the inbound SA of a packet of Project Wycheproof, and its frame, with an address of
// its own, as vectors have any SPI. The SA is nil if the packet is dropped before its authentication: a
// reserved SPI, sequence number 0, or no room for a trailer.
func vectorSA(t *testing.T, g *gateway.Gateway, p *wycheproof.Packet, number int) (*ipsec.SA, []byte) {
	t.Helper()
	st := got(suite.ByName(p.Suite))(t)
	spi, seq := binary.BigEndian.Uint32(p.ESP), binary.BigEndian.Uint32(p.ESP[4:])
	if spi < 256 || seq == 0 || len(p.ESP) == 8+st.IVLen+st.ICVLen {
		return nil, nil
	}
	dst := netip.AddrFrom4([4]byte{10, 1, byte(number >> 8), byte(number)})
	s, err := ipsec.NewSA(ipsec.Config{
		Name: p.Name, SPI: spi, Direction: ipsec.In, Src: far4, Dst: dst, Suite: p.Suite, Key: p.Key, AuthKey: p.AuthKey,
		ESN: p.ESN, ReplayWindow: 64, Tunnel: g.Tunnel("wycheproof"),
	}, 1)
	if err != nil {
		t.Fatalf("%s, %s: %v", p.Suite, p.Name, err)
	}
	if p.ESN {
		s.Skip(uint64(p.High)<<32 | uint64(seq) - 1)
	}
	if err := g.Add(s); err != nil {
		t.Fatalf("%s, %s: %v", p.Suite, p.Name, err)
	}
	const protoESP = 50
	n := packet.IPv4Len + len(p.ESP)
	f := slices.Concat(testutil.UDP4(far4.String(), dst.String(), 0, 0)[:packet.EthernetLen+packet.IPv4Len], p.ESP)
	return s, testutil.Edit(testutil.Edit(f, 2, byte(n>>8), byte(n)), 9, protoESP)
}

// judgeWycheproof opens the packets of Project Wycheproof: exactly the invalid ones are forgeries. None
// has an IP packet inside, so none is forwarded.
func judgeWycheproof(t *testing.T, maker securedMaker) {
	all := got(wycheproof.Packets())(t)
	net, g := testutil.NewNetwork(), &gateway.Gateway{}
	w := maker(t, net, g)
	chunks := batch.NewChunks(1, securedChunk)
	c, judged := chunks[0], map[bool]int{}
	for part := range slices.Chunk(all, securedChunk) {
		c.N = 0
		var sas []*ipsec.SA
		var packets []*wycheproof.Packet
		for i := range part {
			s, f := vectorSA(t, g, &part[i], i)
			if s == nil {
				continue
			}
			addr := uint32(c.N)*umem.FrameSize + umem.DataOffset
			copy(w.umem[addr:], f)
			c.In[c.N] = batch.Frame{Addr: addr, Len: uint16(len(f))}
			c.N++
			sas, packets = append(sas, s), append(packets, &part[i])
		}
		w.settle()
		c.Submitted = batch.Clock()
		process(w.engine, c)
		for i, s := range sas {
			p, n := packets[i], s.Stats()
			judged[p.Valid]++
			if kind := w.engine.ipsec.free[len(w.engine.ipsec.free)-1][:c.N][i].Kind; kind != esp.Open {
				t.Errorf("%s, %s: it was not for the device: job %d, %v", p.Suite, p.Name, kind, c.Out[i].Verdict)
			}
			if forged := n.ICVFailures == 1; forged == p.Valid || n.ICVFailures > 1 {
				t.Errorf("%s, %s: %d forgeries, valid: %v, %v", p.Suite, p.Name, n.ICVFailures, p.Valid, c.Out[i].Verdict)
			}
			g.Remove(s)
			s.Zero()
		}
	}
	if judged[true] != 759 || judged[false] != 424 {
		t.Errorf("%d valid and %d invalid packets, want 759 and 424", judged[true], judged[false])
	}
}

func TestGatewayCodeMeetsWycheproof(t *testing.T) { judgeWycheproof(t, securedOnHost(3900)) }
