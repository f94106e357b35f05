package gpu

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/race"
	"github.com/warproute/warproute/packet"
)

// ipv4 makes the packets of a chunk IPv4 without options: short headers suffice.
func ipv4(c *batch.Chunk, umem []byte) {
	for _, f := range c.In[:c.N] {
		copy(umem[f.Addr+packet.EthernetLen-2:], []byte{8, 0, 0x45})
	}
}

// TestHeadersAreInlined: a chunk on an idle device has inlined headers, unless it has too many packets
// or a frame is not aligned to 4 bytes. IPv4 without options has short headers.
func TestHeadersAreInlined(t *testing.T) {
	e, blocks, chunks := newRig(t, 2, time.Minute)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range e.umem {
		e.umem[i] = byte(rnd.Uint32())
	}
	for n := 1; n <= maxChunk; n++ {
		c := chunks[0]
		fill(c, rnd, n)
		for i := range n {
			c.In[i].Addr = rnd.Uint32N(1<<13)*128 + 2 + fib.TagLen*rnd.Uint32N(fib.MaxTags+1)
		}
		short := n%2 == 0
		if ipv4(c, e.umem); !short {
			at := int(c.In[rnd.IntN(n)].Addr) + packet.EthernetLen - 2
			e.umem[at+rnd.IntN(3)] ^= 1 << rnd.IntN(8)
		}
		want := n
		if n > inlineFrames {
			want = 0
		} else if n%3 == 0 {
			c.In[rnd.IntN(n)].Addr += 1 + rnd.Uint32N(3)
			want = 0
		}
		process(e, c)
		if got := int(blocks[0].inlinedHeaders.Load()); got != want {
			t.Fatalf("%d packets: %d inlined headers, want %d", n, got, want)
		}
		if header := uint32(blocks[0].descriptors[0] >> 32); want > 0 && (header&inlineShortHeadersFlag != 0) != short {
			t.Fatalf("%d packets: short headers inlined: %v", n, !short)
		}
	}
	fill(chunks[0], rnd, 1)
	fill(chunks[1], rnd, 1)
	chunks[0].In[0].Addr, chunks[1].In[0].Addr = 2, 2
	blocks[0].hang.Store(true)
	e.Submit(chunks[0])
	e.Submit(chunks[1])
	blocks[0].hang.Store(false)
	await(e, chunks[0])
	await(e, chunks[1])
	if blocks[0].inlinedHeaders.Load() == 0 || blocks[1].inlinedHeaders.Load() != 0 {
		t.Error("headers are inlined for a busy device, or not for an idle one")
	}
}

// TestInlineCompletionsAreApplied checks that completions change their bytes of the frames alone, that
// other parts have results, and that the CPU executes parts of an older table generation.
func TestInlineCompletionsAreApplied(t *testing.T) {
	e, blocks, chunks := newRig(t, 1, time.Minute)
	rnd := rand.New(rand.NewPCG(1, 2))
	c, b := chunks[0], blocks[0]
	before := make([]byte, len(e.umem))
	for i := range before {
		before[i] = byte(i * 7)
	}
	for round := range race.Fewer(2000) {
		n := 1 + rnd.IntN(inlineFrames)
		inline, generation := rnd.Uint32N(8)|rnd.Uint32N(8), rnd.Uint32N(1<<31)
		b.inline.Store(inline)
		b.generation.Store(generation)
		e.queuedGeneration.Store(generation)
		stale := rnd.IntN(4) == 0
		if stale {
			e.queuedGeneration.Add(1)
		}
		copy(e.umem, before)
		fill(c, rnd, n)
		for i, at := range rnd.Perm(1 << 13)[:n] {
			c.In[i] = batch.Frame{Addr: uint32(at*128 + 2), Len: 60, Origin: 3}
		}
		if rnd.IntN(2) == 0 {
			ipv4(c, e.umem)
		}
		want := slices.Clone(e.umem)
		process(e, c)
		for i, f := range c.In[:n] {
			expect := batch.ForwardTo(uint16(i), f.Addr, replyLen(i))
			switch {
			case inline>>(i/batchFrames)&1 == 0:
				expect = batch.ForwardTo(f.Origin.Port()+1, f.Addr, f.Len)
			case stale: // its frames are empty
				expect = batch.DropFor(batch.EtherType)
			case i%3 == 2:
				expect = batch.MakeResult(uint32(i), expect.Len(), batch.Hold)
			default:
				copy(want[f.Addr:], []byte{byte(i), 0, 0, 0, 0, 0, 0xbb, 0xbb, 0xbb, 0xbb, 0xbb, 0xbb})
				copy(want[f.Addr+packet.EthernetLen+4:], []byte{0xcc, 0xcc, 0xcc, 0xcc, 0xdd, 0xdd, 0xdd, 0xdd})
			}
			if c.Out[i] != expect {
				t.Fatalf("round %d, packet %d of %d, stale %v: %+v, want %+v", round, i, n, stale, c.Out[i], expect)
			}
		}
		if !bytes.Equal(e.umem, want) {
			t.Fatalf("round %d: %d packets, stale %v: frames differ from the completions", round, n, stale)
		}
	}
}

