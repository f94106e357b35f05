package testbed

import (
	"errors"
	"fmt"
	"time"

	"github.com/warproute/warproute/bench/load"
	"github.com/warproute/warproute/cuda/nvml"
)

// Meter measures power and utilization of the GPUs of a testbed. A nil Meter measures nothing.
type Meter struct {
	devices []*nvml.Device
	close   func() error
	Missing []string // values that it cannot measure, with the reason

	energy, power, utilization bool // values that all GPUs have

	start   time.Time
	joules  float64 // at the start, by the energy counters
	watts   float64 // sum of samples
	samples int
	percent float64 // sum of samples
}

// SamplePeriod is the time between samples of power and utilization.
const SamplePeriod = 250 * time.Millisecond

// NewMeter returns a meter of the GPUs of a testbed. Without NVML, or without GPUs, it measures nothing.
// library is for tests; "" is the installed NVML.
func NewMeter(c Config, library string) (*Meter, error) {
	m := &Meter{close: func() error { return nil }}
	if c.GPUs == 0 {
		return m, nil
	}
	devices, err := c.devices()
	if err != nil {
		return nil, err
	}
	l, err := nvml.Open(library)
	if err != nil {
		m.Missing = []string{fmt.Sprintf("GPU power and utilization: %v", err)}
		return m, nil
	}
	m.close = l.Close
	for _, d := range devices {
		info, err := d.Info()
		if err != nil {
			return nil, errors.Join(err, m.Close())
		}
		on, err := l.Device(info.PCIBusID)
		if err != nil {
			m.Missing = []string{fmt.Sprintf("GPU power and utilization: %v", err)}
			return m, nil
		}
		m.devices = append(m.devices, on)
	}
	m.findValues()
	return m, nil
}

// findValues reads each value once.
func (m *Meter) findValues() {
	_, energy := m.readEnergy()
	_, power := m.readPower()
	_, utilization := m.readUtilization()
	m.energy, m.power, m.utilization = energy == nil, energy != nil && power == nil, utilization == nil
	if !m.energy && !m.power {
		m.Missing = append(m.Missing, fmt.Sprintf("GPU power: %v", errors.Join(energy, power)))
	}
	if !m.utilization {
		m.Missing = append(m.Missing, fmt.Sprintf("GPU utilization: %v", utilization))
	}
}

// Close ends the use of NVML.
func (m *Meter) Close() error { return m.close() }

// begin begins a measurement.
func (m *Meter) begin() (err error) {
	if m == nil {
		return nil
	}
	m.watts, m.percent, m.samples = 0, 0, 0
	if m.energy {
		m.joules, err = m.readEnergy()
	}
	m.start = time.Now()
	return err
}

// sample reads values that have no counter.
func (m *Meter) sample() error {
	if m == nil {
		return nil
	}
	m.samples++
	if m.power {
		watts, err := m.readPower()
		if err != nil {
			return err
		}
		m.watts += watts
	}
	if m.utilization {
		percent, err := m.readUtilization()
		if err != nil {
			return err
		}
		m.percent += percent
	}
	return nil
}

// end returns the values since begin.
func (m *Meter) end() (g load.GPU, err error) {
	if m == nil {
		return g, nil
	}
	seconds := time.Since(m.start).Seconds()
	switch {
	case m.energy:
		joules, err := m.readEnergy()
		if err != nil {
			return g, err
		}
		g.Joules, g.Seconds = joules-m.joules, seconds
	case m.power && m.samples > 0:
		g.Joules, g.Seconds = m.watts/float64(m.samples)*seconds, seconds
	}
	if m.utilization {
		g.Percent, g.Samples = m.percent, m.samples
	}
	return g, nil
}

// readEnergy returns the counters of all GPUs in joules.
func (m *Meter) readEnergy() (joules float64, err error) {
	for _, d := range m.devices {
		millijoules, err := d.Energy()
		if err != nil {
			return 0, err
		}
		joules += float64(millijoules) / 1e3
	}
	return joules, nil
}

// readPower returns the power of all GPUs in watts.
func (m *Meter) readPower() (watts float64, err error) {
	for _, d := range m.devices {
		milliwatts, err := d.Power()
		if err != nil {
			return 0, err
		}
		watts += float64(milliwatts) / 1e3
	}
	return watts, nil
}

// readUtilization returns the mean utilization of the GPUs in percent.
func (m *Meter) readUtilization() (percent float64, err error) {
	for _, d := range m.devices {
		p, err := d.Utilization()
		if err != nil {
			return 0, err
		}
		percent += float64(p) / float64(len(m.devices))
	}
	return percent, nil
}
