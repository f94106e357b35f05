// Package afxdp takes frames from Linux interfaces and puts frames on them, by
// AF_XDP sockets: one for every queue of every port.
package afxdp
