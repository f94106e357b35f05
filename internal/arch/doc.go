// Package arch holds the house rules that are tests: which package may import
// which, where unsafe may be, what every file and every generated file must have.
//
// A rule is a row with its reason. To break one, change the row and say why.
package arch
