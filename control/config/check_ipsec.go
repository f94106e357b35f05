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

func (c *Config) checkIPsec() (errs Errors) {
	i := &c.IPsec
	errs = checkChoice(c, "ipsec.source", i.Source, sources)
	errs = append(errs, checkChoice(c, "ipsec.fragment", i.Fragment, fragments)...)
	errs = append(errs, checkChoice(c, "ipsec.icmp", i.ICMP, icmpErrors)...)
	errs = append(errs, checkChoice(c, "ipsec.path_mtu", i.PathMTU, pathMTUs)...)
	errs = append(errs, checkChoice(c, "ipsec.linux_forwarding", i.LinuxForwarding, linuxForwardings)...)
	if !filepath.IsAbs(i.State) || strings.ContainsRune(i.State, 0) {
		errs = append(errs, c.fault("ipsec.state", fmt.Sprintf("ipsec.state: %q is not the absolute path of a directory", i.State),
			"write one such as /var/lib/warproute"))
	}
	switch isPort := func(p Port) bool { return p.Interface == i.Interface }; {
	case i.Interface == "":
	case !isName(i.Interface) || strings.Contains(i.Interface, "%"): // Linux would number it
		errs = append(errs, c.fault("ipsec.interface", fmt.Sprintf("ipsec.interface: %q cannot be the name of an interface", i.Interface), "write one such as ipsec0"))
	case slices.ContainsFunc(c.Ports, isPort):
		errs = append(errs, c.fault("ipsec.interface", fmt.Sprintf("ipsec.interface: %q is a port", i.Interface), "write another name, such as ipsec0"))
	}
	if i.Source == SourceXFRM {
		for key, n := range map[string]int{"ipsec.sas": len(i.SAs), "ipsec.policies": len(i.Policies)} {
			if n > 0 {
				errs = append(errs, c.fault(key, key+": with source: xfrm they come from Linux", "remove these, or write source: config"))
			}
		}
		return errs
	}
	errs = append(errs, c.checkSAs()...)
	return append(errs, c.checkPolicies()...)
}

// entry is an element of a list, and what is wrong with it.
type entry struct {
	config *Config
	key    string // "ipsec.sas[0]"
	errs   Errors
}

// wrong records an error about one of the entry's values.
func (e *entry) wrong(field, msg, mend string) {
	key := e.key + "." + field
	e.errs = append(e.errs, e.config.fault(key, key+": "+msg, mend))
}

// lacks records that the entry does not have a value.
func (e *entry) lacks(field, mend string) {
	e.errs = append(e.errs, e.config.fault(e.key+"."+field, fmt.Sprintf("%s has no %s", e.key, field), mend))
}

// given reports whether the file has a value.
func (e *entry) given(field string) bool {
	_, ok := e.config.at[e.key+"."+field]
	return ok
}

// choice records that a value is missing or is none of those that there are.
func choice[T ~string](e *entry, field string, got T, choices []T) {
	if got == "" && !e.given(field) {
		e.lacks(field, "add one: "+alternatives(choices))
		return
	}
	e.errs = append(e.errs, checkChoice(e.config, e.key+"."+field, got, choices)...)
}
