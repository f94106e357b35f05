package testbed

import (
	"fmt"

	"github.com/warproute/warproute/dataplane/gpu"
	"github.com/warproute/warproute/dataplane/lane"
	"github.com/warproute/warproute/ipsec/gateway"
)

// Lanes selects the lanes of an IPsec gateway. Other routers have one.
type Lanes string

const (
	DefaultLanes Lanes = "default" // of the router: express and bulk, and bulk leaves slots of a GPU to express
	QueueLanes   Lanes = "queues"  // the same, but both use all slots of a GPU
	OneLane      Lanes = "none"
)

// ParseLanes parses default, queues or none.
func ParseLanes(s string) (Lanes, error) {
	switch l := Lanes(s); l {
	case DefaultLanes, QueueLanes, OneLane:
		return l, nil
	}
	return "", fmt.Errorf("%s: write default, queues or none", s)
}

// lanes returns the lanes of the router, nil for one.
func (c Config) lanes() []lane.Lane {
	if c.Gateway == nil || c.Lanes == OneLane {
		return nil
	}
	all := lane.Default()
	if c.Lanes == QueueLanes {
		for i := range all {
			all[i].Share = 0
		}
	}
	return all
}

// Secured returns the configuration of an IPsec gateway.
func (c Config) Secured(g *gateway.Gateway) Config {
	c.Gateway = g
	c.Chunks = max(c.Chunks, len(c.lanes())) // each lane needs one
	return c
}

// shares returns the shares of a GPU by lane.
func (c Config) shares() (shares []int) {
	for _, l := range c.lanes() {
		shares = append(shares, l.Share)
	}
	return shares
}

// maxBytes returns the limit of a chunk's bytes, by default the router's; 0 for none.
func (c Config) maxBytes() int {
	if c.MaxBytes == 0 && c.Gateway != nil && c.GPUs > 0 {
		return gpu.SecuredChunk(c.Workers, c.GPUs)
	}
	return c.MaxBytes
}
