package gpu

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/packet"
)

// ipv4 makes the packets of a chunk look as those of which half a head will do.
func ipv4(c *batch.Chunk, umem []byte) {
	for _, f := range c.In[:c.N] {
		copy(umem[f.Addr+packet.EthernetLen-2:], []byte{8, 0, 0x45})
	}
}

// A chunk that finds its device idle takes the heads of its packets along, unless they
// are too many, or one of them is not where heads are lines; tags begin anew. Of IPv4 it
// takes halves, unless one packet has another.
func TestHeadsComeAlong(t *testing.T) {
	e, blocks, chunks := newRig(t, 2, time.Minute)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range e.umem {
		e.umem[i] = byte(rnd.Uint32())
	}
	for n := 1; n <= maxChunk; n++ {
		c := chunks[0]
		fill(c, rnd, n)
		for i := range n {
			c.In[i].Addr = rnd.Uint32N(1<<13)*128 + 2
		}
		halves := n%2 == 0
		if ipv4(c, e.umem); !halves {
			at := int(c.In[rnd.IntN(n)].Addr) + packet.EthernetLen - 2
			e.umem[at+rnd.IntN(3)] ^= 1 << rnd.IntN(8)
		}
		want := n
		if n > hurryFrames {
			want = 0
		} else if n%3 == 0 {
			c.In[rnd.IntN(n)].Addr += 1 + rnd.Uint32N(15)
			want = 0
		}
		e.Submit(c)
		await(e, c)
		if got := int(blocks[0].heads.Load()); got != want {
			t.Fatalf("%d packets: %d heads came along, want %d", n, got, want)
		}
		if size := uint32(blocks[0].quads[0] >> 32); want > 0 && (size&halvesSize != 0) != halves {
			t.Fatalf("%d packets: halves of heads came along: %v", n, !halves)
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
	if blocks[0].heads.Load() == 0 || blocks[1].heads.Load() != 0 {
		t.Error("heads come along to a device that is not idle, or not to one that is")
	}
}

// What is answered is written into frames, and nothing else of them; what is not has
// results as ever. Answers by tables that have changed since are not taken: the CPU decides.
func TestAnswers(t *testing.T) {
	e, blocks, chunks := newRig(t, 1, time.Minute)
	rnd := rand.New(rand.NewPCG(1, 2))
	c, b := chunks[0], blocks[0]
	for round := range 2000 {
		n := 1 + rnd.IntN(hurryFrames)
		quick, turns := rnd.Uint32N(8)|rnd.Uint32N(8), rnd.Uint32N(1<<31)
		b.quick.Store(quick)
		b.turns.Store(turns)
		e.turns.Store(turns)
		stale := rnd.IntN(4) == 0
		if stale {
			e.turns.Add(1)
		}
		for i := range e.umem {
			e.umem[i] = byte(i * 7)
		}
		fill(c, rnd, n)
		for i, at := range rnd.Perm(1 << 13)[:n] {
			c.In[i] = batch.Frame{Addr: uint32(at*128 + 2), Len: 60, Port: 3}
		}
		if rnd.IntN(2) == 0 {
			ipv4(c, e.umem)
		}
		want := slices.Clone(e.umem)
		e.Submit(c)
		await(e, c)
		for i, f := range c.In[:n] {
			expect := batch.Result{Addr: f.Addr, Len: replyLen(i), Verdict: batch.Forward(uint16(i))}
			switch {
			case quick>>(i/quadFrames)&1 == 0:
				expect = batch.Result{Addr: f.Addr, Len: f.Len, Verdict: batch.Forward(f.Port + 1)}
			case stale: // its memory is empty
				expect = batch.Result{Verdict: batch.Drop(batch.EtherType)}
			case i%3 == 2:
				expect.Addr, expect.Verdict = uint32(i), batch.Hold
			default:
				copy(want[f.Addr:], []byte{byte(i), 0, 0, 0, 0, 0, 0xbb, 0xbb, 0xbb, 0xbb, 0xbb, 0xbb})
				copy(want[f.Addr+packet.EthernetLen+4:], []byte{0xcc, 0xcc, 0xcc, 0xcc, 0xdd, 0xdd, 0xdd, 0xdd})
			}
			if c.Out[i] != expect {
				t.Fatalf("round %d, packet %d of %d, stale %v: %+v, want %+v", round, i, n, stale, c.Out[i], expect)
			}
		}
		if !bytes.Equal(e.umem, want) {
			t.Fatalf("round %d: %d packets, stale %v: frames differ from what was answered", round, n, stale)
		}
	}
}

// newSlot returns the only slot of a mailbox, which nobody serves.
func newSlot(t *testing.T) *slot {
	t.Helper()
	mail, err := newMailbox(1, maxChunk)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mail.close() })
	return &mail.slots[0]
}

