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

// inlineChunks cuts chunks into small ones for the low-latency path, and submits them one after
// another.
type inlineChunks struct {
	rnd    *rand.Rand
	most   int // packets of a chunk
	umem   []byte
	submit func(c *batch.Chunk)
}

// run submits frames in chunks of random sizes with inlined headers. Half of the chunks have one IP
// family, so that some have short headers. An unaligned frame is a chunk of its own.
func (h *inlineChunks) run(in []batch.Frame, out []batch.Result) {
	for len(in) > 0 {
		most, alike := 1+h.rnd.IntN(h.most), h.rnd.IntN(2) == 0
		n := 1
		if in[0].Addr%4 != 2 {
			most = 1
		}
		for ; n < min(most, len(in)); n++ {
			if in[n].Addr%4 != 2 || alike && h.isIPv4(in[n]) != h.isIPv4(in[0]) {
				break
			}
		}
		h.submit(&batch.Chunk{In: in[:n], Out: out[:n], N: n})
		in, out = in[n:], out[n:]
	}
}

func (h *inlineChunks) isIPv4(f batch.Frame) bool {
	b := h.umem[f.Addr+packet.EthernetLen-2:]
	return [3]byte(b) == [3]byte{8, 0, 0x45}
}

// inlinedApart is other.apart on the low-latency path: a block expects headers like those of the
// previous chunk.
const inlinedApart = 64

// inlineCounts counts chunks by kind of headers, and those with inline completions.
type inlineCounts struct{ headers, shortHeaders, plain, completed int }

func (n *inlineCounts) count(s *slot) {
	switch header := uint32(s.descriptors[0] >> 32); {
	case header&inlineHeadersFlag != 0:
		n.headers++
	case header&inlineShortHeadersFlag != 0:
		n.shortHeaders++
	default:
		n.plain++
	}
	if s.completed != 0 {
		n.completed++
	}
}

// check requires chunks of each kind.
func (n *inlineCounts) check(t *testing.T) {
	t.Helper()
	least := (n.headers + n.shortHeaders + n.plain) / 50
	if testing.Short() { // compute-sanitizer slows the polls: 185 of 10,927 chunks had completions on one host
		least /= 10
	}
	for what, seen := range map[string]int{"headers": n.headers, "short headers": n.shortHeaders, "no headers": n.plain, "completions": n.completed} {
		if seen < least {
			t.Errorf("only %d chunks of %+v were %s", seen, *n, what)
		}
	}
	t.Logf("chunks: %+v", *n)
}

const noBatch = -1 // no batch

// spoil gives the inlined header of a packet the tag of another chunk: the kernel polls before it
// arrives.
func (s *slot) spoil(packet int) {
	s.headers[descWordOf(packet)][0]--
	s.shortHeaders[descWordOf(packet)][0]--
}

// onHost is the kernel's code of the low-latency path, compiled for the host, behind an engine.
func (n *inlineCounts) onHost(t *testing.T, base *fib.FIB, partialChecksums []bool) other {
	mailbox, pool := newTestMailbox(t, 1, inlineFrames)
	sh := startShim(t, base, partialChecksums, twinChunk, twinBytes, "testdata/lowlatency.c",
		fmt.Sprint(doneBytes), fmt.Sprint(mailbox.descriptorsAt), fmt.Sprint(mailbox.headersAt), fmt.Sprint(mailbox.shortHeadersAt), fmt.Sprint(mailbox.completionsAt))
	e := newEngine(cpu.New(base, sh.umem, partialChecksums), &deviceState{}, &kernelState{}, mailbox, pool, sh.umem, Options{Timeout: time.Minute})
	s, rnd := &mailbox.slots[0], rand.New(rand.NewPCG(3, 4))
	h := &inlineChunks{rand.New(rand.NewPCG(3, 3)), inlineFrames, sh.umem, func(c *batch.Chunk) {
		generation := rnd.Uint32N(1 << 31)
		atomic.StoreUint32(&sh.generation, generation)
		e.queuedGeneration.Store(generation)
		if rnd.IntN(8) == 0 { // changes before the collection: the CPU executes
			e.queuedGeneration.Add(1)
		}
		e.Submit(c)
		late := noBatch
		if rnd.IntN(8) == 0 && s.inlined > 0 {
			late = rnd.IntN(c.N) / batchFrames
			s.spoil(late*batchFrames + rnd.IntN(min(batchFrames, c.N-late*batchFrames)))
		}
		copy(sh.slot, mailbox.Bytes[slotsAt:])
		sh.submit(c.N)
		copy(mailbox.Bytes[slotsAt:], sh.slot)
		if !e.Done(c) {
			t.Fatalf("%d packets are not done", c.N)
		}
		if late != noBatch && s.completed>>late&1 != 0 {
			t.Fatalf("batch %d of %d packets was completed without all of its headers", late, c.N)
		}
		for part := range s.batches {
			if got := s.generation(part * batchFrames); s.completed>>part&1 != 0 && got != generation {
				t.Fatalf("batch %d of %d packets was completed with generation %d, the tables have %d", part, c.N, got, generation)
			}
		}
		n.count(s)
	}}
	return other{sh.umem, sh.in, sh.out, func(n int) { h.run(sh.in[:n], sh.out[:n]) }, inlinedApart}
}

func TestLowLatencyKernelCodeAgreesWithTheCPUEngine(t *testing.T) {
	n := &inlineCounts{}
	agreeOnTraffic(t, n.onHost, 200_000)
	n.check(t)
}
