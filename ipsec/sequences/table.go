package sequences

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// table is a file of numbers by id. The first record, under an id of its own, holds the number of the
// others:
//
//	0          16         24      32
//	+----------+----------+-------+
//	| id       | number   | check |   integers little-endian; check: CRC-64 (ECMA) of id and number
//	+----------+----------+-------+
//
// Numbers are changed in place. A record never crosses a disk sector, and disks write sectors as a
// whole, so after a crash a number is the old or the new one. Ids are added by a new file that
// replaces this one when all of it is on disk. So a crash leaves no partial state, and a file whose
// length or checksum is wrong was damaged. It is refused: a missing SA would restart with numbers that
// its peer refuses, or accept packets twice.
type table struct {
	path  string
	file  *os.File
	at    map[id]int64 // index of the record; the first one is 0
	last  map[id]uint64
	named bool // the file's name is on disk, see name
	syncs int  // number of syncs

	unsynced bool // there are writes since the last sync
	synced   time.Time
}

// syncEvery is the longest time for which note leaves changes unsynced.
const syncEvery = 10 * time.Second

type id [16]byte

const recordSize = 32

// counts is the id of the first record.
var counts = id([]byte("warproute table\x00"))

var polynomial = crc64.MakeTable(crc64.ECMA)

// openTable opens a file, and creates it if needed.
func openTable(path string) (*table, error) {
	if err := os.Remove(path + ".new"); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by replace in a crash
		return nil, err
	}
	t := &table{path: path, at: map[id]int64{}, last: map[id]uint64{}, named: true, synced: time.Now()}
	all, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return t, t.add(nil)
	}
	if err != nil {
		return nil, err
	}
	oldFormat, err := t.read(all)
	if err == nil && oldFormat && len(t.at) == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return nil, damaged(path, err)
	}
	if oldFormat {
		return t, t.add(nil)
	}
	t.file, err = os.OpenFile(path, os.O_RDWR, 0)
	return t, err
}

// read reads a file. The format of older releases has no first record, and a crash may have left
// zeros at its end where records were being added.
func (t *table) read(all []byte) (oldFormat bool, err error) {
	key, n, _ := parse(all)
	if oldFormat = key != counts; oldFormat {
		all = all[:min(len(all), whole(len(bytes.TrimRight(all, "\x00"))))]
	} else {
		if all = all[recordSize:]; len(all)%recordSize != 0 || uint64(len(all)/recordSize) != n {
			return false, fmt.Errorf("it has %d bytes of records, but its first record counts %d of %d bytes", len(all), n, recordSize)
		}
	}
	for at := int64(1); len(all) > 0; at++ {
		key, number, ok := parse(all)
		if _, twice := t.at[key]; !ok || twice {
			return oldFormat, fmt.Errorf("record %d has a wrong checksum", at)
		}
		t.at[key], t.last[key] = at, number
		all = all[recordSize:]
	}
	return oldFormat, nil
}

// whole rounds a length up to whole records, with zeros at the end.
func whole(n int) int { return (n + recordSize - 1) / recordSize * recordSize }

func record(key id, number uint64) (r [recordSize]byte) {
	copy(r[:], key[:])
	binary.LittleEndian.PutUint64(r[16:], number)
	binary.LittleEndian.PutUint64(r[24:], crc64.Checksum(r[:24], polynomial))
	return r
}

// parse reads the record at the start of b, if it is valid.
func parse(b []byte) (key id, number uint64, ok bool) {
	if len(b) < recordSize {
		return id{}, 0, false
	}
	key, number = id(b[:16]), binary.LittleEndian.Uint64(b[16:])
	if record(key, number) != [recordSize]byte(b) {
		return id{}, 0, false
	}
	return key, number, true
}

// number returns the stored number of an id. It is not ok for an unknown id.
func (t *table) number(key id) (n uint64, ok bool) {
	n, ok = t.last[key]
	return n, ok
}

