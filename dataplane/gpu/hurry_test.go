package gpu

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/packet"
)

// errand cuts chunks into such as are in a hurry, and has an engine have one after another.
type errand struct {
	rnd    *rand.Rand
	most   int // packets of a chunk
	umem   []byte
	submit func(c *batch.Chunk)
}

// run submits frames in chunks of random sizes, as may take heads along. Half of
// them end where the family changes, so that halves do for some, and those with a frame whose
// head is no line are of that frame alone.
func (h *errand) run(in []batch.Frame, out []batch.Result) {
	for len(in) > 0 {
		most, alike := 1+h.rnd.IntN(h.most), h.rnd.IntN(2) == 0
		n := 1
		if in[0].Addr%16 != 2 {
			most = 1
		}
		for ; n < min(most, len(in)); n++ {
			if in[n].Addr%16 != 2 || alike && h.isIPv4(in[n]) != h.isIPv4(in[0]) {
				break
			}
		}
		h.submit(&batch.Chunk{In: in[:n], Out: out[:n], N: n})
		in, out = in[n:], out[n:]
	}
}

func (h *errand) isIPv4(f batch.Frame) bool {
	b := h.umem[f.Addr+packet.EthernetLen-2:]
	return [3]byte(b) == [3]byte{8, 0, 0x45}
}

// hurriedApart is other.apart for chunks in a hurry: a block expects heads where the chunk
// before had some.
const hurriedApart = 64

// hurried counts the chunks that went with what, and how many of them were answered.
type hurried struct{ heads, halves, plain, answered int }

func (n *hurried) count(s *slot) {
	switch size := uint32(s.quads[0] >> 32); {
	case size&headsSize != 0:
		n.heads++
	case size&halvesSize != 0:
		n.halves++
	default:
		n.plain++
	}
	if s.answered != 0 {
		n.answered++
	}
}

// check wants some of each.
func (n *hurried) check(t *testing.T) {
	t.Helper()
	all := n.heads + n.halves + n.plain
	for what, seen := range map[string]int{"with heads": n.heads, "with halves": n.halves, "with neither": n.plain, "answered": n.answered} {
		if seen < all/50 { // under compute-sanitizer 12 of 301 were answered
			t.Errorf("only %d chunks of %+v were %s", seen, *n, what)
		}
	}
	t.Logf("chunks: %+v", *n)
}

const onTime = -1 // no quad

// spoil leaves the head of a packet as that of a chunk before, or as none, so that it is not
// there yet when the kernel looks.
func (s *slot) spoil(packet int) {
	s.heads[laneOf(packet)][0]--
	s.halves[laneOf(packet)][0]--
}

// onHost is the kernel's code for chunks in a hurry, compiled for the host, with an engine in
// front of it.
func (n *hurried) onHost(t *testing.T, base *fib.FIB, repair []bool) other {
	mail, err := newMailbox(1, hurryFrames)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mail.close() })
	sh := startShim(t, base, repair, twinChunk, twinBytes, "testdata/hurry.c",
		fmt.Sprint(doneBytes), fmt.Sprint(mail.quadsAt), fmt.Sprint(mail.headsAt), fmt.Sprint(mail.halvesAt), fmt.Sprint(mail.answersAt))
	e := newEngine(cpu.New(base, sh.umem, repair), &health{}, mail, sh.umem, Options{Timeout: time.Minute})
	s, rnd := &mail.slots[0], rand.New(rand.NewPCG(3, 4))
	h := &errand{rand.New(rand.NewPCG(3, 3)), hurryFrames, sh.umem, func(c *batch.Chunk) {
		turns := rnd.Uint32N(1 << 31)
		atomic.StoreUint32(&sh.turns, turns)
		e.turns.Store(turns)
		if rnd.IntN(8) == 0 { // they change before the answers are taken: the CPU decides
			e.turns.Add(1)
		}
		e.Submit(c)
		late := onTime
		if rnd.IntN(8) == 0 && s.hurried > 0 {
			late = rnd.IntN(c.N) / quadFrames
			s.spoil(late*quadFrames + rnd.IntN(min(quadFrames, c.N-late*quadFrames)))
		}
		copy(sh.slot, mail.mem)
		sh.submit(c.N)
		copy(mail.mem, sh.slot)
		if !e.Done(c) {
			t.Fatalf("%d packets are not done", c.N)
		}
		if late != onTime && s.answered>>late&1 != 0 {
			t.Fatalf("quad %d of %d packets was answered without all of its heads", late, c.N)
		}
		for part := range s.parts {
			if got := s.turns(part * quadFrames); s.answered>>part&1 != 0 && got != turns {
				t.Fatalf("quad %d of %d packets was answered as of turn %d, the tables are of turn %d", part, c.N, got, turns)
			}
		}
		n.count(s)
	}}
	return other{sh.umem, sh.in, sh.out, func(n int) { h.run(sh.in[:n], sh.out[:n]) }, hurriedApart}
}

// Chunks in a hurry have the same results, and leave the same bytes, by heads and by halves.
func TestHurriedKernelCodeAgreesWithTheCPUEngine(t *testing.T) {
	n := &hurried{}
	agreeOnTraffic(t, n.onHost, 200_000)
	n.check(t)
}
