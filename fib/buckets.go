package fib

import "slices"

// shares holds the owner of each bucket while all paths are live, by adjacency.
type shares [Buckets]uint32

// share divides the buckets of a group among its paths by weight, with at least one each if
// there are enough. With a previous division, a bucket keeps its adjacency unless the path is
// gone or has too many buckets, so a minimum of flows move.
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

// leaveNoneOut gives each path without a bucket one of the path with the most. Otherwise it
// would have no flows, and its port would fail the reverse path check.
func leaveNoneOut(owner []int, paths int) {
	have := make([]int, paths)
	for _, p := range owner {
		have[p]++
	}
	for p, n := range have {
		most := slices.Index(have, slices.Max(have))
		if n > 0 || have[most] == 1 { // more paths than buckets
			continue
		}
		owner[slices.Index(owner, most)] = p
		have[p], have[most] = 1, have[most]-1
	}
}

// keep returns a division with the same counts as owner that keeps previous owners where
// possible.
func keep(owner []int, paths []Path, was *shares) []int {
	due := make([]int, len(paths)) // buckets left to assign, by path
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

// buckets returns the adjacency of each bucket, with the buckets of dead paths divided among
// the live ones by weight. A path that fails or returns only moves its own flows. If all paths
// are dead they keep their buckets, and packets are dropped by adjacency or port.
func (s *shares) buckets(paths []Path) [Buckets]uint32 {
	take := [Buckets]uint32(*s)
	live := slices.DeleteFunc(slices.Clone(paths), func(p Path) bool { return p.Dead })
	if len(live) == 0 {
		return take
	}
	var orphans []int
	for i, adjacency := range s {
		if !slices.ContainsFunc(live, func(p Path) bool { return p.Adjacency == adjacency }) {
			orphans = append(orphans, i)
		}
	}
	successors := make([]int, len(orphans))
	deal(successors, weights(live))
	for i, bucket := range orphans {
		take[bucket] = live[successors[i]].Adjacency
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

// deal fills owner with the indices of weights in proportion, by smooth weighted round robin.
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
