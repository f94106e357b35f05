package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

// unit is a router that systemd starts by contrib/warproute.service, without a guest: emulated processors are too slow to measure
// times.
type unit struct {
	enter []string // nsenter arguments of a command beside systemd
}

// unitScript mounts files that no other process sees, installs the router, and becomes systemd, as init of a PID namespace and
// in a cgroup of its own, before other work on the machine. System-wide settings are read-only for it.
const unitScript = `
mount -t tmpfs tmpfs /mnt
for dir in etc usr var root; do
	mkdir -p /mnt/$dir/upper /mnt/$dir/work
	mount -t overlay overlay -o lowerdir=/$dir,upperdir=/mnt/$dir/upper,workdir=/mnt/$dir/work /$dir
done
cp %[1]s/warproute.yaml /etc/warproute.yaml
install %[2]s /usr/local/bin/warproute
systemd-sysusers %[4]s
mkdir %[1]s/state /var/lib/warproute
mount --bind %[1]s/state /var/lib/warproute
chown warproute: /etc/warproute.yaml
mkdir -p /mnt/units /mnt/none
cp %[3]s /mnt/units/warproute.service
mkdir /mnt/units/warproute.service.d
printf '[Service]\nStandardOutput=append:%[1]s/log\nStandardError=append:%[1]s/log\nRestartSteps=0\n' >/mnt/units/warproute.service.d/lab.conf
for name in default sysinit basic shutdown network-pre multi-user; do
	printf '[Unit]\nDefaultDependencies=no\n' >/mnt/units/$name.target
done
mount -t tmpfs tmpfs /run
mkdir /run/lock
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /sys/fs/cgroup/%[5]s
echo 0 >/sys/fs/cgroup/%[5]s/cgroup.procs
exec nice -n -10 unshare --cgroup --uts --pid --fork --kill-child --mount-proc sh -ec '
	umount /sys/fs/cgroup
	mount -t cgroup2 cgroup2 /sys/fs/cgroup
	mount -t bpf bpf /sys/fs/bpf
	for dir in fs kernel vm; do mount --bind -o ro /proc/sys/$dir /proc/sys/$dir; done
	mount --make-rshared /
	exec env container=lab SYSTEMD_UNIT_PATH=/mnt/units SYSTEMD_GENERATOR_PATH=/mnt/none SYSTEMD_ENVIRONMENT_GENERATOR_PATH=/mnt/none \
		/lib/systemd/systemd --system --log-target=console --show-status=no
'`

// removeCgroups removes the cgroups of a unit. Processes that were killed leave them shortly afterwards.
const removeCgroups = `
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for i in $(seq 100); do
	find /sys/fs/cgroup/%[1]s -depth -type d -exec rmdir {} + && exit
	sleep 0.05
done
exit 1`

// startUnit has systemd start the router, with a configuration, in a namespace.
func startUnit(t *testing.T, ns *lab.Namespace, config string) *unit {
	t.Helper()
	program, err := plainProgram()
	require.NoError(t, err)
	paths := []string{unitFile, "../../packaging/sysusers.d/warproute.conf"}
	for i := range paths {
		paths[i], err = filepath.Abs(paths[i])
		require.NoError(t, err)
	}
	dir, cgroup := t.TempDir(), fmt.Sprintf("warproute-%d", os.Getpid())
	writeFile(t, filepath.Join(dir, "warproute.yaml"), config)
	cmd, out := exec.Command("sh", "-ec", fmt.Sprintf(unitScript, dir, program, paths[0], paths[1], cgroup)), &labtest.Output{}
	cmd.Stdout, cmd.Stderr = out, out
	p, err := ns.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = p.Signal(os.Kill)
		<-p.Done()
		if out, err := ns.Run("sh", "-c", fmt.Sprintf(removeCgroups, cgroup)); err != nil {
			t.Errorf("remove the cgroups: %v: %s", err, out)
		}
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Logf("systemd wrote:\n%s\nthe router wrote:\n%s", out, log)
		}
	})
	u := &unit{}
	eventually(t, 30*time.Second, "systemd runs", func() bool {
		select {
		case <-p.Done():
			t.Fatalf("systemd has ended: %v: %s", p.Wait(), out)
		default:
		}
		child, _ := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", p.Pid()))
		u.enter = []string{"--target", strings.TrimSpace(string(child)), "--pid", "--mount", "--net", "--cgroup", "--root"}
		_, err := u.systemctl("show")
		return err == nil
	})
	if out, err := u.systemctl("start", "warproute"); err != nil {
		t.Fatalf("start the unit: %v: %s", err, out)
	}
	return u
}

func (u *unit) systemctl(args ...string) (string, error) {
	out, err := exec.Command("nsenter", slices.Concat(u.enter, []string{"systemctl"}, args)...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// kill implements restarted.
func (u *unit) kill(t *testing.T) {
	t.Helper()
	out, err := u.systemctl("kill", "--kill-who=main", "--signal=KILL", "warproute")
	if err != nil {
		t.Fatalf("kill the router: %v: %s", err, out)
	}
}

// restarts implements restarted.
func (u *unit) restarts(t *testing.T) int {
	t.Helper()
	out, err := u.systemctl("show", "--property=NRestarts", "--value", "warproute")
	require.NoError(t, err)
	n, err := strconv.Atoi(out)
	require.NoError(t, err)
	return n
}
