package esp_test

import (
	"fmt"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// sealedPackets are packets of 64 and 65 bytes that a device says that it has sealed, by two SAs in turn.
type sealedPackets struct {
	stage        *esp.Stage
	sas          []*ipsec.SA
	in           []batch.Frame
	out, results []batch.Result
	reports      []esp.SAReport
}

func newSealedPackets(t *testing.T, n int) *sealedPackets {
	w, g := newWorld(t), &gateway.Gateway{}
	p := &sealedPackets{in: make([]batch.Frame, n), out: make([]batch.Result, n), results: make([]batch.Result, n), reports: make([]esp.SAReport, n)}
	for i := range 2 {
		c := config(ipsec.Out, false)
		c.Name, c.SPI, c.Tunnel = fmt.Sprint(i), uint32(0x1000+i), g.Tunnel(fmt.Sprint(i))
		sa, err := ipsec.NewSA(c, 1)
		require.NoError(t, err)
		require.NoError(t, g.Add(sa))
		p.sas = append(p.sas, sa)
	}
	w.Engine.Secure(g, 0)
	p.stage = w.Engine.ESP()
	p.stage.BeginSealed(nil, 0, gateway.MaxKeys)
	for i := range p.in {
		p.in[i] = batch.Frame{Addr: uint32(i)*umem.FrameSize + 130, Len: uint16(packet.EthernetLen + 64 + i%2), Origin: batch.From(lan)}
		p.describe(i, 64+i%2)
	}
	return p
}

// describe makes the result and the report of packet i those of a sealed packet of size bytes.
func (p *sealedPackets) describe(i, size int) {
	sa := p.sas[i%2]
	front, header := sa.HeaderLens()
	p.results[i] = batch.ForwardTo(wan, p.in[i].Addr-uint32(front), uint16(packet.EthernetLen+front-header+sa.ESPLen(size)))
	p.reports[i] = esp.SAReport(size)<<32 | esp.SAReport(sa.KeyIndex())
}

// accept calls AcceptSealed once.
func (p *sealedPackets) accept() (n int, by *esp.Sealer) {
	return p.stage.AcceptSealed(p.in, p.out, p.results, p.reports, 3)
}

// know looks the SAs up, as the steps for a single packet do.
func (p *sealedPackets) know() {
	for _, sa := range p.sas {
		p.stage.Sealer(sa.KeyIndex())
	}
}

// TestSealedPacketsAreAcceptedTogether: in blocks, once the SAs are known; they are counted, their frames begin at the outer header, and
// the last SA with few numbers is remembered.
func TestSealedPacketsAreAcceptedTogether(t *testing.T) {
	p := newSealedPackets(t, 70)
	if n, by := p.accept(); n != 0 || by != nil {
		t.Fatalf("%d packets of SAs that were not looked up", n)
	}
	p.know()
	p.reports[4] |= esp.ReportSeqsLow << 32
	p.reports[7] |= esp.ReportSeqsLow << 32
	n, by := p.accept()
	if n != 64 || by.SA != p.sas[1] {
		t.Fatalf("%d packets, by %v", n, by)
	}
	for i, r := range p.results[:n] {
		if f := p.in[i]; f != (batch.Frame{Addr: r.Addr(), Len: r.Len(), Origin: batch.From(lan).With(batch.PolicyDone)}) || p.out[i] != r {
			t.Fatalf("packet %d: %+v, %+v", i, f, p.out[i])
		}
	}
	if low := p.stage.EndSealed(); low != p.sas[1] {
		t.Errorf("%p has few numbers left, want %p", low, p.sas[1])
	}
	if low := p.stage.EndSealed(); low != nil {
		t.Errorf("%p has few numbers left, after none was reported", low)
	}
	if sa, first := p.stage.FirstSA(); sa != p.sas[0] || first != 32 {
		t.Errorf("%d packets of the first SA", first)
	}
	for i, sa := range p.sas {
		if s := sa.Stats(); s.Packets != 32 || s.Bytes != uint64(32*(64+i)) {
			t.Errorf("SA %d: %+v", i, s)
		}
	}
	if aead, hmac := p.stage.Protected(); aead != 64 || hmac != 0 {
		t.Errorf("%d and %d packets", aead, hmac)
	}
}

// TestOtherResultsAreNotAcceptedTogether: the packets before them are, and theirs are not touched.
func TestOtherResultsAreNotAcceptedTogether(t *testing.T) {
	const at = 5
	for name, change := range map[string]func(p *sealedPackets){
		"drop":            func(p *sealedPackets) { p.results[at] = batch.DropFor(batch.NoRoute) },
		"hold":            func(p *sealedPackets) { p.results[at] = batch.HoldFor(1) },
		"another port":    func(p *sealedPackets) { p.results[at] = batch.ForwardTo(3, p.results[at].Addr(), p.results[at].Len()) },
		"beyond verdicts": func(p *sealedPackets) { p.results[at].Verdict = 0xffff },
		"another address": func(p *sealedPackets) {
			p.results[at] = batch.ForwardTo(wan, p.results[at].Addr()+4, p.results[at].Len())
		},
		"another frame": func(p *sealedPackets) {
			p.results[at] = batch.ForwardTo(wan, p.results[at].Addr()+umem.FrameSize, p.results[at].Len())
		},
		"longer": func(p *sealedPackets) {
			p.results[at] = batch.ForwardTo(wan, p.results[at].Addr(), p.results[at].Len()+1)
		},
		"shorter": func(p *sealedPackets) {
			p.results[at] = batch.ForwardTo(wan, p.results[at].Addr(), p.results[at].Len()-1)
		},
		"unknown SA": func(p *sealedPackets) { // with the result of headers without length
			p.reports[at] |= 77
			p.results[at] = batch.ForwardTo(wan, p.in[at].Addr, packet.EthernetLen+65+2)
		},
		"SA beyond all":         func(p *sealedPackets) { p.reports[at] |= 0xffffffff },
		"longer than its frame": func(p *sealedPackets) { p.in[at].Len -= 2 },
		"shorter than a header": func(p *sealedPackets) { p.describe(at, 19) },
		"no room in front":      func(p *sealedPackets) { p.in[at].Addr -= 128; p.describe(at, 65) },
		"no room behind":        func(p *sealedPackets) { p.in[at].Addr += umem.FrameSize - 130 - 14 - 65; p.describe(at, 65) },
	} {
		p := newSealedPackets(t, 9)
		p.know()
		change(p)
		f := p.in[at]
		if n, by := p.accept(); n != at || by.SA != p.sas[0] || p.in[at] != f || p.out[at] != (batch.Result{}) {
			t.Errorf("%s: %d packets, want %d; %+v, %+v", name, n, at, p.in[at], p.out[at])
		}
		if s := p.sas[0].Stats(); s.Packets != 3 || p.sas[1].Stats().Packets != 2 {
			t.Errorf("%s: %d and %d packets counted", name, s.Packets, p.sas[1].Stats().Packets)
		}
	}
}

// TestExpectedPacketsAreAcceptedTogether: up to the first one of another SA, or with another result.
func TestExpectedPacketsAreAcceptedTogether(t *testing.T) {
	p := newSealedPackets(t, 9)
	e, ok := p.stage.Expect(p.sas[0], 9)
	if !ok {
		t.Fatal("the SA cannot be expected")
	}
	accept := func(from int) (n int, bytes uint64) {
		return p.stage.AcceptExpected(&e, p.in[from:], p.out[from:], p.results[from:], p.reports[from:], 3)
	}
	if n, bytes := accept(0); n != 1 || bytes != 64 || p.out[0] != p.results[0] || p.in[0].Addr != p.results[0].Addr() || p.out[1] != (batch.Result{}) {
		t.Fatalf("%d packets before one of another SA, %d bytes", n, bytes)
	}
	for i := 1; i < 9; i += 2 {
		p.reports[i] = p.reports[2]
		p.in[i].Len = uint16(packet.EthernetLen + 64)
		p.results[i] = batch.ForwardTo(wan, p.results[i].Addr(), p.results[2].Len())
	}
	p.results[7] = batch.ForwardTo(wan, p.results[7].Addr(), p.results[7].Len()+1)
	if n, bytes := accept(1); n != 6 || bytes != 6*64 || p.out[6] != p.results[6] || p.out[7] != (batch.Result{}) {
		t.Errorf("%d packets before another result, %d bytes", n, bytes)
	}
	p.results[8] = batch.DropFor(batch.NoRoute)
	if n, bytes := accept(8); n != 0 || bytes != 0 {
		t.Errorf("%d packets, %d bytes of a dropped one", n, bytes)
	}
}
