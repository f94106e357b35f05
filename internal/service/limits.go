package service

import (
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/packet/icmp"
)

// errorLimits are the configuration's, as workers have them.
func errorLimits(c config.ICMP) icmp.Limits {
	return icmp.Limits{
		Global: icmp.Rate{PerSecond: c.PerSecond, Burst: c.Burst},
		Source: icmp.Rate{PerSecond: c.SourcePerSecond, Burst: c.SourceBurst},
	}
}
