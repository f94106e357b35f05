package service

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/gpu"
)

// Outages are logged when they begin and end; an exhausted frame pool again every minute.
func TestHealthChangesAreLoggedOnce(t *testing.T) {
	var b strings.Builder
	h := health{log: slog.New(slog.NewTextHandler(&b, nil)), gpus: map[int]bool{}, pools: map[int]time.Time{}}
	expect := func(what string, want ...string) {
		t.Helper()
		lines := strings.Split(strings.TrimSpace(b.String()), "\n")
		b.Reset()
		if len(want) == 0 && lines[0] == "" {
			return
		}
		if len(lines) != len(want) {
			t.Fatalf("%s: logged %q", what, lines)
		}
		for i, w := range want {
			if !strings.Contains(lines[i], w) {
				t.Errorf("%s: logged %q, want %q", what, lines[i], w)
			}
		}
	}
	now := time.Unix(1000, 0)
	pools := func(after time.Duration, frames ...dataplane.FrameStats) { h.checkPools(now.Add(after), frames) }
	full, empty, withheld := dataplane.FrameStats{Total: 9, Free: 5}, dataplane.FrameStats{Total: 9}, dataplane.FrameStats{Total: 9, Withheld: 4}
	pools(0, full, full)
	expect("full")
	pools(0, full, withheld)
	expect("exhausted", `msg="frame pool exhausted" worker=1 frames=9 withheld=4 hint=`)
	pools(time.Second, full, withheld)
	pools(59*time.Second, full, withheld)
	expect("the same minute")
	pools(61*time.Second, empty, withheld)
	expect("the next minute", `worker=0 frames=9 withheld=0 hint=`, `worker=1`)
	pools(62*time.Second, empty, full)
	expect("recovered", `msg="frame pool recovered" worker=1 free=5`)

	why := &gpu.Outage{Why: errors.New("it is late")}
	gpus := func(s gpu.State) { h.checkGPUs([]gpu.State{{}, s}) }
	gpus(gpu.State{Number: 1})
	expect("in use")
	gpus(gpu.State{Number: 1, Outage: why, Cause: gpu.CauseTimeout, WorkersOut: 2})
	gpus(gpu.State{Number: 1, Outage: why, Cause: gpu.CauseTimeout, WorkersOut: 3})
	expect("late", `gpu=1 err="it is late" reason=timeout hint=`)
	gpus(gpu.State{Number: 1})
	expect("back", `msg="gpu in use again" gpu=1`)
	gpus(gpu.State{Number: 1, Outage: why, Cause: gpu.CauseTableFull, Failed: true})
	expect("full", `reason=table_full hint="the GPU has too little memory for the route table: announce fewer routes`)
	gpus(gpu.State{Number: 1})
	expect("back", `gpu=1`)
	gpus(gpu.State{Number: 1, Outage: why, Cause: gpu.CauseMismatch, Failed: true})
	expect("wrong", `level=ERROR msg="gpu failed, the CPU replaces it" gpu=1 err="it is late" reason=mismatch`)
	for _, c := range []gpu.Cause{gpu.CauseTimeout, gpu.CauseFault, gpu.CauseTableFull, gpu.CauseBadResult, gpu.CauseMismatch} {
		if hints[c] == "" {
			t.Errorf("cause %s has no hint", c)
		}
	}
}

func TestGrowingLossIsLoggedAtOnceAndThenAtIntervals(t *testing.T) {
	var l loss
	at := time.Unix(1000, 0)
	for i, c := range []struct {
		after time.Duration
		count uint64
		want  uint64
	}{
		{0, 0, 0}, {time.Second, 5, 5}, {time.Second, 7, 0}, {27 * time.Second, 9, 0}, {2 * time.Second, 12, 7}, {time.Minute, 12, 0}, {time.Second, 13, 1},
	} {
		at = at.Add(c.after)
		if got := l.due(c.count, at); got != c.want {
			t.Errorf("step %d: %d frames to report, want %d", i, got, c.want)
		}
	}
}
