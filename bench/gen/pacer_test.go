package gen

import (
	"math"
	"testing"
	"time"

	"github.com/warproute/warproute/bench/load"
)

// drive sends the packets due after each step, and returns their number.
func drive(p *pacer, step time.Duration, steps int) (made []uint64) {
	p.began = 1000
	var n uint64
	for i := range steps {
		due, over := p.due(p.began+time.Duration(i)*step, n)
		if over {
			break
		}
		n += uint64(due)
		made = append(made, n)
	}
	return made
}

func TestPacerDoesNotDrift(t *testing.T) {
	for _, rate := range []float64{1, 3, 999, 10_000, 1e6 / 3, 14_880_952} {
		for _, step := range []time.Duration{37, 997, 123_457} {
			p := newPacer(Options{Rate: rate, Count: 1 << 50}, 0, 1)
			for i, n := range drive(&p, step, 10_000) {
				at := float64(i) * float64(step) / 1e9
				if want := math.Floor(at*rate) + 1; math.Abs(float64(n)-want) > 1 {
					t.Fatalf("%v packets/s: %d were due after %v s, want %v", rate, n, at, want)
				}
			}
		}
	}
}

// After a pause, late packets are due immediately.
func TestPacerCatchesUp(t *testing.T) {
	p := newPacer(Options{Rate: 1000, Duration: time.Second}, 0, 1)
	if due, _ := p.due(0, 0); due != 1 {
		t.Errorf("%d packets are due at the start, want 1", due)
	}
	if due, _ := p.due(500*time.Millisecond, 1); due != 500 {
		t.Errorf("%d packets are due after a pause of half a second at 1000 per second, want 500", due)
	}
	if due, _ := p.due(100*time.Millisecond, 400); due != 0 {
		t.Errorf("%d packets are due where more than that have been sent", due)
	}
}

func TestPacerEnds(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options Options
		at      time.Duration
		made    uint64
		due     int
		over    bool
	}{
		{"by time, with a rate", Options{Rate: 1000, Duration: time.Second}, time.Second + 1, 990, 10, false},
		{"by time, with a rate, too late", Options{Rate: 1000, Duration: time.Second}, time.Second + grace, 990, 0, true},
		{"by time, without a rate", Options{Duration: time.Second}, time.Second, 990, 0, true},
		{"by count, with a rate", Options{Rate: 1000, Count: 100}, time.Second, 90, 10, false},
		{"by count, without a rate", Options{Count: 100}, 1, 90, 10, false},
		{"by the count before the time", Options{Rate: 1000, Count: 100, Duration: time.Second}, 500 * time.Millisecond, 90, 10, false},
		{"by the time before the count", Options{Rate: 1000, Count: 5000, Duration: time.Second}, time.Second, 990, 10, false},
	} {
		p := newPacer(tt.options, 0, 1)
		if due, over := p.due(tt.at, tt.made); due != tt.due || over != tt.over {
			t.Errorf("%s: %d due, over %v; want %d, %v", tt.name, due, over, tt.due, tt.over)
		}
	}
}

func TestSendersShareRateAndCount(t *testing.T) {
	for _, senders := range []int{1, 2, 3, 7} {
		var count, due uint64
		for i := range senders {
			p := newPacer(Options{Count: 100}, i, senders)
			count += p.total
			q := newPacer(Options{Rate: 70_000, Count: 1e6}, i, senders)
			n, _ := q.due(time.Second, 0)
			due += uint64(n)
		}
		if count != 100 || due < 70_000 || due > 70_000+uint64(senders) {
			t.Errorf("%d senders send %d packets of 100, and %d in a second of 70000", senders, count, due)
		}
	}
}

func TestPacerNext(t *testing.T) {
	p := newPacer(Options{Rate: 1000, Count: 10}, 0, 1)
	p.began = time.Second
	for made := range uint64(10) {
		at := p.next(made)
		if want := time.Second + time.Duration(made)*time.Millisecond; (at - want).Abs() > 1 {
			t.Errorf("packet %d is due at %v, want %v", made, at, want)
		}
		if due, _ := p.due(at+1, made); due != 1 {
			t.Errorf("%d packets are due when packet %d is", due, made)
		}
	}
}

