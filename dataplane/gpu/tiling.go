package gpu

import "cmp"

const (
	maxTiles     = 64                          // of a chunk
	inlineFrames = inlineBatches * batchFrames // maximum packets of a tile with inlined headers
	inlineTiles  = 3                           // maximum tiles of a chunk with inlined headers; copying more of them costs more than it saves

	// plainTile and securedBatch are the usual sizes of tiles: small enough for short queues and for the
	// use of several blocks, large enough to fill PCIe ("bench latency", "bench ipsec").
	plainTile    = 448     // packets
	idleTile     = 128     // packets, of a worker without another chunk in flight
	securedBatch = 9 << 10 // bytes of a warp batch with the keys of its packets
	spreadBatch  = 2 << 10 // bytes without keys, in a share of the free blocks: a chunk is finished sooner by more of them
	keyRoom      = 400     // bytes per packet for its key; AES-128-GCM takes 290 to 704, less if packets of similar lengths share the lanes, or neighbors a key
	spreadShare  = 8       // a chunk is spread over one in so many free blocks
)

// tiling divides chunks into tiles. Smaller tiles use more blocks of an idle GPU and keep queues short;
// larger ones take fewer of the host's accesses.
type tiling struct {
	batches      int // maximum warp batches of a tile
	plainTile    int // packets of a tile without ESP
	idleTile     int // the same, of a worker without another chunk in flight
	securedBatch int // bytes of a warp batch of ESP packets and their keys
	spreadBatch  int // bytes of ESP packets, in a share of the free blocks
	inlineTiles  int // maximum tiles of a chunk with inlined headers
}

// tiling returns the tiling of a device with a number of blocks, for tiles of up to a number of warp batches.
func (o Options) tiling(batches, blocks int) tiling {
	return tiling{
		batches: batches, plainTile: cmp.Or(o.PlainTile, plainTile), idleTile: cmp.Or(o.PlainTile, idleTile),
		securedBatch: cmp.Or(o.SecuredBatch, securedBatch), spreadBatch: cmp.Or(o.SecuredBatch, spreadBatch),
		inlineTiles: max(1, min(inlineTiles, blocks/2)), // so that the next chunk finds a block
	}
}

// SecuredPackets is the usual limit of the packets of a gateway's chunk. In a saturated gateway, chunks of 1,024 packets of 64 bytes had 1.8
// and 1.9 times the p99 of chunks of 256 (docs/performance.md).
const SecuredPackets = 256

// SecuredChunk returns the usual limit of the bytes of a gateway's chunk: the bytes in flight fill PCIe and do not wait in front of it.
// A worker that has a GPU for itself fills it with chunks that are four times as long.
func SecuredChunk(workers, gpus int) int {
	if workers <= gpus {
		return 384 << 10
	}
	return 96 << 10
}

// tiles returns the wanted and the least number of tiles of a chunk of n packets, if some blocks are free. bytes are
// those of its packets.
func (t *tiling) tiles(n, bytes int, secured, idle bool, free int) (want, least int) {
	least = t.least(n)
	plain, inlined := t.plainTile, (n+inlineFrames-1)/inlineFrames
	if idle {
		plain = t.idleTile
	}
	if secured {
		want = max(t.securedTiles(n, bytes+n*keyRoom, t.securedBatch), min(t.securedTiles(n, bytes, t.spreadBatch), free/spreadShare))
	} else {
		want = (n + plain - 1) / plain
	}
	switch {
	case !idle || inlined > t.inlineTiles:
	case secured:
		want = max(want, inlined) // its packets may turn out to need no ESP
	default:
		want = inlined
	}
	return max(min(want, maxTiles), least), least
}

// needed returns the number of tiles of the usual size of a chunk of n packets.
func (t *tiling) needed(n, bytes int, secured bool) int {
	if secured {
		return max(t.least(n), min(maxTiles, t.securedTiles(n, bytes+n*keyRoom, t.securedBatch)))
	}
	return t.least(n)
}

// each returns the packets of a warp batch of a secured tile of n packets.
func (t *tiling) each(n int) int { return (n + t.batches - 1) / t.batches }

// least returns the number of tiles that n packets need at least.
func (t *tiling) least(n int) int { return (n + t.batches*batchFrames - 1) / (t.batches * batchFrames) }

// securedTiles returns the number of tiles of n packets of ESP, for warp batches of some bytes.
func (t *tiling) securedTiles(n, bytes, batch int) int {
	each := min(max(batch*n/max(bytes, 1), 1), batchFrames)
	return (n + t.batches*each - 1) / (t.batches * each)
}
