package conformance

import (
	"bytes"
	"fmt"
	"strings"
)

const intro = `# Conformance

<!-- Written by "make gen" from internal/conformance. Change it there. -->

What RFCs and operators ask of a router, what warproute does, and the test that shows it. A rule is *kept*; or kept by
*Linux*, which is given the packets; or warproute *departs* from it, and says why; or what it asks is *lacking*.

` + "`TestConformance`" + ` is in three packages: the packets of a rule (so many) go through the CPU engine
(` + "`dataplane/cpu`" + `), through the GPU kernels' code (` + "`dataplane/gpu`" + `), and through a whole router, whose ICMP errors and
fragments are compared byte by byte (` + "`dataplane`" + `). Other tests are named. "Peers" stands for what other routers of this kind
do and their users expect.

` + "`TestLinuxDoesTheSame`" + ` (` + "`internal/e2e`" + `) sends 100,000 varied packets through Linux's own forwarding and through warproute, in equal
networks, and compares every frame that comes out on every side. What differs is told at its rule; anything else fails.

`

// Markdown returns CONFORMANCE.md.
func Markdown() []byte {
	var b bytes.Buffer
	b.WriteString(intro)
	count := map[Status]int{}
	packets := 0
	for _, r := range Rules() {
		count[r.Status]++
		packets += len(r.Cases)
	}
	fmt.Fprintf(&b, "%d rules: %d kept, %d kept by Linux, %d departed from, %d lacking; %d packets.\n", len(Rules()), count[Kept], count[Linuxs], count[Departs], count[Lacking], packets)
	for _, c := range Chapters() {
		fmt.Fprintf(&b, "\n## %s\n\n| Rule | Source | Status | What warproute does | Drops, ICMP errors | Tests |\n|---|---|---|---|---|---|\n", c.Title)
		for _, r := range c.Rules {
			fmt.Fprintf(&b, "| `%s`: %s | %s | %s | %s | %s | %s |\n", r.Key, cell(r.Says), cell(r.Source), r.Status, cell(r.Does), cell(strings.Join(r.Outcomes(), "; ")), cell(r.tests()))
		}
	}
	return b.Bytes()
}

// tests names what shows the rule.
func (r *Rule) tests() string {
	var all []string
	if n := len(r.Cases); n > 0 {
		all = append(all, fmt.Sprintf("`TestConformance/%s` (%d)", r.Key, n))
	}
	for _, t := range r.Tests {
		all = append(all, "`"+t+"`")
	}
	return strings.Join(all, ", ")
}

// cell makes text fit into a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
