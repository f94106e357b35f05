package fib

// fillBuckets shares the buckets of a group out to its paths by weight.
//
// Every path, dead or alive, is given its share in turn; then the buckets of
// dead paths are dealt to the living ones, by weight again. So the death of a
// path moves only the flows that it carried, and its return only those back.
// Where all paths are dead, they keep their buckets: the packets are dropped
// with the reason that their adjacency or port gives.
func fillBuckets(buckets *[Buckets]uint32, paths []Path) {
	var owner [Buckets]int
	deal(owner[:], paths, func(Path) bool { return true })

	var orphans []int
	for i, p := range owner {
		if paths[p].Dead {
			orphans = append(orphans, i)
		}
	}
	heirs := make([]int, len(orphans))
	if deal(heirs, paths, func(p Path) bool { return !p.Dead }) {
		for i, bucket := range orphans {
			owner[bucket] = heirs[i]
		}
	}
	for i, p := range owner {
		buckets[i] = paths[p].Adjacency
	}
}

// deal fills owner with indices of the paths that take part, each as often as
// its weight asks for, interleaved (smooth weighted round robin). It reports
// false, and leaves owner alone, if none takes part.
func deal(owner []int, paths []Path, takesPart func(Path) bool) bool {
	total := 0
	for _, p := range paths {
		if takesPart(p) {
			total += int(max(p.Weight, 1))
		}
	}
	if total == 0 {
		return false
	}
	credit := make([]int, len(paths))
	for i := range owner {
		best := -1
		for j, p := range paths {
			if !takesPart(p) {
				continue
			}
			credit[j] += int(max(p.Weight, 1))
			if best < 0 || credit[j] > credit[best] {
				best = j
			}
		}
		credit[best] -= total
		owner[i] = best
	}
	return true
}
