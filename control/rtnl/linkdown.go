package rtnl

import "golang.org/x/sys/unix"

// ChangesLinkdown reports whether an RTM_NEWNETCONF message announces a change of
// ignore_routes_with_linkdown. It ignores messages about new interfaces, which contain all
// settings.
func ChangesLinkdown(data []byte) (bool, error) {
	_, a := Header(data, unix.SizeofRtGenmsg)
	linkdown, all := false, false
	for a.Next() {
		linkdown = linkdown || a.Kind == netconfIgnoresLinkdown
		all = all || a.Kind == netconfForwarding
	}
	return linkdown && !all, wrap("settings message", a.Err)
}
