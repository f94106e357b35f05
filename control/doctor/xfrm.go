package doctor

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// xfrmPolicies warns of unsupported policies, whose packets the router drops (xfrm_policy_refused), and tells whether the kernel
// lacks ESP.
func xfrmPolicies(h *Host) []Finding {
	refused, err := h.Refused()
	switch {
	case errors.Is(err, unix.EPROTONOSUPPORT):
		return ok("not in this kernel")
	case errors.Is(err, unix.EPERM):
		return warn("run it with sudo", "%v", err)
	case err != nil:
		return warn("", "%v", err)
	}
	var found []Finding
	for _, r := range refused {
		found = append(found, warn(r.Hint, "unsupported policy, matching packets are dropped with ipsec.source: xfrm: %v", r)...)
	}
	missing, err := h.ESPMissing()
	switch {
	case err != nil:
		found = append(found, warn("run it with sudo", "%v", err)...)
	case len(missing) > 0 && len(found) == 0:
		return ok("no unsupported policies; this kernel has no ESP for %s, so strongSwan cannot add SAs: for ipsec.source: xfrm, use one with CONFIG_INET_ESP and CONFIG_INET6_ESP",
			strings.Join(missing, " and "))
	case len(found) == 0:
		return ok("no unsupported policies")
	}
	return found
}
