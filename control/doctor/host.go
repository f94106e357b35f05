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
	"github.com/warproute/warproute/dataplane/gpu"
	"github.com/warproute/warproute/internal/placement"
)

// Host is the system to check. ThisHost returns that of the process; tests use fakes.
type Host struct {
	Root       fs.FS // /
	Release    string
	Missing    []Capability // required ones
	LockedMax  uint64       // limit of locked memory in bytes, or unix.RLIM_INFINITY
	MayLock    bool         // exempt from the limit
	Cores      int          // usable by the process
	Nodes      int          // NUMA nodes; 0: unknown
	Executable string
	Ports      []string      // set by Examine
	surveyed   []mirror.Port // the same ports
	Queues     int           // of all ports; set by Examine
	Workers    int           // queues of the port with the fewest; set by Examine
	Jumbo      bool          // a port needs large frames; set by Examine
	node       int           // NUMA node of most ports; set by Examine

	OpenSocket func() error // opens an AF_XDP socket
	LoadBPF    func() error // creates a BPF map
	Filters    func() ([]netfilter.Chain, error)
	Refused    func() ([]xfrm.Refused, error) // unsupported XFRM policies
	Survey     func(ports []mirror.Port) (routes []mirror.UnsupportedRoutes, warnings []string, err error)
	Guarded    func() ([]string, error) // interfaces with blocked Linux forwarding
	Boards     func() ([]gpu.Board, error)
	Link       func(name string) (*Link, error)
	Try        func(links []*Link, workers int) // opens the ports together for a moment and sets their Trial
	TryAll     bool                             // even if the driver resets the link
	NeedsGPU   bool                             // the configuration has engine: gpu
	Placement  placement.Request                // of the configuration; 0 workers: as many as Workers, nil cores: not checked
}

// ThisHost returns the host and network namespace of the process.
func ThisHost() (*Host, error) {
	h := &Host{Root: os.DirFS("/"), OpenSocket: openSocket, LoadBPF: createMap, Filters: netfilter.Forwarding, Refused: xfrm.RefusedPolicies, Survey: mirror.Survey, Guarded: guarded, Boards: boards, Link: findLink, Try: try, Executable: "bin/warproute"}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return nil, fmt.Errorf("read kernel release: %w", err)
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
		return nil, fmt.Errorf("read limit of locked memory: %w", err)
	}
	h.LockedMax = limit.Cur
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("read CPU affinity: %w", err)
	}
	h.Cores = set.Count()
	h.Nodes = placement.ReadTopology(placement.Sysfs).Nodes()
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

// read returns the content of a file below the root, "" if it does not exist.
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
