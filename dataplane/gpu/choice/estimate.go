package choice

import "time"

// Indices of terms.
const (
	fixed    = iota // per chunk
	packets         // per packet
	bytes           // per byte
	backlog         // per byte of the GPU's backlog
	numTerms = iota
)

// terms are the quantities of a chunk, or costs in nanoseconds per unit.
type terms [numTerms]float64

const (
	keep        = 1 - 1./32              // weight of earlier observations after each observation
	forgetAfter = 200 * time.Millisecond // without observations until they weigh half
	ridge       = 0.02                   // weight of the usual factors, in observations
	usualWeight = 1. / 512               // of an observation in the usual factors
	minFactor   = 1. / 64
	maxFactor   = 64.
	sample      = 4   // one in this many observations counts, for all of them
	surprise    = 1.5 // ratio of measured and predicted time of which all count

	outlier   = 2. // smallest ratio of measured and predicted time
	maxStreak = 5  // 2^5 is the largest ratio that is learned at once
	newRegime = 3  // outliers in a row: a lasting change, not accidents

	keepInRegime = 0.75 // as keep, after that many outliers
)

// estimate learns the time of chunks of a class on an engine. The time is a sum of terms; each has a
// prior cost and a learned factor. The factors minimize the squared relative errors of recent
// observations (exponentially weighted least squares), by a step of coordinate descent per observation,
// which keeps them positive. Where recent chunks cannot tell terms apart, a weak pull to the usual
// factors decides.
//
// To save time, most observations near the prediction are skipped.
//
// Outliers, such as a preempted thread, are cut to twice the predicted time, the second in a row to
// four times, and so on, so that a lasting change is learned after a few chunks. accidents has the cut parts.
type estimate struct {
	prior    terms
	factor   terms
	usual    terms                       // slow means of the factors
	products [numTerms][numTerms]float64 // weighted sums of products of shares; lower triangle
	sums     terms                       // weighted sums of share times measured ÷ predicted
	last     time.Duration               // last observation
	observed int

	streak      int           // outliers in a row; negative: observations below half of the prediction
	outlierSeen time.Duration // observation of the last one
	accidents   accidents
}

func newEstimate(prior terms) estimate {
	return estimate{prior: prior, factor: terms{1, 1, 1, 1}, usual: terms{1, 1, 1, 1}, outlierSeen: -time.Hour}
}

// cost returns the predicted time of a chunk in nanoseconds, without accidents.
func (e *estimate) cost(x *terms) float64 {
	p, f := &e.prior, &e.factor
	return p[0]*f[0]*x[0] + p[1]*f[1]*x[1] + p[2]*f[2]*x[2] + p[3]*f[3]*x[3]
}

// marginal returns the part of the cost that is not per chunk, without backlog.
func (e *estimate) marginal(x *terms) float64 {
	return e.prior[packets]*e.factor[packets]*x[packets] + e.prior[bytes]*e.factor[bytes]*x[bytes]
}

// observe learns from a chunk that took between least and most nanoseconds, all equally likely.
func (e *estimate) observe(x *terms, least, most float64, submitted, now time.Duration) {
	predicted := e.cost(x)
	took := predicted
	if took < least {
		took = least
	}
	if took > most {
		took = most
	}
	ratio := e.cut(took/predicted, predicted, submitted, now)
	since := now - e.last
	e.last = now
	e.observed++
	weight, old := 1., keep
	if e.streak >= newRegime || e.streak <= -newRegime {
		old = keepInRegime
	} else if e.observed%sample != 0 && e.observed > enoughChunks {
		if ratio > 1/surprise && ratio < surprise {
			return
		}
		weight = 1. / sample
	}
	e.learn(x, ratio, weight, old/(1+float64(since)/float64(forgetAfter)), 1/predicted)
}

