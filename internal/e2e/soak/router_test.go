package soak

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

// router is a warproute process with its configuration file.
type router struct {
	*labtest.Router
	name   string
	ns     *lab.Namespace
	config string
}

// startRouter starts a router with a configuration.
func startRouter(t *testing.T, ns *lab.Namespace, name, config string, env []string) *router {
	t.Helper()
	file := filepath.Join(t.TempDir(), "warproute.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	return &router{labtest.Start(t, ns, program, env, "--config", file, "--metrics", "none"), name, ns, file}
}

func (r *router) write(config string) {
	r.T.Helper()
	require.NoError(r.T, os.WriteFile(r.config, []byte(config), 0o600))
}

// reload applies another configuration.
func (r *router) reload(config string) {
	r.write(config)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var answer status.Reload
	if err := socket.Post(ctx, r.Socket, "/reload", &answer); err != nil || answer.Result != status.ReloadApplied && answer.Result != status.ReloadUnchanged {
		r.T.Errorf("%s: reload: %v, %s", r.name, err, answer.Summary())
	}
}

// counts are the counters of a router.
type counts struct {
	arrived              map[string]uint64 // by port
	linux, lost          uint64
	received, sent       uint64
	dropped              uint64
	toSocket             uint64 // frames redirected to sockets
	free                 int64  // frames in pools
	busy                 int64  // chunks and packets in flight
	timeouts, recoveries uint64 // of GPUs
	byGPU                uint64 // chunks
	resident, fds, tasks int    // of the process: memory in KiB
}

func (r *router) counts() counts {
	r.T.Helper()
	c := counts{arrived: map[string]uint64{}}
	var ports []status.Port
	var engine status.Engine
	for path, to := range map[string]any{"/ports": &ports, "/engine": &engine} {
		if err := r.Get(path, to); err != nil {
			r.T.Fatalf("%s: ask %s: %v", r.name, path, err)
		}
	}
	for _, p := range ports {
		n := p.XDP.ToSocket + p.XDP.NoSocket
		for _, k := range p.XDP.ToLinux {
			n += k
			c.linux += k
		}
		c.arrived[p.Name] = n
		before := p.XDP.Refused + p.Rings.RxDropped + p.Rings.RxRingFull
		c.lost += p.XDP.NoSocket + before
		c.toSocket += p.XDP.ToSocket - before
		c.received, c.sent, c.dropped = c.received+p.RxPackets, c.sent+p.TxPackets, c.dropped+p.Dropped
	}
	for _, f := range engine.Frames {
		c.free += f.Free
	}
	c.busy = engine.InFlight + engine.NeighborQueue + engine.TxPending
	for _, d := range engine.Devices {
		c.timeouts, c.recoveries, c.byGPU = c.timeouts+d.Timeouts, c.recoveries+d.Recoveries, c.byGPU+d.Chunks
	}
	c.resident, c.tasks = r.status("VmRSS"), r.status("Threads")
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.Process.Pid()))
	require.NoError(r.T, err)
	c.fds = len(fds)
	return c
}

// status returns a number of /proc/PID/status.
func (r *router) status(key string) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.Process.Pid()))
	require.NoError(r.T, err)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, key+":"); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			return n
		}
	}
	r.T.Fatalf("no %s in %s", key, text)
	return 0
}

// stop ends the router and checks its account.
func (r *router) stop() {
	r.T.Helper()
	a := r.Stop()
	if a.Arrived != a.Linux+a.Lost+a.Received || a.Received != a.Transmitted+a.Dropped {
		r.T.Errorf("%s: the account does not add up: %+v", r.name, a)
	}
	r.T.Logf("%s: %+v", r.name, a)
}
