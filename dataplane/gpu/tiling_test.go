package gpu

import "testing"

// TestTilesOfSecuredChunks: the usual numbers of tiles, of a block with all warps, with whole chunks of the default limit in bytes or packets; and
// those on an idle GPU with 132 slots.
func TestTilesOfSecuredChunks(t *testing.T) {
	usual := Options{}.tiling(gatewayThreads/warpSize, 132)
	for _, tt := range []struct {
		what             string
		n, frame         int
		want, whenSpread int
	}{
		{"64 bytes", 256, 78, 2, 2},
		{"64 bytes, whole chunk", 1024, 78, 7, 7},
		{"IMIX", 256, 361, 3, 7},
		{"1,408 bytes", 69, 1422, 2, 9},
		{"1,408 bytes, a single worker", 276, 1422, 7, 16},
		{"1,500 bytes", 64, 1514, 2, 8},
		{"one packet", 1, 1514, 1, 1},
	} {
		if want, least := usual.tiles(tt.n, tt.n*tt.frame, true, false, 0); want != tt.want || least > want {
			t.Errorf("%s: %d tiles, at least %d; want %d", tt.what, want, least, tt.want)
		}
		if want, _ := usual.tiles(tt.n, tt.n*tt.frame, true, false, 132); want != tt.whenSpread {
			t.Errorf("%s, idle GPU: %d tiles, want %d", tt.what, want, tt.whenSpread)
		}
		if n := usual.needed(tt.n, tt.n*tt.frame, true); n != tt.want {
			t.Errorf("%s: needs %d slots, want %d", tt.what, n, tt.want)
		}
	}
}
