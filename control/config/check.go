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

// What values may be.
const (
	MaxPackets  = 2048        // in a chunk; a port's transmit ring takes no more at once
	MaxDelay    = time.Second // of a packet in an unfinished chunk
	maxBusyPoll = 10 * time.Millisecond
	maxWorkers  = 1024
	maxShadow   = 1 << 30 // chunks
	maxName     = 15      // bytes of an interface name, IFNAMSIZ less the final zero
	maxSocket   = 107     // bytes of a socket path, likewise
)

var (
	modes        = []Mode{ModeAuto, ModeZeroCopy, ModeNative, ModeGeneric}
	reversePaths = []ReversePath{ReversePathAuto, ReversePathOff, ReversePathLoose, ReversePathStrict}
	engines      = []Engine{EngineAuto, EngineCPU, EngineGPU}
	napis        = []NAPI{NAPIInterrupt, NAPIThread}
	checksums    = []Checksum{ChecksumAuto, ChecksumRepair, ChecksumTrust}
)

// Check reports, as an Errors, every value that no host could work with. Parse
// has done so already; call it again after changing a configuration.
func (c *Config) Check() error { return c.check().orNil() }

func (c *Config) check() (errs Errors) {
	errs = c.checkPorts()
	errs = append(errs, checkChoice(c, "engine", c.Engine, engines)...)
	errs = append(errs, checkChoice(c, "checksum", c.Checksum, checksums)...)
	errs = append(errs, checkChoice(c, "napi", c.NAPI, napis)...)
	if c.NAPI == NAPIThread && c.BusyPoll > 0 {
		errs = append(errs, c.fault("napi", "napi: thread and busy_poll: a worker that polls would keep the thread on its core from receiving",
			"leave one of the two out"))
	}
	if c.Shadow < 0 || c.Shadow > maxShadow {
		errs = append(errs, c.fault("shadow", fmt.Sprintf("shadow: %d is out of range", c.Shadow),
			fmt.Sprintf("write 0 for no comparison, or a number up to %d", maxShadow)))
	}
	if c.Workers < 0 || c.Workers > maxWorkers {
		errs = append(errs, c.fault("workers", fmt.Sprintf("workers: %d is out of range", c.Workers),
			fmt.Sprintf("write 0 for one worker per queue, or a number up to %d", maxWorkers)))
	}
	if c.Batch.MaxPackets < 1 || c.Batch.MaxPackets > MaxPackets {
		errs = append(errs, c.fault("batch.max_packets", fmt.Sprintf("batch.max_packets: %d is out of range", c.Batch.MaxPackets),
			fmt.Sprintf("write a number from 1 to %d", MaxPackets)))
	}
	errs = append(errs, c.checkDuration("batch.max_delay", c.Batch.MaxDelay, MaxDelay)...)
	errs = append(errs, c.checkDuration("busy_poll", c.BusyPoll, maxBusyPoll)...)
	errs = append(errs, c.checkICMP()...)
	errs = append(errs, c.checkListen()...)
	errs = append(errs, c.checkSocket()...)
	return append(errs, c.checkIPsec()...)
}

// maxErrors bounds rates and bursts of ICMP errors.
const maxErrors = 1_000_000

func (c *Config) checkICMP() (errs Errors) {
	for _, v := range []struct {
		key      string
		n, least int
	}{
		{"icmp.per_second", c.ICMP.PerSecond, 0}, {"icmp.burst", c.ICMP.Burst, 1},
		{"icmp.source_per_second", c.ICMP.SourcePerSecond, 0}, {"icmp.source_burst", c.ICMP.SourceBurst, 1},
	} {
		if v.n < v.least || v.n > maxErrors {
			errs = append(errs, c.fault(v.key, fmt.Sprintf("%s: %d is out of range", v.key, v.n), fmt.Sprintf("write a number from %d to %d", v.least, maxErrors)))
		}
	}
	return errs
}

