package doctor

import (
	"errors"

	"golang.org/x/sys/unix"
)

// xfrmPolicies warns of policies that the router would refuse: it drops the packets that they
// match (xfrm_policy_refused).
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
		found = append(found, warn(r.Hint, "with ipsec.source xfrm, a policy is refused and what it matches is dropped: %v", r)...)
	}
	if len(found) == 0 {
		return ok("no policy that a router would refuse")
	}
	return found
}
