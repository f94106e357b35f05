package memport

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/umem"
)

// pair is the two queues of a worker.
type pair struct {
	mem     *umem.Memory
	pool    *umem.Pool
	in, out *Queue
}

func newPair(t *testing.T) *pair {
	mem, err := umem.New(6000)
	require.NoError(t, err)
	t.Cleanup(func() { mem.Close() })
	pool := umem.NewPool(mem)
	return &pair{mem, pool, New(3, mem, pool), New(1, mem, pool)}
}

// turn forwards up to n received frames and reclaims transmitted ones.
func (p *pair) turn(t *testing.T, n int) (received, transmitting int) {
	p.in.Refill()
	chunk := make([]batch.Frame, n)
	chunk = chunk[:p.in.Receive(chunk)]
	for _, f := range chunk {
		if f.Origin.Port() != 3 {
			t.Fatalf("received by port %d", f.Origin.Port())
		}
	}
	for rest := chunk; len(rest) > 0; {
		rest = rest[p.out.Transmit(rest):]
	}
	transmitting = p.out.Reclaim()
	free := slices.Clone(p.pool.TakeBlock(min(32, p.pool.Len())))
	for _, frame := range free { // the worker may overwrite free frames
		clear(p.mem.Bytes()[frame : frame+umem.FrameSize])
	}
	p.pool.PutBlock(free)
	return len(chunk), transmitting
}

// checkFrames checks that the pool and the queues have all frames, and none twice.
func (p *pair) checkFrames(t *testing.T) {
	t.Helper()
	if held := p.in.Held() + p.out.Held(); held+p.pool.Len() != p.mem.Frames() {
		t.Errorf("%d frames held, %d free, of %d", held, p.pool.Len(), p.mem.Frames())
	}
	var all []uint32
	for _, r := range []*ring{&p.in.rx, &p.in.tx, &p.out.rx, &p.out.tx} {
		for i := r.worker.released; i != r.worker.posted; i++ {
			all = append(all, r.addrs[int(i)%len(r.addrs)]/umem.FrameSize)
		}
	}
	for _, f := range p.in.prepared[p.in.refilled:] {
		all = append(all, f.Addr/umem.FrameSize)
	}
	for _, addr := range p.pool.TakeBlock(p.pool.Len()) {
		all = append(all, addr/umem.FrameSize)
	}
	slices.Sort(all)
	if len(slices.Compact(all)) != p.mem.Frames() {
		t.Errorf("some of %d frames are in two places", p.mem.Frames())
	}
}

// anyFrames returns frames of many lengths, longer than a frame's memory too.
func anyFrames(rnd *rand.Rand) (frames [][]byte) {
	for n := 1; n <= umem.MaxFrameLen+50; n += 1 + rnd.IntN(9) {
		f := make([]byte, n)
		for i := range f {
			f[i] = byte(rnd.Uint32())
		}
		frames = append(frames, f)
	}
	return frames
}

// Unread frames are transmitted, and neither read nor passed on, unless somebody asks for them.
func TestUnreadFramesAreTransmitted(t *testing.T) {
	for _, collect := range []bool{false, true} {
		p := newPair(t)
		p.in.hasNIC, p.out.hasNIC = true, true
		p.in.Play([][]byte{{1, 2, 3, 4, 5, 6, 7, 8, 9}}, -1)
		p.in.Prepare(2999)
		p.out.LeaveUnread()
		collected := 0
		if collect {
			p.out.Collect(func([]byte) { collected++ })
		}
		received := 0
		for range 100 {
			n, _ := p.turn(t, 100)
			received += n
			p.in.step()
			p.out.step()
		}
		p.turn(t, 0)
		if want := map[bool]int{true: 2999}[collect]; received != 2999 || p.in.Arrived() != 2999 || p.out.tx.held() != 0 || collected != want || (p.out.sum != 0) != collect {
			t.Errorf("%d received, %d arrived, %d not transmitted, %d collected, sum %d", received, p.in.Arrived(), p.out.tx.held(), collected, p.out.sum)
		}
		p.checkFrames(t)
	}
}

// TestPrepareWithoutPackets: a queue that receives nothing has nothing to prepare.
func TestPrepareWithoutPackets(t *testing.T) {
	p := newPair(t)
	p.in.Prepare(100)
	p.in.Play(nil, 100)
	p.in.Prepare(100)
	if p.in.Held() != 0 || p.pool.Len() != p.mem.Frames() {
		t.Errorf("%d frames held, %d free of %d", p.in.Held(), p.pool.Len(), p.mem.Frames())
	}
}

