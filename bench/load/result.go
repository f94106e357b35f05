package load

import "time"

// Result is the result of a search and of the loads.
type Result struct {
	Arrival    string  `json:"arrival"`              // constant, poisson or burst:N
	Trial      float64 `json:"trial_seconds"`        // of full duration, without warm-up
	Resolution float64 `json:"resolution,omitempty"` // relative width at which the search ended
	Ring       int     `json:"ring_packets"`         // that wait for a worker; further ones are lost

	Max float64 `json:"max_receive_mpps,omitempty"` // delivered at the highest offered rate
	NDR *Found  `json:"ndr,omitempty"`              // no drop rate; absent if rates were given
	PDR *Found  `json:"pdr,omitempty"`              // partial drop rate, 0.5 % loss

	Loads []Step `json:"loads"` // in the order of measurement

	Unmeasured []string `json:"unmeasured"` // values that this host or program cannot measure, with the reason
}

// Found is the highest rate that met a goal.
type Found struct {
	Mpps   float64 `json:"mpps"`             // 0: no rate met the goal
	Goal   float64 `json:"allowed_loss"`     // share of the offered packets
	Trials []Loss  `json:"confirmed"`        // trials of full duration that met the goal
	Failed int     `json:"exceeded"`         // trials of full duration at this rate that did not
	Limit  Limit   `json:"limit"`            // cause of the limit: router, generator or max-rate
	Total  int     `json:"trials_of_search"` // of any duration
	Width  float64 `json:"width"`            // relative distance to the lowest rate that failed: the precision of mpps; 1: no higher one was tried
	Ended  bool    `json:"ended,omitempty"`  // by the time limit of the search, before its resolution was reached
}

// Loss is the packets of a trial. Offered packets were delivered or lost.
type Loss struct {
	Offered   uint64 `json:"offered_packets"`   // without warm-up
	Delivered uint64 `json:"delivered_packets"` // transmitted
	Lost      uint64 `json:"lost_packets"`      // that found the receive ring or the queue of their lane full
}

// Step is the result of one load.
type Step struct {
	Share      float64 `json:"share,omitempty"` // of the rate that `of` names
	Of         string  `json:"of,omitempty"`    // ndr, or pdr if no rate is without loss; absent if the rate was given
	Mpps       float64 `json:"offered_mpps"`    // million packets per second
	Throughput float64 `json:"delivered_mpps"`  // the same unit
	Seconds    float64 `json:"seconds"`         // of the trial; fewer than asked for if packets had to be prepared too often
	Loss
	LossRatio float64 `json:"loss_ratio"` // lost divided by offered packets
	Latency           // from arrival at one NIC to departure at the other
	// Percentiles are the latencies in µs that 1 %, 2 % ... 99 % of the packets do not exceed.
	Percentiles []float64          `json:"percentiles_us"`
	CPU         float64            `json:"cpu_ns_per_packet"`                 // of the workers that packets are offered to, without idle polls
	Watts       *float64           `json:"gpu_watts,omitempty"`               // mean power of all GPUs, in W; absent without NVML
	Utilization *float64           `json:"gpu_utilization_percent,omitempty"` // mean share of time in which a kernel of any process was running; absent without NVML
	Lag         float64            `json:"generator_lag_us"`                  // longest delay by the generator, which is part of max_us
	Overrun     bool               `json:"overrun,omitempty"`                 // the generator could not offer the rate
	Stages      map[string]Latency `json:"stage_us,omitempty"`                // of a chunk: wait, engine, order, tx and total
}

// newStep returns the result of a trial.
func newStep(t *Trial, share float64, of string) Step {
	s := Step{
		Share: share, Of: of, Mpps: t.Rate / 1e6, Throughput: t.Carried() / 1e6, Seconds: t.Seconds, Loss: lossOf(t), LossRatio: t.Loss(),
		Latency: NewLatency(&t.Latency, t.Longest), Percentiles: Percentiles(&t.Latency),
		Watts: t.GPU.Watts(), Utilization: t.GPU.Utilization(), Lag: float64(t.Lag) / 1e3, Overrun: t.Overrun(), Stages: map[string]Latency{},
	}
	for name, h := range t.Stages {
		s.Stages[name] = NewLatency(h, time.Duration(h.Quantile(1)))
	}
	if t.Sent > 0 {
		s.CPU = t.CPU / float64(t.Sent)
	}
	return s
}

func lossOf(t *Trial) Loss { return Loss{t.Offered, t.Delivered, t.Lost} }

// newFound returns the result of a search.
func newFound(p *Point, goal float64, trials int) *Found {
	f := &Found{Mpps: p.Rate / 1e6, Goal: goal, Failed: p.Failed, Limit: p.Limit, Total: trials, Width: p.Width, Ended: p.Ended, Trials: []Loss{}}
	for _, t := range p.Confirmed {
		f.Trials = append(f.Trials, lossOf(t))
	}
	return f
}