func (c *Config) checkPorts() (errs Errors) {
	if len(c.Ports) == 0 {
		err := c.fault("ports", "there are no ports", "name the interfaces to route between, as `- interface: eth0` below `ports:` or by --port eth0")
		if c.file != "" && err.Line == 0 {
			err.Line, err.Column = 1, 1 // where they could begin
		}
		errs = append(errs, err)
	}
	first := map[string]string{}
	for i, p := range c.Ports {
		key := fmt.Sprintf("ports[%d].interface", i)
		name := p.Interface
		switch {
		case name == "":
			errs = append(errs, c.fault(key, fmt.Sprintf("ports[%d] has no interface", i), "add `interface: NAME`, a name that `ip link` shows"))
		case !isName(name):
			errs = append(errs, c.fault(key, fmt.Sprintf("%q cannot be the name of an interface", name), "write one that `ip link` shows"))
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

// isName reports whether an interface can have a name.
func isName(s string) bool {
	return s != "" && len(s) <= maxName && s != "." && s != ".." && !strings.ContainsFunc(s, notInName)
}

// notInName holds for what the kernel refuses in an interface name, and for
// what nobody can read.
func notInName(r rune) bool {
	return r == '/' || r == ':' || r == ' ' || r == utf8.RuneError || !unicode.IsPrint(r)
}

func checkChoice[T ~string](c *Config, key string, got T, choices []T) Errors {
	if slices.Contains(choices, got) {
		return nil
	}
	return Errors{c.fault(key, notOneOf(key, got), "write "+alternatives(choices))}
}

func (c *Config) checkDuration(key string, d, limit time.Duration) Errors {
	if d >= 0 && d <= limit {
		return nil
	}
	return Errors{c.fault(key, fmt.Sprintf("%s: %v is out of range", key, d), fmt.Sprintf("write a time from 0s to %v", limit))}
}

func (c *Config) checkListen() Errors {
	if c.Metrics.Listen == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(c.Metrics.Listen)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err == nil {
		return nil
	}
	return Errors{c.fault("metrics.listen", fmt.Sprintf("metrics.listen: %q is not an address and a port", c.Metrics.Listen),
		`write one such as "127.0.0.1:9273" or "[::1]:9273", or "" for no metrics`)}
}

func (c *Config) checkSocket() Errors {
	path := c.Control.Socket
	switch {
	case !filepath.IsAbs(path) || strings.HasSuffix(path, "/") || strings.ContainsRune(path, 0):
		return Errors{c.fault("control.socket", fmt.Sprintf("control.socket: %q is not the absolute path of a file", path),
			"write one such as /run/warproute.sock")}
	case len(path) > maxSocket:
		return Errors{c.fault("control.socket", fmt.Sprintf("control.socket: a path of %d bytes, and the kernel takes %d", len(path), maxSocket),
			"choose a shorter one")}
	}
	return nil
}

// fault is an error about the value at key, placed where the file gave it or,
// if it did not, where it gave what the value is part of.
func (c *Config) fault(key, msg, mend string) *Error {
	err := newError(c.file, key, msg, mend)
	for k := key; k != ""; k = parent(k) {
		if p, ok := c.at[k]; ok {
			err.Line, err.Column = p.line, p.column
			break
		}
	}
	return err
}

// lacking is a fault of the host rather than of the configuration: it may end without a
// change of the latter.
func (c *Config) lacking(key, msg, mend string) *Error {
	err := c.fault(key, msg, mend)
	err.Transient = true
	return err
}

// inLine says in which line the file gave a value, if it did.
func (c *Config) inLine(key string) string {
	if p, ok := c.at[key]; ok {
		return fmt.Sprintf(" in line %d", p.line)
	}
	return ""
}

func notOneOf[T ~string](key string, got T) string {
	return fmt.Sprintf("%s: there is no %q", key, string(got))
}

// alternatives lists choices: "auto, cpu or gpu".
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
