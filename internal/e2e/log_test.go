package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

// A router whose log is a pipe without a reader, as after `warproute run 2>&1 | tee log` without tee,
// keeps forwarding.
func TestRouterSurvivesAClosedLogPipe(t *testing.T) {
	top := newTopology(t, lab.VethOptions{})
	log, end, err := os.Pipe()
	require.NoError(t, err)
	r := &router{&labtest.Router{T: t, Socket: filepath.Join(t.TempDir(), "control.sock")}}
	cmd := exec.Command(program, "run", "--socket", r.Socket, "--metrics", "none", "--port", lab.LAN, "--port", lab.WAN)
	cmd.Stdout, cmd.Stderr = end, end
	r.Process, err = top.Router.Start(cmd)
	end.Close()
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Process.Stop(5 * time.Second) })
	eventually(t, 10*time.Second, "the router to serve", func() bool { _, err := r.engine(); return err == nil })
	log.Close()

	ports := func(up bool) func() bool {
		return func() bool {
			var ports []struct {
				Name string
				Up   bool
			}
			if err := r.Get("/ports", &ports); err != nil {
				t.Fatalf("the router ended: %v", err)
			}
			return ports[1].Name == lab.WAN && ports[1].Up == up
		}
	}
	if err := top.Router.SetDown(lab.WAN); err != nil { // which it logs
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "the port to be down", ports(false))
	require.NoError(t, top.Router.SetUp(lab.WAN))
	eventually(t, 5*time.Second, "the port to be up", ports(true))
	if err := r.Process.Stop(5 * time.Second); err != nil {
		t.Errorf("stop: %v", err)
	}
}
