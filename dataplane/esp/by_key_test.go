package esp_test

import (
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
)

// openedPacket has a device open a packet by the keys with an index, and returns its result, none if it needs a job.
func openedPacket(stage *esp.Stage, key, seq uint32) batch.Result {
	const inner = 20 + 8 + 8
	out := make([]batch.Result, 1)
	stage.BeginOpened([]batch.Frame{{Addr: 130, Len: 200, Origin: wan}}, out, nil, gateway.MaxKeys)
	added(stage, 0, batch.ForwardTo(lan, 130+inner, 100), esp.SAReport(seq)<<32|esp.SAReport(key))
	stage.ConfirmOpened()
	return out[0]
}

// sealedPacket has a device seal a packet, and reports whether it needs no other step.
func sealedPacket(stage *esp.Stage, key uint32) bool {
	f := batch.Frame{Addr: 130, Len: 78, Origin: lan}
	stage.BeginSealed(nil, 0, gateway.MaxKeys)
	x := stage.Sealer(key)
	if x == nil {
		return false
	}
	after := f
	stage.SealedBy(x, &after, 64)
	n, by := stage.AcceptSealed([]batch.Frame{f}, make([]batch.Result, 1), []batch.Result{batch.ForwardTo(wan, after.Addr, after.Len)}, []esp.SAReport{esp.SAReport(64<<32) | esp.SAReport(key)}, 3)
	stage.EndSealed()
	return n == 1 && by == x
}

// Packets of an index of keys that was given to another SA belong to that SA: its counters and its window apply. Packets of a free index
// are refused.
func TestPacketsAreOfTheSAThatHasTheIndexNow(t *testing.T) {
	for _, direction := range []ipsec.Direction{ipsec.In, ipsec.Out} {
		w, g, first := secured(t, config(direction, false))
		stage := w.Engine.ESP()
		key := first.KeyIndex()
		packet := func(seq uint32) bool {
			if direction == ipsec.Out {
				return sealedPacket(stage, key)
			}
			return openedPacket(stage, key, seq).Verdict == batch.Forward(lan)
		}
		if !packet(1) || !packet(2) || direction == ipsec.In && packet(1) {
			t.Fatalf("%v: packets of the first SA", direction)
		}
		g.Remove(first)
		first.Zero()
		if packet(3) {
			t.Errorf("%v: a packet of an index without an SA passes", direction)
		}
		c := config(direction, false)
		c.SPI, c.Tunnel = 0x777, g.Tunnel("other")
		second, err := ipsec.NewSA(c, 2)
		require.NoError(t, err)
		require.NoError(t, g.Add(second))
		if second.KeyIndex() != key {
			t.Fatalf("%v: the index of the second SA is %d, want %d", direction, second.KeyIndex(), key)
		}
		if !packet(1) { // new to its window
			t.Errorf("%v: a packet of the second SA is refused", direction)
		}
		if a, b := first.Stats().Packets, second.Stats().Packets; a != 2 || b != 1 {
			t.Errorf("%v: %d and %d packets counted, want 2 and 1", direction, a, b)
		}
	}
}

// A packet that a device has opened before its SA was zeroed, and whose number is confirmed afterwards, is refused.
func TestOpenedPacketsOfAZeroedSA(t *testing.T) {
	w, g, sa := secured(t, config(ipsec.In, false))
	stage, out := w.Engine.ESP(), make([]batch.Result, 1)
	openedPacket(stage, sa.KeyIndex(), 1)
	stage.BeginOpened([]batch.Frame{{Addr: 130, Len: 200, Origin: wan}}, out, nil, gateway.MaxKeys)
	if !added(stage, 0, batch.ForwardTo(lan, 130+36, 100), esp.SAReport(2)<<32|esp.SAReport(sa.KeyIndex())) {
		t.Fatal("the packet needs a job")
	}
	g.Remove(sa)
	sa.Zero()
	stage.BeginOpened([]batch.Frame{{Addr: 130, Len: 200, Origin: wan}}, make([]batch.Result, 1), nil, gateway.MaxKeys) // confirms it
	if got, want := out[0], batch.DropFor(batch.XfrmInStateInvalid); got != want || sa.Stats().Packets != 1 {
		t.Errorf("got %v, and %d packets counted: want %v, and 1", got, sa.Stats().Packets, want)
	}
}

// Packets that a device has opened meet the limits of age of their SA, also if these are reached after its entry was filled in.
func TestOpenedPacketsMeetTheLimitsOfAge(t *testing.T) {
	w, g, _ := secured(t, config(ipsec.In, false))
	stage := w.Engine.ESP()
	for own, clock := range map[bool]*ipsec.Clock{false: &g.Clock, true: {}} {
		c, start := config(ipsec.In, false), clock.Now()
		c.SPI, c.Tunnel, c.Clock = 0x777, g.Tunnel("other"), clock
		c.Lifetime.Soft.Age, c.Lifetime.Hard.Age = time.Hour, 2*time.Hour
		sa, err := ipsec.NewSA(c, 2)
		require.NoError(t, err)
		require.NoError(t, g.Add(sa))
		for i, x := range []struct {
			age  time.Duration
			soft bool
			want batch.Verdict
		}{
			{time.Hour - time.Minute, false, batch.Forward(lan)}, {time.Hour, true, batch.Forward(lan)}, {time.Hour + time.Minute, false, batch.Forward(lan)},
			{2 * time.Hour, false, batch.DropFor(batch.XfrmInStateExpired).Verdict}, {3 * time.Hour, false, batch.DropFor(batch.XfrmInStateExpired).Verdict},
		} {
			clock.Set(start + x.age)
			if got := openedPacket(stage, sa.KeyIndex(), uint32(i+1)).Verdict; got != x.want {
				t.Errorf("own clock %v, after %v: got %v, want %v", own, x.age, got, x.want)
			}
			if got := sa.SoftExpired(); got != x.soft {
				t.Errorf("own clock %v, after %v: soft limit %v, want %v", own, x.age, got, x.soft)
			}
		}
		if n := sa.Stats().Packets; n != 3 {
			t.Errorf("own clock %v: %d packets counted, want 3", own, n)
		}
		g.Remove(sa)
	}
}
