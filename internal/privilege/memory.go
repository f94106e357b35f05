package privilege

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// onFault is MCL_ONFAULT: pages are locked when they are first used.
const onFault = 4

// ProtectMemory keeps the memory of the process, with its keys, from other processes of its user, from core
// dumps, and from swap. warning is the reason why memory may be swapped, nil if it may not. Go's heap is locked, too;
// its runtime returns free memory by new mappings, for which locked memory makes no difference.
func ProtectMemory() (warning, err error) {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("prevent core dumps and ptrace: %w", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return nil, fmt.Errorf("limit core dumps: %w", err)
	}
	if !lockMemory {
		return nil, nil
	}
	if err := unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | onFault); err != nil {
		return fmt.Errorf("lock memory: %w; grant CAP_IPC_LOCK or raise the limit of locked memory, or keys may be swapped", err), nil
	}
	return nil, nil
}

// UnlimitLockedMemory removes the limit of locked memory, if this process may. Before Linux 5.11, BPF maps count.
func UnlimitLockedMemory() {
	_ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: math.MaxUint64, Max: math.MaxUint64})
}
