// Package textfile opens files at paths from users without blocking on a FIFO or triggering a
// device, which os.ReadFile does, and limits their size.
package textfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrType is wrapped by errors about files of other types than the accepted ones.
var ErrType = errors.New("not a regular file")

// TooLong is the error about a file larger than the limit.
type TooLong struct {
	Path         string
	Bytes, Limit int64 // Bytes is a lower bound
}

func (e *TooLong) Error() string {
	return fmt.Sprintf("%s has %d bytes or more; the limit is %d", e.Path, e.Bytes, e.Limit)
}

// Open opens a regular file, or a file of one of the other accepted types (fs.ModeNamedPipe, ...).
// The returned info is that of the open file. Reading a pipe without writers returns io.EOF at once.
func Open(path string, others fs.FileMode) (*os.File, fs.FileInfo, error) {
	accept := func(info fs.FileInfo) error {
		if t := info.Mode().Type(); t != 0 && t&^others != 0 {
			return fmt.Errorf("%s is %s, %w", path, kind(t), ErrType)
		}
		return nil
	}
	info, err := os.Stat(path) // opening a device may have side effects
	if err == nil {
		err = accept(info)
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = accept(info)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// Read reads a regular file of up to limit bytes. The error about a larger one is a *TooLong.
func Read(path string, limit int64) ([]byte, fs.FileInfo, error) {
	f, info, err := Open(path, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	data, err := ReadOpen(f, info, limit)
	return data, info, err
}

// ReadOpen reads a file opened by Open, up to limit bytes.
func ReadOpen(f *os.File, info fs.FileInfo, limit int64) ([]byte, error) {
	if info.Size() > limit {
		return nil, &TooLong{f.Name(), info.Size(), limit}
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1)) // the file may grow, or have no size, as in /proc
	if err == nil && int64(len(data)) > limit {
		err = &TooLong{f.Name(), int64(len(data)), limit}
	}
	return data, err
}

func kind(t fs.FileMode) string {
	switch {
	case t&fs.ModeDir != 0:
		return "a directory"
	case t&fs.ModeNamedPipe != 0:
		return "a pipe"
	case t&fs.ModeDevice != 0:
		return "a device"
	case t&fs.ModeSocket != 0:
		return "a socket"
	}
	return "something else"
}
