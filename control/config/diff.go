package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Change is one difference between two configurations. It reveals no IPsec keys.
type Change struct {
	Key  string `json:"key"`            // "batch.max_delay", "ports.lan0", "ipsec.sas.branch-out", "ipsec.policies"
	Kind Kind   `json:"kind"`           // added, removed or changed
	From string `json:"from,omitempty"` // old value
	To   string `json:"to,omitempty"`   // new value
}

// Kind is the kind of a change.
type Kind string

const (
	Added   Kind = "added"
	Removed Kind = "removed"
	Changed Kind = "changed"
)

// String returns the change on one line.
func (c Change) String() string {
	switch c.Kind {
	case Added:
		return fmt.Sprintf("+ %s: %s", c.Key, c.To)
	case Removed:
		return fmt.Sprintf("- %s: %s", c.Key, c.From)
	}
	return fmt.Sprintf("~ %s: %s -> %s", c.Key, c.From, c.To)
}

// Diff returns the changes from a to b, in the order of a file. Ports and SAs are matched by
// name. A changed policy, which has no name, is removed and added. It can be called after
// IPsec.Zero.
func Diff(a, b *Config) []Change {
	d := differ{}
	d.ports(WithoutMembers(a.Ports), WithoutMembers(b.Ports))
	d.value("max_ports", a.MaxPorts, b.MaxPorts)
	d.value("engine", a.Engine, b.Engine)
	d.value("gpu.park", a.GPU.Park, b.GPU.Park)
	d.value("gpu.multiprocessors", a.GPU.Multiprocessors, b.GPU.Multiprocessors)
	d.value("gpu.memory", a.GPU.Memory, b.GPU.Memory)
	d.value("shadow", a.Shadow, b.Shadow)
	d.value("workers", a.Workers, b.Workers)
	d.value("cores", coresText(a.Cores), coresText(b.Cores))
	d.value("batch.max_packets", a.Batch.MaxPackets, b.Batch.MaxPackets)
	d.value("batch.max_bytes", a.Batch.MaxBytes, b.Batch.MaxBytes)
	d.value("batch.max_in_flight", a.Batch.MaxInFlight, b.Batch.MaxInFlight)
	d.value("batch.max_delay", a.Batch.MaxDelay, b.Batch.MaxDelay)
	d.value("lanes", lanesText(a.Lanes), lanesText(b.Lanes))
	d.value("metrics.listen", strconv.Quote(a.Metrics.Listen), strconv.Quote(b.Metrics.Listen))
	d.value("metrics.web_config", strconv.Quote(a.Metrics.WebConfig), strconv.Quote(b.Metrics.WebConfig))
	d.value("status.listen", strconv.Quote(a.Status.Listen), strconv.Quote(b.Status.Listen))
	d.value("control.socket", a.Control.Socket, b.Control.Socket)
	d.value("control.group", strconv.Quote(a.Control.Group), strconv.Quote(b.Control.Group))
	d.value("privileges.user", strconv.Quote(a.Privileges.User), strconv.Quote(b.Privileges.User))
	d.value("privileges.seccomp", a.Privileges.Seccomp, b.Privileges.Seccomp)
	d.value("napi", a.NAPI, b.NAPI)
	d.value("busy_poll", a.BusyPoll, b.BusyPoll)
	d.value("log.format", a.Log.Format, b.Log.Format)
	d.value("log.level", a.Log.Level, b.Log.Level)
	d.value("checksum", a.Checksum, b.Checksum)
	d.value("icmp.per_second", a.ICMP.PerSecond, b.ICMP.PerSecond)
	d.value("icmp.burst", a.ICMP.Burst, b.ICMP.Burst)
	d.value("icmp.source_per_second", a.ICMP.SourcePerSecond, b.ICMP.SourcePerSecond)
	d.value("icmp.source_burst", a.ICMP.SourceBurst, b.ICMP.SourceBurst)
	d.value("exit.linux", a.Exit.Linux, b.Exit.Linux)
	d.value("exit.share", a.Exit.Share, b.Exit.Share)
	d.value("ipsec.source", a.IPsec.Source, b.IPsec.Source)
	d.value("ipsec.state", a.IPsec.State, b.IPsec.State)
	d.value("ipsec.interface", strconv.Quote(a.IPsec.Interface), strconv.Quote(b.IPsec.Interface))
	d.value("ipsec.mss_clamp", a.IPsec.MSSClamp, b.IPsec.MSSClamp)
	d.value("ipsec.fragment", a.IPsec.Fragment, b.IPsec.Fragment)
	d.value("ipsec.icmp", a.IPsec.ICMP, b.IPsec.ICMP)
	d.value("ipsec.path_mtu", a.IPsec.PathMTU, b.IPsec.PathMTU)
	d.value("ipsec.linux_forwarding", a.IPsec.LinuxForwarding, b.IPsec.LinuxForwarding)
	d.sas(a.IPsec.SAs, b.IPsec.SAs)
	d.policies(a.IPsec.Policies, b.IPsec.Policies)
	return d.changes
}

type differ struct{ changes []Change }

func (d *differ) add(kind Kind, key, from, to string) {
	d.changes = append(d.changes, Change{key, kind, from, to})
}

