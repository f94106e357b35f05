package main

import (
	"bytes"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warproute/warproute/control/mirror"
	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/cli"
	"github.com/warproute/warproute/internal/require"
)

// fakeRouter serves one value of each resource.
func fakeRouter(t *testing.T) (socketPath string) {
	t.Helper()
	route := mirror.RouteInfo{Prefix: netip.MustParsePrefix("192.0.2.0/24"), Kind: "forward", Protocol: "kernel", Installed: true,
		Paths: []mirror.PathInfo{{Dev: "lan0", Weight: 1}}}
	is := func(v any) socket.Handler { return func(*http.Request) (any, error) { return v, nil } }
	socketPath = filepath.Join(t.TempDir(), "w.sock")
	s, err := socket.Serve(socketPath, map[string]socket.Handler{
		"/ports":     is([]status.Port{{PortState: status.PortState{Name: "lan0", Mode: "native"}}}),
		"/neighbors": is([]mirror.NeighborInfo{{Address: netip.MustParseAddr("192.0.2.1"), Dev: "lan0", State: "stale"}}),
		"/engine":    is(status.Engine{Name: "cpu", Description: "no GPU was found"}),
		"/lanes":     is([]status.Lane{{Name: "express", Deadline: 100000, P99: 31400}}),
		"/latency":   is([]status.Latency{{Stage: "total", P50: 4071}}),
		"/mirror":    is(mirror.Status{RoutesIPv4: 5, RoutesIPv6: 2, Resyncs: 3, Warnings: []string{"policy rules are not supported"}}),
		"/drops":     is([]status.Drop{}),
		"/routes": func(r *http.Request) (any, error) {
			return socket.Stream(func(yield func(any) bool) {
				if r.URL.Query().Get("family") != "6" {
					_ = yield(route) && r.URL.Query().Get("limit") != "1" && yield(route)
				}
			}), nil
		},
		"/route": func(r *http.Request) (any, error) {
			addr, err := netip.ParseAddr(r.URL.Query().Get("addr"))
			return status.AnswerOf(addr, route, route.Prefix.Contains(addr)), err
		},
	}, socket.Access{Group: -1})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return socketPath
}

func TestShowPrintsAnswersOfTheRouter(t *testing.T) {
	socketPath := fakeRouter(t)
	const routeJSON = `{"prefix":"192.0.2.0/24","type":"","kind":"forward"`
	tests := []struct {
		args string
		want string // part of the output
	}{
		{"show ports", "lan0  down   native"},
		{"show ports --json", `"mode": "native",`},
		{"show neighbors", "192.0.2.1  lan0  -    stale  no"},
		{"show engine", "cpu (no GPU was found)"},
		{"show latency", "4.07µs"},
		{"show lanes", "express  0        0       0       100µs     0       0ns  31.4µs"},
		{"show drops", "no packets dropped\n"},
		{"show drops --json", "[]\n"},
		{"show routes", "192.0.2.0/24                   forward      kernel    direct on lan0\n192.0.2.0/24"},
		{"show routes --limit 1 --json", "[" + routeJSON},
		{"show routes --json", "},\n " + routeJSON},
		{"show routes --summary", "routes     5 IPv4, 2 IPv6, including host routes of neighbors\n"},
		{"show routes --summary", "warning    policy rules are not supported\n"},
		{"show routes --summary --json", `"resyncs": 3,`},
		{"show routes --family 6", "no routes\n"},
		{"show routes --family 6 --json", "[]\n"},
		{"route lookup 192.0.2.7", "192.0.2.7  192.0.2.0/24  forward  direct    lan0\n"},
		{"route lookup 203.0.113.1", "203.0.113.1  -       no route  -         -\n"},
		{"route lookup 203.0.113.1 192.0.2.7 --json", `"found": false`},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			var out bytes.Buffer
			root := newRootCommand()
			root.SetOut(&out)
			root.SetArgs(append(strings.Fields(tt.args), "--socket", socketPath))
			require.NoError(t, root.ExecuteContext(t.Context()))
			if !strings.Contains(out.String(), tt.want) {
				t.Errorf("no %q in\n%s", tt.want, &out)
			}
		})
	}
}

func TestVerifyFailsIfTablesDiffer(t *testing.T) {
	answer := mirror.Verification{RoutesIPv4: 3, RoutesIPv6: 2, Addresses: 20, Differences: []mirror.Difference{}}
	socketPath := filepath.Join(t.TempDir(), "w.sock")
	s, err := socket.Serve(socketPath, map[string]socket.Handler{"/verify": func(*http.Request) (any, error) { return answer, nil }}, socket.Access{Group: -1})
	require.NoError(t, err)
	defer s.Close()
	show := func(args ...string) (string, error) {
		var out bytes.Buffer
		root := newRootCommand()
		root.SetOut(&out)
		root.SetArgs(append([]string{"show", "routes", "--verify", "--socket", socketPath}, args...))
		err := root.ExecuteContext(t.Context())
		return out.String(), err
	}
	const same = "3 IPv4 and 2 IPv6 prefixes in Linux, compared at 20 addresses: the forwarding table matches\n"
	if out, err := show(); err != nil || out != same {
		t.Errorf("equal tables: %v, %q", err, out)
	}
	answer.Different = 1
	answer.Differences = append(answer.Differences, mirror.Difference{Address: netip.MustParseAddr("192.0.2.1"), Linux: "192.0.2.0/24 forward by lan0", Router: "none"})
	if out, err := show(); cli.ExitCode(err) != cli.ExitFailure || !strings.Contains(out, "192.0.2.1  192.0.2.0/24 forward by lan0  none") {
		t.Errorf("tables that differ: %v, %q", err, out)
	}
	if out, err := show("--json"); cli.ExitCode(err) != cli.ExitFailure || !strings.Contains(out, `"linux": "192.0.2.0/24 forward by lan0"`) {
		t.Errorf("the same as JSON: %v, %q", err, out)
	}
}
