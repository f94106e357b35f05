package veth

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

func TestRunMeasuresAndReportsFailures(t *testing.T) {
	failing := Contender{Name: "failing", Forwards: true, Rewrites: true, Start: func(*lab.Topology) (func() error, error) {
		return func() error { return nil }, nil // forwards nothing
	}}
	results, distance, err := Run(t.Context(), Options{Rounds: 1, Duration: 100 * time.Millisecond}, []Contender{Drop(), Linux(), failing})
	require.NoError(t, err)
	for _, r := range results[:2] {
		if r.Error != "" || r.Median() <= 0 {
			t.Errorf("%s: %v Mpps %s", r.Name, r.Median(), r.Error)
		}
	}
	if r := results[2]; r.Error == "" {
		t.Errorf("a router that forwards nothing: %v Mpps", r.Median())
	}
	if distance.Min <= 0 || distance.Max < distance.Min {
		t.Errorf("distance of the cores: %+v", distance)
	}
}

func TestRunStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Run(ctx, Options{Rounds: 1, Duration: time.Hour}, []Contender{Linux()}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
