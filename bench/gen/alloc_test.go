package gen

import (
	"testing"
	"time"

	"github.com/warproute/warproute/bench/load"
)

func TestNoAllocations(t *testing.T) {
	for _, o := range []Options{{Count: 1 << 40}, {Rate: 1e6, Duration: time.Hour}, {Rate: 1e6, Duration: time.Hour, Arrival: load.Arrival{Kind: load.Poisson}}} {
		tr := testTraffic(100)
		tr.IMIX, tr.SrcMAC = true, testMAC
		w := newWire()
		tx, rx := ports(t, w)
		sending := &worker{sender: newSender(&tx.Workers[0], newTemplates(&tr, 1), 0, 1, o)}
		receiving := &worker{receiver: newReceiver(&rx.Workers[0], 1, tr.Flows)}
		sending.prepare()
		receiving.prepare()
		rx.Workers[0].Queues[0].Refill()
		allocs := testing.AllocsPerRun(200, func() {
			for _, w := range []*worker{sending, receiving} {
				now := clock()
				if !w.turn(now, false) {
					w.idle = now - spin
					w.sleep(now)
				}
			}
		})
		if allocs != 0 {
			t.Errorf("%+v: %v allocations a turn", o, allocs)
		}
		if n := receiving.receiver.received.Load(); n < 50 {
			t.Errorf("%+v: only %d packets went round", o, n)
		}
	}
}

// BenchmarkSend builds and drops frames: the limit of the generator.
func BenchmarkSend(b *testing.B) {
	for _, size := range []int{64, 1518} {
		b.Run(map[int]string{64: "64", 1518: "1518"}[size], func(b *testing.B) {
			tr := testTraffic(4096)
			tr.Size, tr.SrcMAC = size, testMAC
			s := newSender(&memoryPort(b, "tx", end{}).Workers[0], newTemplates(&tr, 1), 0, 1, Options{})
			b.ReportAllocs()
			for range b.N {
				s.build(1, 1)
				s.worker.Pool.Put(s.frames[0].Addr)
				s.frames, s.turns = s.frames[:0], s.turns[:0]
			}
		})
	}
}

// BenchmarkReceive counts received frames.
func BenchmarkReceive(b *testing.B) {
	for _, size := range []int{64, 1518} {
		b.Run(map[int]string{64: "64", 1518: "1518"}[size], func(b *testing.B) {
			tr := testTraffic(4096)
			tr.Size, tr.SrcMAC = size, testMAC
			p := memoryPort(b, "port", end{})
			s := newSender(&p.Workers[0], newTemplates(&tr, 1), 0, 1, Options{})
			s.build(burst, 1)
			c := newReceiver(&p.Workers[0], 1, tr.Flows)
			b.ReportAllocs()
			for n := 0; n < b.N; n += burst {
				c.count(s.frames, clock())
				for range burst {
					c.pool.Take()
				}
			}
		})
	}
}
