// Package afxdp receives frames from and transmits frames to Linux interfaces through AF_XDP sockets,
// one per queue of each port.
//
// # Life of a frame
//
// A frame of the UMEM (package umem) has one owner at a time. Its address passes from owner to owner
// in rings; its bytes are not moved.
//
//	            Refill                     Receive
//	Pool ───────────────► fill ─► kernel ─► RX ───────────► worker ─┐
//	 ▲                    ring    receives  ring                    │
//	 │                            into it                           │ the engine
//	 │                                                              │ decides
//	 │       Reclaim                          Transmit              │
//	 ├─────────────── completion ◄─ kernel ◄─ TX ◄──────── worker ◄─┤ forwarded
//	 │                ring          sends it  ring                  │
//	 └──────────────────────────────────────────────────────────────┘ dropped
//
// 1. Refill moves it from the pool to the fill ring of a queue: the kernel may receive into it.
//
// 2. When a packet arrives, the XDP program of the port (steer.bpf.c) passes host traffic to Linux and
// redirects the rest to the socket. The NIC writes the packet to the frame (zero-copy), or the kernel
// copies it there, and the kernel puts the frame in the RX ring.
//
// 3. Receive takes it from the RX ring: the worker owns it.
//
// 4. Transmit puts it in the TX ring of a queue of the same worker, of this or another port.
//
// 5. When it is transmitted, the kernel puts it in the completion ring of that queue, and Reclaim puts
// it back into the pool.
//
// A packet that is longer than a frame has several descriptors at steps 1 and 2, and is copied to one
// large frame at step 3 (multibuffer.go).
//
// # Sharing
//
// A worker owns its UMEM, its pool and some queues of every port. All its sockets share the UMEM, so
// a frame can be received on one port and transmitted on another. Each socket has four rings of its
// own, so two goroutines never access one ring. The first socket of a worker registers the UMEM; the
// others bind with XDP_SHARED_UMEM and get its mode. Therefore all ports of the start are zero-copy, or none.
// Ports that are added later register the UMEM themselves, and have modes of their own (add.go).
//
// # Failures
//
// Every queue of a port has a socket. Frames of a queue without one would be dropped and counted, not
// passed to Linux, which could forward them past the router's policies. The programs are attached by
// BPF links, which end with the process.
//
// When an interface is deleted or moved to another namespace, the kernel unbinds its sockets for good.
// Port.Reopen opens an interface of the same name: each worker switches to its new sockets, and puts
// the frames in the rings of the old ones back into its pool.
//
// # Requirements
//
// Linux 5.11, and root or CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF, CAP_PERFMON (without which kernels such
// as 6.1 reject the XDP program) and CAP_IPC_LOCK.
package afxdp
