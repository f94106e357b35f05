// Package device prepares the keys of ESP for devices, and holds the C that devices
// protect packets with; the kernels of package gpu include it.
//
//	words.h    what all others are made of
//	key.h      Key, for devices
//	packet.h   where the parts of an ESP packet lie
//	aes.h ghash.h sha1.h sha2.h chacha20.h poly1305.h
//	           primitives: a block, by one lane
//	column.h   AES of a block, by four lanes
//	gcm.h ctr.h cbc.h hmac.h chachapoly.h
//	           a packet, by one lane or by each of a team
//	team.h     what the lanes of a team do together
//	esp.h      what sealing and opening a packet of any suite is made of, by a team
//
// A team is 1 to 32 lanes of a warp that work on one packet. GCM, CTR, ChaCha20, Poly1305
// and the decryption of CBC are spread over them; HMAC and the encryption of CBC go
// from block to block, and one lane does the one, four do the other, while the rest wait:
// there, several packets are best done side by side, as cbc.h can.
//
// Nothing takes more or less time for what keys or texts are: no branch depends on
// them, and no address but that of AES's look-ups, which aes.h sees to.
//
// The C is plain and is tested on the host, against package suite and the standard
// library.
package device
