package ipsec

// Limit permits an outbound SA to use sequence numbers up to seq, until the next call. The
// durable state of sequence numbers sets it to the number on disk, so that a router that
// crashes continues behind it. Without a call all numbers are permitted.
func (s *SA) Limit(seq uint64) { s.limit.Store(seq) }
