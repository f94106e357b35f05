// Package esp applies IPsec policies and security associations (SAs) to packets, before and after
// an engine looks them up (RFC 4301 section 5, RFC 4303 section 3).
//
// An engine calls Apply, looks up the packets that have no verdict, and is done. An engine whose
// device does the cryptography calls Begin, has the device do the jobs and the lookups, and calls
// Finish. Chunks that it posts unread have other entry points, below. A packet passes these steps in order, each in the file of
// its name:
//
//  1. inspect.ReversePath: drop received packets with an unacceptable source (RFC 3704).
//  2. classify.go: validate the packet; find the SA of ESP for this router by SPI and destination
//     (RFC 4301 section 5.2); hand over fragments to be reassembled (fragment.go).
//  3. inbound.go: decrypt ESP (RFC 4303 section 3.4), or make a job of it. The inner packet
//     goes back to step 2. For a device, common.go does steps 2 and 3 of most ESP at once.
//  4. policy.go: look up inbound and outbound policies of plaintext packets (RFC 4301 sections
//     5.2 and 5.1).
//  5. icmp_error.go: apply the policies to the packets that ICMP errors quote (RFC 4301 section 6.2).
//  6. outbound.go: drop what a policy forbids; check the tunnel's MTU (mtu.go, RFC 4301 section 8);
//     encrypt (RFC 4303 section 3.3), or make a job of it (job.go).
//  7. finish.go: for packets that a device has opened, apply the replay window (RFC 4303 section
//     3.4.3), and steps 4 and 5 unless the device's copy of the policies admits them. Packets that
//     are ESP again, or leave by another SA, pass steps 2 to 6 on the host, and are returned to the
//     engine for a lookup.
//
// A device can process a chunk that the host has not read. Then the engine calls, by the kind of the chunk:
//
//   - received ESP: BeginOpened; for opened packets AddOpened and ConfirmOpened (opened.go), or MakeOpenJob (find.go) and Finish;
//   - expected to be of one SA, outbound: BeginExpected, AcceptExpected, or for one packet Sealed, then CountSealed (expected.go);
//   - to seal with lent sequence numbers: BeginSealed, AcceptSealed, or for one packet Sealer, SealedBy and CountSealedBy, then EndSealed (sealer.go);
//
// then Classified for packets whose tunnel the device has found, and Rest for all that the device has left to the host.
//
// stage.go has the entry points and the order of the steps. datagram.go is the stage for packets
// that are longer than a frame, and repeat.go does jobs as a device would, for comparison.
package esp
