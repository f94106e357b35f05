// Package arch tests rules about the source: imports between packages, use of unsafe, log messages,
// links between documents, generated files.
//
// A rule is a table row with its reason. To change a rule, change the row and its reason.
package arch
