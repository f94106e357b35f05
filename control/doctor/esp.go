package doctor

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/xfrm"
)

// ESP checks, for a configuration that follows Linux's SAs, whether Linux can have SAs.
func ESP(c *config.Config) []Finding {
	if c.IPsec.Source != config.SourceXFRM {
		return nil
	}
	return espFinding(xfrm.ESPMissing())
}

func espFinding(missing []string, err error) []Finding {
	f := Finding{Check: "ESP", Level: OK, Found: "Linux can have SAs"}
	switch {
	case errors.Is(err, unix.EPERM):
		f.Level, f.Found, f.Hint = Warn, err.Error(), "run it with sudo"
	case err != nil:
		f.Level, f.Found = Warn, err.Error()
	case len(missing) > 0:
		f.Level, f.Hint = Warn, "use a kernel with CONFIG_INET_ESP and CONFIG_INET6_ESP, and let it load the modules esp4 and esp6"
		f.Found = fmt.Sprintf("Linux refuses SAs for %s: strongSwan cannot add any for ipsec.source: xfrm", strings.Join(missing, " and "))
	}
	return []Finding{f}
}
