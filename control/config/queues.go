package config

import "fmt"

// checkQueues checks that every port has an RX and a TX queue for each worker. It skips running
// ports, and ports whose queues count cannot read.
func (c *Config) checkQueues(running []Port, count func(ifname string) (rx, tx int, err error)) (errs Errors) {
	fewest, narrowest := 0, ""
	for i, p := range c.Ports {
		if p.Pattern() || p.Excludes() {
			continue
		}
		rx, tx, err := count(p.Interface)
		if err != nil || hasPort(running, p.Interface) {
			continue
		}
		if narrowest == "" || rx < fewest {
			fewest, narrowest = rx, p.Interface
		}
		if tx < rx {
			errs = append(errs, c.hostFault(fmt.Sprintf("ports[%d].interface", i),
				fmt.Sprintf("%s has fewer TX queues (%d) than RX queues (%d)", p.Interface, tx, rx),
				fmt.Sprintf("run ethtool -L %s rx %d tx %d", p.Interface, tx, tx)))
		}
	}
	if narrowest != "" && c.Workers > fewest {
		errs = append(errs, c.hostFault("workers", fmt.Sprintf("workers: %d exceeds the number of queues of %s (%d): each worker needs one of every port", c.Workers, narrowest, fewest),
			fmt.Sprintf("write at most %d, 0 for one worker per queue, or add queues (ethtool -L %s)", fewest, narrowest)))
	}
	return errs
}
