package testbed

import (
	"slices"
	"testing"

	"github.com/warproute/warproute/ipsec/gateway"
)

// Gateways have the router's lanes, shares and chunk bytes by default; other routers have none.
func TestGatewaysHaveLanes(t *testing.T) {
	for _, c := range []struct {
		lanes                 string
		gateway               *gateway.Gateway
		workers, gpus, chunks int
		shares                []int
		bytes, atOnce         int
	}{
		{"", &gateway.Gateway{}, 2, 1, 1, []int{20, 80}, 96 << 10, 2},
		{"default", &gateway.Gateway{}, 2, 0, 8, []int{20, 80}, 0, 8},
		{"queues", &gateway.Gateway{}, 3, 2, 8, []int{0, 0}, 96 << 10, 8},
		{"none", &gateway.Gateway{}, 1, 1, 1, nil, 384 << 10, 1},
		{"none", &gateway.Gateway{}, 2, 2, 1, nil, 384 << 10, 1},
		{"default", nil, 2, 1, 1, nil, 0, 1},
	} {
		got := Config{Lanes: Lanes(c.lanes), Workers: c.workers, GPUs: c.gpus, Chunks: c.chunks}.Secured(c.gateway)
		if !slices.Equal(got.shares(), c.shares) || got.maxBytes() != c.bytes || got.Chunks != c.atOnce {
			t.Errorf("%q: shares %v, %d bytes, %d chunks; want %+v", c.lanes, got.shares(), got.maxBytes(), got.Chunks, c)
		}
	}
	if got := (Config{MaxBytes: 5}).Secured(&gateway.Gateway{}).maxBytes(); got != 5 {
		t.Errorf("%d bytes, want 5", got)
	}
	for text, ok := range map[string]bool{"default": true, "queues": true, "none": true, "": false, "two": false} {
		if l, err := ParseLanes(text); (err == nil) != ok || ok && string(l) != text {
			t.Errorf("%q: %q, %v", text, l, err)
		}
	}
}
