// Package placement decides on which CPUs workers run and on which NUMA node their memory is.
package placement

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Unknown is the NUMA node of what has none: CPUs of a kernel without NUMA, virtual interfaces.
const Unknown = -1

// Topology is the host's, as sysfs describes it (Documentation/ABI/stable/sysfs-devices-node and
// sysfs-devices-system-cpu of Linux).
type Topology struct {
	nodes    map[int]int // node of each online CPU; none: Unknown
	siblings map[int]int // lowest CPU of the core of each CPU, if it has several threads
	memory   []int       // nodes with memory
}

// Node returns the NUMA node of a CPU, or Unknown.
func (t *Topology) Node(cpu int) int {
	if n, ok := t.nodes[cpu]; ok {
		return n
	}
	return Unknown
}

// Nodes returns the number of NUMA nodes with memory; 0 if the kernel has no NUMA.
func (t *Topology) Nodes() int { return len(t.memory) }

// Memory returns the NUMA node of the memory that is nearest to a CPU, or Unknown if the host has one node, or the node of
// the CPU has no memory.
func (t *Topology) Memory(cpu int) int {
	if node := t.Node(cpu); len(t.memory) > 1 && slices.Contains(t.memory, node) {
		return node
	}
	return Unknown
}

// core returns the lowest CPU of the core of a CPU, by which hardware threads of one core are recognized.
func (t *Topology) core(cpu int) int {
	if c, ok := t.siblings[cpu]; ok {
		return c
	}
	return cpu
}

// Sysfs is where sysfs is mounted.
const Sysfs = "/sys"

// ReadTopology reads the topology from sysfs. A file that is missing or malformed is as if the kernel had no NUMA nodes
// or no hardware threads.
func ReadTopology(sysfs string) *Topology {
	t := &Topology{nodes: map[int]int{}, siblings: map[int]int{}}
	dirs, _ := filepath.Glob(sysfs + "/devices/system/node/node[0-9]*")
	for _, dir := range dirs {
		node, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), "node"))
		if err != nil {
			continue
		}
		for _, cpu := range readList(dir + "/cpulist") {
			t.nodes[cpu] = node
		}
	}
	t.memory = readList(sysfs + "/devices/system/node/has_memory")
	cores, _ := filepath.Glob(sysfs + "/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list")
	for _, file := range cores {
		threads := readList(file)
		for _, cpu := range threads {
			t.siblings[cpu] = slices.Min(threads)
		}
	}
	return t
}

// InterfaceNode returns the NUMA node of the device of a network interface, or Unknown. The device of a VLAN, bond or
// macvlan is that of the first interface below it which has one.
func InterfaceNode(sysfs, name string) int {
	for range 8 { // interfaces may be on one another; more levels are not usual
		dir := sysfs + "/class/net/" + name
		for _, file := range []string{"/device/numa_node", "/device/../numa_node"} { // device is a link; behind a virtio device is its PCI device
			if b, err := os.ReadFile(dir + file); err == nil {
				if node, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && node >= 0 {
					return node
				}
			}
		}
		lower, _ := filepath.Glob(dir + "/lower_*")
		if len(lower) == 0 {
			break
		}
		name = strings.TrimPrefix(filepath.Base(lower[0]), "lower_")
	}
	return Unknown
}

// readList reads a file with a list of CPUs or nodes, such as "0-3,8"; nil on errors.
func readList(name string) []int {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	list, _ := ParseList(strings.TrimSpace(string(b)))
	return list
}

// MaxCPU is the largest number of a CPU that Linux supports (NR_CPUS of x86 is at most 8192).
const MaxCPU = 8191

// ParseList parses a list of numbers up to MaxCPU as Linux writes it, such as "0-3,8" (cpulist of
// Documentation/admin-guide/kernel-parameters), in the order of the list. The empty list has no numbers.
func ParseList(s string) (list []int, err error) {
	if s == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(s, ",") {
		low, high, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			high = low
		}
		from, err1 := strconv.ParseUint(low, 10, 16)
		to, err2 := strconv.ParseUint(high, 10, 16)
		if err1 != nil || err2 != nil || from > to || to > MaxCPU {
			return nil, fmt.Errorf("list of CPUs %q: %q is no number up to %d and no range, as in 2-5", s, part, MaxCPU)
		}
		for n := from; n <= to; n++ {
			list = append(list, int(n))
		}
	}
	return list, nil
}

// FormatList writes an ascending list of CPUs as Linux does, such as "0-3,8".
func FormatList(list []int) string {
	var parts []string
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n] == list[n-1]+1 {
			n++
		}
		part := strconv.Itoa(list[0])
		if n > 1 {
			part += "-" + strconv.Itoa(list[n-1])
		}
		parts, list = append(parts, part), list[n:]
	}
	return strings.Join(parts, ",")
}
