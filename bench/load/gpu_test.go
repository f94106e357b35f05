package load

import "testing"

func TestRoundsWithoutPowerLeaveItAbsent(t *testing.T) {
	a := Trial{Stages: nil}
	a.Join(&Trial{})
	if s := newStep(&a, 0, ""); s.Watts != nil || s.Utilization != nil {
		t.Errorf("%v W, %v %%", s.Watts, s.Utilization)
	}
	a.Join(&Trial{GPU: GPU{Joules: 50, Seconds: 0.5, Percent: 0, Samples: 1}})
	a.Join(&Trial{GPU: GPU{Joules: 300, Seconds: 1.5, Percent: 90, Samples: 2}})
	if s := newStep(&a, 0, ""); s.Watts == nil || *s.Watts != 175 || s.Utilization == nil || *s.Utilization != 30 {
		t.Errorf("%+v, want 175 W and 30 %%", s)
	}
}
