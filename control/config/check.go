package config

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits of values.
const (
	MaxPackets         = 2048        // per chunk, the size of the TX ring of a port
	DefaultMaxPackets  = 1024        // per chunk
	MaxDelay           = time.Second // of a packet in an incomplete chunk
	maxBusyPoll        = 10 * time.Millisecond
	maxBytes           = 1 << 30 // of a chunk
	maxWorkers         = 1024
	MaxPorts           = 1024                  // physical ports at a time
	maxShadow          = 1 << 30               // chunks
	minPark            = 10 * time.Millisecond // ending and launching a kernel takes about one
	maxPark            = time.Hour
	maxMultiprocessors = 1024      // of a GPU; today's largest have less than 200
	maxErrors          = 1_000_000 // ICMP errors per second, or in a burst
	maxName            = 15        // bytes of an interface name: IFNAMSIZ without the terminating NUL
	maxSocket          = 107       // bytes of a socket path: sun_path without the terminating NUL
)

var (
	modes        = []Mode{ModeAuto, ModeZeroCopy, ModeNative, ModeGeneric}
	reversePaths = []ReversePath{ReversePathAuto, ReversePathOff, ReversePathLoose, ReversePathStrict}
	engines      = []Engine{EngineAuto, EngineCPU, EngineGPU}
	napis        = []NAPI{NAPIInterrupt, NAPIThread}
	gpuMemories  = []GPUMemory{GPUMemoryKeep, GPUMemoryRelease}
	exits        = []ExitLinux{ExitAuto, ExitOn, ExitOff}
	logFormats   = []LogFormat{LogAuto, LogText, LogJSON, LogJournal}
	logLevels    = []LogLevel{LogDebug, LogInfo, LogWarn, LogError}
	checksums    = []Checksum{ChecksumAuto, ChecksumRepair, ChecksumTrust}
)

// Check returns an Errors with all values that are invalid on every host. Parse calls it; call it
// again after a change of the configuration.
func (c *Config) Check() error { return c.check().orNil() }

func (c *Config) check() Errors {
	errs := slices.Concat(c.checkPorts(), checkChoice(c, "engine", c.Engine, engines), checkChoice(c, "checksum", c.Checksum, checksums), checkChoice(c, "napi", c.NAPI, napis),
		checkChoice(c, "log.format", c.Log.Format, logFormats), checkChoice(c, "log.level", c.Log.Level, logLevels), checkChoice(c, "exit.linux", c.Exit.Linux, exits))
	if c.NAPI == NAPIThread && c.BusyPoll > 0 {
		errs = append(errs, c.fault("napi", "napi: thread excludes busy_poll: a polling worker starves the NAPI thread on its core",
			"remove one of the two"))
	}
	if len(c.Cores) > 0 && c.Workers > len(c.Cores) {
		errs = append(errs, c.fault("cores", fmt.Sprintf("cores names %d of %d CPUs, one per worker", len(c.Cores), c.Workers), "name more, or set fewer workers"))
	}
	for _, v := range []struct {
		key            string
		n, least, most int
		hint           string
	}{
		{"shadow", c.Shadow, 0, maxShadow, "write 0 for no comparison, or a number up to %d"},
		{"gpu.multiprocessors", c.GPU.Multiprocessors, 0, maxMultiprocessors, "write 0 for all of each GPU, or a number up to %d"},
		{"workers", c.Workers, 0, maxWorkers, "write 0 for one worker per queue, or a number up to %d"},
		{"max_ports", c.MaxPorts, 0, MaxPorts, "write 0 for a few more than there are at the start, or a number up to %d"},
		{"batch.max_packets", c.Batch.MaxPackets, 0, MaxPackets, "write 0 for the default, or a number up to %d"},
		{"batch.max_bytes", c.Batch.MaxBytes, 0, maxBytes, "write 0 for the default, or a number up to %d"},
		{"batch.max_in_flight", c.Batch.MaxInFlight, 0, ChunksOfGateway, "write 0 for the default, or a number up to %d"},
		{"icmp.per_second", c.ICMP.PerSecond, 0, maxErrors, "write a number from 0 to %d"},
		{"icmp.burst", c.ICMP.Burst, 1, maxErrors, "write a number from 1 to %d"},
		{"icmp.source_per_second", c.ICMP.SourcePerSecond, 0, maxErrors, "write a number from 0 to %d"},
		{"exit.share", c.Exit.Share, 1, 100, "write a number from 1 to %d, in percent"},
		{"icmp.source_burst", c.ICMP.SourceBurst, 1, maxErrors, "write a number from 1 to %d"},
	} {
		if v.n < v.least || v.n > v.most {
			errs = append(errs, c.fault(v.key, fmt.Sprintf("%s: %d is out of range", v.key, v.n), fmt.Sprintf(v.hint, v.most)))
		}
	}
	return slices.Concat(errs, c.checkDuration("batch.max_delay", c.Batch.MaxDelay, MaxDelay), c.checkDuration("busy_poll", c.BusyPoll, maxBusyPoll),
		c.checkGPU(), c.checkLanes(), c.checkListen(), c.checkWebConfig(), c.checkSocket(), c.checkIPsec())
}

