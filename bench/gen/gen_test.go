package gen

import (
	"bytes"
	"context"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/testutil"
)

func TestLatencyOfAWire(t *testing.T) {
	w := newWire()
	w.delay = 3 * time.Millisecond
	tx, rx := ports(t, w)
	rep := mustRun(t, tx, rx, testTraffic(1), Options{Count: 200, Rate: 10_000, Drain: time.Second})
	l := rep.Receive.Latency
	if rep.Receive.Packets != 200 || l == nil {
		t.Fatalf("%+v", rep.Receive)
	}
	order := []time.Duration{w.delay, l.Min, l.P50, l.P90, l.P99, l.P999, l.Max}
	for i := range order[1:] {
		if order[i] > order[i+1]+order[i+1]/100 { // the histogram's resolution
			t.Errorf("the delay and the latencies do not ascend: %v", order)
			break
		}
	}
}

// Frames of memory are reused for sending and receiving, with all sizes and with foreign frames.
func TestSendAndReceiveOnOneQueue(t *testing.T) {
	stranger := testutil.UDP4("10.0.0.1", "10.0.0.2", 4000, 53, bytes.Repeat([]byte{0xee}, 1472)...)
	w := newWire()
	w.fault = func(i int, f []byte, deliver func([]byte)) {
		deliver(f)
		if i%10 == 3 {
			deliver(stranger)
		}
	}
	p := memoryPort(t, "port", end{in: w, out: w})
	tr := testTraffic(5)
	tr.IMIX = true
	rep := mustRun(t, p, p, tr, Options{Count: 20_000})
	if got, want := countsOf(rep.Receive), (counts{received: 20_000, unknown: 2000}); got != want {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
}

// A foreign frame was received into the memory of the next packet.
func TestReceivedFramesAreRefilled(t *testing.T) {
	p := memoryPort(t, "port", end{})
	tr := testTraffic(1)
	tr.Size, tr.SrcMAC = 1518, testMAC
	s := newSender(&p.Workers[0], newTemplates(&tr, 1), 0, 1, Options{})
	c := newReceiver(&p.Workers[0], 1, 1)
	c.sender = s
	s.build(1, 0)
	first := s.frames[0]
	memory := s.mem[first.Addr:][:first.Len]
	for i := range memory {
		memory[i] = 0xee
	}
	c.count(s.frames, 0)
	s.build(1, 0)
	if s.frames[1] != first {
		t.Fatalf("the second frame is %+v, not %+v again", s.frames[1], first)
	}
	if _, kind := read(memory); kind != intact {
		t.Errorf("the second frame is of kind %d", kind)
	}
}

// There can be fewer flows than senders.
func TestFlowsAreSharedAmongSenders(t *testing.T) {
	for _, flows := range []int{1, 2, 7} {
		var out, in []end
		for range 3 {
			w := newWire()
			out, in = append(out, end{out: w}), append(in, end{in: w})
		}
		rep := mustRun(t, memoryPort(t, "tx", out...), memoryPort(t, "rx", in...), testTraffic(flows), Options{Count: 1000, Rate: 100_000})
		if got, want := countsOf(rep.Receive), (counts{received: 1000}); got != want || rep.Send.Packets != 1000 {
			t.Errorf("%d flows: sent %d,\n got %+v\nwant %+v", flows, rep.Send.Packets, got, want)
		}
	}
}

// There are more queues than flows.
func TestSendAndReceiveOnManyQueues(t *testing.T) {
	a, b := newWire(), newWire()
	p := memoryPort(t, "port", end{in: b, out: a}, end{in: a, out: b})
	rep := mustRun(t, p, p, testTraffic(1), Options{Count: 1000})
	if got, want := countsOf(rep.Receive), (counts{received: 1000}); got != want {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
}

// No packet is early. The delay depends on the machine.
func TestRateIsExact(t *testing.T) {
	tx, rx := ports(t, newWire())
	rep := mustRun(t, tx, rx, testTraffic(3), Options{Rate: 10_000, Count: 10_000})
	if s := rep.Send; s.Packets != 10_000 || s.Seconds < 0.9999 || s.Seconds > 2 {
		t.Errorf("sent %d packets in %v s at 10000 per second", s.Packets, s.Seconds)
	}
	if got := rep.Receive.Packets; got != 10_000 {
		t.Errorf("received %d of 10000 packets", got)
	}
	for _, v := range []Volume{rep.Send.Volume, rep.Receive.Volume} { // 64 bytes, and 20 between them
		if want := 84 * 8 * v.PacketsPerSecond; math.Abs(v.BitsPerSecond-want) > 1 || math.Abs(v.PacketsPerSecond*v.Seconds-10_000) > 1 {
			t.Errorf("%v packets/s in %v s are %v bit/s on the wire, want %v", v.PacketsPerSecond, v.Seconds, v.BitsPerSecond, want)
		}
	}
}

func TestSendOnlyFreesUnsentFrames(t *testing.T) {
	w := newWire()
	w.fault = func(int, []byte, func([]byte)) {}
	tx := memoryPort(t, "tx", end{out: w})
	rep := mustRun(t, tx, nil, testTraffic(3), Options{Duration: 20 * time.Millisecond})
	if rep.Receive != nil {
		t.Error("a report of what was received")
	}
	if int(rep.Send.Packets) != w.sent || w.sent == 0 {
		t.Errorf("reports %d packets, sent %d", rep.Send.Packets, w.sent)
	}
	if free := tx.Workers[0].Pool.Len(); free != tx.Workers[0].Memory.Frames() {
		t.Errorf("%d frames of %d are free", free, tx.Workers[0].Memory.Frames())
	}
}

// Losses before the first and after the last packet of a flow are unknown.
func TestReceiveOnlyCountsGaps(t *testing.T) {
	w := newWire()
	w.fault = func(i int, f []byte, deliver func([]byte)) {
		if i%10 != 5 {
			deliver(f)
		}
	}
	tx, rx := ports(t, w)
	done := make(chan *Report)
	go func() { done <- mustRun(t, nil, rx, Traffic{}, Options{Count: 900, Duration: 10 * time.Second}) }()
	if rep := mustRun(t, tx, nil, testTraffic(4), Options{Count: 1000, Rate: 100_000}); rep.Send.Packets != 1000 {
		t.Errorf("sent %d packets", rep.Send.Packets)
	}
	rep := <-done
	if got := countsOf(rep.Receive); got != (counts{received: 900, lost: 100, faultyFlows: 2}) { // 5, 15, 25, ... are of flows 1 and 3
		t.Errorf("got %+v", got)
	}
	if rep.Send != nil || rep.Traffic != nil {
		t.Error("a report of what was sent")
	}
}

// Packets of the warm-up arrive after its end.
func TestWarmupIsNotCounted(t *testing.T) {
	w := newWire()
	w.delay = 30 * time.Millisecond
	tx, rx := ports(t, w)
	rep := mustRun(t, tx, rx, testTraffic(1), Options{Warmup: 10 * time.Millisecond, Rate: 1000, Count: 50, Drain: 5 * time.Millisecond})
	rest := mustRun(t, tx, rx, testTraffic(1), Options{Count: 1, Drain: time.Second})
	if rep.Send.Packets != 50 || rep.Receive.Unknown+rest.Receive.Unknown < 10 {
		t.Errorf("sent %d, unknown %d and %d", rep.Send.Packets, rep.Receive.Unknown, rest.Receive.Unknown)
	}
	if c := countsOf(rep.Receive); c.duplicates+c.reordered+c.corrupted > 0 || c.received+c.lost != 50 {
		t.Errorf("got %+v", c)
	}
}

func TestRunRejectsInvalidOptions(t *testing.T) {
	tx := memoryPort(t, "tx0", end{out: newWire()})
	tx.MTU = 1400
	ok := Options{Count: 1}
	six := netip.MustParsePrefix("fd08::2/128")
	for _, tt := range []struct {
		name   string
		change func(*Traffic, *Options)
		want   string
	}{
		{"no end", func(_ *Traffic, o *Options) { *o = Options{} }, "no duration and no count"},
		{"negative rate", func(_ *Traffic, o *Options) { o.Rate = -1 }, "invalid rate: -1"},
		{"negative time", func(_ *Traffic, o *Options) { o.Duration = -1 }, "negative time"},
		{"no destination", func(tr *Traffic, _ *Options) { tr.Dst = netip.Prefix{} }, "no destination"},
		{"no source", func(tr *Traffic, _ *Options) { tr.Src = netip.Prefix{} }, "no source"},
		{"two families", func(tr *Traffic, _ *Options) { tr.Dst = six }, "different families"},
		{"small frame", func(tr *Traffic, _ *Options) { tr.Size = 63 }, "64 to 1518"},
		{"large frame", func(tr *Traffic, _ *Options) { tr.Size = 1519 }, "64 to 1518"},
		{"frame that IPv6 does not fit", func(tr *Traffic, _ *Options) { tr.Src, tr.Dst, tr.Size = six, six, 83 }, "at least 84"},
		{"frame that the port does not take", func(tr *Traffic, _ *Options) { tr.Size = 1419 }, "ip link set tx0 mtu 1401"},
		{"mix that the port does not take", func(tr *Traffic, _ *Options) { tr.IMIX = true }, "ip link set tx0 mtu 1500"},
		{"mix and size", func(tr *Traffic, _ *Options) { tr.IMIX, tr.Size = true, 64 }, "exclude each other"},
		{"too many flows", func(tr *Traffic, _ *Options) { tr.Flows = MaxFlows + 1 }, "1048577 flows"},
		{"no router", func(tr *Traffic, _ *Options) { tr.DstMAC = nil }, "6 bytes each"},
	} {
		tr, o := testTraffic(1), ok
		tt.change(&tr, &o)
		if _, err := Run(context.Background(), tx, nil, tr, o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got error %v, want %q", tt.name, err, tt.want)
		}
	}
	if _, err := Run(context.Background(), nil, nil, testTraffic(1), ok); err == nil {
		t.Error("no port: no error")
	}
	if rep := mustRun(t, tx, nil, func() Traffic { tr := testTraffic(1); tr.Size = 1418; return tr }(), ok); rep.Send.Packets != 1 {
		t.Error("the largest frame of the port was not sent")
	}
}
