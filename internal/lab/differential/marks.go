package differential

import (
	"net/netip"
	"time"
)

// firstMark is the first number of a mark.
const firstMark = 1 << 31

// mark sends marks that the router forwards to each side, refuses, and answers. It returns the number of
// the first.
func (c *Contender) mark(side int) (first uint32) {
	first = firstMark + c.used
	send := func(dst netip.Addr, ttl byte, proto byte) {
		p := &Probe{id: firstMark + c.used, side: side}
		p.ipv4(side4(side, 2), dst, ttl, proto)
		c.Send(side, p.frame)
		c.used++
	}
	for to := range sides {
		send(side4(to, 3), 64, 17)
	}
	send(side4((side+1)%Sides, 3), 1, 17)
	send(side4(side, 1), 64, 1)
	return first
}

// missing returns the marks from first that have not left the router, relative to first.
func (c *Contender) missing(first uint32) (missing []uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for m := first; m < firstMark+c.used; m++ {
		if !c.marks[m] {
			missing = append(missing, m-first)
		}
	}
	return missing
}

// Settle waits until all packets from a side have left the router, by marks behind them.
func (c *Contender) Settle(side int) {
	c.t.Helper()
	first := c.mark(side)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Microsecond) {
		missing := c.missing(first)
		if len(missing) == 0 {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%s: marks %[3]v from %[2]s did not leave the router", c.name, sides[side], missing)
		}
	}
}

// await waits until the router forwards from all sides.
func (c *Contender) await() {
	c.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		var missing [Sides][]uint32
		done := true
		for side := range sides {
			first := c.mark(side)
			for wait := time.Now().Add(300 * time.Millisecond); ; time.Sleep(time.Millisecond) {
				if missing[side] = c.missing(first); len(missing[side]) == 0 || time.Now().After(wait) {
					break
				}
			}
			done = done && len(missing[side]) == 0
		}
		if done {
			break
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%s does not forward: of the marks from %v, these are missing: %v", c.name, sides, missing)
		}
	}
	c.forget()
}
