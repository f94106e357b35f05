package placement

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// OnNode calls f, and memory that its goroutine's thread touches first is allocated on a NUMA node if that has free memory,
// else on another one (set_mempolicy, MPOL_PREFERRED). With Unknown it only calls f.
func OnNode(node int, f func() error) error {
	if node == Unknown {
		return f()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var mask unix.CPUSet // of nodes
	mask.Set(node)
	if err := unix.SetMemPolicy(unix.MPOL_PREFERRED, &mask); err != nil {
		return fmt.Errorf("prefer memory of NUMA node %d: %w", node, err)
	}
	defer func() { _ = unix.SetMemPolicy(unix.MPOL_DEFAULT, nil) }() // resetting to the default does not fail
	return f()
}
