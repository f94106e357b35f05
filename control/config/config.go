// Package config reads warproute's configuration: a YAML file of which only the
// ports are required.
//
// A file passes three gates. Parse looks at the text: keys, types, units. Check
// looks at the values, wherever they came from, so that flags can change a
// configuration and have it checked again. CheckHost looks at this host. Each
// gate reports everything that is wrong, every time with the place in the file
// and with what to do about it.
package config

import (
	"errors"
	"fmt"
	"time"

	"github.com/warproute/warproute/internal/textfile"
)

// Config is a whole configuration. Default and Parse fill in what is not given.
type Config struct {
	Ports    []Port
	Engine   Engine
	Shadow   int // the CPU repeats one in so many chunks of a GPU; 0: none
	Workers  int // 0: one per queue
	Batch    Batch
	Metrics  Metrics
	Control  Control
	NAPI     NAPI
	BusyPoll time.Duration // how long an idle worker polls before it sleeps, and with zero-copy the kernel for it
	Checksum Checksum
	ICMP     ICMP
	IPsec    IPsec

	file string              // where the values came from, for errors
	at   map[string]position // of each value that a file gave, by its key: "ports[0].interface"
}

// Port is a network interface that the router takes packets from and sends them by.
type Port struct {
	Interface   string // as `ip link` names it
	Mode        Mode
	ReversePath ReversePath
}

// ReversePath says from which sources a port takes packets (RFC 3704).
type ReversePath string

// ReversePathAuto does in IPv4 as Linux's rp_filter says of the interface, and takes any
// source in IPv6, of which Linux has no such setting.
const (
	ReversePathAuto   ReversePath = "auto"
	ReversePathOff    ReversePath = "off"    // any source
	ReversePathLoose  ReversePath = "loose"  // those that a route leads to
	ReversePathStrict ReversePath = "strict" // those that a route leads to by the port
)

// Mode is how AF_XDP attaches to a port.
type Mode string

// ModeAuto tries the other modes in their order, fastest first.
const (
	ModeAuto     Mode = "auto"
	ModeZeroCopy Mode = "zero-copy" // the NIC writes into the router's memory
	ModeNative   Mode = "native"    // the driver runs the XDP program, the kernel copies
	ModeGeneric  Mode = "generic"   // the network stack runs it; any interface can
)

// Engine is what decides on packets.
type Engine string

// EngineAuto takes the GPU where there is one and it is faster.
const (
	EngineAuto Engine = "auto"
	EngineCPU  Engine = "cpu"
	EngineGPU  Engine = "gpu"
)

// Batch says how packets are gathered into chunks.
type Batch struct {
	MaxPackets int           // a chunk of this many is sealed at once
	MaxDelay   time.Duration // the longest that a packet waits for others
}

// Metrics says where Prometheus may scrape.
type Metrics struct {
	Listen string // "address:port"; empty: nowhere
}

// Control says where `warproute show` finds the router.
type Control struct {
	Socket string // path of a Unix socket
}

// NAPI says where the kernel does the receive work of the ports.
type NAPI string

const (
	NAPIInterrupt NAPI = "interrupt" // in softirqs, on whatever core takes the interrupt
	NAPIThread    NAPI = "thread"    // on the worker's core, by threads that yield to the worker
)

// Checksum says what to do with L4 checksums that a veth or virtio sender left
// for its NIC to finish.
type Checksum string

// ChecksumAuto repairs on ports whose driver is known to pass unfinished checksums.
const (
	ChecksumAuto   Checksum = "auto"
	ChecksumRepair Checksum = "repair" // on every port
	ChecksumTrust  Checksum = "trust"  // on none
)

// ICMP limits the ICMP errors that all workers send together: PerSecond in the long run, Burst
// at once, of path MTU errors and again of all others; and of these, to one source, an
// IPv4 address or IPv6 /64. A rate of 0 lets nothing pass.
type ICMP struct {
	PerSecond, Burst             int
	SourcePerSecond, SourceBurst int
}

// Default is the configuration of a router with these ports and no file.
func Default(ports ...string) *Config {
	c := &Config{
		Engine:   EngineAuto,
		Shadow:   1024,
		Batch:    Batch{MaxPackets: 1024, MaxDelay: 50 * time.Microsecond},
		Metrics:  Metrics{Listen: "127.0.0.1:9273"},
		Control:  Control{Socket: "/run/warproute.sock"},
		NAPI:     NAPIInterrupt,
		Checksum: ChecksumAuto,
		ICMP:     ICMP{PerSecond: 1000, Burst: 100, SourcePerSecond: 10, SourceBurst: 10},
		IPsec:    IPsec{Source: SourceConfig, State: "/var/lib/warproute", Fragment: FragmentBefore, ICMP: ICMPQuoted, PathMTU: PathMTULearn, LinuxForwarding: LinuxForwardingDrop},
	}
	for _, name := range ports {
		c.Ports = append(c.Ports, Port{Interface: name, Mode: ModeAuto, ReversePath: ReversePathAuto})
	}
	return c
}

// maxFileSize bounds what is read, so that a wrong path (a log, a disk image)
// gives an error rather than a long wait. Ten thousand tunnels take 5 MiB.
const maxFileSize = 16 << 20

// Load reads and checks a file, and those of the keys. An error is an Errors, or
// says why the file could not be read. They are regular files, not pipes: a reload reads
// them again, and does not wait for anybody to write them.
func Load(path string) (*Config, error) {
	data, info, err := textfile.ReadInfo(path, maxFileSize)
	var long *textfile.TooLong
	switch {
	case errors.As(err, &long):
		return nil, fmt.Errorf("read configuration %s: %d bytes is more than a configuration can have (%d)", path, long.Bytes, maxFileSize)
	case errors.Is(err, textfile.ErrType):
		return nil, fmt.Errorf("read configuration: %w; write it to a file, which reload reads again", err)
	case err != nil:
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	r := read(path, data)
	r.checkInlineKeys(path, info)
	r.readKeyFiles()
	return r.finish()
}
