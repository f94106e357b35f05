//go:build gpu

package gpu

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
)

// onGPU returns a maker of the kernels on a GPU; with n, on the low-latency path.
func onGPU(n *inlineCounts) maker { return onGPUWith(n, Options{}) }

func onGPUWith(n *inlineCounts, o Options) maker {
	return func(t *testing.T, base *fib.FIB, partialChecksums []bool) other {
		o.Timeout, o.PartialChecksums, o.Shadow, o.blocks = 10*time.Second, partialChecksums, 1, shortBlocks()
		d := got(openFirst(base, o))(t)
		mem := mapMemory(t, twinBytes)
		e := got(d.NewEngine(mem, 1, twinChunk, cpu.New(base, mem, partialChecksums)))(t)
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
			h := &inlineChunks{rand.New(rand.NewPCG(3, 3)), inlineTiles * inlineFrames, mem, func(c *batch.Chunk) {
				process(e, c)
				n.count(&e.mailbox.slots[0])
			}}
			in, out := make([]batch.Frame, twinChunk), make([]batch.Result, twinChunk)
			return other{mem, in, out, func(k int) {
				d.tables.patcher.drain()
				h.run(in[:k], out[:k])
			}, inlinedApart}
		}
		c := batch.NewChunks(1, twinChunk)[0]
		return other{mem, c.In, c.Out, func(n int) {
			d.tables.patcher.drain()
			c.N, c.Submitted = n, batch.Clock()
			process(e, c)
		}, 0}
	}
}

// shortBlocks is Options.blocks of a short test: compute-sanitizer runs many polling blocks slowly.
func shortBlocks() int {
	if testing.Short() {
		return 8
	}
	return 0
}

func TestGPUAgreesWithTheCPUEngine(t *testing.T) {
	t.Run("traffic", func(t *testing.T) { agreeOnTraffic(t, onGPU(nil), 2_000_000) })
	t.Run("sources", func(t *testing.T) { agreeOnSources(t, onGPU(nil), 1_000_000) })
	t.Run("asked", func(t *testing.T) { followSources(t, onGPU(nil)) })
	t.Run("internet", func(t *testing.T) { agreeOnTheInternet(t, onGPU(nil)) })
	t.Run("low latency", func(t *testing.T) {
		n := &inlineCounts{}
		agreeOnTraffic(t, onGPU(n), 1_000_000)
		n.check(t)
	})
}
