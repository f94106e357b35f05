package service

import (
	"strings"

	"github.com/warproute/warproute/control/netfilter"
)

// warnOfFilters tells of a firewall that forwarded packets no longer pass, since the router
// takes them before Linux does: it must not fail open without a word.
func (s *Service) warnOfFilters() {
	chains, err := netfilter.Forwarding()
	if err != nil {
		s.log.Warn("whether there is a firewall that forwarded packets do not pass cannot be told", "error", err)
	}
	if len(chains) == 0 {
		return
	}
	var texts []string
	for _, c := range chains {
		texts = append(texts, c.String())
	}
	s.log.Warn("what the router forwards does not pass the rules of netfilter", "chains", strings.Join(texts, ", "),
		"mend", "filter before or behind the router, or by a gateway's policies (ipsec.policies, action: discard)")
}
