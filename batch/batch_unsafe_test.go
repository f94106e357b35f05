package batch

import (
	"testing"
	"unsafe"
)

func TestEveryReasonHasNameDescriptionAndHint(t *testing.T) {
	names, sentences := map[string]bool{}, map[string]bool{}
	for r := range NumReasons {
		name, description := Reason(r).String(), Reason(r).Description()
		if name == "" || description == "" || names[name] || sentences[description] {
			t.Errorf("reason %d: %q, %q", r, name, description)
		}
		names[name], sentences[description] = true, true
		if Reason(r).Hint() == "" {
			t.Errorf("%s: it has no hint", name)
		}
	}
	if Reason(255).String() != "invalid" || Reason(255).Description() != "" || Reason(255).Hint() != "" {
		t.Error("a reason that does not exist has a name")
	}
}

func TestVerdictsKeepActionAndArgument(t *testing.T) {
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

func TestChunksDoNotOverlap(t *testing.T) {
	seen := map[unsafe.Pointer]bool{}
	for _, c := range NewChunks(3, 100) {
		if len(c.In) != 100 || len(c.Out) != 100 || cap(c.In) != 100 || cap(c.Out) != 100 {
			t.Fatalf("columns of %d and %d", len(c.In), len(c.Out))
		}
		for i := range c.In {
			seen[unsafe.Pointer(&c.In[i])], seen[unsafe.Pointer(&c.Out[i])] = true, true
		}
	}
	if len(seen) != 3*2*100 {
		t.Errorf("%d elements, want %d", len(seen), 3*2*100)
	}
}

func TestClockIsMonotonic(t *testing.T) {
	a := Clock()
	for range 1000 {
		b := Clock()
		if b < a {
			t.Fatalf("%v after %v", b, a)
		}
		a = b
	}
}
