package mirror

import (
	"fmt"
	"testing"
)

// With a receive buffer far too small for what happens, the mirror must notice
// and end up with what Linux has, whatever it missed: additions, replacements,
// deletions, silent ones too.
func TestOverrun(t *testing.T) {
	w := newWorld(t)
	opts := defaults
	opts.receiveBuffer = 4096
	w.startWith(opts)
	w.ip(known...)
	burst := func(format string) (lines []string) {
		for i := range 20000 {
			lines = append(lines, fmt.Sprintf(format, i>>8, i&255))
		}
		return lines
	}
	w.ip(burst("route add 20.%d.%d.0/24 via 10.1.0.2")...)
	w.want("20.0.0.1", lan2, "20.77.255.1", lan2)
	w.sameAsFresh()
	w.ip(burst("route replace 20.%d.%d.0/24 via 10.2.0.2")...)
	w.want("20.0.0.1", wan2, "20.77.255.1", wan2)
	w.sameAsFresh()
	w.ip(append(burst("route del 20.%d.%d.0/24"), "neigh del 10.1.0.2 dev lan", "link set wan down", "addr del 10.1.0.1/24 dev lan")...)
	w.want("20.0.0.1", "none", "20.77.255.1", "none", "10.1.0.1", "none")
	w.sameAsFresh()
	if st := w.m.Status(); st.Resyncs == 0 {
		t.Errorf("the buffer did not overrun, this test tests nothing: %+v", st)
	} else {
		t.Logf("%d full comparisons", st.Resyncs)
	}
}
