package placement

import (
	"cmp"
	"fmt"
	"slices"
)

// Request is what workers need.
type Request struct {
	Workers int
	Allowed []int // CPUs that the process may use, ascending
	Cores   []int // CPUs of the configuration, in the order of the workers; nil: any of Allowed
	Ports   []int // NUMA nodes of the ports, some of them Unknown
}

// Choose returns the CPU of each worker. If the configuration names CPUs, worker i has the i-th; one that the process may
// not use, and fewer CPUs than workers, are errors.
//
// Otherwise Order has the sequence, and workers beyond the number of CPUs share them.
func (t *Topology) Choose(r Request) ([]int, error) {
	if len(r.Allowed) == 0 {
		return nil, fmt.Errorf("place %d workers: the process may use no CPU", r.Workers)
	}
	order := r.Cores
	if order == nil {
		order = t.Order(r.Allowed, r.Ports)
	} else if err := CheckCores(r); err != nil {
		return nil, err
	}
	cpus := make([]int, r.Workers)
	for i := range cpus {
		cpus[i] = order[i%len(order)]
	}
	return cpus, nil
}

// CheckCores checks the chosen CPUs of a request: whether workers may use them, and whether there is one for each.
func CheckCores(r Request) error {
	for _, cpu := range r.Cores {
		if _, ok := slices.BinarySearch(r.Allowed, cpu); !ok {
			return fmt.Errorf("cores: CPU %d is offline or not among those that the process may use (%s); choose others, or change the cpuset of its cgroup",
				cpu, FormatList(r.Allowed))
		}
	}
	if len(r.Cores) < r.Workers {
		return fmt.Errorf("cores names %d of %d CPUs, one per worker; name more, or set workers: %[1]d", len(r.Cores), r.Workers)
	}
	return nil
}

// Order returns the allowed CPUs in the order in which workers take them: one hardware thread of each core on the NUMA node
// of most ports, as NICs write frames to the caches or the memory of their node; one of each core on other nodes; then
// the second threads of cores likewise. Of equal ones, that with the highest number is first, as interrupts and other
// processes are usually on the lowest.
func (t *Topology) Order(allowed, ports []int) []int {
	local := Majority(ports)
	order := slices.Clone(allowed)
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(b, a) })
	threads := map[int]int{} // CPUs of a core in front
	class := map[int]int{}
	for _, cpu := range order {
		core := t.core(cpu)
		class[cpu] = 2 * threads[core]
		if local != Unknown && t.Node(cpu) != local {
			class[cpu]++
		}
		threads[core]++
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(class[a], class[b]) })
	return order
}

// Majority returns the node of most ports, the lowest of several, or Unknown.
func Majority(ports []int) int {
	best, count := Unknown, map[int]int{}
	for _, node := range ports {
		if node != Unknown {
			count[node]++
		}
	}
	for node, n := range count {
		if best == Unknown || n > count[best] || n == count[best] && node < best {
			best = node
		}
	}
	return best
}

// Place returns the CPU of each worker while the process may use the allowed CPUs, ascending: that of the worker, or
// the allowed one with the fewest workers, in the order of the list that Order returns.
func (t *Topology) Place(home, allowed []int) []int {
	cpus, workers := slices.Clone(home), map[int]int{}
	var displaced []int
	for i, cpu := range home {
		if _, ok := slices.BinarySearch(allowed, cpu); ok {
			workers[cpu]++
		} else {
			displaced = append(displaced, i)
		}
	}
	for _, i := range displaced {
		best := Unknown
		for _, cpu := range t.Order(allowed, []int{t.Node(home[i])}) {
			if best == Unknown || workers[cpu] < workers[best] {
				best = cpu
			}
		}
		cpus[i] = best
		workers[best]++
	}
	return cpus
}
