// Package wire is what the host and the agent in a guest say to each other: how
// the guest's root is put together, then commands and their results, as JSON.
package wire

// ConfigFile is the name of the agent's Config, in the directory of the agent.
const ConfigFile = "guest.json"

// Directories beside the agent that it mounts on, made by the host since the first
// root may be read-only.
const (
	HostDir  = "host"  // the host's files, where they are not the first root
	LayerDir = "layer" // the memory above them
	RootDir  = "root"  // both together
)

// Config says how the agent, started as the first process of a guest, puts a
// root together: the host's files with a layer of memory above them.
type Config struct {
	Insert  []string // modules to insert first, in this order: files in the first root
	Share   string   // type of the file system that is the host's root; "": the first root is
	Options string   // of that mount
	Modules string   // the host's directory of the kernel's modules, which ends in its version
	Control string   // terminal, or name of the virtio port, that commands arrive by
}

// Command is to be run in the guest. Commands run side by side. They are short: the
// terminal of user-mode Linux loses what comes in faster than it is read.
type Command struct {
	ID    uint64 // of its Result; from 1
	Args  []string
	Input string // the host's file that is its standard input; "": none
}

// Result is what became of a command. A result of ID 0 says that the guest is up.
type Result struct {
	ID      uint64
	Output  []byte // standard output and error
	Failure string // how it failed; "": it did not
}