// higher adds a number to a list for note, if it is larger than the stored and the listed one.
func (t *table) higher(list map[id]uint64, key id, n uint64) {
	if n > max(t.last[key], list[key]) {
		list[key] = n
	}
}

// note stores numbers. Those of sync are on disk when it returns nil. Others survive the process, and
// are on disk syncEvery later if note is called regularly. New ids are on disk in any case.
func (t *table) note(numbers map[id]uint64, sync bool) error {
	gone, err := t.gone()
	switch {
	case err != nil:
		return err
	case gone:
		return t.add(numbers)
	}
	for key := range numbers {
		if _, is := t.at[key]; !is {
			return t.add(numbers)
		}
	}
	if err := t.change(numbers); err != nil {
		return err
	}
	if sync && len(numbers) > 0 || t.unsynced && time.Since(t.synced) >= syncEvery {
		return t.sync()
	}
	return nil
}

// change writes numbers of existing ids, adjacent ones with one call: there are thousands, several
// times a second.
func (t *table) change(numbers map[id]uint64) error {
	type change struct {
		at     int64
		key    id
		number uint64
	}
	list := make([]change, 0, len(numbers))
	for key, number := range numbers {
		list = append(list, change{t.at[key], key, number})
	}
	slices.SortFunc(list, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	for len(list) > 0 {
		var run []byte
		n := 0
		for ; n < len(list) && list[n].at == list[0].at+int64(n); n++ {
			r := record(list[n].key, list[n].number)
			run = append(run, r[:]...)
		}
		if _, err := t.file.WriteAt(run, list[0].at*recordSize); err != nil {
			return err
		}
		for _, c := range list[:n] {
			t.last[c.key] = c.number
		}
		t.unsynced = true
		list = list[n:]
	}
	return nil
}

// gone reports whether the file was removed or replaced by others. Writes to it would be lost with the
// process.
func (t *table) gone() (bool, error) {
	mine, err := t.file.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Stat(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, os.MkdirAll(filepath.Dir(t.path), 0o700)
	}
	return err == nil && !os.SameFile(mine, there), err
}

// add replaces the file by one that has these numbers, too.
func (t *table) add(numbers map[id]uint64) error {
	next := &table{path: t.path, at: maps.Clone(t.at), last: maps.Clone(t.last), syncs: t.syncs, synced: time.Now()}
	for key, number := range numbers {
		if _, is := next.at[key]; !is {
			next.at[key] = int64(len(next.at)) + 1
		}
		next.last[key] = number
	}
	all := make([]byte, (1+len(next.at))*recordSize)
	put := func(at int64, r [recordSize]byte) { copy(all[at*recordSize:], r[:]) }
	put(0, record(counts, uint64(len(next.at))))
	for key, at := range next.at {
		put(at, record(key, next.last[key]))
	}
	if err := next.replace(all); err != nil {
		return err
	}
	if t.file != nil {
		t.file.Close() // its content is on disk
	}
	*t = *next
	return t.name()
}

// replace writes a new file and renames it to the path when it is on disk.
func (t *table) replace(all []byte) (err error) {
	if t.file, err = os.OpenFile(t.path+".new", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600); err != nil {
		return err
	}
	t.syncs++
	if _, err = t.file.Write(all); err == nil {
		err = t.file.Sync()
	}
	if err == nil {
		err = os.Rename(t.path+".new", t.path)
	}
	if err != nil {
		t.file.Close()
	}
	return err
}

// name syncs the directory. Before that, a crash may restore the previous file.
func (t *table) name() error {
	if t.named {
		return nil
	}
	t.syncs++
	dir, err := os.Open(filepath.Dir(t.path))
	if err != nil {
		return err
	}
	defer dir.Close()
	err = dir.Sync()
	t.named = err == nil
	return err
}

// sync syncs the file.
func (t *table) sync() error {
	t.syncs++
	t.unsynced, t.synced = false, time.Now()
	if err := t.file.Sync(); err != nil {
		return err
	}
	return t.name()
}

func (t *table) close() error { return errors.Join(t.sync(), t.file.Close()) }
