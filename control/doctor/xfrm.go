package doctor

import (
	"errors"

	"golang.org/x/sys/unix"
)

// xfrmPolicies warns of unsupported policies, whose packets the router drops
// (xfrm_policy_refused).
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
	if len(found) == 0 {
		return ok("no unsupported policies")
	}
	return found
}
