//go:build !race

package ipsec

const race = false
