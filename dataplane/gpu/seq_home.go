package gpu

import (
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

// canShareNumbers reports whether every one of some GPUs can take sequence numbers from the memory of every other one, as far as the driver
// says.
func canShareNumbers(gpus []*cuda.Device) bool {
	for _, a := range gpus {
		for _, b := range gpus {
			if can, err := a.PeerAtomics(b); a != b && (err != nil || !can) {
				return false
			}
		}
	}
	return true
}

// useNumbersOf gives the device's kernel access to the sequence numbers in the memory of another one. The context must be current.
func (d *Device) useNumbersOf(home *Device) (seqMemory, error) {
	if err := d.ctx.EnablePeer(home.ctx); err != nil {
		return seqMemory{}, fmt.Errorf("%w; set CUDA_VISIBLE_DEVICES to one GPU", err)
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

// awaitOthers waits until no kernel of another device accesses the numbers, before their memory is gone. Their home has failed, so none
// begins to (lender.paused). If one still does after policyWait, it reports false.
func (l *lender) awaitOthers() bool {
	if l == nil {
		return true
	}
	others := engineList{all: l.users.on(func(s *deviceState) bool { return s != l.state })}
	before := others.counters()
	for by := time.Now().Add(policyWait); ; time.Sleep(pollInterval) {
		if is := others.after(before); is || time.Now().After(by) {
			return is
		}
	}
}

// takesFrom makes a kernel one that takes sequence numbers from the memory of another device, whose kernel then runs, too: it serves the
// requests of the lender.
func (k *kernel) takesFrom(home *kernel) {
	k.home = home
	home.mu.Lock()
	defer home.mu.Unlock()
	home.takers = append(home.takers, k)
}

// servesTakers reports whether kernels of other devices run that take sequence numbers from this one's memory. k.mu is held.
func (k *kernel) servesTakers() bool {
	return slices.ContainsFunc(k.takers, func(t *kernel) bool { return t.d.state.ok() && !t.state.parked.Load() })
}
