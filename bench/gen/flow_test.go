package gen

import (
	"math/rand/v2"
	"testing"
)

func TestFlowsCount(t *testing.T) {
	full := make([]uint32, maxWindow) // 0, 1, 2, ... to the end of the window
	for i := range full {
		full[i] = uint32(i)
	}
	after := func(seqs ...uint32) []uint32 { return append(full[:maxWindow:maxWindow], seqs...) }
	for _, tt := range []struct {
		name string
		seqs []uint32
		want flow // without first and next
	}{
		{"in order", []uint32{0, 1, 2, 3}, flow{received: 4}},
		{"a gap", []uint32{0, 1, 5, 6}, flow{received: 4}},
		{"a pair swapped", []uint32{0, 2, 1, 3}, flow{received: 4, reordered: 1}},
		{"one that is late by many", []uint32{1, 2, 3, 4, 0}, flow{received: 5, reordered: 1}},
		{"all backwards", []uint32{4, 3, 2, 1, 0}, flow{received: 5, reordered: 4}},
		{"a duplicate", []uint32{0, 1, 1, 2}, flow{received: 3, duplicates: 1}},
		{"a duplicate of a late one", []uint32{0, 2, 1, 1}, flow{received: 3, reordered: 1, duplicates: 1}},
		{"a duplicate of the first", []uint32{0, 0, 0}, flow{received: 1, duplicates: 2}},
		{"the oldest of the window again", after(0), flow{received: maxWindow, duplicates: 1}},
		{"older than the window", after(maxWindow, 0), flow{received: maxWindow + 2, reordered: 1}},
		{"one of a gap whose bits were in use", after(maxWindow+10, maxWindow+5), flow{received: maxWindow + 2, reordered: 1}},
		{"one of a gap of more than the window", after(5*maxWindow, 5*maxWindow-5), flow{received: maxWindow + 2, reordered: 1}},
	} {
		fs := newFlows(1)
		for _, seq := range tt.seqs {
			fs.count(0, seq)
		}
		got := fs.of[0]
		got.first, got.next = 0, 0
		if got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// Numbers pass 2^32, in order and reordered.
func TestSequenceNumbersWrap(t *testing.T) {
	fs := newFlows(0)
	fs.grow(1)
	start := uint32(1<<32 - 500)
	for i := range uint32(1000) {
		seq := start + i
		if i%10 == 3 {
			seq++
		} else if i%10 == 4 {
			seq--
		}
		fs.count(0, seq)
	}
	if f := fs.of[0]; f.received != 1000 || f.reordered != 100 || f.duplicates != 0 || f.expected() != 1000 {
		t.Errorf("%+v, %d expected", f, f.expected())
	}
}

func TestListenerCountsFromTheLowestNumber(t *testing.T) {
	fs := newFlows(0)
	fs.grow(3)
	for _, seq := range []uint32{10, 8, 11} {
		fs.count(2, seq)
	}
	if f := fs.of[2]; f.expected() != 4 || f.received != 3 {
		t.Errorf("%d expected, %d received, want 4 and 3", f.expected(), f.received)
	}
	if f := fs.of[1]; f.expected() != 0 {
		t.Errorf("%d expected of a flow that was not seen", f.expected())
	}
}

// The oracle is a map of received numbers. Packets are lost, repeated and reordered within the window.
func TestFlowsAgainstOracle(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	const numFlows = 5
	fs := newFlows(numFlows)
	seen := make([]map[uint32]bool, numFlows)
	highest := make([]uint32, numFlows)
	var want [numFlows]flow
	for i := range seen {
		seen[i] = map[uint32]bool{}
	}
	base := make([]uint32, numFlows)
	for step := range 200_000 {
		i := rnd.IntN(numFlows)
		seq := base[i] + uint32(rnd.IntN(minWindow/2))
		if rnd.IntN(3) == 0 {
			base[i] += uint32(rnd.IntN(4))
		}
		fresh := fs.count(i, seq)
		if fresh == seen[i][seq] {
			t.Fatalf("step %d, flow %d, number %d: fresh is %v", step, i, seq, fresh)
		}
		switch {
		case seen[i][seq]:
			want[i].duplicates++
		case seq < highest[i]:
			want[i].reordered++
			fallthrough
		default:
			want[i].received++
		}
		seen[i][seq] = true
		highest[i] = max(highest[i], seq)
	}
	for i, f := range fs.of {
		if f.first, f.next = 0, 0; f != want[i] {
			t.Errorf("flow %d: %+v, want %+v", i, f, want[i])
		}
	}
	if want[0].duplicates == 0 || want[0].reordered == 0 {
		t.Error("duplicates or reordering were not tried")
	}
}

func TestWindowMemoryIsLimited(t *testing.T) {
	for _, n := range []int{1, 64, 4096, 1 << 16} {
		fs := newFlows(n)
		if len(fs.bits)*64 > max(allBits, n*minWindow) || fs.window < minWindow || fs.window > maxWindow || fs.window&(fs.window-1) != 0 {
			t.Errorf("%d flows have windows of %d", n, fs.window)
		}
	}
}
