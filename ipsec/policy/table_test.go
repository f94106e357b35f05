package policy

import (
	"testing"
)

func (w *world) compare(t *testing.T, packets int) (hits int) {
	t.Helper()
	table, err := Build(policies(w.rules))
	if err != nil {
		t.Fatal(err)
	}
	for range packets {
		p := w.packet()
		i, v := table.lookup(p)
		j, wantAction, wantTarget := oracle(w.rules, p)
		if i != j || v.Action() != wantAction || v.Target() != wantTarget {
			t.Fatalf("%+v: policy %d, %v %d; the oracle says %d, %v %d", p, i, v.Action(), v.Target(), j, wantAction, wantTarget)
		}
		if i >= 0 {
			hits++
		}
	}
	return hits
}

func TestRandom(t *testing.T) {
	for n := range 300 {
		w := newWorld(uint64(n)).random(n)
		h := w.compare(t, 1000)
		if n%50 == 0 {
			t.Log(n, h)
		}
	}
}
