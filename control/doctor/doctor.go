// Package doctor checks this host before the router starts, and suggests a command to fix each
// problem.
//
// A check is a function from a Host or Link to findings. It changes no settings. It opens ports
// for a moment (try) if their driver does not reset the link, or on request.
package doctor

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/warproute/warproute/control/mirror"
	"github.com/warproute/warproute/internal/placement"
	"github.com/warproute/warproute/umem"
)

// Level is the severity of a finding.
type Level string

// The router does not start with a Fail. A Warn reduces performance or changes behavior.
const (
	OK   Level = "OK"
	Warn Level = "WARN"
	Fail Level = "FAIL"
)

// Finding is the result of a check.
type Finding struct {
	Check string `json:"check"`
	Port  string `json:"port,omitempty"`
	Level Level  `json:"level"`
	Found string `json:"found"`
	Hint  string `json:"hint,omitempty"` // how to fix it: an instruction or a command

	Predicted *Prediction `json:"predicted,omitempty"` // of the XDP mode of a port, if known
}

func ok(format string, args ...any) []Finding {
	return []Finding{{Level: OK, Found: fmt.Sprintf(format, args...)}}
}

func warn(hint, format string, args ...any) []Finding {
	return []Finding{{Level: Warn, Found: fmt.Sprintf(format, args...), Hint: hint}}
}

func fail(hint, format string, args ...any) []Finding {
	return []Finding{{Level: Fail, Found: fmt.Sprintf(format, args...), Hint: hint}}
}

var hostChecks = []struct {
	name  string
	check func(*Host) []Finding
}{
	{"kernel", kernel},
	{"capabilities", capabilities},
	{"AF_XDP", afxdpSocket},
	{"BPF", bpf},
	{"locked memory", memlock},
	{"huge pages", hugePages},
	{"Linux forwarding", forwarding},
	{"guard", guardOf},
	{"netfilter", filters},
	{"XFRM", xfrmPolicies},
	{"routes", routes},
	{"cores", cores},
	{"GPU", gpus},
}

// linkChecks are the checks of ports. The router opens the members of a bond in its place.
var linkChecks = []struct {
	name   string
	check  func(*Host, *Link) []Finding
	opened bool // not of a bond, but of its members
}{
	{"link", linkState, false},
	{"master", master, false},
	{"driver", driver, true},
	{"XDP mode", mode, true},
	{"queues", queues, true},
	{"NUMA node", numaNode, true},
	{"MTU", mtu, false},
	{"XDP program", attached, true},
	{"offloads", offloads, true},
}

// Examine runs all checks, those of links for each port.
func Examine(h *Host, ports []string) []Finding {
	var all []Finding
	add := func(check, port string, found []Finding) {
		for _, f := range found {
			f.Check, f.Port = check, port
			all = append(all, f)
		}
	}
	var links, opened []*Link // opened without bonds
	find := func(name, bond string) *Link {
		link, err := h.Link(name)
		if err != nil {
			add("link", name, fail("choose an interface that `ip link` shows, or create it", "%v", err))
			return nil
		}
		if bond != "" {
			link.Bond, link.Refusal = bond, nil // as a port of its own
		}
		if links = append(links, link); len(link.Members) > 0 {
			return link
		}
		opened = append(opened, link)
		h.Queues += link.Queues
		if h.Workers == 0 || link.Queues < h.Workers {
			h.Workers = link.Queues
		}
		h.Jumbo = h.Jumbo || link.MTU > umem.MaxMTU
		return link
	}
	var nodes []int
	for _, name := range ports {
		link := find(name, "")
		if link == nil {
			continue
		}
		h.Ports, nodes = append(h.Ports, link.Name), append(nodes, link.Node)
		h.surveyed = append(h.surveyed, mirror.Port{Name: link.Name, Ifindex: link.Index})
		for _, member := range link.Members {
			find(member, link.Name)
		}
	}
	var tried []*Link
	for _, link := range opened {
		if h.mayTry(link) {
			tried = append(tried, link)
		}
	}
	if len(tried) > 0 {
		h.Try(tried, h.Workers)
	}
	h.predict(opened)
	h.node = placement.Majority(nodes)
	for _, c := range hostChecks {
		add(c.name, "", c.check(h))
	}
	for _, link := range links {
		for _, c := range linkChecks {
			if c.opened && len(link.Members) > 0 {
				continue
			}
			add(c.name, link.Name, c.check(h, link))
		}
	}
	return all
}

// Healthy reports whether no finding is Fail.
func Healthy(all []Finding) bool {
	for _, f := range all {
		if f.Level == Fail {
			return false
		}
	}
	return true
}

// Write writes the findings with their hints, and whether the router would start.
func Write(w io.Writer, all []Finding) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range all {
		check := f.Check
		if f.Port != "" {
			check = f.Port + ": " + check
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", f.Level, check, strings.ReplaceAll(f.Found, "\n", "; ")) // joined errors
		if f.Hint != "" {
			fmt.Fprintf(t, "\t\t→ %s\n", f.Hint)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	verdict := "the router would start"
	if !Healthy(all) {
		verdict = "the router would not start: fix the items marked FAIL"
	}
	_, err := fmt.Fprintln(w, verdict)
	return err
}
