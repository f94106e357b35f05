package doctor

import (
	"strings"

	"github.com/warproute/warproute/control/guard"
)

// allVLANs stands for the interfaces of guard.Table.GuardStacked.
const allVLANs = "all VLANs"

// guarded returns the interfaces whose forwarding in Linux a gateway blocks.
func guarded() ([]string, error) {
	t, err := guard.Open()
	if err != nil {
		return nil, err
	}
	defer t.Close()
	names, err := t.Guarded()
	if err != nil {
		return nil, err
	}
	stacked, err := t.GuardsStacked()
	if stacked {
		names = append(names, allVLANs)
	}
	return names, err
}

// Running returns the interfaces with the XDP program of a router.
func Running(names []string) []string { return running(names, findLink) }

func running(names []string, find func(string) (*Link, error)) (on []string) {
	for _, name := range names {
		if l, err := find(name); err == nil && l.IsRouter {
			on = append(on, name)
		}
	}
	return on
}

// guardOf checks whether Linux forwarding past the policies of a gateway is blocked.
func guardOf(h *Host) []Finding {
	names, err := h.Guarded()
	switch {
	case err != nil:
		return warn("", "%v", err)
	case len(names) == 0:
		return ok("not active; a gateway blocks Linux forwarding from and to its ports")
	case len(running(names, h.Link)) == 0:
		return warn("start the gateway, or sudo warproute release to permit Linux forwarding, in cleartext",
			"a stopped gateway still blocks Linux forwarding from and to %s", strings.Join(names, ", "))
	}
	return ok("a running gateway blocks Linux forwarding from and to %s", strings.Join(names, ", "))
}
