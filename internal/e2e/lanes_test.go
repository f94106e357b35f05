package e2e

import (
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

const laneGateway = `ports: [{interface: lan0}, {interface: wan0}]
metrics: {listen: ""}
ipsec:
  state: STATE
  sas:
    - {name: out, spi: 0x1001, direction: out, src: 192.0.2.1, dst: 192.0.2.2, suite: aes128gcm16, key: 000102030405060708090a0b0c0d0e0f00010203}
    - {name: in, spi: 0x1002, direction: in, src: 192.0.2.2, dst: 192.0.2.1, suite: aes128gcm16, key: 100102030405060708090a0b0c0d0e0f00010203}
  policies:
    - {direction: out, src: 10.7.0.0/24, dst: 10.9.0.0/24, action: protect, sa: out}
    - {direction: in, src: 10.9.0.0/24, dst: 10.7.0.0/24, action: protect, sa: in}
`

// A gateway puts packets of its tunnels in one lane and all others in another, and shows both.
func TestGatewaySortsPacketsIntoLanes(t *testing.T) {
	n := build(t, lab.VethOptions{}, `
client client0 10.7.0.2/24 -- router lan0 10.7.0.1/24
router wan0 192.0.2.1/24 -- far far0 192.0.2.2/24
client route default 10.7.0.1
far route 10.7.0.0/24 192.0.2.1
router route 10.9.0.0/24 192.0.2.2`)
	file := filepath.Join(t.TempDir(), "warproute.yaml")
	writeFile(t, file, strings.Replace(laneGateway, "STATE", t.TempDir(), 1))
	r := startRouter(t, n["router"], "--config", file)
	ping := func(dst string, count int) (lab.PingResult, error) {
		return lab.Ping(n["client"], netip.MustParseAddr(dst), lab.PingOptions{Count: count, Interval: 20 * time.Millisecond, Timeout: 300 * time.Millisecond})
	}
	if _, err := ping("192.0.2.2", 5); err != nil {
		t.Fatal(err)
	}
	if _, err := ping("10.9.0.2", 3); err == nil {
		t.Error("a ping into a tunnel without a peer was answered")
	}
	var lanes []status.Lane
	require.NoError(t, r.Get("/lanes", &lanes))
	if len(lanes) != 2 || lanes[0].Name != "express" || lanes[1].Name != "bulk" {
		t.Fatalf("lanes: %+v", lanes)
	}
	if lanes[0].Packets < 10 || lanes[1].Packets != 3 || lanes[0].Deadline != 100_000 || lanes[0].P50 == 0 {
		t.Errorf("5 pings in plaintext and 3 into a tunnel: %+v", lanes)
	}
	if out := r.command("show", "lanes")(); !strings.Contains(out, "express") || !strings.Contains(out, "1ms") {
		t.Errorf("show lanes:\n%s", out)
	}
}
