package config

import (
	"fmt"
	"slices"
)

// checkQueues checks that the ports have queues for the workers, as count tells how many an
// interface has. Of a port that is among those running, or has no interface, it asks nothing.
func (c *Config) checkQueues(running []Port, count func(ifname string) (rx, tx int, err error)) (errs Errors) {
	fewest, of := 0, ""
	for i, p := range c.Ports {
		rx, tx, err := count(p.Interface)
		if err != nil || slices.ContainsFunc(running, func(r Port) bool { return r.Interface == p.Interface }) {
			continue
		}
		if of == "" || rx < fewest {
			fewest, of = rx, p.Interface
		}
		if tx < rx {
			errs = append(errs, c.lacking(fmt.Sprintf("ports[%d].interface", i),
				fmt.Sprintf("%s has fewer queues to transmit on (%d) than to receive on (%d), and each must do both", p.Interface, tx, rx),
				fmt.Sprintf("ethtool -L %s rx %d tx %d", p.Interface, tx, tx)))
		}
	}
	if of != "" && c.Workers > fewest {
		errs = append(errs, c.lacking("workers", fmt.Sprintf("workers: %d, and %s has queues for %d: each worker needs one of every port", c.Workers, of, fewest),
			fmt.Sprintf("write at most %d, 0 for as many as there can be, or give %s more (ethtool -L %s)", fewest, of, of)))
	}
	return errs
}
