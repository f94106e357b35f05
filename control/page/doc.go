// Package page is the status page of a router: HTML that is part of the binary, and a stream of what it shows.
//
// The page requests nothing from other hosts and changes nothing.
package page
