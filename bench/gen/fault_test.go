package gen

import (
	"testing"
	"time"

	"github.com/warproute/warproute/internal/testutil"
)

// counts are the faults of a report.
type counts struct {
	received, lost, duplicates, reordered, corrupted, unknown uint64
	faultyFlows                                               int
}

func countsOf(r *ReceiveReport) counts {
	return counts{r.Packets, r.Lost, r.Duplicates, r.Reordered, r.Corrupted, r.Unknown, r.FaultyFlows}
}

// The wire drops, repeats, reorders and corrupts known frames.
func TestReportCountsFaults(t *testing.T) {
	const n = 1000
	// held returns a fault that lets some frames arrive after so many later ones.
	held := func(every, after int) func(int, []byte, func([]byte)) {
		var frame []byte
		return func(i int, f []byte, deliver func([]byte)) {
			if i%every == 5 {
				frame = append(frame[:0], f...)
				return
			}
			deliver(f)
			if i%every == 5+after {
				deliver(frame)
			}
		}
	}
	// tenth returns a fault of one frame in ten.
	tenth := func(fault func(f []byte, deliver func([]byte))) func(int, []byte, func([]byte)) {
		return func(i int, f []byte, deliver func([]byte)) {
			if i%10 == 3 {
				fault(f, deliver)
			} else {
				deliver(f)
			}
		}
	}
	flipped := func(at int) func(int, []byte, func([]byte)) {
		return tenth(func(f []byte, deliver func([]byte)) { f[at] ^= 0x10; deliver(f) })
	}
	stranger := testutil.UDP4("10.0.0.1", "10.0.0.2", 4000, udpPort, make([]byte, 40)...)
	for _, tt := range []struct {
		name  string
		flows int
		fault func(n int, frame []byte, deliver func([]byte))
		want  counts
	}{
		{"nothing", 7, nil, counts{received: n}},
		{"drops one in ten", 1, tenth(func([]byte, func([]byte)) {}), counts{received: 900, lost: 100, faultyFlows: 1}},
		{"drops one flow of four", 4, func(i int, f []byte, deliver func([]byte)) {
			if i%4 != 2 {
				deliver(f)
			}
		}, counts{received: 750, lost: 250, faultyFlows: 1}},
		{"drops the last packets", 5, func(i int, f []byte, deliver func([]byte)) {
			if i < n-8 {
				deliver(f)
			}
		}, counts{received: n - 8, lost: 8, faultyFlows: 5}},
		{"drops everything", 3, func(int, []byte, func([]byte)) {}, counts{lost: n, faultyFlows: 3}},
		{"repeats one in ten at once", 2, tenth(func(f []byte, deliver func([]byte)) { deliver(f); deliver(f) }), counts{received: n, duplicates: 100, faultyFlows: 1}},
		{"is late with one in twenty, by three of its flow", 1, held(20, 3), counts{received: n, reordered: 50, faultyFlows: 1}},
		{"is late, but behind other flows alone", 4, held(20, 3), counts{received: n}},
		{"is late with one in twenty, by one of its flow", 4, held(20, 4), counts{received: n, reordered: 50, faultyFlows: 1}},
		{"flips a bit of the IPv4 header", 1, flipped(22), counts{received: 900, lost: 100, corrupted: 100, faultyFlows: 1}},
		{"flips a bit of the magic number", 1, flipped(42), counts{received: 900, lost: 100, corrupted: 100, faultyFlows: 1}},
		{"flips a bit of the sequence number", 1, flipped(53), counts{received: 900, lost: 100, corrupted: 100, faultyFlows: 1}},
		{"cuts frames short", 1, tenth(func(f []byte, deliver func([]byte)) { deliver(f[:70]) }), counts{received: 900, lost: 100, corrupted: 100, faultyFlows: 1}},
		{"adds frames of others", 1, tenth(func(f []byte, deliver func([]byte)) { deliver(f); deliver(stranger) }), counts{received: n, unknown: 100}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWire()
			w.fault = tt.fault
			tx, rx := ports(t, w)
			tr := testTraffic(tt.flows)
			tr.Size = 90
			rep := mustRun(t, tx, rx, tr, Options{Count: n, Drain: 20 * time.Millisecond})
			if rep.Send.Packets != n {
				t.Errorf("sent %d packets, want %d", rep.Send.Packets, n)
			}
			if got := countsOf(rep.Receive); got != tt.want {
				t.Errorf("\n got %+v\nwant %+v", got, tt.want)
			}
			if want := 100 * float64(tt.want.lost) / n; rep.Receive.LossPercent != want {
				t.Errorf("a loss of %v %%, want %v", rep.Receive.LossPercent, want)
			}
			var lost uint64
			for _, f := range rep.Receive.WorstFlows {
				lost += f.Lost
			}
			if lost != tt.want.lost || len(rep.Receive.WorstFlows) != tt.want.faultyFlows {
				t.Errorf("%d worst flows lost %d, want %d and %d", len(rep.Receive.WorstFlows), lost, tt.want.faultyFlows, tt.want.lost)
			}
		})
	}
}
