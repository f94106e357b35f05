// Package layout has the offsets of the fields of a gcm.Key in bytes, for package gcm and for the
// command that generates its assembly.
package layout

import "github.com/warproute/warproute/ipsec/schedule"

const (
	NumPowers = 16
	Powers    = 0 // powers of H, each divided by x: H¹⁶ first
	RoundKeys = Powers + 16*NumPowers
	Rounds    = RoundKeys + 4*schedule.MaxWords
	Size      = Rounds + 16
)
