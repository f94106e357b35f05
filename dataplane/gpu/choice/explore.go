package choice

const (
	exploreShare = 1. / 1024 // of all time, that exploration may lose
	exploreMost  = 100e3     // nanoseconds that one exploration is predicted to lose
	exploreFirst = 20e3      // nanoseconds that the first explorations may lose
	exploreAfter = 512       // chunks of a class with the same engine
	exploreEarly = 16        // the same, until the other one has finished enoughChunks
	enoughChunks = 8
	maxDebt      = 10e6 // nanoseconds
)

// explorer gives the worse engine a chunk from time to time, so that its estimates stay fresh. The time lost
// is bounded: a budget grows with the time of all chunks. A chunk that took longer than predicted is
// charged, too.
type explorer struct {
	last   [NumClasses]Engine
	chunks [NumClasses]int // since the other engine had one
	budget float64         // nanoseconds
}

func newExplorer() explorer { return explorer{budget: exploreFirst} }

// choose returns the engine with the lower score, or the other one.
func (e *explorer) choose(c *Chooser, class Class, scores *[NumEngines]float64) (Engine, Reason) {
	best := CPU
	if scores[GPU] < scores[CPU] {
		best = GPU
	}
	if best != e.last[class] {
		e.last[class], e.chunks[class] = best, 0
	}
	other := 1 - best
	e.chunks[class]++
	e.budget = min(e.budget+scores[best]*exploreShare, exploreMost)
	after := exploreAfter
	if c.engine[other][class].observed < enoughChunks {
		after = exploreEarly
	}
	loss := scores[other] - scores[best]
	if e.chunks[class] < after || loss > e.budget {
		return best, Sooner
	}
	e.chunks[class] = 0
	e.budget -= loss
	return other, Explored
}

// charge subtracts the time by which an explored chunk took longer than predicted.
func (e *explorer) charge(nanoseconds float64) {
	e.budget = max(e.budget-max(nanoseconds, 0), -maxDebt)
}
