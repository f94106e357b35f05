package gpu

import (
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
)

// TestTicketLockKeepsTheOrder: threads in place of warps claim the batches of two workers' tiles, each once, and take sequence numbers for
// them under the kernel's ticket lock. They are in the order of batches, those of the host included.
func TestTicketLockKeepsTheOrder(t *testing.T) {
	program := compile(t, "testdata/lock.c")
	byDevice, byHost, overlaps, speculated := 0, 0, 0, 0
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for seed := range 40 {
		out, err := exec.CommandContext(ctx, program, fmt.Sprint(seed)).CombinedOutput()
		if err != nil {
			t.Fatalf("seed %d: %v: %s", seed, err, out)
		}
		var device, host, overlap, speculative int
		if _, err := fmt.Sscan(string(out), &device, &host, &overlap, &speculative); err != nil {
			t.Fatalf("seed %d: %v: %q", seed, err, out)
		}
		byDevice, byHost, overlaps, speculated = byDevice+device, byHost+host, overlaps+overlap, speculated+speculative
	}
	if byDevice < 10_000 || byHost < 1000 || overlaps < 1000 || speculated < 1000 {
		t.Errorf("only %d batches got numbers from the device, %d from the host, %d began before the block had finished the tile in front, and %d before the tile's first batch", byDevice, byHost, overlaps, speculated)
	}
}

// TestChunksKeepTheLock: until the host has posted the packets that the device left to it.
func TestChunksKeepTheLock(t *testing.T) {
	r := newPassesRig(t, 4, 3)
	words := func(f *flight, k int) [2]uint32 {
		s := &r.e.mailbox.slots[f.slots[k]]
		return [2]uint32{uint32(s.descriptors[0] >> 32 & (assignSeqsFlags | hasJobsFlag)), uint32(s.descriptors[cacheLineWords]>>32) &^ lockEarly}
	}
	ticket := uint64(0)
	for k := range r.chunks {
		f := r.submitToAssign(k)
		for tile := range f.tiles {
			want := [2]uint32{assignSeqsFlags, uint32(ticket)}
			if tile == 0 {
				want[1] |= lockWaits
			}
			if got := words(f, tile); got != want {
				t.Fatalf("chunk %d, tile %d: %#x, want %#x", k, tile, got, want)
			}
			ticket += uint64(r.e.mailbox.slots[f.slots[tile]].batches)
		}
		if f.ticket != ticket {
			t.Fatalf("chunk %d ends before ticket %d, want %d", k, f.ticket, ticket)
		}
	}
	first := &r.e.inFlight[0]
	r.assign(first, func(i int) bool { return i == 5 })
	if r.e.Done(r.chunks[0]); first.pass != lastPass {
		t.Fatalf("pass %d: %v", first.pass, r.e.state.err())
	}
	if got := r.e.mailbox.released[0]; got != uint32(first.ticket) {
		t.Errorf("the lock is released at ticket %d, want %d", got, first.ticket)
	}
	for k, job := range first.jobs {
		if (job.Kind == esp.Seal) != (k == 5) {
			t.Errorf("packet %d: %+v", k, job)
		}
	}
	r.finish(first, batch.Result{})
	r.assign(&r.e.inFlight[1], none)
	for k := range 2 {
		if !r.e.Done(r.chunks[k]) {
			t.Fatalf("chunk %d is not done", k)
		}
	}
	if stats := r.sa.Stats(); stats.Packets != 32 || stats.Bytes != 32*128 {
		t.Errorf("%+v after 32 packets of 128 bytes", stats)
	}
}

// early reports, by tile, whether the batches of a chunk release the lock early.
func (r *passesRig) early(f *flight) (tiles []bool) {
	for _, s := range f.slots[:f.tiles] {
		tiles = append(tiles, uint32(r.e.mailbox.slots[s].descriptors[cacheLineWords]>>32)&lockEarly != 0)
	}
	return tiles
}

// TestLockIsReleasedEarlyIfTheWorkerNeedsManySlots: more than a fifth of the blocks, so the lock bounds its rate. Other workers have most
// of the blocks.
func TestLockIsReleasedEarlyIfTheWorkerNeedsManySlots(t *testing.T) {
	r := newPassesRig(t, 20, 6)
	r.e.pool.take(nil, blockRequest{n: 11})
	for k := range r.chunks {
		f := r.submitToAssign(k)
		used := r.e.lanes[f.chunk.Lane].used
		if used != k+1 {
			t.Fatalf("%d chunks need %d blocks", k+1, used)
		}
		for _, early := range r.early(f) {
			if early != (used > 4) {
				t.Errorf("with %d slots needed and 20 blocks, the lock is released early: %v", used, early)
			}
		}
	}
}

