// Package layout is where things are in the words of a gcm.Key, in bytes, for the code and
// for the command that writes its assembly.
package layout

import "github.com/warproute/warproute/ipsec/schedule"

const (
	NumPowers = 16
	Powers    = 0 // of H, each divided by x: H¹⁶ first
	RoundKeys = Powers + 16*NumPowers
	Rounds    = RoundKeys + 4*schedule.MaxWords
	Size      = Rounds + 16
)
