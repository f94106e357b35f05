package mirror

import (
	"testing"
	"time"
)

func TestExpiredRoutesAreDeleted(t *testing.T) {
	w := newWorld(t)
	w.ip(known...)
	opts := defaults
	opts.askEvery = 10 * time.Millisecond // and the interval of lifetime checks
	w.ip("route add fd21::/16 via fd01::2 expires 3", "route add fd21::/16 via fd02::2 metric 2000")
	w.startWith(opts)
	w.ip("route add fd20::/16 via fd01::2 expires 1")
	w.want("fd21::1", lan2)
	w.wantSoon("fd20::1", "none")
	w.wantSoon("fd21::1", wan2)
	// Linux still has it, and could extend its lifetime.
	w.ip("route change fd20::/16 via fd01::2 expires 100")
	w.wantSoon("fd20::1", lan2)
	w.sameAsFresh()
}
