package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
)

// hop is a line of traceroute, tracepath or mtr: the hop's number, and its first address.
var hop = regexp.MustCompile(`(?m)^ *(\d+)(?:\.\|--|:|) +([0-9a-f.:]*[.:][0-9a-f.:]*) .*$`)

// hopsOf returns the addresses by hop, as a tool tells of them, and fails the test of
// one that is told of twice with different addresses, or whose probes were lost.
func hopsOf(t *testing.T, out string) (hops []string) {
	t.Helper()
	for _, m := range hop.FindAllStringSubmatch(out, -1) {
		if n := fmt.Sprint(len(hops) + 1); m[1] == n {
			hops = append(hops, m[2])
		} else if len(hops) == 0 || m[2] != hops[len(hops)-1] {
			t.Errorf("hop %s, %s, stands behind %v:\n%s", m[1], m[2], hops, out)
		}
		if strings.ContainsAny(m[0], "*!") {
			t.Errorf("a probe was lost, or not answered as it should be: %s", m[0])
		}
	}
	return hops
}

// traceroute waits for late answers, however soon others came: on a machine that is busy
// with other tests, too.
const traceroute = "traceroute -n -w 3,0,0"

// Whichever way a path is asked for, the routers answer by the addresses at which
// packets come in, in turn, and the destination is reached.
func TestHops(t *testing.T) {
	c := newChain(t, lab.VethOptions{})
	c.start()
	for _, f := range families {
		c.pings(t, "to begin with", f.server, 56)
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			for _, tool := range []string{
				// By turns, for the routers tell a source ten times a second, and mtr takes its time.
				traceroute, "mtr -n -r -c 3 -i 0.2 -G 0.5", traceroute + " -I", "mtr -n -r -c 3 -i 0.2 -G 0.5 -u",
				traceroute + " -T", "mtr -n -r -c 3 -i 0.2 -G 0.5 -T", "tracepath -n",
			} {
				args := append(strings.Fields(tool), f.flag, f.server)
				byTCP := strings.HasSuffix(tool, "-G 0.5 -T")
				out := must(t, c.client, args[0], args[1:]...)
				// By TCP mtr itself misses answers at times, and now and then all of a hop's.
				for tries := 4; byTCP && tries > 0 && strings.Contains(out, "???"); tries-- {
					out = must(t, c.client, args[0], args[1:]...)
				}
				if got := hopsOf(t, out); !slices.Equal(got, f.hops) {
					t.Errorf("%s: %v, want %v:\n%s", tool, got, f.hops, out)
				}
				if args[0] == "mtr" && !byTCP && strings.Count(out, " 0.0% ") != len(f.hops) {
					t.Errorf("%s lost probes:\n%s", tool, out)
				}
			}
		})
	}
}

// trace returns the hops that traceroute finds.
func (c *chain) trace(t *testing.T, args ...string) []string {
	t.Helper()
	all := append(strings.Fields(traceroute), args...)
	return hopsOf(t, must(t, c.client, all[0], all[1:]...))
}

// A router that answers by another way than the packet came still speaks by the address
// where it came in; where there is none, by another of its own.
func TestHopsOfAsymmetricRoutes(t *testing.T) {
	c := newChain(t, lab.VethOptions{})
	c.start()
	must(t, c.r2, "ip", "route", "replace", "10.1.0.0/24", "via", "10.13.0.1")
	must(t, c.r2, "ip", "route", "replace", "fd01::/64", "via", "fd13::1")
	time.Sleep(effect)
	trace := func(family int) []string {
		f := families[family]
		return c.trace(t, f.flag, f.server)
	}
	for i, f := range families {
		if got := trace(i); !slices.Equal(got, f.hops) {
			t.Errorf("%s there by mid0, back by mid1: %v, want %v", f.name, got, f.hops)
		}
	}

	// The packets come in at mid1, which has no IPv4 address, by an IPv6 next hop.
	must(t, c.r2, "ip", "addr", "del", "10.13.0.2/24", "dev", "mid1")
	must(t, c.r1, "ip", "route", "replace", "10.2.0.0/24", "via", "inet6", "fd13::2", "dev", "mid1")
	must(t, c.r2, "ip", "route", "replace", "10.1.0.0/24", "via", "inet6", "fd13::1", "dev", "mid1")
	time.Sleep(effect)
	if got, want := trace(0), []string{"10.1.0.1", "10.2.0.1", "10.2.0.2"}; !slices.Equal(got, want) {
		t.Errorf("IPv4 by a link that has no IPv4 addresses: %v, want %v", got, want)
	}
}

func TestIperfThroughTwoRouters(t *testing.T) {
	c := newChain(t, lab.VethOptions{})
	c.start()
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			port := "52" + strings.TrimPrefix(f.flag, "-") + "0"
			server, err := c.server.Start(exec.Command("iperf3", "-s", "-p", port))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = server.Stop(5 * time.Second) })
			for listening := false; !listening; time.Sleep(5 * time.Millisecond) {
				listening = strings.Contains(must(t, c.server, "ss", "-Hltn", "sport", "=", ":"+port), port)
			}
			type sum struct {
				Bytes   float64 `json:"bytes"`
				Packets int     `json:"packets"`
				Lost    float64 `json:"lost_percent"`
			}
			var result struct {
				End struct {
					Sent     sum `json:"sum_sent"` // of TCP, as is
					Received sum `json:"sum_received"`
					UDP      sum `json:"sum"`
				} `json:"end"`
			}
			const n = 4 << 20
			for _, args := range [][]string{{"-n", "4M"}, {"-n", "4M", "-R"}, {"-n", "1M", "-u", "-b", "10M", "-l", "1400"}} {
				out := must(t, c.client, "iperf3", append([]string{"-J", "-c", f.server, "-p", port}, args...)...)
				if err := json.Unmarshal([]byte(out), &result); err != nil {
					t.Fatalf("%v: %v\n%s", args, err, out)
				}
				if udp := result.End.UDP; args[len(args)-2] == "-l" && (udp.Packets < 1<<20/1400 || udp.Lost > 10) {
					t.Errorf("UDP: %d packets, %v %% of them lost", udp.Packets, udp.Lost)
				} else if tcp := result.End; args[len(args)-2] != "-l" && (tcp.Sent.Bytes < n || tcp.Received.Bytes < n/10) {
					t.Errorf("%v: %v bytes sent, %v received at the end", args, tcp.Sent.Bytes, tcp.Received.Bytes)
				}
			}
		})
	}
}
