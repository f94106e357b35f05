// Package conformance holds the rules of a router as data: the requirement of an RFC or an operator,
// warproute's behavior, and packets that test it.
//
// Three tests named TestConformance send the packets through the CPU engine (dataplane/cpu), the
// GPU kernels' code on the host (dataplane/gpu), and a router with memory ports (dataplane), which
// also sends ICMP errors and fragments. Rules name the tests of all other
// behavior. CONFORMANCE.md is generated from this package.
package conformance

import (
	"slices"

	"github.com/warproute/warproute/batch"
)

//go:generate go run ./generate ../../CONFORMANCE.md

// Rule is one row of CONFORMANCE.md.
type Rule struct {
	Key    string // permanent name, "ipv4/checksum", with the key of its chapter before the slash
	Says   string // the requirement
	Source string // RFC section, or "peers"
	Status Status
	Does   string // warproute's behavior, with a reason where it departs
	Cases  []Case
	Tests  []string // other tests, "afxdp.TestSteer" or a subtest, "afxdp.TestSteer/ARP request"
}

// Status is the state of a rule.
type Status string

const (
	Kept        Status = "kept"
	KeptByLinux Status = "Linux" // kept by Linux, to which the packets are punted
	Departs     Status = "departs"
)

// Chapter is a group of rules.
type Chapter struct {
	Key, Title string
	Rules      []Rule
}

// Chapters returns all rules, in the order of the document.
func Chapters() []Chapter {
	return []Chapter{
		{"link", "Frames", linkRules()},
		{"ipv4", "IPv4", ipv4Rules()},
		{"ipv6", "IPv6", ipv6Rules()},
		{"addresses", "Addresses", addressRules()},
		{"route", "Routes and neighbors", routeRules()},
		{"size", "Sizes and fragments", sizeRules()},
		{"icmp", "ICMP errors", icmpRules()},
		{"host", "Host traffic", hostRules()},
		{"esp", "ESP and sizes", espRules()},
	}
}

// Rules returns the rules of all chapters.
func Rules() (all []Rule) {
	for _, c := range Chapters() {
		all = append(all, c.Rules...)
	}
	return all
}

// Case is a packet and its expected fate.
type Case struct {
	Name  string
	Frame []byte
	Port  uint16 // ingress port

	// Verdict is the verdict of both engines.
	Verdict batch.Verdict
	// Sent are the frames that leave the router, without ICMP errors. Nil stands for the
	// frame with a new link header, a decremented TTL and no padding if the verdict is to
	// forward, and otherwise for no frame.
	Sent [][]byte
	// By is the egress port of Sent if the engine does not decide it.
	By uint16
	// Error is the ICMP error to the source, nil for none.
	Error *Error
}

// Error is an ICMP or ICMPv6 error.
type Error struct {
	Type, Code uint8
	Info       uint32 // the word behind the checksum
}

// Outcomes lists the fates of a rule's packets other than forwarding: drop reasons with their ICMP
// errors, and holds.
func (r *Rule) Outcomes() (all []string) {
	for _, c := range r.Cases {
		if s := c.outcome(); s != "" && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}
