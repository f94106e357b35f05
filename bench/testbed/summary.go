package testbed

import "github.com/warproute/warproute/bench/load"

// Summary is the measured router and its environment.
type Summary struct {
	Engine     string `json:"engine"`                 // cpu or gpu
	Family     string `json:"family"`                 // IPv4 or IPv6
	Table      string `json:"table"`                  // name of the routing table
	Routes     int    `json:"routes"`                 // in the table
	Workers    int    `json:"workers"`                // each on its own core
	Busy       int    `json:"busy_workers,omitempty"` // that packets are offered to; absent: all
	NICs       int    `json:"nics"`                   // cores that emulate NICs
	GPUs       int    `json:"gpus"`                   // that workers are assigned to
	MaxPackets int    `json:"max_packets"`            // per chunk
	Chunks     int    `json:"chunks"`                 // in flight per worker
	Lanes      Lanes  `json:"lanes,omitempty"`        // of an IPsec gateway: default, queues or none
	Verified   int    `json:"verified_packets"`       // whose contents were compared before the measurement
}

// NewSummary returns the summary of a testbed, without engine and verified packets.
func NewSummary(c Config, ipv6 bool, table string, routes int) Summary {
	s := Summary{
		Family: "IPv4", Table: table, Routes: routes, Workers: c.Workers, Busy: c.Busy, NICs: c.NICs, GPUs: c.GPUs, MaxPackets: c.MaxPackets, Chunks: c.Chunks,
	}
	if ipv6 {
		s.Family = "IPv6"
	}
	return s
}

// LoadResult is the result of a measurement under load.
type LoadResult struct {
	Summary
	Sizes     []int  `json:"packet_bytes"`               // sizes of IP packets, with IPsec of inner ones; round-robin
	Suite     string `json:"suite,omitempty"`            // cipher suite; absent without IPsec
	Direction string `json:"direction,omitempty"`        // encrypt or decrypt
	SAs       int    `json:"sas,omitempty"`              //
	Window    int    `json:"replay_window,omitempty"`    // in packets
	DMA       string `json:"dma"`                        // copy: a core copies packets; none: they are in memory before they arrive
	Prepared  int    `json:"prepared_packets,omitempty"` // of a worker in a round, with dma none
	load.Result
}
