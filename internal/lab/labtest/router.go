// Package labtest runs routers and commands in tests and waits for conditions.
package labtest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// Output collects the output of a process.
type Output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// Router is a running `warproute run`.
type Router struct {
	T       *testing.T
	Socket  string
	Process *lab.Process
	Out     *Output
}

// Start starts a program's `run` in a namespace with arguments and further environment variables. It
// returns when the router serves its control socket. The router ends with the test.
func Start(t *testing.T, ns *lab.Namespace, program string, env []string, args ...string) *Router {
	t.Helper()
	return StartWithin(t, time.Minute, ns, program, env, args...)
}

// StartWithin is Start with a limit of the start's time.
func StartWithin(t *testing.T, limit time.Duration, ns *lab.Namespace, program string, env []string, args ...string) *Router {
	t.Helper()
	r := &Router{T: t, Socket: filepath.Join(t.TempDir(), "control.sock"), Out: &Output{}}
	cmd := exec.Command(program, append([]string{"run", "--socket", r.Socket}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = r.Out, r.Out
	var err error
	if r.Process, err = ns.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.Process.Stop(5 * time.Second)
		if t.Failed() {
			t.Logf("the router wrote:\n%s", r.Out)
		}
	})
	Eventually(t, limit, "the router serves", func() bool {
		select {
		case <-r.Process.Done():
			t.Fatalf("the router ended:\n%s", r.Out)
		default:
		}
		if _, err := os.Stat(r.Socket); err != nil {
			return false // a request would take more of a guest's only processor
		}
		return r.Get("/engine", &status.Engine{}) == nil
	})
	return r
}

// Get queries the control socket.
func (r *Router) Get(path string, out any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return socket.Get(ctx, r.Socket, path, out)
}

// Drops returns the number of packets dropped for a reason.
func (r *Router) Drops(reason string) (n uint64) {
	r.T.Helper()
	var drops []status.Drop
	if err := r.Get("/drops", &drops); err != nil {
		r.T.Fatal(err)
	}
	for _, d := range drops {
		if d.Reason == reason {
			n += d.Packets
		}
	}
	return n
}

// Account is the account of frames that a router prints when it stops.
type Account struct{ Arrived, Linux, Lost, Received, Transmitted, Dropped uint64 }

var stopped = regexp.MustCompile(`stopped: (\d+) frames arrived: (\d+) handed to Linux, (\d+) lost before the router, (\d+) received; of these (\d+) transmitted, (\d+) dropped`)

// Stop ends the router by SIGTERM and returns its account.
func (r *Router) Stop() (a Account) {
	r.T.Helper()
	if err := r.Process.Stop(10 * time.Second); err != nil {
		r.T.Fatalf("after SIGTERM: %v\n%s", err, r.Out)
	}
	a, ok := ParseAccount(r.Out.String())
	if !ok {
		r.T.Fatalf("no account at the end:\n%s", r.Out)
	}
	return a
}

// ParseAccount finds the account in the log of a router; ok is false if it has none.
func ParseAccount(log string) (a Account, ok bool) {
	m := stopped.FindStringSubmatch(log)
	if m == nil {
		return a, false
	}
	for i, field := range []*uint64{&a.Arrived, &a.Linux, &a.Lost, &a.Received, &a.Transmitted, &a.Dropped} {
		*field, _ = strconv.ParseUint(m[i+1], 10, 64)
	}
	return a, true
}

// Eventually waits until a condition holds and returns the time that it took.
func Eventually(t *testing.T, patience time.Duration, what string, holds func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	for !holds() {
		if time.Since(start) > patience {
			t.Fatalf("%v, and not yet: %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(start)
}

// Run runs a command in a namespace and returns its output. A failure ends the test.
func Run(t testing.TB, ns *lab.Namespace, name string, args ...string) string {
	t.Helper()
	out, err := ns.Run(name, args...)
	require.NoError(t, err)
	return out
}

// IP runs `ip` commands in a namespace.
func IP(t testing.TB, ns *lab.Namespace, commands ...string) {
	t.Helper()
	for _, c := range commands {
		Run(t, ns, "ip", strings.Fields(c)...)
	}
}
