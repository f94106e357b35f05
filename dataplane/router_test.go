package dataplane_test

import (
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/require"
)

func TestStopAccountsForAllPackets(t *testing.T) {
	r := newRig(t, 256)
	r.queues[0].Play(numbered(1000, "10.1.0.1"), -1)
	r.queues[1].Play(numbered(1000, "172.16.0.1"), -1)
	r.queues[1].Collect(nil)
	r.start()
	time.Sleep(50 * time.Millisecond)
	r.queues[0].Pause()
	r.queues[1].Pause()
	s := r.stop()
	if s.Ports[1].TxPackets == 0 || s.Ports[1].Drops[batch.NoRoute] == 0 {
		t.Errorf("nothing went through: %+v", s.Ports)
	}
}

func TestStopUnderLoad(t *testing.T) {
	r := newRig(t, 256)
	r.queues[0].Play(numbered(1000, "10.1.0.1"), -1)
	r.queues[1].Collect(nil)
	r.start()
	start := time.Now()
	r.stop()
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("took %v", d)
	}
}

func TestNewRefusesInvalidConfigurations(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*dataplane.Config)
		want  string
	}{
		"no workers":    {func(c *dataplane.Config) { c.Workers = nil }, "router without workers"},
		"no ports":      {func(c *dataplane.Config) { c.Ports = 0 }, "router with 0 ports: 1 to 4096 are possible"},
		"ports missing": {func(c *dataplane.Config) { c.Ports = 3 }, "worker 0: has queues of 2 ports, not of 3"},
		"no queue": {func(c *dataplane.Config) {
			other := c.Workers[0]
			other.Queues = [][]dataplane.Queue{other.Queues[0], nil}
			c.Workers = append(c.Workers, other)
		}, "worker 1: has queues of the ports [0], and worker 0 of [0 1]"},
		"chunks small": {func(c *dataplane.Config) { c.MaxPackets = 65 }, "worker 0: its chunks do not hold max_packets, 65"},
	} {
		r := newRig(t, 64)
		c.spoil(&r.config)
		if _, err := dataplane.New(r.config); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	r := newRig(t, 64)
	r.config.Workers[0].CPU = 1000
	router, err := dataplane.New(r.config)
	require.NoError(t, err)
	if err := router.Start(); err == nil {
		t.Error("a worker was pinned to CPU 1000")
	}
}
