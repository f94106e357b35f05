// Package affinity pins goroutines and threads to CPUs.
package affinity

import (
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// Any is no CPU in particular: the kernel schedules the thread.
const Any = -1

// Pin locks the calling goroutine to its thread and pins the thread to a CPU, or only locks it with
// Any. restore undoes both.
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
		// If this fails, the thread stays locked and exits with its goroutine.
		if unix.SchedSetaffinity(0, &before) == nil {
			runtime.UnlockOSThread()
		}
	}, nil
}

// Move pins another thread to a CPU and, with a priority of 1 to 99, sets SCHED_FIFO.
func Move(tid, cpu, priority int) error {
	var want unix.CPUSet
	want.Set(cpu)
	if err := unix.SchedSetaffinity(tid, &want); err != nil {
		return fmt.Errorf("pin thread %d to CPU %d: %w", tid, cpu, err)
	}
	return schedule(tid, priority)
}

// Prioritize sets SCHED_FIFO with a priority of 1 to 99 for the calling thread; 0 changes nothing.
// The goroutine must be locked to the thread.
func Prioritize(priority int) error { return schedule(0, priority) }

func schedule(tid, priority int) error {
	if priority == 0 {
		return nil
	}
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: uint32(priority)}
	if err := unix.SchedSetAttr(tid, &attr, 0); err != nil {
		return fmt.Errorf("set real-time priority %d of thread %d: %w (needs CAP_SYS_NICE)", priority, tid, err)
	}
	return nil
}

// CPUs returns the CPUs that the process runs on by default, in ascending order: those of its cpuset and its affinity, without
// those that isolcpus isolates. The calling thread must not be pinned.
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

// Usable returns CPUs, and those of a list that a thread may be pinned to although they are not among them, such as isolated
// ones, in ascending order.
func Usable(list []int) ([]int, error) {
	cpus, err := CPUs()
	if err != nil {
		return nil, err
	}
	for _, cpu := range list {
		if at, found := slices.BinarySearch(cpus, cpu); !found && permitted(cpu) {
			cpus = slices.Insert(cpus, at, cpu)
		}
	}
	return cpus, nil
}

// permitted reports whether a thread can be pinned to a CPU: it is online and in the cpuset.
func permitted(cpu int) bool {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // and exits with the thread, so that no other goroutine runs on that CPU
		var set unix.CPUSet
		set.Set(cpu)
		result <- unix.SchedSetaffinity(0, &set)
	}()
	return <-result == nil
}