// A sender takes each packet at the time of the schedule, until the end of the schedule or of the count.
func TestPacerFollowsASchedule(t *testing.T) {
	for _, tt := range []struct {
		o    Options
		want float64 // packets
	}{
		{Options{Rate: 1e5, Duration: time.Second, Arrival: load.Arrival{Kind: load.Poisson}}, 1e5},
		{Options{Rate: 1e5, Duration: time.Second, Arrival: load.Arrival{Kind: load.Burst, Burst: 100}}, 1e5},
		{Options{Rate: 1e5, Count: 3000, Arrival: load.Arrival{Kind: load.Burst, Burst: 100}}, 3000},
		{Options{Rate: 1e5, Count: 3000, Duration: time.Second, Arrival: load.Arrival{Kind: load.Poisson}}, 3000},
		{Options{Rate: 1, Duration: time.Nanosecond, Arrival: load.Arrival{Kind: load.Poisson}}, 0},
	} {
		p := newPacer(tt.o, 0, 1)
		p.began = time.Second
		made, last := uint64(0), time.Duration(0)
		for now := p.began; now < p.began+2*time.Second && made != p.total; now += 50 * time.Microsecond {
			for {
				due, over := p.due(now, made)
				if over {
					t.Fatalf("%+v: over at %v with %d packets of %d", tt.o, now, made, p.total)
				}
				for range due {
					at := p.take(made)
					if at < last || at > now || now-at > 50*time.Microsecond {
						t.Fatalf("%+v: packet %d was due at %v, after %v, and is sent at %v", tt.o, made, at, last, now)
					}
					made, last = made+1, at
				}
				if due == 0 {
					break
				}
			}
		}
		if made != p.total || math.Abs(float64(made)-tt.want) > 5*math.Sqrt(tt.want) {
			t.Errorf("%+v: %d packets of %d, want %v", tt.o, made, p.total, tt.want)
		}
	}
}

// A sender that stalled for 10 ms sends packets with the times at which they were due.
func TestProbesHaveTheScheduledTime(t *testing.T) {
	const began, stall = time.Second, 10 * time.Millisecond
	for _, o := range []Options{{Rate: 1e6, Count: 1000}, {Rate: 1e6, Count: 1000, Arrival: load.Arrival{Kind: load.Burst, Burst: 1}}, {Count: 1000}} {
		tr := testTraffic(10)
		tr.SrcMAC, tr.Size = testMAC, 64
		s := newSender(&memoryPort(t, "tx", end{}).Workers[0], newTemplates(&tr, 1), 0, 1, o)
		s.pace.began = began
		s.build(50, began+stall)
		for i, f := range s.frames {
			want := began + time.Duration(i)*time.Microsecond
			if o.Rate == 0 {
				want = began + stall
			}
			p, _ := read(s.mem[f.Addr:][:f.Len])
			if got := time.Duration(p.sent); (got - want).Abs() > 1 {
				t.Fatalf("%+v: packet %d has time %v, want %v", o, i, got, want)
			}
		}
		if o.Rate > 0 && s.lag != stall || o.Rate == 0 && s.lag != 0 {
			t.Errorf("%+v: lag %v", o, s.lag)
		}
	}
}

func TestMixSharesAreExact(t *testing.T) {
	tr := Traffic{IMIX: true, Dst: testDst}
	_, order := tr.sizes()
	for flows := 1; flows <= 50; flows++ {
		m := newMix(order, flows)
		total, byFlow := [3]int{}, make([][3]int, flows)
		n := m.period * len(order)
		for i := range n {
			size := m.next()
			total[size]++
			byFlow[i%flows][size]++
		}
		if total != [3]int{n / 12 * 7, n / 12 * 4, n / 12} {
			t.Errorf("%d flows: sizes %v of %d packets, want 7:4:1", flows, total, n)
		}
		for f, sizes := range byFlow {
			per := n / flows
			if sizes != [3]int{per / 12 * 7, per / 12 * 4, per / 12} {
				t.Errorf("flow %d of %d: sizes %v, want 7:4:1", f, flows, sizes)
				break
			}
		}
	}
}
