package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/mirror"
	"github.com/warproute/warproute/control/netfilter"
	"github.com/warproute/warproute/control/xfrm"
)

// Host is where the checks look. This is the host of the process; tests make others.
type Host struct {
	Root       fs.FS // /
	Release    string
	Missing    []Capability // of those that a router needs
	LockedMax  uint64       // bytes that the process may lock, unix.RLIM_INFINITY for all
	MayLock    bool         // beyond that limit
	Cores      int          // that the process may run on
	Executable string
	Ports      []string      // that are examined; Examine lists them
	surveyed   []mirror.Port // the same
	Queues     int           // of all ports together; Examine counts them
	Workers    int           // one for each queue of the port that has the fewest; Examine counts them
	Jumbo      bool          // a port's MTU takes large frames; Examine sees it

	OpenSocket func() error // tries an AF_XDP socket
	LoadBPF    func() error // tries a BPF map
	Filters    func() ([]netfilter.Chain, error)
	Refused    func() ([]xfrm.Refused, error) // XFRM policies that a router cannot follow
	Survey     func(ports []mirror.Port) ([]mirror.UnsupportedRoutes, error)
	Guarded    func() ([]string, error) // interfaces that are closed to Linux's forwarding
	Link       func(name string) (*Link, error)
	Try        func(l *Link) *Trial // opens the port for a moment
	TryAll     bool                 // also where that may reset the link
}

// This returns the host that the process runs on, in its network namespace.
func This() (*Host, error) {
	h := &Host{Root: os.DirFS("/"), OpenSocket: openSocket, LoadBPF: createMap, Filters: netfilter.Forwarding, Refused: xfrm.RefusedPolicies, Survey: mirror.Survey, Guarded: guarded, Link: findLink, Try: try, Executable: "bin/warproute"}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return nil, fmt.Errorf("read the kernel's release: %w", err)
	}
	h.Release = unix.ByteSliceToString(name.Release[:])
	var err error
	if h.Missing, err = MissingCapabilities(); err != nil {
		return nil, err
	}
	if h.MayLock, err = mayLock(); err != nil {
		return nil, err
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return nil, fmt.Errorf("read the limit of locked memory: %w", err)
	}
	h.LockedMax = limit.Cur
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("read the CPU affinity: %w", err)
	}
	h.Cores = set.Count()
	if exe, err := os.Executable(); err == nil {
		h.Executable = exe
	}
	return h, nil
}

func openSocket() error {
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// read returns the text of a file below the root, "" if there is none.
func (h *Host) read(path string) (string, error) {
	data, err := fs.ReadFile(h.Root, path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(data), err
}

func (h *Host) exists(path string) bool {
	_, err := fs.Stat(h.Root, path)
	return err == nil
}
