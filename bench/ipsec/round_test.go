package ipsec

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/internal/require"
	esp "github.com/warproute/warproute/ipsec"
)

// A round in which packets are played once counts only if none of the workers has run out of them.
func TestRoundsEndBeforePacketsDo(t *testing.T) {
	needTwoCores(t)
	o := options("aes128gcm16", esp.In)
	o.Ring, o.Testbed.NICs, o.Testbed.Prepared, o.Duration = 48, 1, 200_000, time.Minute
	tr, err := newTraffic(&o)
	require.NoError(t, err)
	rings, err := tr.rings(tr.protect)
	require.NoError(t, err)
	packets := tr.limitPrepared(rings)
	b, err := tr.newTestbed(1, o.Window)
	require.NoError(t, err)
	defer b.Close()
	r, err := tr.time(b, rings, packets)
	require.NoError(t, err)
	// The first sample is after a tenth of the packets at the earliest, and the last one after nine tenths, unless the sampler is late.
	if share := float64(r.Packets) / float64(packets); share < leastPlayed || share > 1-leastWarmup || r.Seconds >= 60 {
		t.Errorf("%d of %d packets in %.3f s", r.Packets, packets, r.Seconds)
	}
	if n := b.In[0].Arrived(); n > uint64(packets) {
		t.Errorf("%d of %d packets have arrived", n, packets)
	}
}

// TestTooFastRoundsAreRefused: all packets arrive at once, so they are played when the first sample is taken.
func TestTooFastRoundsAreRefused(t *testing.T) {
	needTwoCores(t)
	for _, c := range []struct {
		direction        esp.Direction
		prepared, window int
		flags            string
	}{{esp.In, 0, 64, "raise --ring"}, {esp.In, 64, 64, "raise --memory and --ring"}, {esp.In, 64, 0, "raise --memory"}, {esp.Out, 64, 0, "raise --memory"}} {
		o := options("aes128gcm16", c.direction)
		o.Ring, o.Window, o.Testbed.NICs, o.Testbed.Prepared, o.Testbed.MaxPackets = 1, c.window, 1, c.prepared, 32
		tr, err := newTraffic(&o)
		require.NoError(t, err)
		rings, err := tr.rings(tr.protect)
		require.NoError(t, err)
		b, err := testbed.New(tr.Testbed, tr.base, testbed.Null)
		require.NoError(t, err)
		if _, err = tr.time(b, rings, 64); !errors.Is(err, errTooFast) || !strings.HasSuffix(err.Error(), c.flags) {
			t.Errorf("%s, %d prepared: %v", names[c.direction], c.prepared, err)
		}
		require.NoError(t, b.Close())
	}
}