// When tags begin anew, no head, half or answer is left whose tag could be taken for a later
// one's.
func TestOldTagsAreCleared(t *testing.T) {
	s, umem := newSlot(t), make([]byte, 1<<16)
	frames := make([]batch.Frame, hurryFrames)
	for i := range frames {
		frames[i].Addr = 2
	}
	tag := func(words *uint64) uint16 { return uint16(*words) }
	for _, version := range []byte{0, 0x45} { // heads; halves
		copy(umem[packet.EthernetLen:], []byte{8, 0, version}) // of frames that begin at 2
		for _, start := range []uint32{0, 5 * tags, 1<<32 - 2*tags} {
			s.seq = start + 10
			s.post(frames, umem, 0)
			old := tag(&s.halves[firstLane][0])
			for i := range s.answers {
				s.answers[i] = answer{uint64(old), 0, uint64(old), 0}
			}
			s.seq += tags - 1 // meanwhile all chunks went without
			s.post(frames[:1], umem, 0)
			if again := tag(&s.halves[firstLane][0]); again != old {
				t.Fatalf("tag %d follows tag %d: the test is wrong about tags", again, old)
			}
			for l := range s.heads {
				if l > firstLane && (tag(&s.heads[l][0]) == old || tag(&s.halves[l][0]) == old) || tag(&s.answers[l][0]) == old || tag(&s.answers[l][2]) == old {
					t.Fatalf("from chunk %d on: in lane %d there is tag %d still", start, l, old)
				}
			}
		}
	}
}

// A chunk is finished when both pieces of all answers are there, in whatever order they come,
// or the quads say that they are done; what slots have of chunks before does not count.
func TestEveryPieceOfAnAnswerIsAwaited(t *testing.T) {
	s, umem, rnd := newSlot(t), make([]byte, 1<<16), rand.New(rand.NewPCG(5, 5))
	copy(umem[2+packet.EthernetLen-2:], []byte{8, 0, 0x45})
	for range 2000 {
		frames := make([]batch.Frame, 1+rnd.IntN(hurryFrames))
		for i := range frames {
			frames[i].Addr = 2
		}
		if rnd.IntN(2) == 0 {
			umem[2+packet.EthernetLen] ^= 1 // halves or not
		}
		hurry := rnd.IntN(4) > 0
		if hurry {
			s.post(frames, umem, 0)
		} else {
			s.post(frames, nil, 0)
		}
		var pieces []func()
		want := uint32(0)
		for part := range s.parts {
			if !hurry || rnd.IntN(3) == 0 {
				pieces = append(pieces, func() { s.done[part] = s.seq })
				continue
			}
			want |= 1 << part
			for i := part * quadFrames; i < min((part+1)*quadFrames, len(frames)); i++ {
				a := &s.answers[laneOf(i)]
				pieces = append(pieces, func() { a[0] = tagOf(s.seq) }, func() { a[2] = tagOf(s.seq) })
			}
		}
		rnd.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
		for i, arrive := range pieces {
			if s.finished() {
				t.Fatalf("chunk %d of %d packets is finished by %d of %d pieces", s.seq, len(frames), i, len(pieces))
			}
			arrive()
		}
		if !s.finished() || s.answered != want {
			t.Fatalf("chunk %d of %d packets: finished %v, answered %b, want %b", s.seq, len(frames), s.finished(), s.answered, want)
		}
	}
}
