package cpu

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/testutil"
)

type world = testutil.World[*Engine]

func newWorld(t testing.TB) *world { return testutil.NewWorld(t, New) }

func to4(dst string) []byte { return testutil.UDP4("192.0.2.1", dst, 1000, 53, make([]byte, 40)...) }
func to6(dst string) []byte { return testutil.UDP6("2001:db8::1", dst, 1000, 53, make([]byte, 40)...) }

// Packets of one flow take one path.
func TestFlowsSpreadOverPaths(t *testing.T) {
	w := newWorld(t)
	for name, frame := range map[string]func(port uint16) []byte{
		"IPv4": func(p uint16) []byte { return testutil.UDP4("192.0.2.1", "10.5.0.1", p, 53) },
		"IPv6": func(p uint16) []byte { return testutil.UDP6("2001:db8::1", "fd05::1", p, 53) },
	} {
		var frames [][]byte
		for i := range 1000 {
			frames = append(frames, frame(uint16(i/2)))
		}
		count := map[uint16]int{}
		out := w.Submit(1, frames...)
		for i, r := range out {
			count[r.Verdict.Port()]++
			if r.Verdict != out[i&^1].Verdict {
				t.Fatalf("%s: flow %d takes two paths", name, i/2)
			}
		}
		if count[1] < 400 || count[2] < 400 {
			t.Errorf("%s: 500 flows over two paths: %v", name, count)
		}
	}
}

func TestSubmitDoesNotAllocate(t *testing.T) {
	w := newWorld(t)
	frames := [][]byte{to4("10.1.0.9"), to6("fd01::9"), to4("10.5.0.9"), to6("fd05::9"), to4("10.4.0.1"), to4("172.16.0.1"), nil}
	w.Submit(0, frames...)
	if n := testing.AllocsPerRun(100, func() { w.Engine.Submit(w.Chunk) }); n != 0 {
		t.Errorf("Submit allocates %v times", n)
	}
}

// The verdict of a packet does not depend on other packets of the chunk.
func TestVerdictsAreIndependent(t *testing.T) {
	w := newWorld(t)
	rnd := rand.New(rand.NewPCG(4, 4))
	good := to4("10.1.0.9")
	var frames [][]byte
	for i := range 1000 {
		f := bytes.Clone(good)
		if i%2 == 1 {
			f = testutil.Mutate(rnd, [][]byte{good, to6("fd01::9")}[rnd.IntN(2)])
		}
		frames = append(frames, f)
	}
	for i, r := range w.Submit(0, frames...) {
		if i%2 == 0 && r.Verdict != batch.Forward(1) {
			t.Fatalf("good packet %d among bad ones: %v", i, r.Verdict)
		}
	}
}
