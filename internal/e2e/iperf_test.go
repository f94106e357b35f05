package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// iperf3 sends TCP in both directions and UDP through two routers, and the hosts count no checksum errors.
func TestIperf(t *testing.T) {
	c := newChain(t, lab.VethOptions{})
	c.start()
	for i, f := range families {
		port := fmt.Sprint(5201 + i)
		server, err := c.server.Start(exec.Command("iperf3", "-s", "-p", port))
		require.NoError(t, err)
		t.Cleanup(func() { _ = server.Stop(5 * time.Second) })
		eventually(t, 5*time.Second, "iperf3 listens", func() bool {
			return strings.Contains(must(t, c.server, "ss", "-Hltn", "sport", "=", ":"+port), port)
		})
		const most = 10 // percent of UDP packets lost
		for _, args := range []string{"-n 4M", "-n 4M -R", "-n 1M -u -b 10M -l 1400"} {
			type sum struct {
				Bytes   float64 `json:"bytes"`
				Packets int     `json:"packets"`
				Lost    float64 `json:"lost_percent"`
			}
			type report struct {
				Error string // with exit status 0
				End   struct {
					Sent     sum `json:"sum_sent"`
					Received sum `json:"sum_received"`
					UDP      sum `json:"sum"`
				} `json:"end"`
			}
			var result report
			eventually(t, 5*time.Second, "the server has ended the test before", func() bool {
				out := must(t, c.client, "iperf3", append(strings.Fields(args), "-J", "-c", f.server, "-p", port)...)
				result = report{}
				require.NoError(t, json.Unmarshal([]byte(out), &result))
				return !strings.Contains(result.Error, "busy") && !strings.Contains(result.Error, "refused") // it opens its socket again between tests
			})
			if result.Error != "" {
				t.Errorf("%s, iperf3 %s: %s", f.name, args, result.Error)
			}
			end, udp := result.End, strings.Contains(args, "-u")
			if udp && (end.UDP.Packets < 1<<20/1400 || end.UDP.Lost > most) || !udp && (end.Sent.Bytes < 4<<20 || end.Received.Bytes < 4<<20/10) {
				t.Errorf("%s, iperf3 %s: %+v", f.name, args, end)
			}
		}
	}
	for _, ns := range []*lab.Namespace{c.client, c.server} {
		for line := range strings.Lines(must(t, ns, "nstat", "-az")) {
			if f := strings.Fields(line); len(f) >= 2 && strings.Contains(f[0], "Csum") && f[1] != "0" {
				t.Errorf("%s counts checksum errors: %s", ns.Name(), line)
			}
		}
	}
}