func (c *Config) checkPorts() (errs Errors) {
	if len(c.Ports) == 0 {
		err := c.fault("ports", "no ports", "add `- interface: eth0` below `ports:`, or pass --port eth0")
		if c.file != "" && err.Line == 0 {
			err.Line, err.Column = 1, 1 // start of the file
		}
		errs = append(errs, err)
	}
	if len(c.Ports) > 0 && !slices.ContainsFunc(c.Ports, func(p Port) bool { return !p.Excludes() }) {
		errs = append(errs, c.fault("ports", "ports has only exclusions", `add a name or a pattern, such as "*"`))
	}
	if n := len(c.named()); n > MaxPorts {
		errs = append(errs, c.fault("ports", fmt.Sprintf("ports names %d interfaces", n), fmt.Sprintf("name at most %d, the most ports of a router", MaxPorts)))
	}
	first := map[string]string{}
	for i, p := range c.Ports {
		key := fmt.Sprintf("ports[%d].interface", i)
		name := p.Interface
		switch {
		case name == "":
			errs = append(errs, c.fault(key, fmt.Sprintf("ports[%d] has no interface", i), "add `interface: NAME`, a name that `ip link` shows"))
		case (p.Pattern() || p.Excludes()) && checkPattern(name) != "":
			errs = append(errs, c.fault(key, checkPattern(name), `write a pattern such as "eth*", "lan?" or "eth[0-3]", or an exclusion such as "!eth0"`))
		case (p.Pattern() || p.Excludes()) && first[name] == "":
			first[name] = key
		case !isName(name) && !p.Pattern() && !p.Excludes():
			errs = append(errs, c.fault(key, fmt.Sprintf("%q is not a valid interface name", name), "write a name that `ip link` shows"))
		case first[name] != "":
			errs = append(errs, c.fault(key, fmt.Sprintf("interface %q is already a port%s", name, c.inLine(first[name])), "remove one of the two"))
		default:
			first[name] = key
		}
		errs = append(errs, checkChoice(c, fmt.Sprintf("ports[%d].mode", i), p.Mode, modes)...)
		errs = append(errs, checkChoice(c, fmt.Sprintf("ports[%d].reverse_path", i), p.ReversePath, reversePaths)...)
	}
	return errs
}

// isName reports whether s is a valid interface name.
func isName(s string) bool {
	return s != "" && len(s) <= maxName && s != "." && s != ".." && !strings.ContainsFunc(s, notInName)
}

// notInName reports whether the kernel rejects r in interface names, or r is not printable.
func notInName(r rune) bool {
	return r == '/' || r == ':' || r == ' ' || r == utf8.RuneError || !unicode.IsPrint(r)
}

