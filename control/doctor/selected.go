package doctor

import "github.com/warproute/warproute/control/config"

// TakenPorts returns the names of the interfaces that a configuration takes as ports.
func TakenPorts(all []config.Selection) (names []string) {
	for _, s := range all {
		if s.Taken {
			names = append(names, s.Interface)
		}
	}
	return names
}

// Selected reports why interfaces are ports of a configuration, or are not.
func Selected(all []config.Selection) (found []Finding) {
	taken := false
	for _, s := range all {
		f := Finding{Check: "port", Port: s.Interface, Level: OK, Found: "not a port: " + s.Reason}
		if s.Taken {
			f.Found, taken = "a port: "+s.Reason, true
		}
		found = append(found, f)
	}
	if len(all) > 0 && !taken {
		found = append(found, Finding{Check: "ports", Level: Warn, Found: "no interface is a port now", Hint: "set an interface up that matches ports, or change the patterns; set workers, which are one otherwise"})
	}
	return found
}
