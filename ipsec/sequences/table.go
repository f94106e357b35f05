package sequences

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"os"
)

// table is a file of numbers by id, in records that are changed in place:
//
//	0          16         24      32
//	+----------+----------+-------+
//	| id       | number   | check |   integers little-endian; check: CRC-64 (ECMA) of what is before it
//	+----------+----------+-------+
//
// A record never crosses a sector of a disk, which writes sectors as a whole: after a
// crash a number is the old one or the new one.
type table struct {
	file  *os.File
	at    map[id]int64 // number of the record
	last  map[id]uint64
	syncs int // how often the disk was waited for
}

type id [16]byte

const recordSize = 32

var polynomial = crc64.MakeTable(crc64.ECMA)

// openTable opens the file of a path, which it makes if there is none. That the disk has
// its name is for the caller to see to.
func openTable(path string) (_ *table, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	t := &table{file: f, at: map[id]int64{}, last: map[id]uint64{}}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	all, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	for n := int64(0); len(all) >= recordSize; n++ {
		r := [recordSize]byte(all)
		all = all[recordSize:]
		key, number := id(r[:16]), binary.LittleEndian.Uint64(r[16:])
		if r != record(key, number) {
			if r == [recordSize]byte{} && len(bytes.Trim(all, "\x00")) == 0 {
				break // a crash came before the end of what was added: nobody was told that it is there
			}
			return nil, fmt.Errorf("%s is damaged (record %d); give all associations new keys and remove the file", path, n)
		}
		t.at[key], t.last[key] = n, number
	}
	return t, nil
}

func record(key id, number uint64) (r [recordSize]byte) {
	copy(r[:], key[:])
	binary.LittleEndian.PutUint64(r[16:], number)
	binary.LittleEndian.PutUint64(r[24:], crc64.Checksum(r[:24], polynomial))
	return r
}

// number returns what is noted for an id, and whether anything is.
func (t *table) number(key id) (n uint64, is bool) {
	n, is = t.last[key]
	return n, is
}

// note changes numbers; those of sync are on the disk when it returns without an error,
// those of others survive the process.
func (t *table) note(numbers map[id]uint64, sync bool) error {
	if len(numbers) == 0 {
		return nil
	}
	for key, number := range numbers {
		at, is := t.at[key]
		if !is {
			at = int64(len(t.at))
		}
		r := record(key, number)
		if _, err := t.file.WriteAt(r[:], at*recordSize); err != nil {
			return err
		}
		t.at[key], t.last[key] = at, number
	}
	if !sync {
		return nil
	}
	return t.sync()
}

// sync waits for the disk to have all that was noted.
func (t *table) sync() error {
	t.syncs++
	return t.file.Sync()
}

func (t *table) close() error { return errors.Join(t.sync(), t.file.Close()) }
