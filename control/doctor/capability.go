package doctor

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Capability is a capability that the router needs.
type Capability struct {
	Name string // see capabilities(7)
	Why  string
}

// needed lists the required capabilities, each with an alternative.
var needed = []struct {
	Capability
	bit, or int
}{
	{Capability{"CAP_NET_ADMIN", "attach XDP programs"}, unix.CAP_NET_ADMIN, unix.CAP_NET_ADMIN},
	{Capability{"CAP_NET_RAW", "open AF_XDP sockets"}, unix.CAP_NET_RAW, unix.CAP_NET_RAW},
	{Capability{"CAP_BPF", "load XDP programs"}, unix.CAP_BPF, unix.CAP_SYS_ADMIN},
}

// MissingCapabilities returns the required capabilities that the process lacks.
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
	var data [2]unix.CapUserData // version 3: 64 bits in two words
	if err := unix.Capget(&header, &data[0]); err != nil {
		return 0, fmt.Errorf("read the process's capabilities: %w", err)
	}
	return uint64(data[1].Effective)<<32 | uint64(data[0].Effective), nil
}

// mayLock reports whether the process is exempt from the limit of locked memory.
func mayLock() (bool, error) {
	effective, err := effectiveCapabilities()
	return effective&(1<<unix.CAP_IPC_LOCK) != 0, err
}

// Setcap returns the command that grants a program the required capabilities, CAP_IPC_LOCK, and
// CAP_PERFMON, which older kernels (6.1) require for the XDP program.
func Setcap(executable string) string {
	names := make([]string, 0, len(needed))
	for _, n := range needed {
		names = append(names, strings.ToLower(n.Name))
	}
	return fmt.Sprintf("sudo setcap %s,cap_perfmon,cap_ipc_lock+ep %s", strings.Join(names, ","), executable)
}
