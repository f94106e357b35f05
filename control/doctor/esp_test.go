package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/xfrm"
)

func TestKernelsWithoutESPAreReported(t *testing.T) {
	for _, c := range []struct {
		missing []string
		err     error
		level   Level
		found   string
		hint    string
	}{
		{nil, nil, OK, "Linux can have SAs", ""},
		{[]string{"IPv6"}, nil, Warn, "Linux refuses SAs for IPv6: ", "CONFIG_INET_ESP"},
		{[]string{"IPv4", "IPv6"}, nil, Warn, "Linux refuses SAs for IPv4 and IPv6: ", "esp6"},
		{nil, fmt.Errorf("ask: %w", unix.EPERM), Warn, "not permitted", "sudo"},
		{nil, unix.ENOMEM, Warn, "cannot allocate", ""},
	} {
		f := espFinding(c.missing, c.err)
		if len(f) != 1 || f[0].Level != c.level || !strings.Contains(f[0].Found, c.found) || !strings.Contains(f[0].Hint, c.hint) {
			t.Errorf("%v, %v: %+v", c.missing, c.err, f)
		}
	}
	cfg := config.Default("lan0")
	if f := ESP(cfg); f != nil {
		t.Errorf("without Linux's SAs: %+v", f)
	}
	cfg.IPsec.Source = config.SourceXFRM
	if f := ESP(cfg); !slices.Equal(f, espFinding(xfrm.ESPMissing())) {
		t.Errorf("with Linux's SAs: %+v", f)
	}
}
