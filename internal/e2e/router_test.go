package e2e

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

// router is a warproute process.
type router struct{ *labtest.Router }

// startRouter starts warproute in a namespace, without metrics.
func startRouter(t *testing.T, ns *lab.Namespace, args ...string) *router {
	t.Helper()
	return startRouterWith(t, ns, append([]string{"--metrics", "none"}, args...)...)
}

// startRouterWith starts warproute with metrics as configured.
func startRouterWith(t *testing.T, ns *lab.Namespace, args ...string) *router {
	t.Helper()
	return &router{labtest.Start(t, ns, program, nil, args...)}
}

func (r *router) engine() (e status.Engine, err error) {
	err = r.Get("/engine", &e)
	return e, err
}

// startTwoPorts starts a router between the hosts of a topology.
func startTwoPorts(t *testing.T) (*lab.Topology, *router) {
	t.Helper()
	top := newTopology(t, lab.VethOptions{})
	return top, startRouter(t, top.Router, "--port", lab.LAN, "--port", lab.WAN)
}

// startConfigured starts a router with a configuration.
func startConfigured(t *testing.T, ns *lab.Namespace, config string) *router {
	t.Helper()
	file := filepath.Join(t.TempDir(), "warproute.yaml")
	writeFile(t, file, config)
	return startRouter(t, ns, "--config", file)
}

// xdpPrograms returns the links of a namespace with an XDP program.
func xdpPrograms(t *testing.T, ns *lab.Namespace) (names []string) {
	t.Helper()
	var links []struct {
		Name string          `json:"ifname"`
		XDP  json.RawMessage `json:"xdp"`
	}
	require.NoError(t, json.Unmarshal([]byte(must(t, ns, "ip", "-json", "-details", "link")), &links))
	for _, l := range links {
		if l.XDP != nil {
			names = append(names, l.Name)
		}
	}
	return names
}

// command starts a warproute command for the router and returns a function that waits for its
// output.
func (r *router) command(args ...string) (output func() string) {
	r.T.Helper()
	cmd := exec.Command(program, append(args, "--socket", r.Socket)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(r.T, cmd.Start())
	return func() string {
		r.T.Helper()
		if err := cmd.Wait(); err != nil {
			r.T.Fatalf("warproute %v: %v\n%s", args, err, out.String())
		}
		return out.String()
	}
}
