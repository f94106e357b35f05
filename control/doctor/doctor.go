// Package doctor tells before the router starts what will work on this host,
// what will not, and for each of these the command that mends it.
//
// A check is a function from what the host shows (a Host, a Link) to findings.
// It changes no setting. It opens ports for a moment (try) where that does no harm, or where
// it is asked to.
package doctor

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/warproute/warproute/control/mirror"
	"github.com/warproute/warproute/umem"
)

// Level is how bad a finding is.
type Level string

// A router starts unless something is FAIL; what is WARN makes it slower, or
// surprises.
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
	Mend  string `json:"mend,omitempty"` // what to do, or to run
}

func ok(format string, args ...any) []Finding {
	return []Finding{{Level: OK, Found: fmt.Sprintf(format, args...)}}
}

func warn(mend, format string, args ...any) []Finding {
	return []Finding{{Level: Warn, Found: fmt.Sprintf(format, args...), Mend: mend}}
}

func fail(mend, format string, args ...any) []Finding {
	return []Finding{{Level: Fail, Found: fmt.Sprintf(format, args...), Mend: mend}}
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
	{"GPU", gpu},
}

var linkChecks = []struct {
	name  string
	check func(*Host, *Link) []Finding
}{
	{"link", linkState},
	{"master", master},
	{"driver", driver},
	{"XDP mode", mode},
	{"queues", queues},
	{"MTU", mtu},
	{"XDP program", attached},
	{"offloads", offloads},
}

// Examine runs every check, those of links for each of the ports.
func Examine(h *Host, ports []string) []Finding {
	var all []Finding
	add := func(check, port string, found []Finding) {
		for _, f := range found {
			f.Check, f.Port = check, port
			all = append(all, f)
		}
	}
	var links []*Link
	for _, name := range ports {
		link, err := h.Link(name)
		if err != nil {
			add("link", name, fail("choose one that `ip link` shows, or create it", "%v", err))
			continue
		}
		links = append(links, link)
		h.Ports = append(h.Ports, link.Name)
		h.surveyed = append(h.surveyed, mirror.Port{Name: link.Name, Ifindex: link.Index})
		h.Queues += link.Queues
		if h.Workers == 0 || link.Queues < h.Workers {
			h.Workers = link.Queues
		}
		h.Jumbo = h.Jumbo || link.MTU > umem.MaxMTU
	}
	for _, link := range links {
		if h.mayTry(link) {
			link.Trial = h.Try(link)
		}
	}
	for _, c := range hostChecks {
		add(c.name, "", c.check(h))
	}
	for _, link := range links {
		for _, c := range linkChecks {
			add(c.name, link.Name, c.check(h, link))
		}
	}
	return all
}

// Healthy says whether no finding is FAIL.
func Healthy(all []Finding) bool {
	for _, f := range all {
		if f.Level == Fail {
			return false
		}
	}
	return true
}

// Write writes the findings, each with its mend below it, and a last line that
// says whether a router would start.
func Write(w io.Writer, all []Finding) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range all {
		check := f.Check
		if f.Port != "" {
			check = f.Port + ": " + check
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", f.Level, check, strings.ReplaceAll(f.Found, "\n", "; ")) // errors may be several
		if f.Mend != "" {
			fmt.Fprintf(t, "\t\t→ %s\n", f.Mend)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	verdict := "a router would start here"
	if !Healthy(all) {
		verdict = "a router would not start here: mend what is FAIL"
	}
	_, err := fmt.Fprintln(w, verdict)
	return err
}
