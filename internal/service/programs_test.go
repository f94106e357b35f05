package service

import "testing"

// A driver has forgotten its program if the interface receives frames for two seconds and the program sees none. Counters of some
// drivers are late, and begin again when they are loaded.
func TestForgottenPrograms(t *testing.T) {
	for _, c := range []struct {
		name           string
		received, seen []uint64 // by second
		want           []uint64 // frames
	}{
		{"no traffic", []uint64{9, 9, 9, 9}, []uint64{7, 7, 7, 7}, []uint64{0, 0, 0, 0}},
		{"all are seen", []uint64{9, 19, 29, 39}, []uint64{7, 17, 27, 37}, []uint64{0, 0, 0, 0}},
		{"none is seen", []uint64{9, 19, 30, 40, 50, 60, 70, 80}, []uint64{7, 7, 7, 7, 7, 7, 7, 7}, []uint64{0, 0, 21, 0, 0, 0, 40, 0}},
		{"seen and forgotten again", []uint64{9, 19, 30, 40, 50, 60}, []uint64{7, 7, 7, 8, 8, 8}, []uint64{0, 0, 21, 0, 0, 20}},
		{"one second", []uint64{9, 19, 19, 29, 29}, []uint64{7, 7, 7, 7, 7}, []uint64{0, 0, 0, 0, 0}},
		{"a late counter", []uint64{0, 10, 20, 30, 30}, []uint64{10, 20, 30, 30, 30}, []uint64{0, 0, 0, 0, 0}},
		{"seen again", []uint64{9, 19, 29, 39}, []uint64{7, 7, 8, 8}, []uint64{0, 0, 0, 0}},
		{"counters begin again", []uint64{900, 0, 10, 20}, []uint64{7, 7, 7, 7}, []uint64{0, 0, 0, 20}},
		{"none since the start", []uint64{0, 10, 20}, []uint64{0, 0, 0}, []uint64{0, 0, 20}},
	} {
		var s programState
		s.forgotten(c.received[0], c.seen[0])
		for i := range c.received {
			if got := s.forgotten(c.received[i], c.seen[i]); got != c.want[i] {
				t.Errorf("%s, second %d: %d frames, want %d", c.name, i, got, c.want[i])
			}
		}
	}
}
