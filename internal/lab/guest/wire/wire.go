// Package wire is the protocol between the host and the agent in a guest: the agent's configuration,
// commands and results, as JSON.
package wire

// ConfigFile is the name of the agent's Config, in the directory of the agent.
const ConfigFile = "guest.json"

// Mount points in the agent's directory. The host creates them, because the first root may be
// read-only.
const (
	HostDir  = "host"  // the host's files, where they are not the first root
	LayerDir = "layer" // the memory above them
	RootDir  = "root"  // both together
)

// Config is the agent's configuration for mounting the root.
type Config struct {
	Insert  []string // modules to insert first, in this order: files in the first root
	Share   string   // type of the file system that is the host's root; "": the first root is
	Modules string   // the host's directory of the kernel's modules, which ends in its version
	Control string   // terminal, or name of the virtio port, that commands arrive by
}

// Command is a command to run in the guest. Commands run concurrently. Their encoding is short, because
// the terminal of user-mode Linux loses input that arrives faster than it is read.
type Command struct {
	ID    uint64   // of its Result; from 1
	Args  []string // empty: no command, and answered by an empty Result
	Input string   // the host's file that is its standard input; "": none
}

// Result is the result of a command. The first one with ID 0 reports that the guest has booted.
type Result struct {
	ID      uint64
	Output  []byte // standard output and error
	Failure string // how it failed; "": it did not
}