// Workers at different speeds receive all frames in order, with any assignment of queues to NICs.
func TestNICServesItsQueues(t *testing.T) {
	const count = 5000
	rnd := rand.New(rand.NewPCG(2, 2))
	frames := anyFrames(rnd)
	recording := Record(frames)
	for _, nics := range []int{1, 2, 4} {
		pairs := []*pair{newPair(t), newPair(t)}
		queues := []*Queue{pairs[0].in, pairs[1].in, pairs[0].out, pairs[1].out}
		sent := make([]int, len(pairs))
		for i, p := range pairs {
			first := i * len(frames) / 2
			p.in.PlayRecording(recording, first, count)
			p.out.Collect(func(got []byte) {
				want := frames[(first+sent[i])%len(frames)]
				if want = want[:min(len(want), umem.MaxFrameLen)]; !bytes.Equal(got, want) {
					t.Errorf("pair %d: frame %d: % x, want % x", i, sent[i], got, want)
				}
				sent[i]++
			})
		}
		var running []*NIC
		for n := range nics {
			var its []*Queue
			for i := n; i < len(queues); i += nics {
				its = append(its, queues[i])
			}
			c, err := StartNIC(affinity.Any, its...)
			require.NoError(t, err)
			running = append(running, c)
		}
		received, transmitting := make([]int, len(pairs)), 0
		for received[0] < count || received[1] < count || transmitting > 0 {
			transmitting = 0
			for i, p := range pairs {
				n, left := p.turn(t, rnd.IntN(1500))
				received[i] += n
				transmitting += left
			}
			runtime.Gosched()
		}
		for _, c := range running {
			c.Stop()
		}
		for i, p := range pairs {
			if received[i] != count || sent[i] != count {
				t.Errorf("%d NICs: pair %d: %d received, %d sent, of %d", nics, i, received[i], sent[i], count)
			}
			p.checkFrames(t)
		}
	}
}

// A NIC that is paused or stopped at any time loses no frame.
func TestNICStopsWithoutFrameLoss(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	recording := Record(anyFrames(rnd))
	for round := range 20 {
		p := newPair(t)
		p.in.PlayRecording(recording, 0, -1)
		sent := 0
		p.out.Collect(func([]byte) { sent++ })
		c, err := StartNIC(affinity.Any, p.in, p.out)
		require.NoError(t, err)
		received := 0
		for received < round*200 {
			n, _ := p.turn(t, 1+rnd.IntN(400))
			received += n
			runtime.Gosched()
		}
		if round%2 == 0 {
			p.in.Pause()
		}
		c.Stop()
		if sent > received || received-sent > p.out.Held() {
			t.Errorf("%d frames were received, %d of them sent and %d held to send", received, sent, p.out.Held())
		}
		p.checkFrames(t)
	}
}

// A paused queue delivers received frames, then nothing.
func TestPausedQueueRunsDry(t *testing.T) {
	p := newPair(t)
	p.in.Play([][]byte{make([]byte, 60)}, -1)
	c, err := StartNIC(affinity.Any, p.in, p.out)
	require.NoError(t, err)
	for received := 0; received == 0; runtime.Gosched() {
		received, _ = p.turn(t, 100)
	}
	p.in.Pause()
	for dry := 0; dry < 3; { // the NIC may finish a burst
		n, transmitting := p.turn(t, 100)
		if dry++; n+transmitting > 0 {
			dry = 0
		}
		runtime.Gosched()
	}
	c.Stop()
	p.checkFrames(t)
}

func TestNICDoesNotAllocate(t *testing.T) {
	p := newPair(t)
	p.in.Play([][]byte{make([]byte, 60)}, -1)
	p.in.hasNIC, p.out.hasNIC = true, true
	chunk := make([]batch.Frame, 256)
	sent := 0
	turn := func() {
		p.in.Refill()
		p.in.step()
		sent += p.out.Transmit(chunk[:p.in.Receive(chunk)])
		p.out.step()
		p.out.Reclaim()
	}
	if n := testing.AllocsPerRun(500, turn); n != 0 || sent < 500 {
		t.Errorf("%v allocations in a turn; %d frames were sent", n, sent)
	}
}
