package xfrm

import (
	"fmt"

	"github.com/warproute/warproute/control/rtnl"

	"golang.org/x/sys/unix"
)

// Refused is an unsupported XFRM policy.
type Refused struct {
	Policy    string // its selector
	Direction string // in or out
	Reason    string
	Hint      string
}

func (r Refused) String() string { return fmt.Sprintf("%s (%s): %s", r.Policy, r.Direction, r.Reason) }

// RefusedPolicies lists the unsupported policies of the calling thread's network namespace,
// newest first. It needs CAP_NET_ADMIN, and fails with EPROTONOSUPPORT on a kernel without XFRM.
func RefusedPolicies() (list []Refused, err error) {
	conn, err := rtnl.DialFamily(unix.NETLINK_XFRM)
	if err != nil {
		return nil, fmt.Errorf("connect to XFRM: %w", err)
	}
	defer conn.Close()
	var d dump
	if err := conn.Dump(rtnl.NewQuery(msgGetPolicy, nil), d.policy); err != nil {
		return nil, fmt.Errorf("read XFRM policies: %w", err)
	}
	for _, p := range d.policies {
		if p.refusal != "" && !p.socket {
			list = append(list, Refused{p.Policy.String(), p.direction.String(), p.refusal, refusedHint})
		}
	}
	return list, nil
}

// refusedHint says how to fix a refused policy.
const refusedHint = "change the policy to one ESP template without mark, interface and user, or delete it"
