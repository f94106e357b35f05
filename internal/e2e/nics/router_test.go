package nics

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

// router is a running `warproute run` on the ports of a pair.
type router struct {
	*pair
	t       *testing.T
	stopped bool
}

// Files of the router in the guest.
const (
	socketFile = "/run/nics.sock"
	logFile    = "/run/nics.log"
	endFile    = "/run/nics.end" // with the exit code
)

// start starts a router and waits until it serves or ends. ok is false if it has ended, with its log.
func (p *pair) start(t *testing.T, args string) (r *router, log string, ok bool) {
	t.Helper()
	p.sh(t, fmt.Sprintf(`rm -f %[2]s %[3]s; (code=0; %[1]s run --socket %[4]s --engine cpu --metrics none --port %[5]s --port %[6]s %[7]s >%[2]s 2>&1 || code=$?; echo $code >%[3]s) &`,
		p.program, logFile, endFile, socketFile, p.port(0), p.port(1), args))
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		state := p.sh(t, fmt.Sprintf("[ -e %s ] && echo ended; grep -c serving %s || true; [ -S %s ] && echo serves || true", endFile, logFile, socketFile))
		if strings.Contains(state, "ended") {
			return nil, p.sh(t, "cat "+logFile), false
		}
		if strings.Contains(state, "serves") {
			if _, err := p.Run(p.program, "show", "ports", "--socket", socketFile); err == nil {
				r := &router{pair: p, t: t}
				t.Cleanup(r.cleanUp)
				return r, "", true
			}
		}
	}
	t.Fatalf("%s: the router does not serve after 2 minutes:\n%s", p.model, p.sh(t, "cat "+logFile))
	return nil, "", false
}

func (r *router) cleanUp() {
	if !r.stopped {
		r.Run("pkill", "-KILL", "-x", "warproute")
	}
	if r.t.Failed() {
		log, _ := r.Run("cat", logFile)
		r.t.Logf("%s: the router wrote:\n%s", r.model, log)
	}
}

// show returns the state of the two ports.
func (r *router) show() (ports [2]status.Port) {
	r.t.Helper()
	var list []status.Port
	require.NoError(r.t, json.Unmarshal([]byte(r.sh(r.t, r.program+" show ports --json --socket "+socketFile)), &list))
	if copy(ports[:], list) != 2 || len(list) != 2 {
		r.t.Fatalf("%d ports", len(list))
	}
	return ports
}

// stop ends the router by SIGTERM and checks its account: every frame that arrived went to Linux, or was
// transmitted or dropped.
func (r *router) stop() labtest.Account {
	r.t.Helper()
	r.sh(r.t, "pkill -TERM -x warproute")
	labtest.Eventually(r.t, 20*time.Second, "the router ends", func() bool {
		_, err := r.Run("test", "-s", endFile)
		return err == nil
	})
	r.stopped = true
	log := r.sh(r.t, "cat "+logFile)
	a, ok := labtest.ParseAccount(log)
	if code := strings.TrimSpace(r.sh(r.t, "cat "+endFile)); code != "0" || !ok {
		r.t.Fatalf("%s: the router ended with %s:\n%s", r.model, code, log)
	}
	if a.Arrived != a.Linux+a.Lost+a.Received || a.Received != a.Transmitted+a.Dropped {
		r.t.Errorf("%s: frames are missing: %+v", r.model, a)
	}
	return a
}

// log returns the log of the router.
func (r *router) log() string {
	r.t.Helper()
	return r.sh(r.t, "cat "+logFile)
}
