package testbed

import "github.com/warproute/warproute/bench/load"

// Summary is the measured router and its environment.
type Summary struct {
	Engine     string `json:"engine"`
	Family     string `json:"family"`
	Table      string `json:"table"`
	Routes     int    `json:"routes"`
	Workers    int    `json:"workers"`
	NICs       int    `json:"nics"`
	GPUs       int    `json:"gpus"`
	MaxPackets int    `json:"max_packets"`
	Chunks     int    `json:"chunks"`
	Verified   int    `json:"verified_packets"`
}

// NewSummary returns the summary of a testbed, without engine and verified packets.
func NewSummary(c Config, ipv6 bool, table string, routes int) Summary {
	s := Summary{
		Family: "IPv4", Table: table, Routes: routes, Workers: c.Workers, NICs: c.NICs, GPUs: c.GPUs, MaxPackets: c.MaxPackets, Chunks: c.Chunks,
	}
	if ipv6 {
		s.Family = "IPv6"
	}
	return s
}

// LoadResult is the result of a measurement under load.
type LoadResult struct {
	Summary
	Sizes     []int  `json:"packet_bytes"`               // of IP packets, with IPsec of inner ones; round-robin
	Suite     string `json:"suite,omitempty"`            // of IPsec; absent without it
	Direction string `json:"direction,omitempty"`        // encrypt or decrypt
	SAs       int    `json:"sas,omitempty"`              //
	Window    int    `json:"replay_window,omitempty"`    // in packets
	DMA       string `json:"dma"`                        // copy: a core copies packets; none: they are in memory before they arrive
	Prepared  int    `json:"prepared_packets,omitempty"` // of a worker and round, with dma none
	load.Result
}
