package ipsec

// Limit permits an outbound association to use the sequence numbers up to seq, and no
// others until the next call. Whoever keeps numbers over restarts sets it to what it
// has noted as used, so that a router that dies can go on behind that; without it
// all numbers may be used.
func (s *SA) Limit(seq uint64) { s.limit.Store(seq) }
