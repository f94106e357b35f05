package systemd

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

// machine is a host with systemd in a network namespace, and with files of its own: what it changes in /etc, /usr, /var
// and /root, other machines do not see.
type machine struct {
	t     *testing.T
	ns    *lab.Namespace
	enter []string // nsenter arguments of a command beside systemd
	log   string   // of its services
}

// machinesDir is in memory, because an overlay cannot be the upper layer of another.
const machinesDir = "/run/machines"

// stepLimit is the time limit of a script.
const stepLimit = 2 * time.Minute

// services are the units that how-tos start. They exist when their package is installed.
var services = []string{"warproute", "warproute-guard", "strongswan", "frr", "keepalived", "prometheus"}

// startMachine has a namespace run systemd.
func startMachine(t *testing.T, ns *lab.Namespace) *machine {
	t.Helper()
	dir := filepath.Join(machinesDir, ns.Name())
	m := &machine{t: t, ns: ns, log: filepath.Join(dir, "lab/log")}
	units := filepath.Join(dir, "lab/units")
	require.NoError(t, os.MkdirAll(units, 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "lab/none"), 0o755))
	for _, name := range []string{"default", "sysinit", "basic", "shutdown", "network-pre", "network", "network-online", "time-sync", "multi-user"} {
		require.NoError(t, os.WriteFile(filepath.Join(units, name+".target"), []byte("[Unit]\nDefaultDependencies=no\n"), 0o644))
	}
	for _, name := range services {
		unit := filepath.Join(units, name+".service")
		require.NoError(t, os.Symlink("/usr/lib/systemd/system/"+name+".service", unit))
		require.NoError(t, os.MkdirAll(unit+".d", 0o755))
		// The guest's root is a chroot, in which Linux allows no user namespaces.
		require.NoError(t, os.WriteFile(filepath.Join(unit+".d", "lab.conf"), []byte("[Service]\nStandardOutput=append:/run/lab/log\nStandardError=append:/run/lab/log\nPrivateUsers=no\n"), 0o644))
	}
	cmd, out := exec.Command("sh", "-ec", fmt.Sprintf(machineScript, ns.Name())), &labtest.Output{}
	cmd.Stdout, cmd.Stderr = out, out
	p, err := ns.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() && m.enter != nil {
			state, _ := m.Run(diagnosis)
			t.Logf("%s at the end:\n%s", ns.Name(), state)
		}
		_ = p.Signal(os.Kill)
		if t.Failed() {
			text, _ := os.ReadFile(m.log)
			kernel, _ := exec.Command("sh", "-c", "dmesg | tail -n 60").Output()
			t.Logf("systemd on %s: %s; its services wrote:\n%s\nthe kernel log:\n%s", ns.Name(), out, text[max(0, len(text)-20_000):], kernel)
		}
	})
	labtest.Eventually(t, patience, "systemd runs on "+ns.Name(), func() bool {
		select {
		case <-p.Done():
			t.Fatalf("the machine %s has ended: %v", ns.Name(), p.Wait())
		default:
		}
		child, _ := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", p.Pid()))
		m.enter = []string{"--target", strings.TrimSpace(string(child)), "--pid", "--mount", "--net", "--uts", "--cgroup", "--root", "--wdns=/root"}
		_, err := m.Run("systemctl show >/dev/null")
		return err == nil
	})
	return m
}

// machineScript mounts a machine's files and becomes systemd, in a cgroup of its own.
const machineScript = `
base=/run/machines/%[1]s
for dir in etc usr var root; do
	mkdir -p $base/$dir/upper $base/$dir/work
	mount -t overlay overlay -o lowerdir=/$dir,upperdir=$base/$dir/upper,workdir=$base/$dir/work /$dir
done
mount -t tmpfs tmpfs /etc/systemd/system
mount --bind $base/lab /mnt
mount -t tmpfs tmpfs /run
mkdir /run/lock /run/lab
mount --move /mnt /run/lab
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir /sys/fs/cgroup/%[1]s
echo 0 >/sys/fs/cgroup/%[1]s/cgroup.procs
exec unshare --cgroup --uts --pid --fork --kill-child --mount-proc sh -ec '
	hostname %[1]s
	umount /sys/fs/cgroup
	mount -t cgroup2 cgroup2 /sys/fs/cgroup
	mount -t bpf bpf /sys/fs/bpf
	exec env container=guest SYSTEMD_UNIT_PATH=/run/lab/units:/etc/systemd/system SYSTEMD_GENERATOR_PATH=/run/lab/none SYSTEMD_ENVIRONMENT_GENERATOR_PATH=/run/lab/none \
		/lib/systemd/systemd --system --log-target=kmsg --log-level=info --show-status=no
'`

// diagnosis prints the state of a machine after a failure.
const diagnosis = `
for c in "systemctl --failed" "warproute show ports" "warproute show drops" "warproute show sas" "swanctl --list-sas" "ip -s xfrm state" "ip xfrm policy" "ip address" "ip neighbor" "ip route" \
	"cat /proc/net/xfrm_stat" "tail -n 60 /run/lab/charon"; do
	echo "# $c"
	$c 2>&1 | grep -v -e "^plugin '" -e " 0$" || true
done`

// command returns a command that runs a script as a user would: in a shell of root. exit status of its lines counts.
func (m *machine) command(script string) *exec.Cmd {
	if m.enter == nil {
		return exec.Command("sh", "-ec", script)
	}
	return exec.Command("nsenter", slices.Concat(m.enter, []string{"sh", "-ec", script})...)
}

// Run implements document.Host.
func (m *machine) Run(script string) (string, error) { return m.feed("", script) }

// Write implements document.Host.
func (m *machine) Write(path, text string) error {
	out, err := m.feed(text, fmt.Sprintf("mkdir -p $(dirname %[1]s); cat >%[1]s", path))
	if err != nil {
		return fmt.Errorf("write %s: %w: %s", path, err, out)
	}
	return nil
}

// feed runs a script with input.
func (m *machine) feed(input, script string) (string, error) {
	cmd := m.command(script)
	var out bytes.Buffer
	cmd.WaitDelay = time.Second // for processes in the background, which keep the pipe
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &out
	p, err := m.ns.Start(cmd)
	if err != nil {
		return "", err
	}
	select {
	case <-p.Done():
		return out.String(), p.Wait()
	case <-time.After(stepLimit):
		_ = p.Signal(os.Kill)
		<-p.Done()
		return out.String(), fmt.Errorf("not finished after %v", stepLimit)
	}
}

// Start implements document.Host. The command ends with the test.
func (m *machine) Start(script string) error {
	cmd := m.command("exec " + strings.TrimPrefix(strings.TrimSpace(script), "sudo "))
	p, err := m.ns.Start(cmd)
	if err != nil {
		return err
	}
	m.t.Cleanup(func() { _ = p.Signal(os.Kill) })
	select {
	case <-p.Done():
		return fmt.Errorf("it ended: %v", p.Wait())
	case <-time.After(500 * time.Millisecond):
		return nil
	}
}
