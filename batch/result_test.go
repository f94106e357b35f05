package batch

import "testing"

// Each qualifier is read from the results that have it, and from no others.
func TestAccessorsReadTheirOwnResults(t *testing.T) {
	type values struct {
		verdict         Verdict
		mtu             uint16
		routerFragments bool
		knownSA         bool
		forged          bool
	}
	for name, c := range map[string]struct {
		r    Result
		want values
	}{
		"zero":                        {Result{}, values{}},
		"forward":                     {ForwardTo(3, 1, ICVFailureSize), values{verdict: Forward(3)}},
		"forward, highest address":    {ForwardTo(0, routerFragments, 9000), values{verdict: Forward(0)}},
		"hold":                        {HoldFor(knownSA), values{verdict: Hold}},
		"drop":                        {DropFor(NoRoute), values{verdict: Drop(NoRoute)}},
		"too big":                     {DropTooBig(1280), values{verdict: Drop(MTUExceeded), mtu: 1280}},
		"too big, of an adjacency":    {MakeResult(knownSA, 1400, Drop(MTUExceeded)), values{verdict: Drop(MTUExceeded), mtu: 1400}},
		"too big ESP":                 {DropTooBigESP(1500), values{verdict: Drop(MTUExceeded), mtu: 1500, routerFragments: true}},
		"fragment":                    {DropToReassemble(false), values{verdict: Drop(FragmentsMissing)}},
		"fragment of a known SA":      {DropToReassemble(true), values{verdict: Drop(FragmentsMissing), knownSA: true}},
		"forged":                      {DropICVFailure(), values{verdict: Drop(XfrmInStateProtoError), forged: true}},
		"authentic, with bad padding": {DropFor(XfrmInStateProtoError), values{verdict: Drop(XfrmInStateProtoError)}},
		"another drop with its size":  {MakeResult(routerFragments, ICVFailureSize, Drop(PortDown)), values{verdict: Drop(PortDown)}},
	} {
		if got := (values{c.r.Verdict, c.r.MTU(), c.r.RouterFragments(), c.r.KnownSA(), c.r.ICVFailed()}); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if r := ForwardTo(3, 1<<31, 9014); r.Addr() != 1<<31 || r.Len() != 9014 || r != MakeResult(1<<31, 9014, Forward(3)) {
		t.Errorf("forward: %d bytes at %#x", r.Len(), r.Addr())
	}
	if r := HoldFor(1 << 20); r.Adjacency() != 1<<20 || r != MakeResult(1<<20, 0, Hold) {
		t.Errorf("hold for adjacency %d", r.Adjacency())
	}
}

func TestFrameWordHasTheOriginInPlaceOfTheVerdict(t *testing.T) {
	origin := From(MaxPorts - 1).With(Own | PolicyDone)
	word := Words([]Result{ForwardTo(3, 1<<31+5, 9014)})[0]
	if got, want := FrameWord(word, origin), (Frame{Addr: 1<<31 + 5, Len: 9014, Origin: origin}).Word(); got != want {
		t.Errorf("%#x, want %#x", got, want)
	}
}

// Marks do not change the port, nor each other.
func TestOriginsKeepPortAndMarks(t *testing.T) {
	for _, port := range []uint16{0, 1, MaxPorts - 1} {
		for set := Mark(0); set < 16; set++ {
			marks := set << 12
			o := From(port).With(marks)
			if o.Port() != port || o.Marks() != marks {
				t.Errorf("port %d with marks %#x: %d, %#x", port, marks, o.Port(), o.Marks())
			}
			for _, m := range []Mark{PolicyDone, Own, InboundChecked, Reassembled} {
				if o.Has(m) != (marks&m != 0) || o.With(m).Without(m) != From(port).With(marks&^m) {
					t.Errorf("port %d with marks %#x: mark %#x is lost or found", port, marks, m)
				}
			}
			if o.Has(PolicyDone|Own) != (o.Has(PolicyDone) || o.Has(Own)) {
				t.Errorf("marks %#x: any of two", marks)
			}
		}
	}
}
