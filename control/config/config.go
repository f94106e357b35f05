// Package config reads and checks the YAML configuration of the router.
//
// A file is checked in three steps. Parse checks the text: keys, types, units. Check checks the
// values, also after flags have changed them. CheckHost checks them against this host. Each step
// reports all errors, with line, column and a hint.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/warproute/warproute/internal/textfile"
)

// Config is a configuration. Default and Parse set missing values to their defaults.
type Config struct {
	Ports      []Port
	MaxPorts   int // at a time; 0: see Room
	Engine     Engine
	GPU        GPU
	Shadow     int   // the CPU repeats 1 in Shadow chunks of a GPU; 0: none
	Workers    int   // 0: one per queue
	Cores      []int // CPUs of the workers, in their order; nil: chosen by the router
	Batch      Batch
	Lanes      []Lane // none: see ActiveLanes
	Metrics    Metrics
	Status     Status
	Control    Control
	Privileges Privileges
	Log        Log
	NAPI       NAPI
	BusyPoll   time.Duration // time that an idle worker polls before it sleeps
	Checksum   Checksum
	ICMP       ICMP
	Exit       Exit
	IPsec      IPsec

	file string              // source of the values, for errors
	at   map[string]position // of the values in the file, by key: "ports[0].interface"
}

// Port is a network interface that the router receives and transmits on, or a pattern of such interfaces.
type Port struct {
	Interface   string // name in `ip link`, pattern of names, or an exclusion: a pattern behind "!"
	Mode        Mode
	ReversePath ReversePath
	Auto        bool // all physical and virtual Ethernet interfaces that can be ports

	// Bond is the bond of which the interface is a member, "" for none. A running router has the members of a
	// bond in place of the bond; a file has none.
	Bond string
}

// ReversePath is the reverse path check of a port (RFC 3704).
type ReversePath string

// ReversePathAuto follows rp_filter of the interface for IPv4, and is off for IPv6, which has no
// such setting in Linux.
const (
	ReversePathAuto   ReversePath = "auto"
	ReversePathOff    ReversePath = "off"    // no check
	ReversePathLoose  ReversePath = "loose"  // a route to the source must exist
	ReversePathStrict ReversePath = "strict" // a route over the port must exist
)

// Mode is the XDP mode of a port.
type Mode string

// ModeAuto selects the first working mode of the others, in order.
const (
	ModeAuto     Mode = "auto"
	ModeZeroCopy Mode = "zero-copy" // the NIC writes to the router's memory
	ModeNative   Mode = "native"    // the driver runs the XDP program, the kernel copies
	ModeGeneric  Mode = "generic"   // the network stack runs the program; for any interface
)

// Engine selects the packet processing engine.
type Engine string

// EngineAuto uses a GPU, if any, for chunks that it processes faster.
const (
	EngineAuto Engine = "auto"
	EngineCPU  Engine = "cpu"
	EngineGPU  Engine = "gpu"
)

// GPU limits what the router takes of its GPUs.
type GPU struct {
	Park            time.Duration // time without need of a GPU after which its kernel ends; 0: never
	Multiprocessors int           // most per GPU, rounded up to what its driver can divide; 0: all
	Memory          GPUMemory     // while the kernel is parked
}

// GPUMemory is what happens to GPU memory while the kernel is parked.
type GPUMemory string

const (
	GPUMemoryKeep    GPUMemory = "keep"    // the kernel returns in less than 1 ms
	GPUMemoryRelease GPUMemory = "release" // other processes can allocate it
)

// Batch limits chunks of packets.
type Batch struct {
	MaxPackets  int           // in a chunk; 0: DefaultMaxPackets, or gpu.SecuredPackets in an IPsec gateway with a GPU
	MaxBytes    int           // of the received packets of a chunk, if there are several; 0: any number, or gpu.SecuredChunk
	MaxInFlight int           // chunks of the last lane that a worker's engine has at a time; 0: up to ChunksWithGPU or ChunksOfGateway
	MaxDelay    time.Duration // of the first packet of a chunk
}

// Metrics configures the Prometheus endpoint.
type Metrics struct {
	Listen    string // "address:port", or "unix:" and an absolute path; "" disables it
	WebConfig string // path of a Prometheus web configuration file (TLS, passwords); "" for none
}

// Status configures the status page.
type Status struct {
	Listen string // "address:port"; "" disables it
}

// Control configures the control socket.
type Control struct {
	Socket string // path of a Unix socket
	Group  string // its members may read; "": the group of the process, unless that is root's
}

// Privileges configures what the process may do after the start.
type Privileges struct {
	User    string // that a router that was started by root becomes; "" for none
	Seccomp bool   // refuse system calls that the router does not need
}

// NAPI selects where the kernel processes received frames.
type NAPI string

const (
	NAPIInterrupt NAPI = "interrupt" // in softirqs on the core of the interrupt
	NAPIThread    NAPI = "thread"    // in threads on the core of the worker
)

// Log configures the log on standard error.
type Log struct {
	Format LogFormat
	Level  LogLevel
}

