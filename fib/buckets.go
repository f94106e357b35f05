package fib

import "slices"

// owners holds the adjacency that owns each bucket while all paths are live.
type owners [Buckets]uint32

// divide divides the buckets of a group among its paths by weight, with at least one each if
// there are enough. With a previous division, a bucket keeps its adjacency unless the path is
// gone or has too many buckets, so a minimum of flows move.
func divide(paths []Path, was *owners) *owners {
	path := make([]int, Buckets) // by bucket
	spread(path, weights(paths))
	ensureOneEach(path, len(paths))
	if was != nil {
		path = keepOwners(path, paths, was)
	}
	is := &owners{}
	for i, p := range path {
		is[i] = paths[p].Adjacency
	}
	return is
}

// ensureOneEach gives each path without a bucket one of the path with the most. Otherwise it
// would have no flows, and its port would fail strict reverse path filtering.
func ensureOneEach(path []int, paths int) {
	have := make([]int, paths)
	for _, p := range path {
		have[p]++
	}
	for p, n := range have {
		most := slices.Index(have, slices.Max(have))
		if n > 0 || have[most] == 1 { // more paths than buckets
			continue
		}
		path[slices.Index(path, most)] = p
		have[p], have[most] = 1, have[most]-1
	}
}

// keepOwners returns a division with the same counts as path that keeps previous owners where
// possible.
func keepOwners(path []int, paths []Path, was *owners) []int {
	left := make([]int, len(paths)) // buckets left to assign, by path
	for _, p := range path {
		left[p]++
	}
	var free []int
	for i := range path {
		p := 0
		for p < len(paths) && (paths[p].Adjacency != was[i] || left[p] == 0) {
			p++
		}
		if p == len(paths) {
			free = append(free, i)
			continue
		}
		path[i] = p
		left[p]--
	}
	assigned := make([]int, len(free))
	spread(assigned, left)
	for i, bucket := range free {
		path[bucket] = assigned[i]
	}
	return path
}

// buckets returns the adjacency of each bucket, with the buckets of dead paths divided among
// the live ones by weight. A path that fails or returns only moves its own flows. If all paths
// are dead they keep their buckets, and packets are dropped by adjacency or port.
func (o *owners) buckets(paths []Path) [Buckets]uint32 {
	all := [Buckets]uint32(*o)
	live := slices.DeleteFunc(slices.Clone(paths), func(p Path) bool { return p.Dead })
	if len(live) == 0 {
		return all
	}
	var orphaned []int
	for i, adjacency := range o {
		if !slices.ContainsFunc(live, func(p Path) bool { return p.Adjacency == adjacency }) {
			orphaned = append(orphaned, i)
		}
	}
	substitutes := make([]int, len(orphaned))
	spread(substitutes, weights(live))
	for i, bucket := range orphaned {
		all[bucket] = live[substitutes[i]].Adjacency
	}
	return all
}

func weights(paths []Path) []int {
	w := make([]int, len(paths))
	for i, p := range paths {
		w[i] = int(max(p.Weight, 1))
	}
	return w
}

// spread fills list with the indices of weights in proportion, by smooth weighted round-robin.
func spread(list, weights []int) {
	total := 0
	for _, w := range weights {
		total += w
	}
	credit := make([]int, len(weights))
	for i := range list {
		best := 0
		for j, w := range weights {
			credit[j] += w
			if credit[j] > credit[best] {
				best = j
			}
		}
		credit[best] -= total
		list[i] = best
	}
}
