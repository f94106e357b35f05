package rtnl

import "golang.org/x/sys/unix"

// TellsOfLinkdown reports whether a message (RTM_NEWNETCONF) says that
// ignore_routes_with_linkdown was changed. Messages about new interfaces, which have all
// settings, do not count.
func TellsOfLinkdown(data []byte) (bool, error) {
	_, a := Header(data, unix.SizeofRtGenmsg)
	linkdown, all := false, false
	for a.Next() {
		linkdown = linkdown || a.Kind == netconfIgnoresLinkdown
		all = all || a.Kind == netconfForwarding
	}
	return linkdown && !all, wrap("settings message", a.Err)
}
