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

// Move pins another thread to one CPU and, with a priority of 1 to 99, has it
// scheduled first-in first-out (SCHED_FIFO) from now on.
func Move(tid, cpu, priority int) error {
	var want unix.CPUSet
	want.Set(cpu)
	if err := unix.SchedSetaffinity(tid, &want); err != nil {
		return fmt.Errorf("pin thread %d to CPU %d: %w", tid, cpu, err)
	}
	return schedule(tid, priority)
}

// Prioritize schedules the calling thread first-in first-out with a priority of
// 1 to 99; 0 leaves it as it is. Lock the goroutine to the thread before.
func Prioritize(priority int) error { return schedule(0, priority) }

func schedule(tid, priority int) error {
	if priority == 0 {
		return nil
	}
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: uint32(priority)}
	if err := unix.SchedSetAttr(tid, &attr, 0); err != nil {
		return fmt.Errorf("give thread %d real-time priority %d: %w; that takes CAP_SYS_NICE", tid, priority, err)
	}
	return nil
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
