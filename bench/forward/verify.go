package forward

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/packet"
)

// frames returns n frames with sizes in bytes without FCS, each to a random address that a route covers.
// Payload and source are the same in all, which makes recordings of one size small.
func frames(rnd *rand.Rand, routes []testbed.Route, n int, sizes []int) [][]byte {
	out := make([][]byte, n)
	template := make([]byte, slices.Max(sizes))
	for j := range template {
		template[j] = byte(rnd.Uint32())
	}
	for i := range out {
		f := bytes.Clone(template[:sizes[i%len(sizes)]])
		dst, src := testbed.Destination(rnd, routes), netip.AddrFrom4([4]byte{10})
		if dst.Is6() {
			src = netip.MustParseAddr("2001:db8::")
		}
		testbed.PutEthernet(f, dst.Is6())
		testbed.PutIP(f[packet.EthernetLen:], src, dst, packet.UDP, 64, 0)
		out[i] = f
	}
	return out
}

// verify plays every frame once, through one worker or one per GPU, and compares the transmitted
// frames of each worker with the expected ones. l are the logical ports of base, nil for none.
func verify(o Options, base *fib.FIB, routes []testbed.Route, play [][]byte, l *logical) (verified int, err error) {
	o.Testbed.Workers, o.Testbed.Busy = max(1, o.Testbed.GPUs), 0
	if o.Testbed.Prepared > 0 {
		o.Testbed.Prepared = len(play)
	}
	b, err := testbed.New(o.Testbed, base, o.engines(base))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	l.add(b)
	sent, _, err := b.Verify(slices.Repeat([][][]byte{l.enter(play)}, o.Testbed.Workers), 1)
	if err != nil {
		return 0, err
	}
	truth := testbed.Answers(routes)
	for w, got := range sent {
		if len(got) != len(play) {
			return 0, fmt.Errorf("worker %d transmitted %d of %d packets", w, len(got), len(play))
		}
	}
	for i, in := range play {
		want := testbed.Forwarded(in, truth)
		for w, got := range sent {
			if !bytes.Equal(l.leave(got[i]), want) {
				return 0, fmt.Errorf("packet %d of worker %d:\n in   % x\n want % x\n got  % x", i, w, in, want, got[i])
			}
			verified++
		}
	}
	return verified, nil
}
