package doctor

// routes warns of unsupported routes, such as those over interfaces that are not ports.
func routes(h *Host) []Finding {
	if len(h.surveyed) == 0 {
		return ok("not checked: name the ports with --port")
	}
	list, warnings, err := h.Survey(h.surveyed)
	if err != nil {
		return warn("", "%v", err)
	}
	var found []Finding
	for _, u := range list {
		by := ""
		if u.Dev != "" {
			by = " over " + u.Dev
		}
		if u.Reason.Exits() {
			found = append(found, ok("%d%s (%s): %s", u.Routes, by, u.List(), u.Reason.Text())...)
			continue
		}
		found = append(found, warn(u.Reason.Hint(), "%d%s (%s): %s", u.Routes, by, u.List(), u.Reason.Text())...)
	}
	for _, text := range warnings {
		found = append(found, warn("", "%s", text)...)
	}
	if len(found) == 0 {
		return ok("all supported")
	}
	return found
}
