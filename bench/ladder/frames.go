package ladder

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// frameLen is the length of a 64-byte packet without its FCS.
const frameLen = 60

// frames are the packets of a measurement in the memory of an engine. Chunks use them round-robin, in place:
// each use decrements the TTL, so the frames are written again after maxUses.
type frames struct {
	base  *fib.FIB
	first []byte        // contents of all frames
	mem   []byte        // of the engine, also for other frames
	in    []batch.Frame // by number
}

// maxUses is how often a frame can be forwarded: its TTL is 255 at first, and packets with a TTL of 1 are dropped.
const maxUses = 250

// newFrames returns n frames of 64-byte packets to random addresses that a route covers, in the memory's
// frames from number at on.
func newFrames(rnd *rand.Rand, base *fib.FIB, routes []testbed.Route, at, n int) *frames {
	f := &frames{base: base, first: make([]byte, 0, n*frameLen)}
	src := netip.AddrFrom4([4]byte{10})
	for i := range n {
		frame := make([]byte, frameLen)
		testbed.PutEthernet(frame, false)
		testbed.PutIP(frame[packet.EthernetLen:], src, testbed.Destination(rnd, routes), packet.UDP, 255, 0)
		f.first = append(f.first, frame...)
		f.in = append(f.in, batch.Frame{Addr: uint32((at+i)*umem.FrameSize + umem.DataOffset), Len: frameLen})
	}
	return f
}

// reset writes the frames.
func (f *frames) reset() {
	for i, in := range f.in {
		copy(f.mem[in.Addr:], f.first[i*frameLen:(i+1)*frameLen])
	}
}

// windows returns the number of chunks of n packets per pass over the frames.
func (f *frames) windows(n int) int { return len(f.in) / n }

// fill writes the descriptors of a chunk of n packets, the window-th one of a pass.
func (f *frames) fill(c *batch.Chunk, window, n int) {
	c.N = n
	copy(c.In[:n], f.in[window*n:(window+1)*n])
}

// verify passes all frames through an engine in chunks of n packets, and compares results and memory with
// the CPU engine's. It returns the number of compared packets.
func (f *frames) verify(e *engine, c *batch.Chunk, n int) (int, error) {
	f.reset()
	want := bytes.Clone(f.mem)
	reference, expected := cpu.New(f.base, want, make([]bool, testbed.Ports)), batch.NewChunks(1, n)[0]
	for w := range f.windows(n) {
		f.fill(c, w, n)
		f.fill(expected, w, n)
		clear(c.Out)
		reference.Submit(expected)
		if !reference.Done(expected) {
			return 0, fmt.Errorf("the CPU engine did not finish a chunk")
		}
		c.Submitted = batch.Clock()
		e.Submit(c)
		for !e.Done(c) {
		}
		if err := e.failed(); err != nil {
			return 0, err
		}
		for i, r := range c.Out[:n] {
			if r != expected.Out[i] {
				return 0, fmt.Errorf("packet %d of chunk %d: result %v, want the CPU engine's %v", i, w, r, expected.Out[i])
			}
			if v := expected.Out[i].Verdict; v != batch.Forward(testbed.EgressPort) {
				return 0, fmt.Errorf("packet %d of chunk %d: the CPU engine's verdict is %v", i, w, v)
			}
		}
	}
	for i, in := range f.in {
		got, want := f.mem[in.Addr:][:frameLen], want[in.Addr:][:frameLen]
		if !bytes.Equal(got, want) {
			return 0, fmt.Errorf("packet %d:\n in   % x\n want % x\n got  % x", i, f.first[i*frameLen:(i+1)*frameLen], want, got)
		}
	}
	if !bytes.Equal(f.mem, want) {
		return 0, fmt.Errorf("bytes outside of the frames changed")
	}
	return f.windows(n) * n, nil
}

// checkUses compares all frames with those that a number of chunks of n packets forwards.
func (f *frames) checkUses(n, chunks int) error {
	windows := f.windows(n)
	for i, in := range f.in[:windows*n] {
		uses := chunks / windows
		if i/n < chunks%windows {
			uses++
		}
		got, want := f.mem[in.Addr:][:frameLen], f.first[i*frameLen:(i+1)*frameLen]
		if uses > 0 {
			want = bytes.Clone(want)
			want[packet.EthernetLen+8] -= byte(uses - 1) // the TTL
			want = testbed.Hop(want)
			got, want = got[packet.EthernetLen:], want[packet.EthernetLen:] // verify compared the link addresses
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("verify after measuring: packet %d, forwarded %d times:\n want % x\n got  % x", i, uses, want, got)
		}
	}
	return nil
}
