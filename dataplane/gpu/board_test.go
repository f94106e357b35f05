package gpu

import (
	"errors"
	"strings"
	"testing"

	"github.com/warproute/warproute/cuda"
)

// TestBoardsAreExaminedWithoutAContext: a board that another process has to itself can be examined.
func TestBoardsAreExaminedWithoutAContext(t *testing.T) {
	f, library := newFake(t)
	f.mode = 3
	f.failNext("cuDevicePrimaryCtxRetain") // is never called
	boards := got(Boards(library))(t)
	if len(boards) != 2 || f.takeFailed() != "" || f.held != 0 {
		t.Fatalf("%d boards, %d resources held", len(boards), f.held)
	}
	b := boards[1]
	forward, gateway := got(forwardNeeds.shape(faked))(t), got(gatewayNeeds.shape(faked))(t)
	if b.Number != 1 || b.Info.Name != "Fake 1" || b.Sharing.Mode != cuda.Exclusive || b.Forward != forward || b.Gateway != gateway || b.ForwardErr != nil || b.GatewayErr != nil {
		t.Errorf("%+v", b)
	}
	f.mode, f.mps = 0, 1
	if mode := got(Boards(library))(t)[0].Sharing.Mode; mode != cuda.MPS {
		t.Errorf("with MPS: %s", mode)
	}
	for f.failAt = 1; ; f.failAt++ {
		f.calls = 0
		_, err := Boards(library)
		if f.takeFailed() == "" {
			break
		}
		if !errors.Is(err, cuda.OutOfMemory) {
			t.Errorf("call %d fails: %v", f.failAt, err)
		}
	}
}

func TestEverySharingModeStatesItsLatency(t *testing.T) {
	seen := map[string]cuda.SharingMode{}
	for mode, want := range map[cuda.SharingMode]string{
		cuda.TimeSlicing: "time slice of 2 to 3 ms", cuda.MPS: "run beside", cuda.MIG: "partition of its own",
		cuda.Exclusive: "no other process", cuda.Prohibited: "no process can use",
	} {
		text := SharingLatency(cuda.Sharing{Mode: mode})
		if other, is := seen[text]; is || !strings.Contains(text, want) {
			t.Errorf("%s: %q, want %q in it; mode %q says the same", mode, text, want, other)
		}
		seen[text] = mode
	}
	if text := SharingLatency(cuda.Sharing{Mode: cuda.MPS, Percent: 25}); !strings.Contains(text, "25 % of the GPU's threads") {
		t.Error(text)
	}
}
