package sequences

import (
	"bytes"
	"testing"
)

// FuzzTable reads a damaged file of numbers: accepted content stays the same when it is written again.
func FuzzTable(f *testing.F) {
	first, one, two := record(counts, 2), record(id{1}, 5), record(id{2}, 1<<63)
	f.Add(bytes.Join([][]byte{first[:], one[:], two[:]}, nil))
	f.Add(bytes.Join([][]byte{first[:], one[:], one[:]}, nil))
	f.Add(bytes.Join([][]byte{one[:], two[:], make([]byte, 40)}, nil))
	f.Add(one[:7])
	f.Fuzz(func(t *testing.T, all []byte) {
		got := &table{at: map[id]int64{}, last: map[id]uint64{}}
		former, err := got.read(bytes.Clone(all))
		if err != nil {
			return
		}
		again := make([]byte, recordSize*(len(got.at)+1))
		r := record(counts, uint64(len(got.at)))
		copy(again, r[:])
		for key, at := range got.at {
			if at < 1 || at > int64(len(got.at)) {
				t.Fatalf("record %d of %d", at, len(got.at))
			}
			r := record(key, got.last[key])
			copy(again[at*recordSize:], r[:])
		}
		if !former && !bytes.Equal(again, all) {
			t.Errorf("accepted %x, which is %x", all, again)
		}
	})
}
