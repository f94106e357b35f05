package lookup

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// writeFiles writes the peer's input files: the routes, the order of updates, the
// destinations of each kind, and the queries.
func (b *bench[A]) writeFiles(dir string) (paths []string, err error) {
	write := func(name string, fill func(w *bufio.Writer)) {
		path := filepath.Join(dir, name)
		paths = append(paths, path)
		f, e := os.Create(path)
		if e != nil {
			err = errors.Join(err, e)
			return
		}
		w := bufio.NewWriterSize(f, 1<<20)
		fill(w)
		err = errors.Join(err, w.Flush(), f.Close())
	}
	var item []byte
	write("routes", func(w *bufio.Writer) {
		for p, hop := range b.Routes.All() { // struct route
			var a [16]byte
			copy(a[:], b.family.encode(nil, b.family.from(p.Addr())))
			item = append(item[:0], a[:]...)
			item = binary.NativeEndian.AppendUint32(item, uint32(p.Bits()))
			item = binary.NativeEndian.AppendUint32(item, uint32(hop))
			_, _ = w.Write(item) // Flush returns the error, here and below
		}
	})
	write("order", func(w *bufio.Writer) {
		for _, n := range b.order {
			_, _ = w.Write(binary.NativeEndian.AppendUint32(item[:0], n))
		}
	})
	for i, addrs := range append(b.addrs[:len(b.addrs):len(b.addrs)], b.queries) {
		write(fmt.Sprintf("addresses%d", i), func(w *bufio.Writer) {
			for _, a := range addrs {
				item = b.family.encode(item[:0], a)
				_, _ = w.Write(item)
			}
		})
	}
	return paths, err
}
