// Package device prepares ESP keys for GPUs and holds the C code that seals and opens packets there.
// The kernels of package gpu include it.
//
//	words.h    operations on 32-bit words
//	layout.h   constants, generated from this package and package suite
//	key.h      key records
//	packet.h   layout of an ESP packet
//	aes.h ghash.h sha1.h sha2.h chacha20.h poly1305.h
//	           primitives: one block, one lane
//	column.h   AES: one block, four lanes
//	gcm.h ctr.h cbc.h hmac.h chachapoly.h
//	           one packet, by a subwarp or by one lane
//	subwarp.h  communication within a subwarp
//	esp.h      the steps around them
//
// A subwarp is 1 to 32 adjacent lanes of a warp that share a packet (CUDA's thread_block_tile). CTR,
// ChaCha20, Poly1305 and CBC decryption run on all lanes of a subwarp, GCM on up to 16. HMAC and CBC encryption are
// chained from block to block and run on one and four lanes, so several packets are best processed
// side by side.
//
// All code runs in constant time: no branch and no address depends on keys or texts, except AES
// table lookups, which aes.h keeps free of bank conflicts.
//
// The C code is plain C and is tested on the host against package suite and the standard library.
package device
