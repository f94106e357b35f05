package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

var (
	sources          = []Source{SourceConfig, SourceXFRM}
	fragments        = []Fragment{FragmentBefore, FragmentAfter}
	pathMTUs         = []PathMTU{PathMTULearn, PathMTUOff}
	icmpErrors       = []ICMPErrors{ICMPQuoted, ICMPStrict}
	linuxForwardings = []LinuxForwarding{LinuxForwardingDrop, LinuxForwardingAllow}
	directions       = []Direction{DirectionOut, DirectionIn}
	saModes          = []SAMode{SATunnel, SATransport}
	dfs              = []DF{DFCopy, DFSet, DFClear}
	actions          = []Action{ActionProtect, ActionBypass, ActionDiscard}
)

func (c *Config) checkIPsec() Errors {
	i := &c.IPsec
	errs := slices.Concat(checkChoice(c, "ipsec.source", i.Source, sources), checkChoice(c, "ipsec.fragment", i.Fragment, fragments),
		checkChoice(c, "ipsec.icmp", i.ICMP, icmpErrors), checkChoice(c, "ipsec.path_mtu", i.PathMTU, pathMTUs),
		checkChoice(c, "ipsec.linux_forwarding", i.LinuxForwarding, linuxForwardings))
	if !filepath.IsAbs(i.State) || strings.ContainsRune(i.State, 0) {
		errs = append(errs, c.fault("ipsec.state", fmt.Sprintf("ipsec.state: %q is not the absolute path of a directory", i.State),
			"write one such as /var/lib/warproute"))
	}
	switch {
	case i.Interface == "":
	case !isName(i.Interface) || strings.Contains(i.Interface, "%"): // Linux replaces %d by a number
		errs = append(errs, c.fault("ipsec.interface", fmt.Sprintf("ipsec.interface: %q is not a valid interface name", i.Interface), "write a name such as ipsec0"))
	case hasPort(c.Ports, i.Interface):
		errs = append(errs, c.fault("ipsec.interface", fmt.Sprintf("ipsec.interface: %q is a port", i.Interface), "write another name, such as ipsec0"))
	}
	if i.Source == SourceXFRM {
		for key, n := range map[string]int{"ipsec.sas": len(i.SAs), "ipsec.policies": len(i.Policies)} {
			if n > 0 {
				errs = append(errs, c.fault(key, key+": not allowed with source: xfrm, which reads them from the kernel", "remove the list, or write source: config"))
			}
		}
		return errs
	}
	return slices.Concat(errs, c.checkSAs(), c.checkPolicies())
}

// entry is a list element with its errors.
type entry struct {
	config *Config
	key    string // "ipsec.sas[0]"
	errs   Errors
}

// fail adds an error about a field of the entry.
func (e *entry) fail(field, msg, hint string) {
	key := e.key + "." + field
	e.errs = append(e.errs, e.config.fault(key, key+": "+msg, hint))
}

// missing adds an error about a required field without a value.
func (e *entry) missing(field, hint string) {
	e.errs = append(e.errs, e.config.fault(e.key+"."+field, fmt.Sprintf("%s has no %s", e.key, field), hint))
}

// isSet reports whether the file sets a field.
func (e *entry) isSet(field string) bool {
	_, ok := e.config.at[e.key+"."+field]
	return ok
}

// choice adds an error about a missing or unknown value.
func choice[T ~string](e *entry, field string, got T, choices []T) {
	if got == "" && !e.isSet(field) {
		e.missing(field, "add one: "+alternatives(choices))
		return
	}
	e.errs = append(e.errs, checkChoice(e.config, e.key+"."+field, got, choices)...)
}
