// Package hugepages reserves huge pages during a benchmark.
package hugepages

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Reserve makes at least n huge pages free. restore resets the system's number of huge pages; pages in
// use are released when they are freed.
func Reserve(n int) (restore func(), err error) {
	const sysctl = "/proc/sys/vm/nr_hugepages"
	meminfo, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return nil, err
	}
	total, free := field(string(meminfo), "HugePages_Total:"), field(string(meminfo), "HugePages_Free:")
	if free >= n {
		return func() {}, nil
	}
	set := func(n int) error { return os.WriteFile(sysctl, []byte(strconv.Itoa(n)), 0) }
	restore = func() { _ = set(total) }
	if err := set(total + n - free); err != nil {
		return nil, fmt.Errorf("reserve %d huge pages: %w", n, err)
	}
	if meminfo, err = os.ReadFile("/proc/meminfo"); err != nil || field(string(meminfo), "HugePages_Free:") < n {
		restore()
		return nil, fmt.Errorf("reserve %d huge pages: memory is too fragmented", n)
	}
	return restore, nil
}

// field returns the number of a key of /proc/meminfo, or 0.
func field(meminfo, key string) int {
	_, rest, _ := strings.Cut(meminfo, key)
	line, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.Atoi(strings.TrimSpace(line))
	return n
}
