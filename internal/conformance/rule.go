// Package conformance holds the rules of a router, as data: what an RFC or an operator
// asks, what warproute does, and the packets that show it.
//
// Its packets are sent three ways, by a test each of the name TestConformance: through
// the CPU engine (dataplane/cpu), through the GPU kernels' code on the host
// (dataplane/gpu), and through a whole router of memory ports (dataplane), which also
// tells sources and cuts packets. What engines and workers do not decide is shown by
// other tests, which a rule names. CONFORMANCE.md is written from here.
package conformance

import (
	"slices"

	"github.com/warproute/warproute/batch"
)

//go:generate go run ./generate ../../CONFORMANCE.md

// Rule is one row of CONFORMANCE.md.
type Rule struct {
	Key    string // names the rule for good, "ipv4/checksum"; what stands before the slash is its chapter
	Says   string // what is asked of a router
	Source string // who asks
	Status Status
	Does   string // what warproute does; where it departs, why
	Cases  []Case
	Tests  []string // other tests, "afxdp.TestSteer" or, of a table's entry, "afxdp.TestSteer/ARP request"
}

// Status says how a rule stands.
type Status string

const (
	Kept    Status = "kept"
	Linuxs  Status = "Linux" // kept by Linux, which is given the packets
	Departs Status = "departs"
	Lacking Status = "lacking" // not built
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
		{"route", "Routes and neighbours", routeRules()},
		{"size", "Sizes and fragments", sizeRules()},
		{"icmp", "ICMP errors", icmpRules()},
		{"host", "What is Linux's", hostRules()},
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

// Case is one packet and what must become of it.
type Case struct {
	Name  string
	Frame []byte
	Port  uint16 // that receives it

	// Verdict is that of both engines.
	Verdict batch.Verdict
	// Sent are the frames that leave the router, those of an ICMP error excepted. Nil
	// stands for the frame with a new link header, a hop less, and no padding, where the
	// verdict is to forward, and for nothing where it is not.
	Sent [][]byte
	// By is the port that Sent leave by where the engine does not say.
	By uint16
	// Error is what the worker tells the source; nil: nothing.
	Error *Error
}

// Error is an ICMP or ICMPv6 error, as its receiver sees it.
type Error struct {
	Type, Code uint8
	Info       uint32 // the word behind the checksum
}

// Outcomes names what becomes of a rule's packets but for forwarding: the reasons of
// drops with their ICMP errors, holds.
func (r *Rule) Outcomes() (all []string) {
	for _, c := range r.Cases {
		if s := c.outcome(); s != "" && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}
