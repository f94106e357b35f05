package doctor

// routes warns of routes that the router would not follow as Linux does, such as those by
// interfaces that are not ports: what takes them, the router drops.
func routes(h *Host) []Finding {
	if len(h.surveyed) == 0 {
		return ok("not examined: name the ports by --port")
	}
	list, err := h.Survey(h.surveyed)
	if err != nil {
		return warn("", "%v", err)
	}
	var found []Finding
	for _, u := range list {
		by := ""
		if u.Dev != "" {
			by = " by " + u.Dev
		}
		found = append(found, warn(u.Reason.Hint(), "%d%s (%s): %s", u.Routes, by, u.List(), u.Reason.Text())...)
	}
	if len(found) == 0 {
		return ok("all lead by ports")
	}
	return found
}
