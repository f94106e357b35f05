package gpu

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/warproute/warproute/cuda"
)

// Several devices take the sequence numbers of an SA from one counter, so that each number is used once, whichever worker has the packet: the
// numbers are in the memory of the first device, their home, and the kernels of the others add to them there, over NVLink.
// Requests of the lender go to the home, whose kernel runs while one of the others does. GPUs that have no such access to
// each other leave the numbers to the host (Options.HostNumbers).

// seqMemory is the lent sequence numbers of SAs in the memory of their home (kernel/seq_assign.h).
type seqMemory struct {
	seqs, tunnels cuda.DevicePtr // saSeqs by key; words by tunnel
}

// cannotShare returns why one of the GPUs cannot take sequence numbers from the memory of the first one, or nil.
func cannotShare(gpus []*cuda.Device) error {
	for i := 1; i < len(gpus); i++ {
		if err := cannotTake(gpus[i], gpus[0]); err != nil {
			return err
		}
	}
	return nil
}

func cannotTake(gpu, home *cuda.Device) error {
	if can, err := gpu.PeerAtomics(home); err != nil || can {
		return err
	}
	return errors.New("a GPU has no access to the memory of another with atomic operations")
}

// useNumbersOf gives the device's kernel access to the sequence numbers in the memory of another one. The context must be current.
func (d *Device) useNumbersOf(home *Device) (seqMemory, error) {
	err := cannotTake(d.ctx.Device(), home.ctx.Device())
	if err == nil {
		err = d.ctx.EnablePeer(home.ctx)
	}
	if err != nil {
		return seqMemory{}, fmt.Errorf("share the sequence numbers of ESP with GPU %d: %w; set CUDA_VISIBLE_DEVICES to one GPU", home.number, err)
	}
	return home.ipsecTables.numbers, nil
}

// newNumbers allocates the numbers in the device's own memory: none is lent. The context must be current.
func (d *Device) newNumbers() (m seqMemory, err error) {
	if m.seqs, err = d.allocZeros(maxKeys * saSeqsBytes); err != nil {
		return m, err
	}
	m.tunnels, err = d.allocZeros(8 * maxTunnels)
	return m, err
}

// allocZeros returns zeroed memory of the device.
func (d *Device) allocZeros(bytes int) (cuda.DevicePtr, error) {
	m, err := d.alloc(bytes)
	if err != nil {
		return 0, err
	}
	return m.Ptr(), m.Write(0, make([]byte, bytes))
}

// awaitOthers waits until no kernel of another device accesses the numbers, before their memory is freed. Their home has failed, so no kernel
// begins to access them (lender.paused).
func (l *lender) awaitOthers() {
	if l == nil {
		return
	}
	others := l.users.on(func(s *deviceState) bool { return s != l.state })
	before := make([]chunkCounter, len(others))
	for i, e := range others {
		before[i] = e.chunksOnGPU()
	}
	for i, e := range others {
		for !e.state.destroyed.Load() && !e.chunksOnGPU().after(before[i]) {
			time.Sleep(pollInterval)
		}
	}
}

// takesFrom lets k take sequence numbers from the memory of home's device. The home's kernel then runs while k does (wakeHome), as it serves
// the requests of the lender.
func (k *kernel) takesFrom(home *kernel) {
	k.mu.Lock()
	k.home = home
	k.mu.Unlock()
	home.mu.Lock()
	defer home.mu.Unlock()
	home.takers = append(home.takers, k)
}

// wakeHome requests a launch of the home's kernel if that is parked. k.mu is held.
func (k *kernel) wakeHome() {
	if k.home != nil && k.home.state.parked.Load() {
		k.home.state.requestWake()
	}
}

// servesTakers reports whether kernels of other devices run that take sequence numbers from this one's memory. k.mu is held.
func (k *kernel) servesTakers() bool {
	return slices.ContainsFunc(k.takers, func(t *kernel) bool { return t.d.state.ok() && !t.state.parked.Load() })
}
