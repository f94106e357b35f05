package scaleout

import (
	"math"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab/labtest"
)

// Flows of the routers that stay keep their router and lose nothing. Those of a failed router are back
// within a second, and a router that joins takes its share and no more.
func TestScaleOut(t *testing.T) {
	if !fullScale() {
		t.Skip("WARPROUTE_SCALE=full runs it (make test-scale)")
	}
	b := newBed(t)
	for n := 1; n < routers; n++ {
		b.service(n)
	}
	b.await(routers - 1)
	b.load = startLoad(t, b.network["client"], b.network["server"], b.spine.ns, b.leaf.ns)

	b.phase("r4 added", func() { b.service(4); b.await(routers) }).joins(4).lossless()
	t.Logf("%s", b.spine.sh(b.block("Check")))

	b.phase("warproute of r2 killed", func() { b.kill(2); b.await(3) }).leaves(2, time.Second)
	b.phase("warproute of r3 stuck", func() { b.signal(3, unix.SIGSTOP); b.await(2) }).leaves(3, time.Second)
	b.phase("r3 still stuck", func() { time.Sleep(3 * time.Second) }).lossless()
	b.kill(3)
	links := func(state string) {
		labtest.IP(t, b.router[1].ns, "link set eth1 "+state, "link set eth2 "+state)
	}
	b.phase("links of r1 down", func() { links("down"); b.await(1) }).leaves(1, time.Second)
	b.phase("r1, r2 and r3 in use again", func() {
		links("up")
		b.service(2)
		b.service(3)
		b.await(routers)
	}).joins(1, 2, 3).lossless()

	b.phase("r4 drained", func() { b.router[4].sh(b.block("Drain a router")); b.await(routers - 1) }).leaves(4, time.Second).lossless()
	b.phase("warproute of r4 stopped", func() { b.router[4].stopRouter() }).lossless()
	b.phase("r4 in use again", func() {
		b.service(4)
		b.router[4].sh(b.block("Use it again"))
		b.await(routers)
	}).joins(4).lossless()

	b.defaultGroups()
	b.phase("r4 drained, default groups", func() { b.router[4].sh(b.block("Drain a router")); b.await(routers - 1) }).lossless().movedBeyond(4)
	b.phase("r4 in use again, default groups", func() { b.router[4].sh(b.block("Use it again")); b.await(routers) }).lossless().movedBeyond(4)

	b.distributor()
	b.phase("r4 drained, warproute as spine", func() { b.router[4].sh(b.block("Drain a router")); b.await(routers - 1) }).only(out).leaves(4, time.Second).lossless()
	b.phase("r4 in use again, warproute as spine", func() { b.router[4].sh(b.block("Use it again")); b.await(routers) }).only(out).joins(4).lossless()

	b.withoutEcho(4)
	for n := 1; n < routers; n++ {
		b.router[n].stopRouter()
	}
	b.spine.stopRouter()
}

// withoutEcho kills a router whose unit has no stop commands: BFD alone does not notice it, its echo
// packets do.
func (b *bed) withoutEcho(n int) {
	b.t.Helper()
	echo := func(command string) {
		for _, end := range []*node{b.spine, b.leaf} {
			end.sh("vtysh -c 'configure terminal' -c bfd -c 'profile routers' -c '" + command + "'")
		}
	}
	echo("no echo-mode")
	b.router[n].keepSessions.Store(true)
	p := b.phase("warproute of r4 killed, without echo", func() { b.kill(n); time.Sleep(2 * time.Second) })
	if b.spine.paths(servers) != routers || b.leaf.paths(clients) != routers {
		b.t.Errorf("%s: it is noticed", p.what)
	}
	for i, f := range p.flows {
		if f.was[out] == n && f.outage < time.Second {
			p.errorf("%s: flow %d, router %v, then %v: an outage of %v", p.what, i, f.was, f.is, f.outage)
		}
	}
	echo("echo-mode")
	b.await(routers - 1)
}

// defaultGroups returns spine and leaf to the groups that FRR installs.
func (b *bed) defaultGroups() {
	b.t.Helper()
	for _, n := range []*node{b.spine, b.leaf} {
		end(n.resilient)
		n.resilient = nil
		n.sh("ip rule del pref 100")
	}
	time.Sleep(3 * interval)
}

// distributor starts a router in the spine, which distributes flows in place of Linux.
func (b *bed) distributor() {
	b.t.Helper()
	b.spine.startRouter("ports: [eth0, eth1, eth2, eth3, eth4]\n", "")
	time.Sleep(3 * interval)
}

