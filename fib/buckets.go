package fib

import "slices"

// shares is whose each bucket of a group is while all paths live, by adjacency.
type shares [Buckets]uint32

// share gives the buckets of a group to its paths, by weight, and one at least to each as
// long as there are enough. Where they were given before (was is not nil), a bucket stays
// with its adjacency, unless that is not among the paths any more or had more than is its
// due: so no flow moves that need not.
func share(paths []Path, was *shares) *shares {
	owner := make([]int, Buckets)
	deal(owner, weights(paths))
	leaveNoneOut(owner, len(paths))
	if was != nil {
		owner = keep(owner, paths, was)
	}
	is := &shares{}
	for i, p := range owner {
		is[i] = paths[p].Adjacency
	}
	return is
}

// leaveNoneOut gives each path that has no bucket one of the path that has most: no flow
// would ever take it, nor would its port be one that leads to the route's destinations.
func leaveNoneOut(owner []int, paths int) {
	have := make([]int, paths)
	for _, p := range owner {
		have[p]++
	}
	for p, n := range have {
		most := slices.Index(have, slices.Max(have))
		if n > 0 || have[most] == 1 { // or more paths than buckets
			continue
		}
		owner[slices.Index(owner, most)] = p
		have[p], have[most] = 1, have[most]-1
	}
}

// keep returns owners of the buckets who have as many as in owner, and as far as that goes
// those that they had before.
func keep(owner []int, paths []Path, was *shares) []int {
	due := make([]int, len(paths)) // how many buckets each is still to have
	for _, p := range owner {
		due[p]++
	}
	var free []int
	for i := range owner {
		p := 0
		for p < len(paths) && (paths[p].Adjacency != was[i] || due[p] == 0) {
			p++
		}
		if p == len(paths) {
			free = append(free, i)
			continue
		}
		owner[i] = p
		due[p]--
	}
	var takers, theirs []int
	for p, n := range due {
		if n > 0 {
			takers, theirs = append(takers, p), append(theirs, n)
		}
	}
	taken := make([]int, len(free))
	deal(taken, theirs)
	for i, bucket := range free {
		owner[bucket] = takers[taken[i]]
	}
	return owner
}

// buckets returns which adjacency the flows of each bucket take: those of dead paths are
// dealt to the living, by weight. So the death of a path moves only the flows that it
// carried, and its return only those back. Where all paths are dead, they keep their
// buckets: the packets are dropped with the reason that their adjacency or port gives.
func (s *shares) buckets(paths []Path) [Buckets]uint32 {
	take := [Buckets]uint32(*s)
	living := slices.DeleteFunc(slices.Clone(paths), func(p Path) bool { return p.Dead })
	if len(living) == 0 {
		return take
	}
	var orphans []int
	for i, adjacency := range s {
		if !slices.ContainsFunc(living, func(p Path) bool { return p.Adjacency == adjacency }) {
			orphans = append(orphans, i)
		}
	}
	heirs := make([]int, len(orphans))
	deal(heirs, weights(living))
	for i, bucket := range orphans {
		take[bucket] = living[heirs[i]].Adjacency
	}
	return take
}

func weights(paths []Path) []int {
	w := make([]int, len(paths))
	for i, p := range paths {
		w[i] = int(max(p.Weight, 1))
	}
	return w
}

// deal fills owner with indices of the weights, each as often as its weight asks for,
// interleaved (smooth weighted round robin).
func deal(owner, weights []int) {
	total := 0
	for _, w := range weights {
		total += w
	}
	credit := make([]int, len(weights))
	for i := range owner {
		best := 0
		for j, w := range weights {
			credit[j] += w
			if credit[j] > credit[best] {
				best = j
			}
		}
		credit[best] -= total
		owner[i] = best
	}
}