func checkChoice[T ~string](c *Config, key string, got T, choices []T) Errors {
	if slices.Contains(choices, got) {
		return nil
	}
	return Errors{c.fault(key, unknownValue(key, got), "write "+alternatives(choices))}
}

func (c *Config) checkDuration(key string, d, limit time.Duration) Errors {
	if d >= 0 && d <= limit {
		return nil
	}
	return Errors{c.fault(key, fmt.Sprintf("%s: %v is out of range", key, d), fmt.Sprintf("write a duration from 0s to %v", limit))}
}

func (c *Config) checkGPU() Errors {
	errs := checkChoice(c, "gpu.memory", c.GPU.Memory, gpuMemories)
	if park := c.GPU.Park; park != 0 && (park < minPark || park > maxPark) {
		errs = append(errs, c.fault("gpu.park", fmt.Sprintf("gpu.park: %v is out of range", park),
			fmt.Sprintf("write 0s to never park, or a duration from %v to %v", minPark, maxPark)))
	}
	return errs
}

func (c *Config) checkListen() (errs Errors) {
	for _, l := range []struct{ key, value, example, what string }{
		{"metrics.listen", c.Metrics.Listen, "9273", "metrics"},
		{"status.listen", c.Status.Listen, "9274", "the status page"},
	} {
		if l.value == "" {
			continue
		}
		if path, ok := strings.CutPrefix(l.value, unixPrefix); ok && l.key == "metrics.listen" {
			errs = append(errs, c.checkSocketPath(l.key, path, "write one such as unix:/run/warproute/metrics.sock")...)
			continue
		}
		_, port, err := net.SplitHostPort(l.value)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil {
			errs = append(errs, c.fault(l.key, fmt.Sprintf("%s: %q is not an address and a port", l.key, l.value),
				fmt.Sprintf(`write one such as "127.0.0.1:%[1]s" or "[::1]:%[1]s", or "" to disable %[2]s`, l.example, l.what)))
		}
	}
	return errs
}

func (c *Config) checkSocket() Errors {
	return c.checkSocketPath("control.socket", c.Control.Socket, "write one such as /run/warproute/control.sock")
}

// checkSocketPath checks the path of a Unix socket.
func (c *Config) checkSocketPath(key, path, hint string) Errors {
	switch {
	case !filepath.IsAbs(path) || strings.HasSuffix(path, "/") || strings.ContainsRune(path, 0):
		return Errors{c.fault(key, fmt.Sprintf("%s: %q is not the absolute path of a file", key, path), hint)}
	case len(path) > maxSocket:
		return Errors{c.fault(key, fmt.Sprintf("%s: path of %d bytes exceeds the limit of %d", key, len(path), maxSocket),
			"choose a shorter path")}
	}
	return nil
}

// fault returns an error about the value of a key, with the position of the key, or else of its
// nearest parent in the file.
func (c *Config) fault(key, msg, hint string) *Error {
	err := newError(c.file, key, msg, hint)
	for k := key; k != ""; k = parent(k) {
		if p, ok := c.at[k]; ok {
			err.Line, err.Column = p.line, p.column
			break
		}
	}
	return err
}

// hostFault returns a transient error, which is caused by the host.
func (c *Config) hostFault(key, msg, hint string) *Error {
	err := c.fault(key, msg, hint)
	err.Transient = true
	return err
}

// inLine returns " in line N" for a value in the file, else "".
func (c *Config) inLine(key string) string {
	if p, ok := c.at[key]; ok {
		return fmt.Sprintf(" in line %d", p.line)
	}
	return ""
}

// unknownValue returns the message about a value outside its choices.
func unknownValue[T ~string](key string, got T) string {
	return fmt.Sprintf("%s: unknown value %q", key, string(got))
}

// alternatives joins choices: "auto, cpu or gpu".
func alternatives[T ~string](choices []T) string {
	var b strings.Builder
	for i, c := range choices {
		switch {
		case i == 0:
		case i == len(choices)-1:
			b.WriteString(" or ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(string(c))
	}
	return b.String()
}
