package esp

import (
	"reflect"
	"testing"

	"github.com/warproute/warproute/ipsec/gateway"
)

// No entry by key is in two cache lines.
func TestEntriesByKeyAreInOneCacheLine(t *testing.T) {
	const line = 64
	var openers byKey[opener]
	var sealers byKey[Sealer]
	openers.reset(&gateway.Gateway{}, gateway.MaxKeys)
	sealers.reset(&gateway.Gateway{}, gateway.MaxKeys)
	for name, x := range map[string]struct{ at, size uintptr }{
		"opener": {reflect.ValueOf(openers.all).Pointer(), reflect.TypeFor[opener]().Size()},
		"sealer": {reflect.ValueOf(sealers.all).Pointer(), reflect.TypeFor[Sealer]().Size()},
	} {
		if x.at%line != 0 || line%x.size != 0 {
			t.Errorf("%ss begin at %#x and have %d bytes: want multiples and a divisor of %d", name, x.at, x.size, line)
		}
	}
}