func (d *differ) value(key string, a, b any) {
	if a != b {
		d.add(Changed, key, fmt.Sprint(a), fmt.Sprint(b))
	}
}

func (d *differ) ports(a, b []Port) {
	for _, p := range a {
		i := slices.IndexFunc(b, func(q Port) bool { return q.Interface == p.Interface })
		if i < 0 {
			d.add(Removed, "ports."+p.Interface, p.text(), "")
		} else {
			d.value("ports."+p.Interface, p.text(), b[i].text())
		}
	}
	for _, p := range b {
		if !hasPort(a, p.Interface) {
			d.add(Added, "ports."+p.Interface, "", p.text())
		}
	}
}

// text returns the settings of a port.
func (p *Port) text() string {
	if p.Excludes() {
		return "excluded"
	}
	s := "mode " + string(p.Mode)
	if p.ReversePath != ReversePathAuto {
		s += " reverse_path " + string(p.ReversePath)
	}
	return s
}

func (d *differ) sas(a, b []SA) {
	before, after := byName(a), byName(b)
	for i := range a {
		old, now := &a[i], after[a[i].Name]
		switch key := "ipsec.sas." + old.Name; {
		case now == nil:
			d.add(Removed, key, old.text(), "")
		case !old.Equal(now):
			from, to := old.parts(), now.parts()
			for j := len(from) - 1; j >= 0; j-- {
				if from[j] == to[j] {
					from, to = slices.Delete(from, j, j+1), slices.Delete(to, j, j+1)
				}
			}
			if !old.Key.Equal(now.Key) || !old.AuthKey.Equal(now.AuthKey) {
				from, to = append(from, "old key"), append(to, "new key")
			}
			d.add(Changed, key, strings.Join(from, " "), strings.Join(to, " "))
		}
	}
	for i := range b {
		if before[b[i].Name] == nil {
			d.add(Added, "ipsec.sas."+b[i].Name, "", b[i].text())
		}
	}
}

func byName(list []SA) map[string]*SA {
	m := make(map[string]*SA, len(list))
	for i := range list {
		m[list[i].Name] = &list[i]
	}
	return m
}

// parts returns the settings of an SA without keys.
func (a *SA) parts() []string {
	return []string{
		string(a.Direction), fmt.Sprintf("spi %#x", a.SPI), string(a.Mode), fmt.Sprintf("from %v", a.Src), fmt.Sprintf("to %v", a.Dst), a.Suite,
		fmt.Sprintf("esn %v", a.ESN), fmt.Sprintf("replay_window %d", a.ReplayWindow), fmt.Sprintf("encap %d:%d", a.Encap.SrcPort, a.Encap.DstPort),
		"df " + string(a.DF), "lifetime " + a.Lifetime.Hard.text(), "soft " + a.Lifetime.Soft.text(),
	}
}

// text returns the limits.
func (l Limits) text() string {
	var limits []string
	if l.Packets > 0 {
		limits = append(limits, fmt.Sprintf("%d packets", l.Packets))
	}
	if l.Bytes > 0 {
		limits = append(limits, fmt.Sprintf("%d bytes", l.Bytes))
	}
	if l.Seconds > 0 {
		limits = append(limits, fmt.Sprint(time.Duration(l.Seconds)*time.Second))
	}
	if limits == nil {
		return "unlimited"
	}
	return strings.Join(limits, ", ")
}

func (a *SA) text() string { return strings.Join(a.parts()[:6], " ") }

// policies adds the policies that only one side has, counting duplicates.
func (d *differ) policies(a, b []Policy) {
	const key = "ipsec.policies"
	more := map[Policy]int{} // in a than in b
	for _, p := range a {
		more[p]++
	}
	var added []Policy
	for _, p := range b {
		if more[p]--; more[p] < 0 {
			more[p] = 0
			added = append(added, p)
		}
	}
	before := len(d.changes)
	for _, p := range slices.Backward(a) { // of duplicates the later has no effect
		if more[p] > 0 {
			more[p]--
			d.add(Removed, key, p.text(), "")
		}
	}
	slices.Reverse(d.changes[before:])
	for _, p := range added {
		d.add(Added, key, "", p.text())
	}
	if len(d.changes) == before && !slices.Equal(a, b) {
		d.add(Changed, key, fmt.Sprintf("%d policies", len(a)), "reordered")
	}
}

func (p *Policy) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %v%s > %v%s", p.Direction, p.Src, p.SrcPorts.text(), p.Dst, p.DstPorts.text())
	if p.Protocol != 0 {
		fmt.Fprintf(&b, " protocol %d", p.Protocol)
	}
	fmt.Fprintf(&b, " %s", p.Action)
	if p.SA != "" {
		fmt.Fprintf(&b, " %s", p.SA)
	}
	return b.String()
}

func (r PortRange) text() string {
	switch {
	case r == AnyPort:
		return ""
	case r.First == r.Last:
		return fmt.Sprintf(" port %d", r.First)
	}
	return fmt.Sprintf(" ports %d-%d", r.First, r.Last)
}

// Protects reports whether the configuration has IPsec.
func (c *Config) Protects() bool {
	return len(c.IPsec.SAs)+len(c.IPsec.Policies) > 0 || c.IPsec.Source == SourceXFRM
}
