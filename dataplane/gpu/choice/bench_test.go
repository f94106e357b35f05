package choice

import (
	"testing"
	"time"
)

// Cost per chunk of choosing and learning. The worker adds reading the clock.
func BenchmarkChunk(b *testing.B) {
	for name, state := range map[string]State{"gpu": Ready, "cpu": Out} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			c := New()
			w, at := Work{Packets: 200, Bytes: 200 * 1408, Class: AEAD}, Situation{GPU: state}
			for i := range b.N {
				w.Packets = 100 + i&63
				at.Now += 20 * time.Microsecond
				choice := c.Choose(w, at)
				if choice.Engine == CPU {
					c.FinishCPU(&choice, AEAD, at.Now+10*time.Microsecond)
				} else {
					c.Block(&choice, time.Microsecond)
					c.FinishGPU(&choice, AEAD, at.Now, at.Now+15*time.Microsecond, at.Now+16*time.Microsecond)
				}
			}
		})
	}
}

func TestChoosingDoesNotAllocate(t *testing.T) {
	c, now := New(), time.Duration(0)
	if n := testing.AllocsPerRun(5000, func() {
		now += 20 * time.Microsecond
		choice := c.Choose(Work{Packets: 200, Bytes: 20000}, Situation{Now: now, Idle: now / 2})
		if choice.Engine == CPU {
			c.FinishCPU(&choice, Forward, now+10*time.Microsecond)
		} else {
			c.WaitChosen(&choice, now)
			c.EndWaitChosen(&choice, now+time.Microsecond)
			c.FinishGPU(&choice, Forward, 0, now+10*time.Microsecond, now+10*time.Microsecond)
		}
	}); n != 0 {
		t.Errorf("%v allocations per chunk", n)
	}
}
