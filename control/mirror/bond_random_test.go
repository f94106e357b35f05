package mirror

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"
)

// After random messages about a bond and its members, the members are used as by a mirror that gets the last
// messages only, in any order.
func TestRandomBondMessages(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		mode := bondModes[rnd.IntN(len(bondModes))]
		b := newBonded(t, mode)
		b.set()
		now := map[int]rtnl.Link{5: b.bond} // by index
		for _, m := range b.member {
			now[m.Index] = m
		}
		next := 20 // index of the next new link
		for range 40 {
			index := []int{5, 2, 3, 4}[rnd.IntN(4)]
			name := []string{"bond0", "", "a", "b", "c"}[map[int]int{5: 0, 2: 2, 3: 3, 4: 4}[index]]
			for i, l := range now { // the current link of that name
				if l.Name == name {
					index = i
				}
			}
			l, exists := now[index]
			switch {
			case !exists: // comes back with another index
				l = rtnl.Link{Index: next, Name: name, Flags: upFlags, Address: [6]byte{2, 5: 5}, MTU: 1500}
				if next++; name == "bond0" {
					l.Kind, l.Bond = "bond", rtnl.Bond{Mode: mode}
				}
			case rnd.IntN(12) == 0:
				b.deleteLink(index)
				delete(now, index)
				for i, m := range now { // Linux releases the members of a bond before
					if m.Master == index {
						m.Master, m.SlaveOf, m.Member = 0, "", rtnl.BondMember{}
						now[i] = m
						b.setLink(&m)
					}
				}
				b.writeChanges()
				continue
			case l.Kind == "bond":
				l.Flags = []uint32{upFlags, upFlags, unix.IFF_UP, 0}[rnd.IntN(4)]
				l.Bond = rtnl.Bond{Mode: mode, Active: []int{0, 2, 3, 4}[rnd.IntN(4)], Aggregator: uint16(1 + rnd.IntN(2)), AllActive: rnd.IntN(4) == 0}
				if l.Master = 0; rnd.IntN(8) == 0 {
					l.Master, l.SlaveOf = 99, "bridge"
				}
			default:
				l.Flags = []uint32{upFlags, upFlags, unix.IFF_UP, 0}[rnd.IntN(4)]
				l.Master, l.SlaveOf, l.Member = 0, "", rtnl.BondMember{}
				for i, m := range now {
					if m.Kind == "bond" && rnd.IntN(4) > 0 {
						l.Master, l.SlaveOf = i, "bond"
						l.Member = rtnl.BondMember{Backup: rnd.IntN(2) == 0, Failed: rnd.IntN(4) == 0, Aggregator: uint16(1 + rnd.IntN(2))}
					}
				}
			}
			now[l.Index] = l
			b.setLink(&l)
			b.writeChanges()
		}
		checkState(t, b.state)

		fresh := newBonded(t, mode)
		for i := range fresh.ports[1:] { // the links that exist now
			p := &fresh.ports[1+i]
			p.Ifindex = -1
			for _, l := range now {
				if l.Name == p.Name {
					p.Ifindex = l.Index
				}
			}
		}
		order := make([]rtnl.Link, 0, len(now))
		for _, l := range now {
			order = append(order, l)
		}
		rnd.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, l := range order {
			fresh.setLink(&l)
		}
		fresh.writeChanges()
		if got, want := used(b), used(fresh); got != want {
			t.Fatalf("seed %d: %s\nfresh: %s", seed, got, want)
		}
	}
}

// used describes the bond of a state, without its number.
func used(b *bonded) string {
	bond := b.bonds[0]
	if bond.ifindex == 0 {
		return "no port"
	}
	var live []uint16
	if m := b.fib.Bonds.Members(uint16(bond.number)); m != nil {
		for i := range uint32(fib.Buckets) {
			if p := m.Port(i << 24); !slices.Contains(live, p) {
				live = append(live, p)
			}
		}
	}
	slices.Sort(live)
	p := b.fib.Port(uint16(bond.number))
	return fmt.Sprintf("link %d, members%s, ports %v, MTU %d, %v", bond.ifindex, membersText(bond.members), live, p.MTU(), p.MAC())
}
