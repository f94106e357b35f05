//go:build gpu

package gpu

import (
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
)

// onGPU returns what makes the kernels themselves the other; if there is somebody who counts,
// by chunks in a hurry.
func onGPU(mode Mode, n *hurried) maker {
	return func(t *testing.T, base *fib.FIB, repair []bool) other {
		d, err := openFirst(base, Options{Mode: mode, Timeout: 10 * time.Second, Repair: repair, Shadow: 1})
		if err != nil {
			t.Fatal(err)
		}
		mem, err := unix.Mmap(-1, 0, twinBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			t.Fatal(err)
		}
		slab, err := batch.NewSlab(1, twinChunk)
		if err != nil {
			t.Fatal(err)
		}
		slots := 1
		if n != nil { // for all that a chunk may take
			slots = 2 * maxShares
		}
		e, err := d.NewEngine(mem, slots, twinChunk, cpu.New(base, mem, repair))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Err(); err != nil {
				t.Error(err)
			}
			agreedInShadow(t, e)
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		if n != nil {
			h := &errand{rand.New(rand.NewPCG(3, 3)), maxShares * hurryFrames, mem, func(c *batch.Chunk) {
				e.Submit(c)
				for !e.Done(c) {
				}
				n.count(&e.mail.slots[0])
			}}
			in, out := make([]batch.Frame, twinChunk), make([]batch.Result, twinChunk)
			return other{mem, in, out, func(k int) {
				d.tables.patcher.settle()
				h.run(in[:k], out[:k])
			}, hurriedApart}
		}
		c := slab.Chunks[0]
		return other{mem, c.In, c.Out, func(n int) {
			d.tables.patcher.settle()
			c.N, c.Submitted = n, batch.Clock()
			e.Submit(c)
			for !e.Done(c) {
			}
		}, 0}
	}
}

// One after another: beside a resident kernel, no other can be loaded.
func TestGPUAgreesWithTheCPUEngine(t *testing.T) {
	for _, mode := range []Mode{Resident, Launched} {
		t.Run(string(mode)+" traffic", func(t *testing.T) { agreeOnTraffic(t, onGPU(mode, nil), 2_000_000) })
		t.Run(string(mode)+" sources", func(t *testing.T) { agreeOnSources(t, onGPU(mode, nil)) })
		t.Run(string(mode)+" asked", func(t *testing.T) { followSources(t, onGPU(mode, nil)) })
		t.Run(string(mode)+" internet", func(t *testing.T) { agreeOnTheInternet(t, onGPU(mode, nil)) })
	}
	t.Run("in a hurry", func(t *testing.T) {
		n := &hurried{}
		agreeOnTraffic(t, onGPU(Resident, n), 1_000_000)
		n.check(t)
	})
}
