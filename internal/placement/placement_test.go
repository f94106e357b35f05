package placement

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

// tree writes a sysfs: files by name, and links, whose text begins with "-> ".
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			require.NoError(t, os.Symlink(target, file))
		} else {
			require.NoError(t, os.WriteFile(file, []byte(text+"\n"), 0o600))
		}
	}
	return dir
}

// host describes a simulated host: CPUs by node, and the number of hardware threads of a core, whose CPUs
// are next to each other or half of the CPUs apart.
func host(t *testing.T, nodes []string, cpus, threads int, adjacent bool) *Topology {
	t.Helper()
	files := map[string]string{}
	for n, list := range nodes {
		files[fmt.Sprintf("devices/system/node/node%d/cpulist", n)] = list
	}
	files["devices/system/node/has_memory"] = fmt.Sprintf("0-%d", max(0, len(nodes)-1))
	for cpu := range cpus {
		list := fmt.Sprint(cpu)
		switch {
		case threads == 2 && adjacent:
			list = fmt.Sprintf("%d-%d", cpu&^1, cpu|1)
		case threads == 2:
			list = fmt.Sprintf("%d,%d", cpu%(cpus/2), cpu%(cpus/2)+cpus/2)
		}
		files[fmt.Sprintf("devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu)] = list
	}
	return ReadTopology(tree(t, files))
}

func upTo(n int) (cpus []int) {
	for i := range n {
		cpus = append(cpus, i)
	}
	return cpus
}

func TestWorkersTakeCoresOnTheNodeOfTheirPorts(t *testing.T) {
	for name, c := range map[string]struct {
		nodes    []string
		cpus     int
		threads  int
		adjacent bool
		allowed  []int
		ports    []int
		workers  int
		want     []int
	}{
		"no NUMA, no ports with a node":            {nil, 4, 1, false, upTo(4), []int{Unknown, Unknown}, 3, []int{3, 2, 1}},
		"two sockets, ports on the first":          {[]string{"0-3", "4-7"}, 8, 1, false, upTo(8), []int{0, 0}, 3, []int{3, 2, 1}},
		"two sockets, ports on the second":         {[]string{"0-3", "4-7"}, 8, 1, false, upTo(8), []int{1, 1, 0}, 3, []int{7, 6, 5}},
		"more workers than local cores":            {[]string{"0-3", "4-7"}, 8, 1, false, upTo(8), []int{0}, 6, []int{3, 2, 1, 0, 7, 6}},
		"more workers than CPUs":                   {nil, 2, 1, false, upTo(2), []int{Unknown}, 5, []int{1, 0, 1, 0, 1}},
		"ports on two nodes, as many":              {[]string{"0-3", "4-7"}, 8, 1, false, upTo(8), []int{1, 0}, 2, []int{3, 2}},
		"threads next to each other":               {[]string{"0-7"}, 8, 2, true, upTo(8), []int{0}, 5, []int{7, 5, 3, 1, 6}},
		"threads half of the CPUs apart":           {[]string{"0-7"}, 8, 2, false, upTo(8), []int{0}, 5, []int{7, 6, 5, 4, 3}},
		"sockets and threads":                      {[]string{"0-1,4-5", "2-3,6-7"}, 8, 2, false, upTo(8), []int{0}, 6, []int{5, 4, 7, 6, 1, 0}},
		"cpuset without the second thread":         {[]string{"0-7"}, 8, 2, true, []int{0, 2, 3, 4}, []int{0}, 3, []int{4, 3, 0}},
		"cpuset without the node of the ports":     {[]string{"0-3", "4-7"}, 8, 1, false, upTo(4), []int{1}, 2, []int{3, 2}},
		"four nodes in a socket, node 2":           {[]string{"0-1", "2-3", "4-5", "6-7"}, 8, 1, false, upTo(8), []int{2, Unknown}, 3, []int{5, 4, 7}},
		"a node that has ports, but no CPU (CXL)":  {[]string{"0-3", ""}, 4, 1, false, upTo(4), []int{1}, 2, []int{3, 2}},
		"offline CPUs are in no list of the nodes": {[]string{"0-1", "4-5"}, 8, 1, false, []int{0, 1, 4, 5}, []int{1}, 3, []int{5, 4, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := host(t, c.nodes, c.cpus, c.threads, c.adjacent).Choose(Request{Workers: c.workers, Allowed: c.allowed, Ports: c.ports})
			require.NoError(t, err)
			if !slices.Equal(got, c.want) {
				t.Errorf("CPUs %v, want %v", got, c.want)
			}
		})
	}
}

func TestConfiguredCores(t *testing.T) {
	topology := host(t, []string{"0-3", "4-7"}, 8, 1, false)
	for _, c := range []struct {
		cores   []int
		workers int
		want    []int
		err     string
	}{
		{[]int{2, 7, 1}, 2, []int{2, 7}, ""},
		{[]int{2, 8}, 2, nil, "CPU 8 is offline or not among those that the process may use (0-7)"},
		{[]int{2}, 2, nil, "cores names 1 of 2 CPUs, one per worker; name more, or set workers: 1"},
	} {
		got, err := topology.Choose(Request{Workers: c.workers, Allowed: upTo(8), Cores: c.cores, Ports: []int{1}})
		if !slices.Equal(got, c.want) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%v: %v, %v; want %v, %q", c.cores, got, err, c.want, c.err)
		}
	}
	if _, err := topology.Choose(Request{Workers: 1}); err == nil {
		t.Error("no error without CPUs")
	}
}

// Workers whose CPU may not be used move to the CPU with the fewest workers, on their node if possible; the others stay.
func TestDisplacedWorkersMove(t *testing.T) {
	topology := host(t, []string{"0-3", "4-7"}, 8, 1, false)
	home := []int{7, 6, 5}
	for _, c := range []struct{ allowed, want []int }{
		{upTo(8), []int{7, 6, 5}},
		{upTo(7), []int{4, 6, 5}},
		{upTo(6), []int{4, 3, 5}},
		{upTo(4), []int{3, 2, 1}},
		{[]int{2, 6}, []int{2, 6, 6}},
		{[]int{0}, []int{0, 0, 0}},
	} {
		if got := topology.Place(home, c.allowed); !slices.Equal(got, c.want) {
			t.Errorf("allowed %v: %v, want %v", c.allowed, got, c.want)
		}
	}
}

func TestMemoryIsOnTheNodeOfTheWorker(t *testing.T) {
	two := host(t, []string{"0-3", "4-7"}, 8, 1, false)
	if two.Memory(2) != 0 || two.Memory(5) != 1 || two.Memory(9) != Unknown {
		t.Errorf("nodes %d, %d, %d", two.Memory(2), two.Memory(5), two.Memory(9))
	}
	if n := host(t, []string{"0-3"}, 4, 1, false).Memory(2); n != Unknown {
		t.Errorf("a host with one node: %d", n)
	}
	without := ReadTopology(tree(t, map[string]string{
		"devices/system/node/node0/cpulist": "0-1", "devices/system/node/node1/cpulist": "2-3", "devices/system/node/node2/cpulist": "",
		"devices/system/node/has_memory": "0,2",
	}))
	if n := without.Memory(3); n != Unknown || without.Node(3) != 1 {
		t.Errorf("a node without memory: %d", n)
	}
}

func TestInterfaceNode(t *testing.T) {
	sys := tree(t, map[string]string{
		"devices/pci0/nic/numa_node":              "1",
		"devices/pci0/virtio-pci/numa_node":       "2",
		"devices/pci0/virtio-pci/virtio0/vendor":  "0x1af4",
		"devices/pci0/none/numa_node":             "-1",
		"devices/virtual/net/veth0/mtu":           "1500",
		"devices/virtual/net/bond0/lower_eth0":    "-> ../eth0",
		"devices/virtual/net/bond0.5/lower_bond0": "-> ../bond0",
		"class/net/eth0/device":                   "-> ../../../devices/pci0/nic",
		"class/net/eth1/device":                   "-> ../../../devices/pci0/virtio-pci/virtio0",
		"class/net/eth2/device":                   "-> ../../../devices/pci0/none",
		"class/net/veth0":                         "-> ../../devices/virtual/net/veth0",
		"class/net/bond0":                         "-> ../../devices/virtual/net/bond0",
		"class/net/bond0.5":                       "-> ../../devices/virtual/net/bond0.5",
		"class/net/loop0/lower_loop0":             "x",
	})
	for name, want := range map[string]int{"eth0": 1, "eth1": 2, "eth2": Unknown, "veth0": Unknown, "bond0": 1, "bond0.5": 1, "missing": Unknown, "loop0": Unknown} {
		if got := InterfaceNode(sys, name); got != want {
			t.Errorf("%s: node %d, want %d", name, got, want)
		}
	}
}

func TestLists(t *testing.T) {
	for text, want := range map[string][]int{"": nil, "3": {3}, "0-2,8": {0, 1, 2, 8}, "5, 1": {5, 1}, "4-4": {4}, "8191": {8191}} {
		if got, err := ParseList(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"a", "1-", "-1", "3-1", "1,,2", "8192", "0-99999999999", "1-2-3", "0x1"} {
		if got, err := ParseList(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
	for want, list := range map[string][]int{"": nil, "3": {3}, "0-1": {0, 1}, "0-2,8,10-11": {0, 1, 2, 8, 10, 11}} {
		if got := FormatList(list); got != want {
			t.Errorf("%v: %q, want %q", list, got, want)
		}
	}
}

// The kernel accepts the policies of the thread and of the memory, which keeps its policy; afterwards the thread has the default again.
func TestOnNode(t *testing.T) {
	var memory []byte
	allocate := func() (b []byte, err error) {
		memory, err = unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
		return memory, err
	}
	require.NoError(t, OnNode(0, allocate))
	if policy := policyOf(t, memory); policy != "prefer:0" {
		t.Errorf("the memory has the policy %q", policy)
	}
	require.NoError(t, unix.Munmap(memory))
	require.NoError(t, OnNode(Unknown, allocate))
	if err := OnNode(0, func() ([]byte, error) { return memory[1:4096], nil }); err == nil || !strings.Contains(err.Error(), "keep 0 MiB of memory on NUMA node 0") {
		t.Errorf("memory that begins within a page: %v", err)
	}
	require.NoError(t, unix.Munmap(memory))
	if err := OnNode(900, allocate); err == nil || !strings.Contains(err.Error(), "NUMA node 900") {
		t.Errorf("a node that does not exist: %v", err)
	}
	for _, node := range []int{Unknown, 0} {
		if err := OnNode(node, func() ([]byte, error) { return nil, os.ErrClosed }); err != os.ErrClosed {
			t.Errorf("error %v", err)
		}
	}
}

// policyOf returns the memory policy of a mapping (proc(5), numa_maps).
func policyOf(t *testing.T, b []byte) string {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/numa_maps")
	require.NoError(t, err)
	for line := range strings.Lines(string(maps)) {
		if at, rest, _ := strings.Cut(line, " "); at == strings.TrimPrefix(fmt.Sprintf("%p", &b[0]), "0x") {
			return strings.Fields(rest)[0]
		}
	}
	t.Fatalf("no mapping begins at %p", &b[0])
	return ""
}

func FuzzParseList(f *testing.F) {
	f.Add("0-3,8")
	f.Add("8191-8191,")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ParseList(text)
		if err != nil {
			return
		}
		slices.Sort(list)
		list = slices.Compact(list)
		if again, err := ParseList(FormatList(list)); err != nil || !slices.Equal(again, list) {
			t.Errorf("%q: %v, then %v, %v", text, list, again, err)
		}
	})
}
