// Package textfile opens files of paths that somebody gave, behind which there may be
// anything: it never waits for a peer of a FIFO, and wakes no device.
package textfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrType is wrapped by errors about something that is no regular file.
var ErrType = errors.New("not a regular file")

// TooLong is the error about a file that has more bytes than its reader wants.
type TooLong struct {
	Path        string
	Bytes, Most int64 // Bytes: as far as was seen
}

func (e *TooLong) Error() string {
	return fmt.Sprintf("%s has %d bytes or more, of at most %d", e.Path, e.Bytes, e.Most)
}

// Open opens a regular file, or something of the other types (fs.ModeNamedPipe, ...), for
// reading. What it says of the file is of the one that is open, whatever the path is by now.
// The end of a pipe that nobody has open to write comes at once.
func Open(path string, others fs.FileMode) (*os.File, fs.FileInfo, error) {
	accept := func(info fs.FileInfo) error {
		if t := info.Mode().Type(); t != 0 && t&^others != 0 {
			return fmt.Errorf("%s is %s, and %w", path, kind(t), ErrType)
		}
		return nil
	}
	info, err := os.Stat(path) // before it is opened, which some devices take for a command
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

// Read reads a regular file of at most so many bytes, else the error is a TooLong.
func Read(path string, most int64) ([]byte, error) {
	data, _, err := ReadInfo(path, most)
	return data, err
}

// ReadInfo is Read, and also returns what the file says of itself.
func ReadInfo(path string, most int64) ([]byte, fs.FileInfo, error) {
	f, info, err := Open(path, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	data, err := ReadOpen(f, info, most)
	return data, info, err
}

// ReadOpen is Read for a file that is open.
func ReadOpen(f *os.File, info fs.FileInfo, most int64) ([]byte, error) {
	if info.Size() > most {
		return nil, &TooLong{f.Name(), info.Size(), most}
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1)) // it may grow, or not know its size as in /proc
	if err == nil && int64(len(data)) > most {
		err = &TooLong{f.Name(), int64(len(data)), most}
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
