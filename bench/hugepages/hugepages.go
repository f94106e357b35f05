// Package hugepages reserves huge pages for the length of a benchmark.
package hugepages

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Reserve sees to it that at least n huge pages are free. restore sets the
// system's number of them back to what it was; pages in use go when they are freed.
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
		return nil, fmt.Errorf("reserve %d huge pages: the kernel has no such memory left in one piece", n)
	}
	return restore, nil
}

// field returns the number behind a key of /proc/meminfo, 0 if there is none.
func field(meminfo, key string) int {
	_, rest, _ := strings.Cut(meminfo, key)
	line, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.Atoi(strings.TrimSpace(line))
	return n
}
