package doctor

import (
	"strings"

	"github.com/warproute/warproute/control/guard"
)

// guarded returns the interfaces from and to which a gateway keeps Linux from forwarding.
func guarded() ([]string, error) {
	t, err := guard.Open()
	if err != nil {
		return nil, err
	}
	defer t.Close()
	return t.Guarded()
}

// Running returns which interfaces have the XDP program of a router.
func Running(names []string) []string { return running(names, findLink) }

func running(names []string, find func(string) (*Link, error)) (on []string) {
	for _, name := range names {
		if l, err := find(name); err == nil && l.Ours {
			on = append(on, name)
		}
	}
	return on
}

// guardOf looks at whether Linux is kept from forwarding past a gateway's policies.
func guardOf(h *Host) []Finding {
	names, err := h.Guarded()
	switch {
	case err != nil:
		return warn("", "%v", err)
	case len(names) == 0:
		return ok("Linux forwards as its settings say; a gateway will keep it from forwarding from and to its ports")
	case len(running(names, h.Link)) == 0:
		return warn("sudo warproute run, or sudo warproute release to let Linux forward, in cleartext",
			"a gateway that has ended keeps Linux from forwarding from and to %s, until another runs", strings.Join(names, ", "))
	}
	return ok("a running gateway keeps Linux from forwarding from and to %s", strings.Join(names, ", "))
}
