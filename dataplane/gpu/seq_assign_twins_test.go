package gpu

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
)

// lendingOnHost is securedOnHost with a device that assigns sequence numbers.
func lendingOnHost(t *testing.T, net *testutil.Network, g *gateway.Gateway) secured {
	t.Helper()
	s, sh := securedOnShim(t, net, g, Shape{Staging: 4 * 3900}, 2)
	e := s.engine
	shimNowServing = func() uint32 { return sh.nowServing[0] }
	t.Cleanup(func() { shimNowServing = nil })
	e.pool.take(nil, blockRequest{n: 1}) // the lowest slot
	e.lender = newLender(e.state, e.mailbox, e.pool, Options{Timeout: 1 << 40})
	e.lender.fakeGPU = func(s *slot, n int) {
		for i := range n {
			sh.deviceJobs[i] = s.jobs[i]
		}
		sh.process(s, n, seqRequestFlags)
		copy(s.results, sh.out[:n])
		s.report()
	}
	e.lender.start()
	return s
}

// shimNowServing returns the word of the worker's lock, nil on a GPU.
var shimNowServing func() uint32

// seqsOf checks the sequence numbers of the packets of a worker, in the order of transmission: those of an SA ascend. Then a
// receiver accepts them with any window, as no other sender uses numbers in between.
type seqsOf struct {
	*testing.T
	last map[uint32]uint32 // by SPI
	n    int
}

// check checks the numbers of a chunk, but for packets that were decrypted before: they are sealed behind the others.
func (x *seqsOf) check(mem []byte, c *batch.Chunk, decrypted func(i int) bool) {
	x.Helper()
	for i, f := range c.In[:c.N] {
		spi, at, is := ipsec.Inbound(mem[f.Addr+packet.EthernetLen:][:f.Len-packet.EthernetLen])
		if !is || c.Out[i].Verdict.Action() != batch.ActionForward || decrypted(i) {
			continue
		}
		seq := binary.BigEndian.Uint32(mem[int(f.Addr)+packet.EthernetLen+at+4:])
		if low, ok := x.last[spi]; ok && int32(seq-low) <= 0 {
			x.Errorf("packet %d, SPI %#x: number %d after %d", i, spi, seq, low)
		}
		x.last[spi] = seq
		x.n++
	}
}

// TestNumberedPacketsAgreeWithTheCPUEngine: packets of all kinds of SAs, with others in between; now and then, all loans
// end, or the host takes numbers itself.
func TestNumberedPacketsAgreeWithTheCPUEngine(t *testing.T) {
	rounds := 120
	if testing.Short() {
		rounds = 40
	}
	agreeOnAssigned(t, lendingOnHost, rounds)
}

func agreeOnAssigned(t *testing.T, maker securedMaker, rounds int) {
	t.Helper()
	w := newSecuredTwins(t, maker, 11)
	e := w.gpu.engine
	e.shadow, e.traffic[0].finding, e.traffic[0].expected = nil, findMode{fixed: true}, expectation{fixed: true}
	e.lender.weighEvery = 1 << 60 // loans do not end by themselves
	w.gaps = true
	w.clampMSS()
	numbers := &seqsOf{T: t, last: map[uint32]uint32{}}
	byDevice, byHost := 0, 0
	for n := range rounds {
		others := w.rnd.IntN(4) == 0
		e.seqAssign = seqAssignment{ticket: e.seqAssign.ticket, released: e.seqAssign.released, launches: e.seqAssign.launches, off: n%16 == 15}
		e.traffic[0].assigning = assigning{seen: assignAfter}
		var decrypted []bool
		w.run(func() (f []byte) {
			switch port := outPort + w.rnd.IntN(len(w.all)); {
			case others && w.rnd.IntN(64) == 0:
				f = w.next()
			case w.rnd.IntN(8) == 0:
				f = w.syn(w.rnd.IntN(2) == 0, port)
			default:
				f = w.clear(w.rnd.IntN(2) == 0, 9, port)
			}
			_, _, is := ipsec.Inbound(f[packet.EthernetLen:])
			decrypted = append(decrypted, is)
			return f
		})
		for i := range e.ipsec.free[len(e.ipsec.free)-1][:w.chunks[1].N] {
			if e.ipsec.free[len(e.ipsec.free)-1][i].Kind == esp.Decided {
				byDevice++
			} else {
				byHost++
			}
		}
		numbers.check(w.gpu.umem, w.chunks[1], func(i int) bool { return decrypted[i] })
		if ticket := uint32(e.seqAssign.ticket); shimNowServing != nil && shimNowServing() != ticket<<1 && (shimNowServing() != ticket<<1|1 || e.mailbox.released[0] != ticket) {
			t.Fatalf("before ticket %d, the worker's lock has %#x, and the host has released it at %d: it is not released", ticket, shimNowServing(), e.mailbox.released[0])
		}
		if n%24 == 23 {
			e.lender.end()
			e.lender.start()
		}
	}
	for _, a := range w.all {
		if got, want := a.out[1].Stats(), a.out[0].Stats(); got != want {
			t.Errorf("%s: %+v, the CPU engine %+v", a.Name, got, want)
		}
	}
	if t.Logf("%d numbers checked; %d packets by the device, %d by the host, %d SAs lent", numbers.n, byDevice, byHost, len(e.lender.sas)); byDevice < 20*rounds || byHost < 5*rounds {
		t.Error("too few of a kind")
	}
}

// clampMSS has the gateways lower MSS options, and protect TCP, too.
func (w *securedTwins) clampMSS() {
	var rules [2][]gateway.Rule
	for i, g := range w.gateways {
		g.ClampMSS = true
		for k, a := range w.all {
			for _, any := range []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")} {
				p := policy.Policy{Src: any, Dst: any, Protocol: 6, DstPorts: policy.Port(outPort + uint16(k)), Action: policy.Protect, Target: a.out[i].Tunnel()}
				rules[i] = append(rules[i], gateway.Rule{Direction: ipsec.Out, IfID: a.IfID, Policy: p})
			}
		}
	}
	w.setRulesAfter(rules)
}
