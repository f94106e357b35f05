package mirror

import (
	"errors"
	"fmt"
	"slices"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"
)

// A rule by ingress interface (ip rule add iif lan lookup 10) has packets that a port receives looked up in another
// table before main. See combined for the lookup. A rule that the router cannot follow closes the port of its interface:
// packets are dropped as no_table.

// ingressRule is a rule by ingress interface of a family. Linux evaluates rules in order of priority.
type ingressRule struct {
	family   int
	priority uint32
	table    uint32
	plain    bool   // without other conditions, and the action is the lookup
	seen     uint32 // see state.dumpSeq
}

// setIngressRule applies a rule by ingress interface.
func (s *state) setIngressRule(r *rtnl.Rule, deleted bool) {
	rule := ingressRule{familyIndex(r.Family), r.Priority, r.Table, r.Plain, s.dumpSeq}
	rules := s.rules[r.Ingress]
	at := slices.IndexFunc(rules, func(have ingressRule) bool {
		have.seen = rule.seen
		return have == rule
	})
	switch {
	case at >= 0 && deleted:
		rules = slices.Delete(rules, at, at+1)
	case at >= 0:
		rules[at].seen = s.dumpSeq
		return
	case deleted:
		return
	default:
		rules = append(rules, rule)
	}
	s.keepRules(r.Ingress, rules)
	s.updateVRFs()
}

func (s *state) keepRules(ingress string, rules []ingressRule) {
	if len(rules) == 0 {
		delete(s.rules, ingress)
		return
	}
	s.rules[ingress] = rules
}

// sweepRules drops the rules that a dump did not have.
func (s *state) sweepRules() {
	for ingress, rules := range s.rules {
		s.keepRules(ingress, slices.DeleteFunc(rules, func(r ingressRule) bool { return r.seen != s.dumpSeq }))
	}
	s.updateVRFs()
}

// tablesBefore are the tables of Linux that packets of a port are looked up in before main, by family; 0 for none.
type tablesBefore [2]uint32

func (b tablesBefore) String() string {
	return fmt.Sprintf("rules to table %d for IPv4, %d for IPv6", b[0], b[1])
}

// tablesByRules returns the tables of the rules of an interface. The error says why they cannot be followed.
func tablesByRules(rules []ingressRule) (before tablesBefore, err error) {
	for _, r := range rules {
		_, own := tables[r.table]
		switch {
		case !r.plain:
			return before, fmt.Errorf("the rule with priority %d has other conditions than iif, or another action than lookup", r.priority)
		case r.priority >= mainPriority: // behind the rule of main, which may have no route
			return before, fmt.Errorf("the rule with priority %d is behind that of table main (%d)", r.priority, mainPriority)
		case own:
			return before, fmt.Errorf("the rule with priority %d is to table %d", r.priority, r.table)
		case before[r.family] != 0:
			return before, fmt.Errorf("there are two of a family, to tables %d and %d", before[r.family], r.table)
		default:
			before[r.family] = r.table
		}
	}
	return before, nil
}

// byRules returns the combined table for packets that a port receives on a link, nil without rules. The error says why
// the rules cannot be followed.
func (s *state) byRules(port int, l *rtnl.Link) (*combined, error) {
	rules := s.rules[l.Name]
	if l.InVRF() && len(rules)+len(s.rules[s.linkName(l.Master)]) > 0 {
		return nil, errors.New("they are of a VRF or an interface in one")
	}
	before, err := tablesByRules(rules)
	if err != nil || before == (tablesBefore{}) {
		return nil, err
	}
	if rpf := s.fib.RPF(uint16(port)); rpf.IPv4 == fib.RPFStrict || rpf.IPv6 == fib.RPFStrict {
		return nil, errors.New("strict reverse path filtering would use their tables, Linux uses main; turn it off, or make it loose (reverse_path, or rp_filter)")
	}
	return s.combine(before)
}

// vrfByRules returns the number of the table in the FIB for packets that a port receives on a link, 0 without rules.
func (s *state) vrfByRules(port int, l *rtnl.Link) uint16 {
	c, err := s.byRules(port, l)
	switch {
	case err != nil:
		s.warnOnce("rules "+l.Name, fmt.Sprintf("rules by ingress interface %s are not followed: %v: its packets are dropped as no_table", l.Name, err))
		return s.noTable()
	case c == nil:
		return 0
	}
	c.used = true
	if !c.complete() {
		return s.noTable()
	}
	c.build(s)
	return c.vrf
}
