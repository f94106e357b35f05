package soak

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
)

// router is a warproute process.
type router struct {
	t      *testing.T
	name   string
	ns     *lab.Namespace
	config string // the file
	socket string
	proc   *lab.Process
	out    output
}

// output keeps the last part of what a process writes.
type output struct {
	mu   sync.Mutex
	tail []byte
}

const outputBytes = 1 << 16

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tail = append(o.tail, p...)
	o.tail = bytes.Clone(o.tail[max(0, len(o.tail)-outputBytes):])
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.tail)
}

// startRouter starts a router with a configuration and waits until it serves.
func startRouter(t *testing.T, ns *lab.Namespace, name, config string, env []string) *router {
	t.Helper()
	dir := t.TempDir()
	r := &router{t: t, name: name, ns: ns, config: filepath.Join(dir, "warproute.yaml"), socket: filepath.Join(dir, "control.sock")}
	r.write(config)
	cmd := exec.Command(program, "run", "--config", r.config, "--socket", r.socket, "--metrics", "none")
	cmd.Stdout, cmd.Stderr, cmd.Env = &r.out, &r.out, env
	var err error
	if r.proc, err = ns.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.proc.Stop(5 * time.Second)
		if t.Failed() {
			t.Logf("%s wrote:\n%s", name, &r.out)
		}
	})
	for end := time.Now().Add(20 * time.Second); r.get("/engine", &status.Engine{}) != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s does not serve:\n%s", name, &r.out)
		}
	}
	return r
}

func (r *router) write(config string) {
	r.t.Helper()
	if err := os.WriteFile(r.config, []byte(config), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *router) get(path string, to any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return socket.Get(ctx, r.socket, path, to)
}

// reload has the router read another configuration, which it must apply.
func (r *router) reload(config string) {
	r.write(config)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var answer status.Reload
	if err := socket.Post(ctx, r.socket, "/reload", &answer); err != nil || answer.Result != status.ReloadApplied && answer.Result != status.ReloadUnchanged {
		r.t.Errorf("%s: reload: %v, %s", r.name, err, answer.Summary())
	}
}

// counts is what a router says of the frames that it had.
type counts struct {
	arrived              map[string]uint64 // by port
	linux, lost          uint64
	received, sent       uint64
	dropped              uint64
	toSocket             uint64 // frames that XDP and the kernel gave to sockets
	free                 int64  // frames in pools
	busy                 int64  // chunks and packets under way
	timeouts, returns    uint64 // of GPUs
	byGPU                uint64 // chunks
	resident, fds, tasks int    // of the process: memory in KiB
}

func (r *router) counts() counts {
	r.t.Helper()
	c := counts{arrived: map[string]uint64{}}
	var ports []status.Port
	var engine status.Engine
	for path, to := range map[string]any{"/ports": &ports, "/engine": &engine} {
		if err := r.get(path, to); err != nil {
			r.t.Fatalf("%s: ask %s: %v", r.name, path, err)
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
	c.busy = engine.InFlight + engine.Held + engine.Pending
	for _, d := range engine.Devices {
		c.timeouts, c.returns, c.byGPU = c.timeouts+d.Timeouts, c.returns+d.Returns, c.byGPU+d.Chunks
	}
	c.resident, c.tasks = r.status("VmRSS"), r.status("Threads")
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.proc.Pid()))
	if err != nil {
		r.t.Fatal(err)
	}
	c.fds = len(fds)
	return c
}

// status returns a number of /proc/PID/status.
func (r *router) status(key string) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.proc.Pid()))
	if err != nil {
		r.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, key+":"); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			return n
		}
	}
	r.t.Fatalf("no %s in %s", key, text)
	return 0
}

var closing = regexp.MustCompile(`stopped: (\d+) frames arrived: (\d+) handed to Linux, (\d+) lost before the router, (\d+) received; of these (\d+) transmitted, (\d+) dropped`)

// stop ends the router and checks its closing account.
func (r *router) stop() {
	r.t.Helper()
	_ = r.proc.Signal(unix.SIGTERM)
	if err := r.proc.Stop(10 * time.Second); err != nil {
		r.t.Errorf("%s: %v", r.name, err)
		return
	}
	m := closing.FindStringSubmatch(r.out.String())
	if m == nil {
		r.t.Errorf("%s: no account at the end:\n%s", r.name, &r.out)
		return
	}
	var n [6]uint64
	for i := range n {
		n[i], _ = strconv.ParseUint(m[i+1], 10, 64)
	}
	if n[0] != n[1]+n[2]+n[3] || n[3] != n[4]+n[5] {
		r.t.Errorf("%s: the closing account does not add up: %s", r.name, m[0])
	}
	r.t.Logf("%s %s", r.name, m[0])
}
