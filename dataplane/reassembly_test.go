package dataplane_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/packet/fragment"
)

func TestFragmentedESPIsDecrypted(t *testing.T) {
	for _, s := range shapes {
		t.Run(s.String(), func(t *testing.T) {
			e := newESP(t, s)
			sizes := []int{1450, 1500, 1600, 1700, 1760, 1790, 2000, 9000, 65000, 65535 - 20 - 8 - 8 - 8 - 16 - 8}
			var frames [][]byte
			var want [][]byte
			if s.inner != s.outer { // an IPv6 header more
				sizes = sizes[:len(sizes)-1]
			}
			for i, size := range sizes {
				if s.inner == 6 && s.mode == ipsec.Tunnel && size > 1500 {
					continue // its source gets an ICMP error, see TestSourcesLearnTheMTUBehindATunnel
				}
				want = append(want, e.datagram(size, false))
				frames = append(frames, cut(t, e.seal(want[len(want)-1]), uint32(i))...)
			}
			st := e.pass(0, frames)
			sameSet(t, e.whole(1), want, st)
		})
	}
}

// Transport mode protects the whole packet, tunnel mode each fragment.
func TestFragmentedPacketsAreEncrypted(t *testing.T) {
	for _, s := range shapes {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, fragment after %v", s, after), func(t *testing.T) {
				e := newESP(t, s)
				e.gateway.FragmentAfter = after
				var frames, want [][]byte
				for i, size := range []int{1400, 1501, 1700, 2000, 9000, 65000} {
					want = append(want, e.datagram(size, true))
					frames = append(frames, cut(t, want[i], uint32(i))...)
				}
				for i, f := range frames { // a tunnel of IPv6 has no room for full ones, and its sources learn that
					if s.mode == ipsec.Tunnel && s.inner == 6 && len(f) > 1440 {
						frames = frames[:i]
						want = want[:1]
						break
					}
				}
				st := e.pass(1, frames)
				r := fragment.NewReassembler(fragment.DefaultLimits)
				var got [][]byte
				for _, p := range e.whole(0) {
					buf := append(make([]byte, 0, len(p)), p...)
					at, n, err := e.peer[ipsec.In].Decapsulate(0, buf, 0, len(buf))
					if err != ipsec.OK {
						t.Fatal(err)
					}
					whole, problem := r.Add(0, buf[at:at+n])
					if problem != nil {
						t.Fatal(problem)
					}
					if whole != nil {
						got = append(got, bytes.Clone(whole))
					}
				}
				sameSet(t, got, want, st)
			})
		}
	}
}

func TestSourcesLearnTheMTUBehindATunnel(t *testing.T) {
	for _, s := range shapes[:2] {
		e := newESP(t, s)
		p := e.datagram(9000, false)
		if s.inner == 4 {
			p[6] = 0x40
			p = testutil.Edit(append(make([]byte, packet.EthernetLen), p...), 6, 0x40)[packet.EthernetLen:]
		}
		frames := cut(t, e.seal(p), 1)
		e.queues[0].Play(frames, len(frames))
		st := e.run("the error", func(st *dataplane.Stats) bool { return st.Ports[0].TxPackets == 1 })
		if st.Ports[0].Drops[batch.MTUExceeded] != 1 || st.Ports[1].TxPackets != 0 {
			t.Errorf("%v: drops %v, %d packets passed", s, drops(st), st.Ports[1].TxPackets)
		}
		buf := bytes.Clone(e.out[0][0][packet.EthernetLen:])
		at, n, err := e.peer[ipsec.In].Decapsulate(0, buf, 0, len(buf))
		if err != ipsec.OK {
			t.Fatalf("%v: the error is not protected: %v", s, err)
		}
		icmp, want := buf[at+20:at+n], []byte{3, 4}
		mtu := int(icmp[6])<<8 | int(icmp[7])
		if s.inner == 6 {
			icmp, want = buf[at+40:at+n], []byte{2, 0}
			mtu = int(icmp[6])<<8 | int(icmp[7])
		}
		if !bytes.Equal(icmp[:2], want) || mtu != 1500 {
			t.Errorf("%v: ICMP type %d code %d with an MTU of %d", s, icmp[0], icmp[1], mtu)
		}
	}
}

