// Package e2e tests the warproute program as its users meet it: as a process,
// between namespaces, with real packets.
//
// Every router runs with Linux's own forwarding off, so that a packet which
// crosses proves the dataplane.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
)

// program is the program under test, built with the race detector if the tests are.
var program string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "warproute-e2e")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "warproute")
		build := exec.Command("go", append(append([]string{"build"}, buildFlags...), "-o", program, "../../cmd/warproute")...)
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v: %v\n%s", build, err, out)
			return 1
		}
		// Under the race detector a program sleeps for a second at its end, unless told not to.
		_ = os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0")
		return m.Run()
	}())
}

// newNamespace makes a namespace that ends with the test.
func newNamespace(t *testing.T, name string) *lab.Namespace {
	t.Helper()
	ns, err := lab.New(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	return ns
}

// router is a warproute process.
type router struct {
	t      *testing.T
	socket string
	proc   *lab.Process
	out    *output
}

// output is what a process has written so far.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// startRouter starts warproute in a namespace, without metrics, and waits until it serves.
func startRouter(t *testing.T, ns *lab.Namespace, args ...string) *router {
	t.Helper()
	return startRouterWith(t, ns, append([]string{"--metrics", "none"}, args...)...)
}

// startRouterWith has it serve metrics where it says.
func startRouterWith(t *testing.T, ns *lab.Namespace, args ...string) *router {
	t.Helper()
	r := &router{t: t, socket: filepath.Join(t.TempDir(), "control.sock"), out: &output{}}
	cmd := exec.Command(program, append([]string{"run", "--socket", r.socket}, args...)...)
	cmd.Stdout, cmd.Stderr = r.out, r.out
	var err error
	if r.proc, err = ns.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.proc.Stop(5 * time.Second)
		if t.Failed() {
			t.Logf("the router wrote:\n%s", r.out)
		}
	})
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		select {
		case <-r.proc.Done():
			t.Fatalf("the router ended at its start:\n%s", r.out)
		default:
		}
		if _, err := r.engine(); err == nil {
			return r
		}
		if time.Now().After(deadline) {
			t.Fatalf("the router does not serve:\n%s", r.out)
		}
	}
}

func (r *router) get(path string, out any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return socket.Get(ctx, r.socket, path, out)
}

func (r *router) engine() (e status.Engine, err error) {
	err = r.get("/engine", &e)
	return e, err
}

// drops returns how many packets were dropped for a reason.
func (r *router) drops(reason string) (n uint64) {
	r.t.Helper()
	var drops []status.Drop
	if err := r.get("/drops", &drops); err != nil {
		r.t.Fatal(err)
	}
	for _, d := range drops {
		if d.Reason == reason {
			n += d.Packets
		}
	}
	return n
}

// balance is what the router says of its frames when it stops.
type balance struct{ arrived, linux, lost, received, transmitted, dropped uint64 }

var stopped = regexp.MustCompile(`stopped: (\d+) frames arrived: (\d+) handed to Linux, (\d+) lost before the router, (\d+) received; of these (\d+) transmitted, (\d+) dropped`)

// stop ends the router by SIGTERM and returns its last words.
func (r *router) stop() (b balance) {
	r.t.Helper()
	if err := r.proc.Stop(5 * time.Second); err != nil {
		r.t.Fatalf("after SIGTERM: %v\n%s", err, r.out)
	}
	m := stopped.FindStringSubmatch(r.out.String())
	if m == nil {
		r.t.Fatalf("no account at the end:\n%s", r.out)
	}
	for i, field := range []*uint64{&b.arrived, &b.linux, &b.lost, &b.received, &b.transmitted, &b.dropped} {
		*field, _ = strconv.ParseUint(m[i+1], 10, 64)
	}
	return b
}

func newTopology(t *testing.T, opts lab.VethOptions) *lab.Topology {
	t.Helper()
	top, err := lab.NewTopology(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(top.Close)
	return top
}

// must runs a command in a namespace.
func must(t *testing.T, ns *lab.Namespace, name string, args ...string) string {
	t.Helper()
	out, err := ns.Run(name, args...)
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return out
}

// xdpPrograms returns which links of a namespace have an XDP program.
func xdpPrograms(t *testing.T, ns *lab.Namespace) (names []string) {
	t.Helper()
	var links []struct {
		Name string          `json:"ifname"`
		XDP  json.RawMessage `json:"xdp"`
	}
	if err := json.Unmarshal([]byte(must(t, ns, "ip", "-json", "-details", "link")), &links); err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if l.XDP != nil {
			names = append(names, l.Name)
		}
	}
	return names
}

// command starts a warproute command that asks the router, and returns a function that waits
// for its output.
func (r *router) command(args ...string) (output func() string) {
	r.t.Helper()
	cmd := exec.Command(program, append(args, "--socket", r.socket)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	return func() string {
		r.t.Helper()
		if err := cmd.Wait(); err != nil {
			r.t.Fatalf("warproute %v: %v\n%s", args, err, out.String())
		}
		return out.String()
	}
}
