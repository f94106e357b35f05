package e2e

import (
	"cmp"
	"math"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/warproute/warproute/bench/numbered"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
)

// A traffic is a load of which the machine knows as little as of one from outside: both
// ends are in the kernel, on the first core, and no process there delays them. It can be
// as fast as the router; a load and its watches (load_test.go) see more of each packet.
type traffic struct {
	f             *fork
	source        *numbered.Source
	server, other *numbered.Sink
	last          *numbered.Watch // on the last core, the router's
	flows         int
	began         time.Time
}

// traffic makes a load from the client to each of dsts, by turns.
func (f *fork) traffic(t *testing.T, dsts ...string) *traffic {
	t.Helper()
	x := &traffic{f: f, flows: len(dsts)}
	for _, s := range []struct {
		sink     **numbered.Sink
		at, peer lab.End
	}{
		{&x.server, lab.End{Namespace: f.Server, Name: lab.ServerLink}, lab.End{Namespace: f.Router, Name: lab.WAN}},
		{&x.other, lab.End{Namespace: f.other, Name: "other0"}, lab.End{Namespace: f.Router, Name: "wan1"}},
	} {
		sink, err := numbered.NewSink(s.at, s.peer, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sink.Close() })
		*s.sink = sink
	}
	var flows []numbered.Flow
	for _, d := range dsts {
		flow := numbered.Flow{Src: lab.Client4.Addr(), Dst: netip.MustParseAddr(d)}
		if flow.Dst.Is6() {
			flow.Src = lab.Client6.Addr()
		}
		flows = append(flows, flow)
	}
	var err error
	x.source, err = numbered.NewSource(lab.End{Namespace: f.Client, Name: lab.ClientLink}, f.mac(t, f.Router, lab.LAN), 0, flows...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.source.Close() })
	if x.last, err = numbered.NewWatch(runtime.NumCPU() - 1); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.last.Close() })
	return x
}