// newSlot returns the slot of a mailbox without a block.
func newSlot(t *testing.T) *slot {
	t.Helper()
	mailbox, _ := newTestMailbox(t, 1, maxChunk)
	return &mailbox.slots[0]
}

func TestTagsOfEarlierRoundsAreCleared(t *testing.T) {
	s, umem := newSlot(t), make([]byte, 1<<16)
	frames := make([]batch.Frame, inlineFrames)
	for i := range frames {
		frames[i].Addr = 2
	}
	tag := func(words *uint64) uint16 { return uint16(*words) }
	for _, version := range []byte{0, 0x45} { // headers; short headers
		copy(umem[packet.EthernetLen:], []byte{8, 0, version}) // of frames at 2
		for _, start := range []uint32{0, 5 * tagCount, 1<<32 - 2*tagCount} {
			s.block.last = start + 10
			s.post(frames, batchFrames, 0, umem, 0)
			old := uint16(tagOf(s.number))
			for i := range s.completions {
				s.completions[i] = completion{uint64(old), 0, uint64(old), 0}
			}
			s.block.last += tagCount - 1 // no chunk had inlined headers since
			s.post(frames[:1], batchFrames, 0, umem, 0)
			if again := uint16(tagOf(s.number)); again != old {
				t.Fatalf("tag %d unfollow tag %d: the test is wrong about tagCount", again, old)
			}
			for l := range s.headers {
				if l > firstDescWord && (tag(&s.headers[l][0]) == old || tag(&s.shortHeaders[l][0]) == old) || tag(&s.completions[l][0]) == old || tag(&s.completions[l][2]) == old {
					t.Fatalf("from chunk %d on: in lane %d there is tag %d still", start, l, old)
				}
			}
		}
	}
}

// TestFinishedNeedsAllSegments: a part is finished with both segments of all its completions, in any
// order, or with its done entry. Entries of earlier chunks do not count.
func TestFinishedNeedsAllSegments(t *testing.T) {
	s, umem, rnd := newSlot(t), make([]byte, 1<<16), rand.New(rand.NewPCG(5, 5))
	copy(umem[2+packet.EthernetLen-2:], []byte{8, 0, 0x45})
	for range 2000 {
		frames := make([]batch.Frame, 1+rnd.IntN(inlineFrames))
		for i := range frames {
			frames[i].Addr = 2
		}
		if rnd.IntN(2) == 0 {
			umem[2+packet.EthernetLen] ^= 1 // short headers or not
		}
		inline := rnd.IntN(4) > 0
		if inline {
			s.post(frames, batchFrames, 0, umem, 0)
		} else {
			s.post(frames, batchFrames, 0, nil, 0)
		}
		var pieces []func()
		want := uint32(0)
		for part := range s.batches {
			if !inline || rnd.IntN(3) == 0 {
				pieces = append(pieces, func() { s.done[part] = s.number })
				continue
			}
			want |= 1 << part
			for i := part * batchFrames; i < min((part+1)*batchFrames, len(frames)); i++ {
				a := &s.completions[descWordOf(i)]
				pieces = append(pieces, func() { a[0] = tagOf(s.number) }, func() { a[2] = tagOf(s.number) })
			}
		}
		rnd.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
		for i, arrive := range pieces {
			if s.finished() {
				t.Fatalf("chunk %d of %d packets is finished by %d of %d pieces", s.number, len(frames), i, len(pieces))
			}
			arrive()
		}
		if !s.finished() || s.completed != want {
			t.Fatalf("chunk %d of %d packets: finished %v, completed %b, want %b", s.number, len(frames), s.finished(), s.completed, want)
		}
	}
}
