// Package gpu is the engine that has a GPU decide on packets, where they lie: it
// reads the headers of frames in the workers' memory over PCIe, looks up and
// rewrites them as package cpu does, and writes the results beside.
//
//	worker                         host memory                        GPU
//	Submit  ── descriptors ──►  mailbox: a slot for each  ◄── polls ── a block for each slot
//	                            chunk in flight
//	                            frames (umem)             ◄── reads, rewrites 32 bytes
//	Done    ◄── results ──────  results, done             ◄── writes, fence, done
//
// The kernel stays on the GPU (resident): a chunk costs no call of the driver. It
// can also be launched for each chunk, for comparison.
//
// The forwarding base's copy on the device follows the original change by change
// (tables.go). A packet whose lookup overlapped with the reuse of an entry is
// looked up again, on the device, as readers of package trie do.
//
// A chunk that finds the GPU idle is in a hurry: its packets' heads go along in the
// mailbox, and come back by it, in answers that need no fence; the worker writes them into
// the frames (hurry_unsafe.go). Where a lookup overlapped, the CPU engine decides.
//
// Where there are several GPUs, each has a copy and serves a share of the workers
// (devices.go).
//
// Where the router is an IPsec gateway, another resident kernel seals and opens packets
// before it looks them up. All that must never go wrong is the host's, by the code of
// package cpu: before a chunk is posted, policies, associations, sequence numbers, and
// the headers of packets to be sealed; when it is back, replays, lifetimes, and the
// policies that packets out of a tunnel meet. What the device is to do stands in a job
// beside each descriptor (jobs_unsafe.go). So nothing has to be recovered from a device
// that is lost: its packets are, and their sequence numbers are not used again. Keys are
// on the device from before the first packet of an association until the association's
// end, when they are overwritten there as everywhere.
//
// A GPU that does not answer a worker in time is taken from it, with whatever it
// holds: those packets count as dropped, and the CPU engine carries on. Their frames are
// withheld, for the GPU may yet write to them, until it has finished every chunk that it
// held (absence.go). After that and a pause the worker uses the GPU again. Errors of the
// driver are final for a device: after a kernel's fault it refuses everything until
// the process ends. Its context is destroyed then, which returns the frames.
package gpu
