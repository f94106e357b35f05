package fib

import (
	"errors"
	"testing"
	"time"
)

func TestPortNumbersAreNotReusedWhilePacketsNameThem(t *testing.T) {
	f := New(1)
	p := f.NewPortNumbers(2, 4)
	now := time.Unix(1000, 0)
	p.now = func() time.Time { return now }
	take := func(want int) {
		t.Helper()
		if n, err := p.Take(); err != nil || n != want {
			t.Fatalf("took %d, %v, want %d", n, err, want)
		}
	}
	full := func(when string) {
		t.Helper()
		if n, err := p.Take(); !errors.Is(err, ErrFull) {
			t.Fatalf("%s: took %d, %v", when, n, err)
		}
	}
	take(2)
	take(3)
	full("all in use")

	r := f.NewReader()
	r.Hold(r.Now()) // a chunk in flight
	p.Free(1)
	now = now.Add(time.Hour)
	full("a chunk of before is in flight")
	r.Hold(r.Now())
	take(1)

	p.Untake(1)
	take(1)

	p.Free(2)
	r.Release()
	now = now.Add(reuseAfter - 1)
	full("packets may wait for neighbors")
	p.Free(0)
	now = now.Add(1)
	take(2)
	full("the other was freed later")
	now = now.Add(reuseAfter)
	take(0)
	full("all in use again")
}