// LogFormat selects the format of the log.
type LogFormat string

// LogAuto is LogJournal if standard error is the journal, and else LogText.
const (
	LogAuto    LogFormat = "auto"
	LogText    LogFormat = "text"    // key=value
	LogJSON    LogFormat = "json"    // an object per line
	LogJournal LogFormat = "journal" // LogText without time, behind the priority
)

// LogLevel is the lowest level that is logged.
type LogLevel string

const (
	LogDebug LogLevel = "debug"
	LogInfo  LogLevel = "info"
	LogWarn  LogLevel = "warn"
	LogError LogLevel = "error"
)

// Slog returns the level of package slog.
func (l LogLevel) Slog() (level slog.Level) {
	_ = level.UnmarshalText([]byte(l)) // a valid configuration has no other; Info without one
	return level
}

// Checksum selects the completion of L4 checksums that veth and virtio senders leave incomplete.
type Checksum string

// ChecksumAuto completes checksums on ports whose driver passes incomplete ones.
const (
	ChecksumAuto   Checksum = "auto"
	ChecksumRepair Checksum = "repair" // on every port
	ChecksumTrust  Checksum = "trust"  // on none
)

// ICMP limits the rate of ICMP errors of all workers: PerSecond and Burst for path MTU errors
// and for all others separately, SourcePerSecond and SourceBurst for the others per IPv4 address
// or IPv6 /64. A rate of 0 sends none.
type ICMP struct {
	PerSecond, Burst             int
	SourcePerSecond, SourceBurst int
}

// Exit configures packets that leave by interfaces that are not ports, through Linux.
type Exit struct {
	Linux ExitLinux
	Share int // percent of a worker's busy time for packets to Linux
}

// ExitLinux selects whether Linux forwards packets to interfaces that are not ports.
type ExitLinux string

// ExitAuto is on unless the router protects traffic by IPsec. In either case Linux's own settings decide, too.
const (
	ExitAuto ExitLinux = "auto"
	ExitOn   ExitLinux = "on"
	ExitOff  ExitLinux = "off"
)

// ExitsByLinux reports whether packets may leave through Linux.
func (c *Config) ExitsByLinux() bool {
	return c.Exit.Linux == ExitOn || c.Exit.Linux == ExitAuto && !c.Protects()
}

// Default returns the default configuration with these ports.
func Default(ports ...string) *Config {
	c := &Config{
		Engine:     EngineAuto,
		GPU:        GPU{Park: 2 * time.Second, Memory: GPUMemoryKeep},
		Shadow:     1024,
		Batch:      Batch{MaxDelay: 50 * time.Microsecond},
		Metrics:    Metrics{Listen: "127.0.0.1:9273"},
		Control:    Control{Socket: "/run/warproute/control.sock"},
		Privileges: Privileges{Seccomp: true},
		NAPI:       NAPIInterrupt,
		Checksum:   ChecksumAuto,
		Log:        Log{LogAuto, LogInfo},
		ICMP:       ICMP{PerSecond: 1000, Burst: 100, SourcePerSecond: 10, SourceBurst: 10},
		Exit:       Exit{Linux: ExitAuto, Share: 50},
		IPsec:      IPsec{Source: SourceConfig, State: "/var/lib/warproute", Fragment: FragmentBefore, ICMP: ICMPQuoted, PathMTU: PathMTULearn, LinuxForwarding: LinuxForwardingDrop},
	}
	for _, name := range ports {
		c.Ports = append(c.Ports, Port{Interface: name, Mode: ModeAuto, ReversePath: ReversePathAuto, Auto: name == auto})
	}
	return c
}

// Interfaces returns the interface names of the ports that have names: of members of a bond, the bond.
func (c *Config) Interfaces() (names []string) {
	for _, p := range WithoutMembers(c.named()) {
		names = append(names, p.Interface)
	}
	return names
}

// maxFileSize limits the size of the file in bytes, so that a wrong path fails quickly. 10,000
// tunnels need 5 MiB.
const maxFileSize = 16 << 20

// Load reads and checks a file and its key files, which must be regular files, because a reload
// reads them again. The error is an Errors or a read error.
func Load(path string) (*Config, error) {
	data, info, err := textfile.Read(path, maxFileSize)
	var long *textfile.TooLong
	switch {
	case errors.As(err, &long):
		return nil, fmt.Errorf("read configuration %s: %d bytes exceed the limit of %d", path, long.Bytes, maxFileSize)
	case errors.Is(err, textfile.ErrType):
		return nil, fmt.Errorf("read configuration: %w; write it to a regular file, which reload can read again", err)
	case errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0:
		return nil, fmt.Errorf("read configuration: %w; the user of the router, %[2]d, must be able to read it: chmod 644 %[3]s, or chown %[2]d %[3]s if it has keys", err, os.Geteuid(), path)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("read configuration: %w; root without CAP_DAC_OVERRIDE reads only its own files: set privileges.user to their owner, or chown root", err)
	case err != nil:
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	r := read(path, data)
	r.checkInlineKeys(path, info)
	r.readKeyFiles()
	return r.finish()
}
