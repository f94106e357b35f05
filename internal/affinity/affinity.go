// Package affinity ties a goroutine to a thread and the thread to a processor.
package affinity

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Any leaves the choice of processor to the kernel.
const Any = -1

// Pin locks the calling goroutine to its thread and the thread to one CPU (or to
// none in particular, with Any). The returned function undoes both.
func Pin(cpu int) (restore func(), err error) {
	runtime.LockOSThread()
	if cpu == Any {
		return runtime.UnlockOSThread, nil
	}
	var before, want unix.CPUSet
	if err = unix.SchedGetaffinity(0, &before); err == nil {
		want.Set(cpu)
		err = unix.SchedSetaffinity(0, &want)
	}
	if err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("pin thread to CPU %d: %w", cpu, err)
	}
	return func() {
		// Where this fails the thread stays locked, and dies with its goroutine.
		if unix.SchedSetaffinity(0, &before) == nil {
			runtime.UnlockOSThread()
		}
	}, nil
}

// CPUs lists the processors that the process may run on, in ascending order.
func CPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("read CPU affinity: %w", err)
	}
	var cpus []int
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}
