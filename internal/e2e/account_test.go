package e2e

import (
	"cmp"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab/seqload"
)

// account counts the losses of a flow.
type account struct {
	lost     int // between source and sinks
	stalled  int // the same, while a core served no interrupts: that is the machine's doing
	disorder int // twice, or after one that had been sent later
}

// aroundStall is the time before and after a stall of a core in which it causes losses: packets are in
// flight, and queues are full.
const aroundStall = 5 * time.Millisecond

// accountOf counts the packets of a flow that no sink has received.
func accountOf(sent uint32, stalls []seqload.Stall, sinks ...seqload.Arrivals) (a account) {
	var all []seqload.Run
	for _, s := range sinks {
		for i, r := range s.Runs {
			if i > 0 && r.First < s.Runs[i-1].Next {
				a.disorder += int(min(r.Next, s.Runs[i-1].Next) - r.First)
			}
		}
		all = append(all, s.Runs...)
	}
	slices.SortFunc(all, func(a, b seqload.Run) int { return cmp.Compare(a.First, b.First) })
	all = append(all, seqload.Run{First: sent, Next: sent, Began: math.MaxInt64})
	var before seqload.Run
	for _, r := range all {
		if r.First < before.Next {
			a.disorder += int(min(r.Next, before.Next) - r.First)
		}
		if r.First > before.Next {
			n := int(r.First - before.Next)
			if slices.ContainsFunc(stalls, func(s seqload.Stall) bool {
				return before.Ended >= s.From-aroundStall && r.Began <= s.To+aroundStall
			}) {
				a.stalled += n
			} else {
				a.lost += n
			}
		}
		if r.Next > before.Next {
			before = r
		}
	}
	return a
}

// An account counts missing, duplicate and late packets, and separately those missing during a stall
// of the machine.
func TestAccountSeparatesStallsFromLosses(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	run := func(first, next uint32, began, ended int) seqload.Run {
		return seqload.Run{First: first, Next: next, Began: ms(began), Ended: ms(ended)}
	}
	type runs = []seqload.Run
	for _, c := range []struct {
		name        string
		here, there runs
		stalls      []seqload.Stall
		want        account
	}{
		{"all by one way", runs{run(0, 100, 0, 100)}, nil, nil, account{}},
		{"all by two ways", runs{run(0, 40, 0, 40), run(60, 100, 60, 100)}, runs{run(40, 60, 40, 60)}, nil, account{}},
		{"none", nil, nil, nil, account{lost: 100}},
		{"a gap", runs{run(0, 40, 0, 40), run(60, 100, 60, 100)}, nil, nil, account{lost: 20}},
		{"the first and the last", runs{run(10, 90, 10, 90)}, nil, nil, account{lost: 20}},
		{"by both ways", runs{run(0, 100, 0, 100)}, runs{run(40, 60, 40, 60)}, nil, account{disorder: 20}},
		{"twice", runs{run(0, 50, 0, 50), run(40, 100, 50, 100)}, nil, nil, account{disorder: 20}},
		{"late", runs{run(0, 40, 0, 40), run(60, 100, 60, 100), run(40, 60, 101, 102)}, nil, nil, account{disorder: 20}},
		{"all in stalls", nil, nil, []seqload.Stall{{From: 0, To: ms(100)}}, account{lost: 100}},
		{"much longer than a stall", runs{run(0, 40, 0, 40), run(60, 100, 60, 100)}, nil, []seqload.Stall{{From: ms(40), To: ms(50)}}, account{lost: 20}},
		{"in a stall", runs{run(0, 40, 0, 40), run(60, 100, 60, 100)}, nil, []seqload.Stall{{From: ms(41), To: ms(59)}}, account{stalled: 20}},
		{"after a stall", runs{run(0, 40, 0, 40), run(60, 100, 42, 100)}, nil, []seqload.Stall{{From: ms(30), To: ms(38)}}, account{stalled: 20}},
		{"long after a stall", runs{run(0, 40, 0, 40), run(60, 100, 60, 100)}, nil, []seqload.Stall{{From: ms(20), To: ms(30)}, {From: ms(61), To: ms(70)}}, account{lost: 20}},
	} {
		if got := accountOf(100, c.stalls, seqload.Arrivals{Runs: c.here}, seqload.Arrivals{Runs: c.there}); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
