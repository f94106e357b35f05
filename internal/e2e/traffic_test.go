package e2e

import (
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/seqload"
	"github.com/warproute/warproute/internal/require"
)

// traffic is a load with both ends in the kernel, on the first core, where no process delays them. It can
// be as fast as the router; a load with watches (load_test.go) records more of each packet.
type traffic struct {
	f             *fork
	source        *seqload.Sender
	server, other *seqload.Receiver
	last          *seqload.Monitor // on the last core, the router's
	flows         int
	began         time.Time
}

// traffic creates a load from the client to dsts, round-robin.
func (f *fork) traffic(t *testing.T, dsts ...string) *traffic {
	t.Helper()
	x := &traffic{f: f, flows: len(dsts)}
	for _, s := range []struct {
		sink     **seqload.Receiver
		at, peer lab.End
	}{
		{&x.server, lab.End{Namespace: f.Server, Name: lab.ServerLink}, lab.End{Namespace: f.Router, Name: lab.WAN}},
		{&x.other, lab.End{Namespace: f.other, Name: "other0"}, lab.End{Namespace: f.Router, Name: "wan1"}},
	} {
		sink, err := seqload.NewReceiver(s.at, s.peer, 0)
		require.NoError(t, err)
		t.Cleanup(func() { _ = sink.Close() })
		*s.sink = sink
	}
	var flows []seqload.Flow
	for _, d := range dsts {
		flow := seqload.Flow{Src: lab.Client4.Addr(), Dst: netip.MustParseAddr(d)}
		if flow.Dst.Is6() {
			flow.Src = lab.Client6.Addr()
		}
		flows = append(flows, flow)
	}
	var err error
	x.source, err = seqload.NewSender(lab.End{Namespace: f.Client, Name: lab.ClientLink}, macOf(t, f.Router, lab.LAN), 0, flows...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = x.source.Close() })
	x.last, err = seqload.NewMonitor(runtime.NumCPU() - 1)
	require.NoError(t, err)
	t.Cleanup(func() { _ = x.last.Close() })
	return x
}

// start sends at a rate, with numbers from 0.
func (x *traffic) start(t *testing.T, rate int) {
	t.Helper()
	for _, f := range []func() error{x.source.Reset, x.server.Reset, x.other.Reset, func() error { return x.source.Rate(rate) }} {
		require.NoError(t, f())
	}
	x.began = time.Now()
}

// stop stops sending, waits for the last packets, and returns the duration.
func (x *traffic) stop(t *testing.T) time.Duration {
	t.Helper()
	require.NoError(t, x.source.Rate(0))
	took := time.Since(x.began)
	time.Sleep(100 * time.Millisecond)
	return took
}

// sent returns the numbers of sent packets by flow and in total.
func (x *traffic) sent(t *testing.T) (flows []uint32, all int) {
	t.Helper()
	flows, err := x.source.Sent()
	require.NoError(t, err)
	for _, n := range flows {
		all += int(n)
	}
	return flows, all
}

// queues counts drops at full queues.
type queues struct {
	router int // of the ingress port and its socket
	sinks  int // of the sinks
}

func (x *traffic) full(t *testing.T) (q queues) {
	t.Helper()
	dropped := func(ns *lab.Namespace, link string) int {
		l, err := ns.Link(link)
		require.NoError(t, err)
		return int(l.Attrs().Statistics.TxDropped)
	}
	q.router = dropped(x.f.Client, lab.ClientLink)
	q.sinks = dropped(x.f.Router, lab.WAN) + dropped(x.f.Router, "wan1")
	var ports []status.Port
	require.NoError(t, x.f.router.Get("/ports", &ports))
	for _, p := range ports {
		q.router += int(p.Rings.RxDropped + p.Rings.RxRingFull)
	}
	return q
}

func (q queues) since(before queues) queues {
	return queues{q.router - before.router, q.sinks - before.sinks}
}

// arrived returns the arrivals of a flow by its route and by the default route.
func (x *traffic) arrived(t *testing.T, flow int) (here, there seqload.Arrivals) {
	t.Helper()
	here, err := x.server.Flow(flow)
	if err == nil {
		there, err = x.other.Flow(flow)
	}
	require.NoError(t, err)
	return here, there
}

// accounts returns the accounts by flow and in total.
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

// stalls returns the times since the start in which one of the two cores stalled.
func (x *traffic) stalls(t *testing.T) (stalls []seqload.Stall) {
	t.Helper()
	for _, f := range []func() ([]seqload.Stall, error){x.source.Stalls, x.last.Stalls} {
		s, err := f()
		require.NoError(t, err)
		stalls = append(stalls, s...)
	}
	return stalls
}

// trial sends at a rate for a time and returns the achieved rates and the losses.
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

// maximum returns the highest rate, in steps of 5 %, without loss for two seconds.
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
