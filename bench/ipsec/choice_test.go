package ipsec

import (
	"slices"
	"testing"
)

// TestMedianRound: a pause in one round does not decide the comparison, and every round is reported.
func TestMedianRound(t *testing.T) {
	point := func(ratio float64) ChoicePoint {
		return ChoicePoint{Ratio: ratio, Mpps: 10 * ratio, Best: 10, Overrun: ratio > 1}
	}
	for _, c := range []struct {
		ratios  []float64
		want    float64
		overrun bool
	}{
		{[]float64{0.98, 0.4, 0.99}, 0.98, false}, {[]float64{1.3, 0.97, 0.96}, 0.97, true}, {[]float64{0.9}, 0.9, false}, {[]float64{1, 0.9}, 0.9, false},
	} {
		var rounds []ChoicePoint
		for _, ratio := range c.ratios {
			rounds = append(rounds, point(ratio))
		}
		if p := medianPoint(rounds); p.Ratio != c.want || p.Mpps != 10*c.want || p.Overrun != c.overrun || !slices.Equal(p.Ratios, c.ratios) {
			t.Errorf("%v: %+v", c.ratios, p)
		}
	}
}
