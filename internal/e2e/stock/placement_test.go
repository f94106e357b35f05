package stock

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/guest"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

// On a host with two NUMA nodes of two CPUs each, the worker and its memory are on the node of the port, beside automatic NUMA balancing,
// and the worker follows changes of the cpuset and of the CPUs that are online.
func TestPlacement(t *testing.T) {
	vm := guest.VM{CPUs: 4, Nodes: 2}
	if !guest.Inside() {
		host, err := lab.New("nic")
		require.NoError(t, err)
		defer host.Close()
		vm.NICs = []guest.EmulatedNIC{{Model: guest.Virtio, MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, Host: host, Tap: "tap0"}}
	}
	vm.Test(t, 150*time.Second, []string{"veth", "virtio_net"}, testPlacement)
}

func testPlacement(t *testing.T, program string) {
	n := newNetwork(t, program)
	labtest.IP(t, n.router, "addr add 10.2.0.1/24 dev wan0")
	labtest.IP(t, n.server, "addr add 10.2.0.2/24 dev wan0", "route add 10.1.0.0/24 via 10.2.0.1")
	// Firmware would tell the node of the NIC's slot; QEMU's does not.
	node, err := filepath.EvalSymlinks("/sys/class/net/eth0/device/..")
	require.NoError(t, err)
	write(t, node+"/numa_node", "1")
	holder, err := n.router.Start(exec.Command("sleep", "60"))
	require.NoError(t, err)
	command(t, "ip", "link", "set", "eth0", "netns", fmt.Sprint(holder.Pid()))
	_ = holder.Stop(time.Second) // reports the signal
	labtest.IP(t, n.router, "link set eth0 up")
	config := filepath.Join(t.TempDir(), "router.yaml")
	text := "ports: [lan0, wan0, eth0]\nengine: cpu\nmetrics: {listen: \"\"}\n"
	write(t, config, text)
	router := labtest.Start(t, n.router, program, nil, "--config", config)
	worker := func(cpu, node int) {
		t.Helper()
		var e status.Engine
		labtest.Eventually(t, 10*time.Second, fmt.Sprintf("the worker is on CPU %d", cpu), func() bool {
			require.NoError(t, router.Get("/engine", &e))
			return slices.Equal(e.Cores, []int{cpu}) && slices.Equal(e.NUMANodes, []int{node}) && runsOnlyOn(t, router.Process.Pid(), cpu)
		})
		if _, err := lab.Ping(n.client, netip.MustParseAddr("10.2.0.2"), lab.PingOptions{Timeout: 5 * time.Second}); err != nil {
			t.Errorf("worker on CPU %d: %v", cpu, err)
		}
	}
	worker(3, 1)
	if share, mapping := largestMappingOn(t, router.Process.Pid(), 1); share < 0.99 {
		free, _ := os.ReadFile("/proc/buddyinfo")
		t.Errorf("%.0f %% of the frames' memory is on node 1, want all: largest mapping %s; free blocks by size:\n%s", share*100, mapping, free)
	}
	if out := labtest.Run(t, n.router, program, "show", "engine", "--socket", router.Socket); !strings.Contains(out, "1 on core 3, NUMA node 1") {
		t.Errorf("show engine:\n%s", out)
	}

	if out, _ := n.router.Run(program, "doctor", "--port", "eth0"); !strings.Contains(out, "eth0: NUMA node") || !strings.Contains(out, "1, that of the workers") {
		t.Errorf("doctor:\n%s", out)
	}

	write(t, "/sys/devices/system/cpu/cpu3/online", "0")
	worker(2, 1)
	write(t, "/sys/devices/system/cpu/cpu3/online", "1")
	worker(3, 1)

	require.NoError(t, os.MkdirAll("/run/cgroup", 0o755))
	command(t, "mount", "-t", "cgroup2", "cgroup2", "/run/cgroup")
	write(t, "/run/cgroup/cgroup.subtree_control", "+cpuset")
	require.NoError(t, os.Mkdir("/run/cgroup/router", 0o755))
	write(t, "/run/cgroup/router/cpuset.cpus", "0-1")
	write(t, "/run/cgroup/router/cgroup.procs", fmt.Sprint(router.Process.Pid()))
	worker(1, 0)
	write(t, "/run/cgroup/router/cpuset.cpus", "0-2")
	worker(2, 1)
	write(t, "/run/cgroup/router/cpuset.cpus", "0-3")
	worker(3, 1)

	write(t, config, text+"cores: 0\n")
	labtest.Run(t, n.router, program, "reload", "--socket", router.Socket)
	worker(0, 0)
	write(t, config, text+"cores: 4\n")
	if out, err := n.router.Run(program, "reload", "--socket", router.Socket); err == nil || !strings.Contains(out, "CPU 4 is offline or not among those that the process may use (0-3)") {
		t.Errorf("reload with a CPU that does not exist: %v: %s", err, out)
	}
	worker(0, 0)
	for _, line := range []string{"from=3 to=2", "from=2 to=3", "from=3 to=1", "from=1 to=2", "CPU 3 is offline or not in the cpuset"} {
		if !strings.Contains(router.Out.String(), line) {
			t.Errorf("the log has no %q", line)
		}
	}
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
}

// runsOnlyOn reports whether a thread of a process may run on one CPU alone.
func runsOnlyOn(t *testing.T, pid, cpu int) bool {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	require.NoError(t, err)
	for _, file := range files {
		b, _ := os.ReadFile(file) // threads end
		if strings.Contains(string(b), fmt.Sprintf("\nCpus_allowed_list:\t%d\n", cpu)) {
			return true
		}
	}
	return false
}

// largestMappingOn returns the share of the pages of the largest mapping of a process that is on a NUMA node, and describes the mapping.
func largestMappingOn(t *testing.T, pid, node int) (share float64, mapping string) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/numa_maps", pid))
	require.NoError(t, err)
	most := 0
	for line := range strings.Lines(string(b)) {
		sum, on, size := 0, 0, 1
		for _, field := range strings.Fields(line) {
			key, value, _ := strings.Cut(field, "=")
			count, err := strconv.Atoi(value)
			switch {
			case err != nil:
			case key == "kernelpagesize_kB":
				size = count
			case strings.HasPrefix(key, "N"):
				sum += count
				if key == fmt.Sprintf("N%d", node) {
					on += count
				}
			}
		}
		if sum*size > most {
			most, share, mapping = sum*size, float64(on)/float64(sum), strings.TrimSpace(line)
		}
	}
	return share, mapping
}
