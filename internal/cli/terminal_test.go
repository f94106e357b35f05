package cli

import (
	"bytes"
	"testing"
)

func TestColorLevelsMarksLineStarts(t *testing.T) {
	got := colorLevels("OK    kernel\nFAIL  lan0: FAIL \nWARN  x\n")
	if want := "OK    kernel\n\x1b[31mFAIL\x1b[0m  lan0: FAIL \n\x1b[33mWARN\x1b[0m  x\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPlainOutputOutsideTerminals(t *testing.T) {
	var b bytes.Buffer
	if got := ColorLevels(&b, "FAIL x\n"); got != "FAIL x\n" {
		t.Errorf("got %q", got)
	}
	p := NewProgress(&b)
	p.Step("round %d", 1)
	p.Done()
	if b.Len() > 0 {
		t.Errorf("progress wrote %q", &b)
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 queues", 1: "1 queue", 2: "2 queues"} {
		if got := Count(n, "queue"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
