package container

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

// host runs scripts in a network namespace, with processes, control groups, images and files of its own in /etc, /run
// and /var/lib, all of which end with the test.
type host struct {
	t     *testing.T
	enter []string // nsenter arguments
}

// hostScript mounts the files of a host.
const hostScript = `
mount --make-rprivate /
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work
mount -t overlay overlay -o lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work /etc
for dir in /run /var/lib /dev/shm; do mount -t tmpfs tmpfs $dir; done
mount -t cgroup2 cgroup2 /sys/fs/cgroup
cat >/etc/containers/containers.conf <<-end
	[containers]
	log_driver = "k8s-file"
	cgroups = "disabled"
	[engine]
	cgroup_manager = "cgroupfs"
	events_logger = "file"
end
touch /run/ready
while :; do sleep 1; done # a shell waits for processes that have lost their parent
`

func newHost(t *testing.T, ns *lab.Namespace) *host {
	t.Helper()
	out := &labtest.Output{}
	cmd := exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-ec", hostScript)
	cmd.Stdout, cmd.Stderr = out, out
	p, err := ns.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Signal(os.Kill); <-p.Done() })
	h := &host{t: t}
	labtest.Eventually(t, patience, "the host runs", func() bool {
		select {
		case <-p.Done():
			t.Fatalf("the host has ended: %v: %s", p.Wait(), out)
		default:
		}
		child, _ := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", p.Pid()))
		h.enter = []string{"--target", strings.TrimSpace(string(child)), "--mount", "--pid", "--net"}
		_, err := h.try("test -e /run/ready")
		return err == nil
	})
	return h
}

// try runs a script of root.
func (h *host) try(script string) (string, error) {
	out, err := exec.Command("nsenter", slices.Concat(h.enter, []string{"sh", "-ec", script})...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (h *host) run(script string) string {
	h.t.Helper()
	out, err := h.try(script)
	if err != nil {
		h.t.Fatalf("%s: %v: %s", script, err, out)
	}
	return out
}
