package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

// service is a router that is started again after each failure, as systemd does with contrib/warproute.service.
type service struct {
	*router
	delay time.Duration // between a failure and the next start
	stop  chan struct{} // closed to stop it
	ended chan error    // error of a start that failed, nil after a stop

	mu        sync.Mutex
	processes []*lab.Process // the last one runs, or the next one starts after the delay
}

const unitFile = "../../contrib/warproute.service"

// setting returns the value of a setting of the unit.
func setting(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(unitFile)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+"="); ok {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("%s has no %s=", unitFile, name)
	return ""
}

// plainProgram returns the program without the race detector, which slows down starts.
var plainProgram = sync.OnceValues(func() (string, error) {
	if buildFlags == nil {
		return program, nil
	}
	path := program + "-plain"
	build := exec.Command("go", "build", "-o", path, "../../cmd/warproute")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	if err != nil {
		err = errors.Join(err, errors.New(string(out)))
	}
	return path, err
})

// startService starts the command of the unit, with a configuration, in a namespace. The router has no race detector.
func startService(t *testing.T, ns *lab.Namespace, config string) *service {
	t.Helper()
	path, err := plainProgram()
	require.NoError(t, err)
	delay, err := time.ParseDuration(setting(t, "RestartSec"))
	require.NoError(t, err)
	if restart := setting(t, "Restart"); restart != "on-failure" {
		t.Fatalf("Restart=%s: only on-failure is supported here", restart)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "warproute.yaml")
	writeFile(t, file, strings.Replace(config, "ipsec:\n", "ipsec:\n  state: "+filepath.Join(dir, "state")+"\n", 1))
	s := &service{
		router: &router{&labtest.Router{T: t, Socket: filepath.Join(dir, "control.sock"), Out: &labtest.Output{}}},
		delay:  delay, stop: make(chan struct{}), ended: make(chan error, 1),
	}
	args := strings.Fields(strings.Replace(setting(t, "ExecStart"), "/etc/warproute.yaml", file, 1))[1:]
	require.NoError(t, s.start(ns, path, append(args, "--socket", s.Socket)))
	t.Cleanup(func() {
		close(s.stop)
		eventually(t, 10*time.Second, "the router has ended", func() bool {
			_ = s.process().Stop(5 * time.Second)
			select {
			case err := <-s.ended:
				if err != nil {
					t.Errorf("the router was not started again: %v", err)
				}
				return true
			default:
				return false
			}
		})
		if t.Failed() {
			t.Logf("the router wrote:\n%s", s.Out)
		}
	})
	eventually(t, time.Minute, "the router serves", func() bool { return s.Get("/engine", &status.Engine{}) == nil })
	return s
}

// start starts a command, and again after each failure, until the service is stopped.
func (s *service) start(ns *lab.Namespace, path string, args []string) error {
	once := func() (*lab.Process, error) {
		cmd := exec.Command("nice", slices.Concat([]string{"-n", "-10", path}, args)...) // before other work on the machine
		cmd.Stdout, cmd.Stderr = s.Out, s.Out
		p, err := ns.Start(cmd)
		if err == nil {
			s.mu.Lock()
			s.processes = append(s.processes, p)
			s.mu.Unlock()
		}
		return p, err
	}
	p, err := once()
	if err != nil {
		return err
	}
	go func() {
		for err == nil {
			if p.Wait() == nil {
				break
			}
			select {
			case <-s.stop:
				s.ended <- nil
				return
			case <-time.After(s.delay):
			}
			p, err = once()
		}
		s.ended <- err
	}()
	return nil
}

// kill implements restarted.
func (s *service) kill(t *testing.T) {
	t.Helper()
	kill(t, s.process())
}

// restarts implements restarted.
func (s *service) restarts(*testing.T) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.processes) - 1
}

// process returns the last process.
func (s *service) process() *lab.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.processes[len(s.processes)-1]
}