// start sends so many packets a second, numbered from 0.
func (x *traffic) start(t *testing.T, rate int) {
	t.Helper()
	for _, f := range []func() error{x.source.Restart, x.server.Restart, x.other.Restart, func() error { return x.source.Rate(rate) }} {
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
	x.began = time.Now()
}

// stop ends that, waits for the last packets to arrive, and returns how long they were sent.
func (x *traffic) stop(t *testing.T) time.Duration {
	t.Helper()
	if err := x.source.Rate(0); err != nil {
		t.Fatal(err)
	}
	took := time.Since(x.began)
	time.Sleep(100 * time.Millisecond)
	return took
}

// sent is how many packets of each flow were sent, and of all together.
func (x *traffic) sent(t *testing.T) (flows []uint32, all int) {
	t.Helper()
	flows, err := x.source.Sent()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range flows {
		all += int(n)
	}
	return flows, all
}

// queues are packets that Linux dropped because a queue was full.
type queues struct {
	router int // the router's: of its port, or that of its socket
	sinks  int // those behind it, which the sinks have to empty
}

func (x *traffic) full(t *testing.T) (q queues) {
	t.Helper()
	dropped := func(ns *lab.Namespace, link string) int {
		l, err := ns.Link(link)
		if err != nil {
			t.Fatal(err)
		}
		return int(l.Attrs().Statistics.TxDropped)
	}
	q.router = dropped(x.f.Client, lab.ClientLink)
	q.sinks = dropped(x.f.Router, lab.WAN) + dropped(x.f.Router, "wan1")
	var ports []status.Port
	if err := x.f.router.get("/ports", &ports); err != nil {
		t.Fatal(err)
	}
	for _, p := range ports {
		q.router += int(p.Rings.RxDropped + p.Rings.RxRingFull)
	}
	return q
}

func (q queues) since(before queues) queues {
	return queues{q.router - before.router, q.sinks - before.sinks}
}

// arrived is what came of a flow by its route, and by the default route.
func (x *traffic) arrived(t *testing.T, flow int) (here, there numbered.Arrivals) {
	t.Helper()
	here, err := x.server.Flow(flow)
	if err == nil {
		there, err = x.other.Flow(flow)
	}
	if err != nil {
		t.Fatal(err)
	}
	return here, there
}

// account is what became of the packets of a flow.
type account struct {
	lost     int // between source and sinks
	stalled  int // the same, while a core served no interrupts: that is the machine's doing
	disorder int // twice, or after one that had been sent later
}

// aroundStall is how far from a time in which a core stood still packets are lost by it: its
// queues are full until it has worked off what came meanwhile, and packets have been under way.
const aroundStall = 5 * time.Millisecond

// accountOf finds the packets of a flow that no sink has seen.
func accountOf(sent uint32, stalls []numbered.Stall, sinks ...numbered.Arrivals) (a account) {
	var all []numbered.Run
	for _, s := range sinks {
		for i, r := range s.Runs {
			if i > 0 && r.First < s.Runs[i-1].Next {
				a.disorder += int(min(r.Next, s.Runs[i-1].Next) - r.First)
			}
		}
		all = append(all, s.Runs...)
	}
	slices.SortFunc(all, func(a, b numbered.Run) int { return cmp.Compare(a.First, b.First) })
	all = append(all, numbered.Run{First: sent, Next: sent, Began: math.MaxInt64})
	var before numbered.Run
	for _, r := range all {
		if r.First < before.Next {
			a.disorder += int(min(r.Next, before.Next) - r.First)
		}
		if r.First > before.Next {
			n := int(r.First - before.Next)
			if slices.ContainsFunc(stalls, func(s numbered.Stall) bool {
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

// accounts are those of all flows.
func (x *traffic) accounts(t *testing.T) (flows []account, all account) {
	t.Helper()
	stalls := x.stalls(t)
	sent, _ := x.sent(t)
	for flow, n := range sent {
		here, there := x.arrived(t, flow)
		a := accountOf(n, stalls, here, there)
		flows = append(flows, a)
		all.lost, all.stalled, all.disorder = all.lost+a.lost, all.stalled+a.stalled, all.disorder+a.disorder
	}
	return flows, all
}

// stalls are the times since the start in which one of the two cores stood still.
func (x *traffic) stalls(t *testing.T) (stalls []numbered.Stall) {
	t.Helper()
	for _, f := range []func() ([]numbered.Stall, error){x.source.Stalls, x.last.Stalls} {
		s, err := f()
		if err != nil {
			t.Fatal(err)
		}
		stalls = append(stalls, s...)
	}
	return stalls
}

// trial is what a rate does for a while: the rate that was achieved, and what was lost.
func (x *traffic) trial(t *testing.T, rate int, d time.Duration) (achieved, arrived float64, lost account) {
	t.Helper()
	x.start(t, rate)
	time.Sleep(d)
	took := x.stop(t).Seconds()
	_, sent := x.sent(t)
	_, lost = x.accounts(t)
	for flow := range x.flows {
		here, there := x.arrived(t, flow)
		arrived += float64(here.Packets + there.Packets)
	}
	return float64(sent) / took, arrived / took, lost
}

// maximum is the highest rate, in steps of 5 %, at which nothing is lost for two seconds.
func (x *traffic) maximum(t *testing.T) int {
	t.Helper()
	const beyond = 5_000_000
	_, most, _ := x.trial(t, beyond, time.Second)
	for rate := most; rate > most/10; rate *= 0.95 {
		full := x.full(t)
		achieved, _, lost := x.trial(t, int(rate), 2*time.Second)
		t.Logf("%.0f packets/s: %+v, %+v", achieved, lost, x.full(t).since(full))
		if lost.lost == 0 && achieved > 0.95*rate {
			t.Logf("at most %.0f packets/s cross; none is lost up to %.0f", most, achieved)
			return int(achieved)
		}
	}
	t.Fatalf("%.0f packets/s cross at most, and at a tenth of that rate some are lost", most)
	return 0
}

// Packets that are missing, twice or late are counted, and what is missing as long as the
// machine stood still is told apart.
func TestAccountOf(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	run := func(first, next uint32, began, ended int) numbered.Run {
		return numbered.Run{First: first, Next: next, Began: ms(began), Ended: ms(ended)}
	}
	type runs = []numbered.Run
	for _, c := range []struct {
		name        string
		here, there runs
		stalls      []numbered.Stall
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
		{"all in stalls", nil, nil, []numbered.Stall{{From: 0, To: ms(100)}}, account{lost: 100}},
		{"much longer than a stall", runs{run(0, 40, 0, 40), run(60, 100, 60, 100)}, nil, []numbered.Stall{{From: ms(40), To: ms(50)}}, account{lost: 20}},
		{"in a stall", runs{run(0, 40, 0, 40), run(60, 100, 60, 100)}, nil, []numbered.Stall{{From: ms(41), To: ms(59)}}, account{stalled: 20}},
		{"after a stall", runs{run(0, 40, 0, 40), run(60, 100, 42, 100)}, nil, []numbered.Stall{{From: ms(30), To: ms(38)}}, account{stalled: 20}},
		{"long after a stall", runs{run(0, 40, 0, 40), run(60, 100, 60, 100)}, nil, []numbered.Stall{{From: ms(20), To: ms(30)}, {From: ms(61), To: ms(70)}}, account{lost: 20}},
	} {
		if got := accountOf(100, c.stalls, numbered.Arrivals{Runs: c.here}, numbered.Arrivals{Runs: c.there}); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
