package placement

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// OnNode calls allocate, and memory that its goroutine's thread touches first is allocated on a NUMA node if that has free memory,
// else on another one (set_mempolicy, MPOL_PREFERRED). The returned memory, whole pages, stays there: otherwise automatic NUMA balancing
// of the kernel moves it to the node of any thread that accesses it, such as the one that registers it with a socket. With Unknown it
// only calls allocate. If there is an error, the memory may be allocated.
func OnNode(node int, allocate func() ([]byte, error)) error {
	if node == Unknown {
		_, err := allocate()
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var mask unix.CPUSet // of nodes
	mask.Set(node)
	if err := unix.SetMemPolicy(unix.MPOL_PREFERRED, &mask); err != nil {
		return fmt.Errorf("prefer memory of NUMA node %d: %w", node, err)
	}
	defer func() { _ = unix.SetMemPolicy(unix.MPOL_DEFAULT, nil) }() // resetting to the default does not fail
	b, err := allocate()
	if err != nil || len(b) == 0 {
		return err
	}
	if err := prefer(b, &mask); err != nil {
		return fmt.Errorf("keep %d MiB of memory on NUMA node %d: %w", len(b)>>20, node, err)
	}
	return nil
}
