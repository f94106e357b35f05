package doctor

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Capability is one that a router needs.
type Capability struct {
	Name string // as capabilities(7) calls it
	Why  string
}

// needed lists what a router needs, each with its alternative.
var needed = []struct {
	Capability
	bit, or int
}{
	{Capability{"CAP_NET_ADMIN", "attach XDP programs"}, unix.CAP_NET_ADMIN, unix.CAP_NET_ADMIN},
	{Capability{"CAP_NET_RAW", "open AF_XDP sockets"}, unix.CAP_NET_RAW, unix.CAP_NET_RAW},
	{Capability{"CAP_BPF", "load XDP programs"}, unix.CAP_BPF, unix.CAP_SYS_ADMIN},
}

// MissingCapabilities returns what a router needs and the process does not have
// in effect.
func MissingCapabilities() ([]Capability, error) {
	effective, err := effectiveCapabilities()
	if err != nil {
		return nil, err
	}
	var missing []Capability
	for _, n := range needed {
		if effective&(1<<n.bit|1<<n.or) == 0 {
			missing = append(missing, n.Capability)
		}
	}
	return missing, nil
}

func effectiveCapabilities() (uint64, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData // version 3 has 64 bits, in two halves
	if err := unix.Capget(&header, &data[0]); err != nil {
		return 0, fmt.Errorf("read the process's capabilities: %w", err)
	}
	return uint64(data[1].Effective)<<32 | uint64(data[0].Effective), nil
}

// mayLock says whether the limit of locked memory does not hold for the process.
func mayLock() (bool, error) {
	effective, err := effectiveCapabilities()
	return effective&(1<<unix.CAP_IPC_LOCK) != 0, err
}

// Setcap is the command that gives a program what a router needs: also locking memory beyond
// the limit, and CAP_PERFMON, without which older kernels (6.1) refuse the XDP program.
func Setcap(executable string) string {
	names := make([]string, 0, len(needed))
	for _, n := range needed {
		names = append(names, strings.ToLower(n.Name))
	}
	return fmt.Sprintf("sudo setcap %s,cap_perfmon,cap_ipc_lock+ep %s", strings.Join(names, ","), executable)
}
