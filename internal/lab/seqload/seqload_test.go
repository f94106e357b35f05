package seqload

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
)

var two = []Flow{
	{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")},
	{netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")},
}

var anyTime = cmpopts.IgnoreFields(Run{}, "Began", "Ended")

// newLink returns the ends of a link between two namespaces.
func newLink(t *testing.T) (a, b lab.End) {
	t.Helper()
	for _, e := range []*lab.End{&a, &b} {
		ns, err := lab.New("end")
		require.NoError(t, err)
		t.Cleanup(func() { ns.Close() })
		*e = lab.End{Namespace: ns, Name: "eth0"}
	}
	require.NoError(t, lab.Veth(a, b, lab.VethOptions{}))
	return a, b
}

func newSender(t *testing.T, from, to lab.End) *Sender {
	t.Helper()
	mac, err := to.Namespace.MAC(to.Name)
	require.NoError(t, err)
	s, err := NewSender(from, mac, 0, two...)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func newReceiver(t *testing.T, at, peer lab.End) *Receiver {
	t.Helper()
	s, err := NewReceiver(at, peer, 0)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func TestReceiverRecordsAllPacketsInOrder(t *testing.T) {
	a, b := newLink(t)
	sender, receiver := newSender(t, a, b), newReceiver(t, b, a)
	for range 2 {
		require.NoError(t, sender.Rate(20_000)) // slow enough for a busy machine
		start := time.Now()
		time.Sleep(200 * time.Millisecond)
		require.NoError(t, sender.Rate(0))
		took := time.Since(start)
		time.Sleep(50 * time.Millisecond)
		sent, err := sender.Sent()
		require.NoError(t, err)
		for i, n := range sent {
			got, err := receiver.Flow(i)
			require.NoError(t, err)
			if diff := cmp.Diff(Arrivals{Packets: int(n), Runs: []Run{{First: 0, Next: n}}}, got, anyTime); diff != "" {
				t.Errorf("flow %d: (-sent +arrived)\n%s", i, diff)
			}
			if most := took.Seconds()*10_000 + 10; n == 0 || float64(n) > most {
				t.Errorf("flow %d: %d packets in %v, want at most %.0f", i, n, took, most)
			}
		}
		for _, where := range []func() (int, error){sender.core, func() (int, error) { return lastCore(receiver.objects.Core) }} {
			if core, err := where(); core != 0 || err != nil {
				t.Errorf("runs on core %d (%v), want 0", core, err)
			}
		}
		require.NoError(t, sender.Reset())
		require.NoError(t, receiver.Reset())
	}
}

func TestSenderSendsValidPackets(t *testing.T) {
	a, b := newLink(t)
	sender := newSender(t, a, b)
	src, err := a.Namespace.MAC(a.Name)
	require.NoError(t, err)
	dst, err := b.Namespace.MAC(b.Name)
	require.NoError(t, err)
	var mu sync.Mutex
	var frames [2][][]byte
	stop, err := b.Namespace.Listen(b.Name, func(f []byte, out bool) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case out || len(f) != FrameLen:
		case f[14]>>4 == 4:
			frames[0] = append(frames[0], bytes.Clone(f))
		case f[20] == 17:
			frames[1] = append(frames[1], bytes.Clone(f))
		}
	})
	require.NoError(t, err)
	require.NoError(t, sender.Rate(20_000))
	time.Sleep(100 * time.Millisecond)
	require.NoError(t, sender.Rate(0))
	stop()
	for flow, make := range []func(src, dst string, sport, dport uint16, payload ...byte) []byte{testutil.UDP4, testutil.UDP6} {
		if len(frames[flow]) < 100 {
			t.Errorf("flow %d: %d frames", flow, len(frames[flow]))
		}
		for n, got := range frames[flow] {
			payload := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(flow)), uint32(n))
			payload = append(payload, []([]byte){bytes.Repeat([]byte{0}, 32), bytes.Repeat([]byte{0}, 12)}[flow]...)
			want := make(two[flow].Src.String(), two[flow].Dst.String(), uint16(1024+flow), 7777, payload...)
			copy(want, dst)
			copy(want[6:], src)
			if !bytes.Equal(want, got) {
				t.Fatalf("flow %d, packet %d:\nwant % x\ngot  % x", flow, n, want, got)
			}
		}
	}
}

func TestReceiverRecordsLossReorderingAndDuplicates(t *testing.T) {
	a, b := newLink(t)
	receiver := newReceiver(t, b, a)
	mac, err := b.Namespace.MAC(b.Name)
	require.NoError(t, err)
	fd, err := a.Namespace.PacketSocket(a.Name)
	require.NoError(t, err)
	defer unix.Close(fd)
	send := func(numbers ...uint32) {
		for _, n := range numbers {
			f := template(1, two[1], make([]byte, 6), mac)
			binary.BigEndian.PutUint32(f[66:], n) // the receiver ignores the UDP checksum
			require.NoError(t, unix.Send(fd, f, 0))
		}
	}
	send(0, 1, 2, 5, 6, 4, 4, 7)
	mac[5]++
	send(8)
	time.Sleep(50 * time.Millisecond)
	want := Arrivals{Packets: 8, Runs: []Run{{First: 0, Next: 3}, {First: 5, Next: 7}, {First: 4, Next: 5}, {First: 4, Next: 5}, {First: 7, Next: 8}}, Misrouted: 1}
	got, err := receiver.Flow(1)
	require.NoError(t, err)
	if diff := cmp.Diff(want, got, anyTime); diff != "" {
		t.Error(diff)
	}
}

func TestMonitorRecordsStalls(t *testing.T) {
	last := runtime.NumCPU() - 1
	m, err := NewMonitor(last)
	require.NoError(t, err)
	defer m.Close()
	time.Sleep(200 * time.Millisecond)
	if core, err := m.core(); core != last || err != nil {
		t.Errorf("runs on core %d (%v), want %d", core, err, last)
	}
	// Simulate a late tick.
	before, err := m.Stalls()
	require.NoError(t, err)
	require.NoError(t, m.objects.Last.Set(uint64(1)))
	time.Sleep(100 * time.Millisecond)
	stalls, err := m.Stalls()
	require.NoError(t, err)
	if len(stalls) <= len(before) || stalls[len(before)].From != 1 {
		t.Errorf("stalls %v before and %v after a late tick", before, stalls)
	}
	for _, s := range stalls {
		if s.To-s.From <= 300*time.Microsecond {
			t.Errorf("%v is too short", s)
		}
	}
}

func TestSenderRejectsWrongNumberOfFlows(t *testing.T) {
	a, b := newLink(t)
	mac, err := b.Namespace.MAC(b.Name)
	require.NoError(t, err)
	for _, n := range []int{0, MaxFlows + 1} {
		if s, err := NewSender(a, mac, 0, make([]Flow, n)...); err == nil {
			s.Close()
			t.Errorf("%d flows are accepted", n)
		}
	}
}