// phase is the flows during a change.
type phase struct {
	*bed
	what       string
	flows      []flow
	directions []int // compared
	dropped    int   // by queues of links
	errors     int
}

// only compares one direction.
func (p *phase) only(direction int) *phase {
	p.directions = []int{direction}
	return p
}

// phase makes a change and returns the flows meanwhile.
func (b *bed) phase(what string, change func()) *phase {
	b.t.Helper()
	start, dropped := time.Now(), b.dropped()
	b.begin()
	change()
	time.Sleep(3 * interval)
	p := &phase{bed: b, what: what, flows: b.end(), directions: []int{out, back}, dropped: b.dropped() - dropped}
	var moved, lost int
	outages := []time.Duration{0}
	for _, f := range p.flows {
		if f.is != f.was {
			moved++
		}
		lost += f.lost
		if f.outage > 0 {
			outages = append(outages, f.outage.Round(time.Millisecond))
		}
	}
	slices.Sort(outages)
	b.t.Logf("%s, %.1f s: %d of %d flows moved, %d packets lost (%d by queues of links), outages of %d flows: median %v, longest %v",
		what, time.Since(start).Seconds(), moved, len(p.flows), lost, p.dropped, len(outages)-1, outages[len(outages)/2], outages[len(outages)-1])
	return p
}

// errorf fails the test and reports the first errors of a phase.
func (p *phase) errorf(format string, args ...any) {
	p.t.Helper()
	p.t.Fail()
	if p.errors++; p.errors <= 5 {
		p.t.Logf(format, args...)
	}
}

// lossless fails the test if packets were lost, except by queues of links: the machine stalled.
func (p *phase) lossless() *phase {
	p.t.Helper()
	return p.lostOnly(func(flow) bool { return false })
}

// lostOnly fails the test if packets of other flows were lost.
func (p *phase) lostOnly(may func(flow) bool) *phase {
	p.t.Helper()
	stalled := p.dropped
	for i, f := range p.flows {
		if f.lost == 0 || may(f) {
			continue
		}
		if stalled -= f.lost; stalled < 0 {
			p.errorf("%s: flow %d, router %v, then %v: %d packets lost, outage of %v", p.what, i, f.was, f.is, f.lost, f.outage)
		}
	}
	return p
}

// joins fails the test unless only the share of routers moved, and only to them.
func (p *phase) joins(joined ...int) *phase {
	p.t.Helper()
	for _, direction := range p.directions {
		moved := 0
		for i, f := range p.flows {
			if f.is[direction] == f.was[direction] {
				continue
			}
			if moved++; !slices.Contains(joined, f.is[direction]) {
				p.errorf("%s: flow %d moved from %v to %v", p.what, i, f.was, f.is)
			}
		}
		p.share(moved, float64(len(joined))/routers)
	}
	return p
}

// share fails the test unless a number of moved flows is a share of all, within four standard
// deviations.
func (p *phase) share(n int, share float64) {
	p.t.Helper()
	deviation := math.Sqrt(flows * share * (1 - share))
	if math.Abs(float64(n)-flows*share) > 4*deviation {
		p.errorf("%s: %d of %d flows moved, want %.0f", p.what, n, flows, flows*share)
	}
}

// leaves fails the test unless the flows of a router moved, and are back within a time, and the others
// kept their routers and lost nothing.
func (p *phase) leaves(router int, within time.Duration) *phase {
	p.t.Helper()
	affected := func(f flow) bool { return f.was[out] == router || f.was[back] == router }
	for i, f := range p.flows {
		for _, direction := range p.directions {
			if f.was[direction] == router == (f.is[direction] == f.was[direction]) {
				p.errorf("%s: flow %d passed %v, then %v", p.what, i, f.was, f.is)
			}
		}
		if affected(f) && f.outage > within {
			p.errorf("%s: flow %d, router %v, then %v: an outage of %v", p.what, i, f.was, f.is, f.outage)
		}
	}
	return p.lostOnly(affected)
}

// movedBeyond fails the test unless many flows moved between routers that stay, as they do with default
// groups when another one leaves or joins.
func (p *phase) movedBeyond(router int) {
	p.t.Helper()
	moved, stayed := 0, 0
	for _, f := range p.flows {
		for direction := range f.was {
			if was, is := f.was[direction], f.is[direction]; was != router && is != router {
				stayed++
				if was != is {
					moved++
				}
			}
		}
	}
	p.t.Logf("%s: %d of %d flows moved between routers that stay", p.what, moved, stayed)
	if moved < stayed/10 {
		p.errorf("%s: %d of %d flows moved between routers that stay; docs/howto/scale-out.md expects more", p.what, moved, stayed)
	}
}