// TestLockIsReleasedEarlyIfBlocksAreFree: at least half of the lane's, so the lock is a part of the latency.
func TestLockIsReleasedEarlyIfBlocksAreFree(t *testing.T) {
	for lane, reserved := range []int{0, 4} {
		all := 20 - reserved
		for taken := all/2 - 2; taken <= all/2+2; taken++ { // by other workers
			r := newPassesRig(t, 20, 1)
			r.e.reserved[lane] = reserved
			r.chunks[0].Lane = uint8(lane)
			r.e.pool.take(nil, blockRequest{n: taken, reserved: reserved})
			for _, early := range r.early(r.submitToAssign(0)) {
				if early != (taken <= all/2) {
					t.Errorf("lane %d, with %d of %d blocks free, the lock is released early: %v", lane, all-taken, all, early)
				}
			}
		}
	}
}

// TestLockIsReleasedEarlyInSpreadChunks: a chunk that is spread over more tiles than usual has smaller batches, and passes the lock more
// often.
func TestLockIsReleasedEarlyInSpreadChunks(t *testing.T) {
	for _, free := range []int{15, 16, 19} {
		r := newPassesRig(t, 40, 1)
		r.e.tiling.spreadBatch = 100 // less than a packet
		r.e.pool.take(nil, blockRequest{n: 40 - free})
		f, spread := r.submitToAssign(0), free >= 2*spreadShare
		if spread != (f.tiles > f.needed) {
			t.Fatalf("with %d free blocks, the chunk has %d tiles in place of %d", free, f.tiles, f.needed)
		}
		for k, early := range r.early(f) {
			if early != spread {
				t.Errorf("with %d free blocks, tile %d of %d releases the lock early: %v", free, k, f.tiles, early)
			}
		}
	}
}

// TestLockIsNotReleasedBackwards: the last passes of two lanes are posted in another order than their tickets have.
func TestLockIsNotReleasedBackwards(t *testing.T) {
	r := newPassesRig(t, 4, 2)
	r.addLender(numbersOfOneSA())
	r.chunks[0].Lane = 1
	for k := range r.chunks {
		r.submitToAssign(k)
	}
	for i := range r.e.inFlight {
		r.assign(&r.e.inFlight[i], func(i int) bool { return i == 5 })
	}
	first, second := r.e.inFlight[0].ticket, r.e.inFlight[1].ticket
	if r.e.Done(r.chunks[0]); r.e.lanes[0].inFirstPass+r.e.lanes[1].inFirstPass != 0 || first == second || r.e.mailbox.released[0] != uint32(second) {
		t.Errorf("the lock is released at ticket %d, want %d", r.e.mailbox.released[0], second)
	}
	r.finish(&r.e.inFlight[0], batch.Result{})
	r.finish(&r.e.inFlight[1], batch.Result{})
	await(r.e, r.chunks[0])
	await(r.e, r.chunks[1])
	// Between releases, a worker may have any number of batches without a packet of the host.
	for _, c := range []struct{ last, next, want uint64 }{
		{0, 4, 4}, {12, 10, 12}, {12, 14, 14}, {tickets - 2, tickets + 3, 3}, {3, tickets - 2, tickets - 2}, {3, tickets/2 + 9, tickets/2 + 9}, {3, 5*tickets + 1, 1},
	} {
		r.e.seqAssign.released = 0
		r.e.releaseLock(c.last)
		if r.e.releaseLock(c.next); r.e.mailbox.released[0] != uint32(c.want) {
			t.Errorf("released to %d, then to %d: %d, want %d", c.last, c.next, r.e.mailbox.released[0], c.want)
		}
	}
}

// TestChunksDoNotWaitForTheTurnOfAnAbandonedOne: nobody passes it on.
func TestChunksDoNotWaitForTheTurnOfAnAbandonedOne(t *testing.T) {
	r := newPassesRig(t, 4, 3)
	waits := func(f *flight) bool {
		return r.e.mailbox.slots[f.slots[0]].descriptors[cacheLineWords]>>32&lockWaits != 0
	}
	hung := r.submitToAssign(0)
	slots := append([]uint16(nil), hung.slots[:hung.tiles]...)
	if await(r.e, r.chunks[0]); r.chunks[0].Out[0].Verdict != batch.Lost {
		t.Fatalf("verdict %v", r.chunks[0].Out[0].Verdict)
	}
	for _, k := range slots {
		r.e.mailbox.slots[k].report()
	}
	time.Sleep(5 * time.Millisecond)
	r.e.traffic[0].assigning.seen = assignAfter
	for k, want := range []bool{false, true} {
		if f := r.submitToAssign(1 + k); f.placement != ExecutedOnGPU || waits(f) != want {
			t.Errorf("chunk %d after it: placement %d, waits for the lock: %v", 1+k, f.placement, waits(f))
		}
	}
}
