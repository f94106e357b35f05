// Package afxdp takes frames from Linux interfaces and puts frames on them, by
// AF_XDP sockets: one for every queue of every port.
//
// # The way of a frame
//
// A frame of memory (package umem) has one owner at a time. It goes from one to
// the next by its address in a ring; the bytes stay where they are.
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
// 1. Refill takes it from the pool and puts it in a queue's fill ring: it is the
// kernel's now, to receive into.
//
// 2. When a packet arrives, the XDP program of the port (steer.bpf.c) decides
// whether it is Linux's or the router's. The router's is put into the frame (by
// the NIC with zero-copy, by a copy otherwise) and the frame into the RX ring.
//
// 3. Receive takes it from there: it is the worker's, who may read and write it,
// keep it as long as it wants, or put it back into the pool.
//
// 4. Transmit puts it in the TX ring of a queue of the same worker, of that port
// or another: it is the kernel's, to send.
//
// 5. Once it is sent, the kernel puts it in the completion ring of the queue that
// it was sent on, and Reclaim puts it back into the pool.
//
// A frame that is longer than those of memory takes several of them at steps 1 and 2,
// and is put together at step 3 (see pieces).
//
// # Who shares what
//
// A worker owns its memory, its pool and some queues of every port. All its
// sockets share the memory, so step 4 may be at another port than step 3, and
// each has four rings of its own, so no two goroutines ever touch one ring. The
// first socket of a worker registers the memory with the kernel, the others
// bind as sharing with it and take its mode, which is why ports that exchange
// frames are zero-copy together or not at all.
//
// # What fails, fails closed
//
// Every queue of a port has a socket. Should one have none, its frames are
// dropped and counted, not handed to Linux, which might forward them past the
// router's policies. The programs are attached by links, which go with the
// process however it ends.
//
// # When an interface goes
//
// The kernel unbinds the sockets of an interface that is deleted, or moved to another
// namespace, for good. What is then at their rings stays there until Port.Reopen has made
// an interface of the same name the port: each worker changes to its new sockets by itself,
// and finds what was in the rings of the old ones in its pool.
//
// Linux 5.11 or later is needed, and root, or CAP_NET_ADMIN, CAP_NET_RAW,
// CAP_BPF, CAP_PERFMON (older kernels, such as 6.1, refuse the XDP program without) and
// CAP_IPC_LOCK.
package afxdp