// learn adds an observation with a weight to the sums, after earlier ones lose weight, and improves the factors.
func (e *estimate) learn(x *terms, ratio, weight, old, scale float64) {
	var share terms
	for i := range share {
		share[i] = e.prior[i] * x[i] * scale // without the factor, which is to be solved for
	}
	for i := range share {
		weighted := share[i] * weight
		for j := range i + 1 {
			e.products[i][j] = e.products[i][j]*old + weighted*share[j]
		}
		e.sums[i] = e.sums[i]*old + weighted*ratio
	}
	p, f := &e.products, &e.factor
	f[0] = e.solve(0, p[1][0]*f[1]+p[2][0]*f[2]+p[3][0]*f[3])
	f[1] = e.solve(1, p[1][0]*f[0]+p[2][1]*f[2]+p[3][1]*f[3])
	f[2] = e.solve(2, p[2][0]*f[0]+p[2][1]*f[1]+p[3][2]*f[3])
	f[3] = e.solve(3, p[3][0]*f[0]+p[3][1]*f[1]+p[3][2]*f[2])
}

// solve returns the best factor of a term while the other terms explain a part of its sum.
func (e *estimate) solve(term int, explained float64) float64 {
	f := (e.sums[term] - explained + ridge*e.usual[term]) / (e.products[term][term] + ridge)
	if f < minFactor {
		f = minFactor
	} else if f > maxFactor {
		f = maxFactor
	}
	e.usual[term] += (f - e.usual[term]) * usualWeight
	return f
}

// cut returns the ratio of measured and predicted time, limited if it is an outlier. Chunks that were
// submitted before the last outlier was observed belong to the same event.
func (e *estimate) cut(ratio, predicted float64, submitted, now time.Duration) float64 {
	waited := e.accidents.pass(now - e.last)
	switch {
	case ratio < 1/outlier: // no accident: work does not end too early
		e.streak = max(min(e.streak, 0)-1, -maxStreak)
		return max(ratio, 1/(outlier*outlier))
	case ratio <= outlier:
		e.streak = 0
		return ratio
	case e.streak > 0 && e.streak < newRegime && submitted < e.outlierSeen:
		return outlier
	}
	e.streak = min(max(e.streak, 0)+1, maxStreak)
	limit := float64(int(1) << e.streak)
	if e.streak < newRegime {
		e.accidents.add(max(0, ratio-limit)*predicted, waited, now-e.outlierSeen)
	}
	e.outlierSeen = now
	return min(ratio, limit)
}

const (
	accidentsGap    = 5 * time.Millisecond // maximum time for which an observation stands
	accidentsMemory = 200e6                // nanoseconds
	accidentsLast   = 2 * time.Second      // until unobserved accidents weigh half
)

// accidents is the mean time that a chunk loses by accidents, such as the time slice of another process. Each
// observation stands for the time since the one before. A single accident within accidentsLast does
// not count.
type accidents struct {
	lost, time float64 // weighted sums: nanoseconds lost times nanoseconds; nanoseconds
	single     float64 // of the last accident, until the next one
}

// pass adds an observation after some time. It returns the time for which it stands, in nanoseconds.
func (a *accidents) pass(since time.Duration) (waited float64) {
	waited = float64(min(since, accidentsGap))
	left := 1 - waited/accidentsMemory
	a.time, a.lost = a.time*left+waited, a.lost*left
	return waited
}

// add adds an accident. During it packets arrive evenly, and lose half of the time on average.
func (a *accidents) add(nanoseconds, waited float64, since time.Duration) {
	lost := nanoseconds * waited / 2
	if since > accidentsLast {
		a.single = lost
		return
	}
	a.lost += a.single + lost
	a.single = 0
}

// risk returns the mean nanoseconds lost per chunk.
func (e *estimate) risk(now time.Duration) float64 {
	if e.accidents.lost == 0 {
		return 0
	}
	return e.accidents.lost / e.accidents.time / (1 + float64(now-e.last)/float64(accidentsLast))
}
