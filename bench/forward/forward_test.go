package forward

import (
	"testing"
	"time"
)

func TestEveryPacketComesOutRight(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		r, err := Run(Options{
			IPv6: ipv6, Engine: "cpu", Table: "random", Routes: 500, Chunks: 1, Size: 64, Workers: 1, MaxPackets: 256,
			Duration: 50 * time.Millisecond, Rounds: 1, Seed: 7,
		})
		if err != nil {
			t.Fatalf("IPv6 %v: %v", ipv6, err)
		}
		if r.Verified != 16384 || r.Mpps <= 0 {
			t.Errorf("IPv6 %v: verified %d packets at %v Mpps", ipv6, r.Verified, r.Mpps)
		}
		t.Logf("%+v", r)
	}
}