func TestReassembledPacketsReachTheHost(t *testing.T) {
	e, h := newESP(t, shapes[0]), &host{}
	rules := e.gateway.Rules()
	for i := range rules {
		if rules[i].Direction == ipsec.In {
			rules[i].Src, rules[i].Dst = netip.MustParsePrefix("10.3.0.9/32"), netip.MustParsePrefix("10.2.0.1/32")
		}
	}
	require.NoError(t, e.gateway.SetRules(rules))
	p := testutil.UDP4("10.3.0.9", "10.2.0.1", 7, 9, make([]byte, 30_000)...)[packet.EthernetLen:]
	frames := cut(t, e.seal(p), 1)
	e.queues[0].Play(frames, len(frames))
	e.fib.IPv4.Delete(netip.MustParsePrefix("10.2.0.1/32")) // startWithHost has another
	e.startWithHost(h)
	e.wait("the delivery", func(st *dataplane.Stats) bool { return st.Delivered == 1 })
	st := e.stop()
	if len(h.delivered) != 1 || !bytes.Equal(h.delivered[0], p) || len(drops(st)) != 0 {
		t.Errorf("%d packets delivered, drops %v", len(h.delivered), drops(st))
	}
}

// Both ESP and ESP in UDP.
func TestESPFragmentsAreReassembled(t *testing.T) {
	for _, proto := range []byte{50, 17} {
		r := newRig(t, 64)
		whole := testutil.Edit(testutil.UDP4("192.0.2.1", "10.1.0.1", 1, 2, make([]byte, 100)...), 9, proto)
		first := testutil.Edit(whole[:14+20+64], 2, 0, 84, 0, 7, 0x20, 0)
		last := testutil.Edit(append(bytes.Clone(whole[:34]), whole[34+64:]...), 2, 0, byte(len(whole)-34-64+20), 0, 7, 0, 8)
		local := &taker{Engine: r.engine}
		r.config.Workers[0].Engine = local
		r.queues[0].Play([][]byte{last, first}, 2)
		s := r.run("the packet", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == 1 })
		if s.Merged != 1 || s.Ports[0].Dropped() != 0 || !bytes.Equal(r.out[1][0][34:], whole[34:]) {
			t.Errorf("protocol %d: %d fragments merged, %d dropped; % x", proto, s.Merged, s.Ports[0].Dropped(), r.out[1][0])
		}
	}
}

// Incomplete fragments are dropped after the timeout, or when the router stops.
func TestIncompleteFragmentsExpire(t *testing.T) {
	alone := testutil.Edit(testutil.Edit(testutil.UDP4("192.0.2.1", "10.1.0.1", 1, 2, make([]byte, 64)...), 9, 50), 6, 0x20, 0)
	r := newRig(t, 64)
	r.config.Workers[0].Engine = &taker{Engine: r.engine}
	r.queues[0].Play([][]byte{alone}, 1)
	r.start()
	r.wait("the fragment", func(s *dataplane.Stats) bool { return s.Merged == 1 })
	r.wait("its end", func(s *dataplane.Stats) bool { return s.Ports[0].Drops[batch.FragmentsMissing] == 1 })
	if s := r.stop(); s.Merged != 0 {
		t.Errorf("%d fragments count as merged", s.Merged)
	}

	r = newRig(t, 64)
	r.config.Workers[0].Engine = &taker{Engine: r.engine}
	r.queues[0].Play([][]byte{alone}, 1)
	s := r.run("the fragment", func(s *dataplane.Stats) bool { return s.Merged == 1 })
	if s.Merged != 0 || s.Ports[0].Drops[batch.FragmentsMissing] != 1 {
		t.Errorf("stopped: %d merged, drops %v", s.Merged, s.Ports[0].Drops)
	}
}

// taker is an engine that wants fragments reassembled.
type taker struct{ dataplane.Engine }

func (l *taker) Submit(c *batch.Chunk) {
	l.Engine.Submit(c)
	for i := range c.Out[:c.N] {
		if c.Out[i].Len() < 130 {
			c.Out[i] = batch.DropFor(batch.FragmentsMissing)
		}
	}
}
