package load

// GPU is the energy and the utilization of all GPUs of a device. The zero value has none.
type GPU struct {
	Joules  float64
	Seconds float64 // in which the energy was counted; 0: not measured
	Percent float64 // sum of samples of the utilization, each the mean of all GPUs
	Samples int     // 0: not measured
}

// Add adds the values of a later round.
func (g *GPU) Add(later GPU) {
	g.Joules, g.Seconds = g.Joules+later.Joules, g.Seconds+later.Seconds
	g.Percent, g.Samples = g.Percent+later.Percent, g.Samples+later.Samples
}

// Watts returns the mean power of all GPUs together, nil if it was not measured.
func (g *GPU) Watts() *float64 { return quotient(g.Joules, g.Seconds) }

// Utilization returns the mean share of time in percent in which a kernel was running, nil if it was not
// measured.
func (g *GPU) Utilization() *float64 { return quotient(g.Percent, float64(g.Samples)) }

func quotient(sum, n float64) *float64 {
	if n == 0 {
		return nil
	}
	v := sum / n
	return &v
}
