package batch

import (
	"testing"
	"unsafe"
)

func TestEveryReasonSaysWhatItMeansAndWhatToDo(t *testing.T) {
	names, sentences := map[string]bool{}, map[string]bool{}
	for r := range NumReasons {
		name, sentence := Reason(r).String(), Reason(r).Sentence()
		if name == "" || sentence == "" || names[name] || sentences[sentence] {
			t.Errorf("reason %d: %q, %q", r, name, sentence)
		}
		names[name], sentences[sentence] = true, true
		if Reason(r).Mend() == "" {
			t.Errorf("%s: nobody is told what to do about it", name)
		}
	}
	if Reason(255).String() != "invalid" || Reason(255).Sentence() != "" || Reason(255).Mend() != "" {
		t.Error("a reason that does not exist has a name")
	}
}

func TestVerdictsKeepWhatIsPutIn(t *testing.T) {
	var zero Verdict
	if zero.Action() != ActionDrop || zero.Reason() != Unprocessed {
		t.Errorf("the zero verdict is %v, want a drop as unprocessed", zero)
	}
	for _, port := range []uint16{0, 1, MaxPorts - 1} {
		if v := Forward(port); v.Action() != ActionForward || v.Port() != port {
			t.Errorf("forward to %d: %v", port, v)
		}
	}
	for r := range NumReasons {
		if v := Drop(Reason(r)); v.Action() != ActionDrop || v.Reason() != Reason(r) {
			t.Errorf("drop for %v: %v", Reason(r), v)
		}
	}
	if Hold.Action() != ActionHold {
		t.Errorf("hold: %v", Hold)
	}
	for v, want := range map[Verdict]string{Drop(NoRoute): "drop: no_route", Forward(3): "forward: port 3", Hold: "hold", 0xf001: "invalid verdict 0xf001"} {
		if got := v.String(); got != want {
			t.Errorf("%#x: %q, want %q", uint16(v), got, want)
		}
	}
}

func TestChunksOfASlabAreApart(t *testing.T) {
	s, err := NewSlab(3, 100)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[uintptr]bool{}
	inside := func(p unsafe.Pointer) bool {
		at := uintptr(p) - uintptr(unsafe.Pointer(&s.Bytes()[0]))
		again := seen[at]
		seen[at] = true
		return at+8 <= uintptr(len(s.Bytes())) && at%8 == 0 && !again
	}
	for _, c := range s.Chunks {
		if len(c.In) != 100 || len(c.Out) != 100 || cap(c.In) != 100 || cap(c.Out) != 100 {
			t.Fatalf("columns of %d and %d", len(c.In), len(c.Out))
		}
		for i := range c.In {
			if !inside(unsafe.Pointer(&c.In[i])) || !inside(unsafe.Pointer(&c.Out[i])) {
				t.Fatal("an element lies outside of the slab, askew, or upon another")
			}
		}
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if _, err := NewSlab(1, 1<<50); err == nil {
		t.Error("a slab of a petabyte was mapped")
	}
}

func TestClockRuns(t *testing.T) {
	a := Clock()
	for range 1000 {
		b := Clock()
		if b < a {
			t.Fatalf("%v after %v", b, a)
		}
		a = b
	}
}
