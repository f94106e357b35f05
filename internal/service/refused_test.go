package service

import (
	"testing"
	"time"
)

func TestAGrowingLossIsReportedAtOnceAndThenNotTooOften(t *testing.T) {
	var r report
	at := time.Unix(1000, 0)
	for i, c := range []struct {
		after time.Duration
		count uint64
		want  uint64
	}{
		{0, 0, 0}, {time.Second, 5, 5}, {time.Second, 7, 0}, {27 * time.Second, 9, 0}, {2 * time.Second, 12, 7}, {time.Minute, 12, 0}, {time.Second, 13, 1},
	} {
		at = at.Add(c.after)
		if got := r.due(c.count, at); got != c.want {
			t.Errorf("step %d: %d frames to report, want %d", i, got, c.want)
		}
	}
}
