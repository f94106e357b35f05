package main

import (
	"bytes"
	"os"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// screen is a terminal that shows one text after another in the same place. What was on it
// before comes back when it is closed.
type screen struct {
	in, out *os.File
	before  *unix.Termios // nil: keys are not read
}

// Control sequences of xterm, which all terminals of today know.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // the alternate screen, no cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	home        = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// openScreen takes a terminal over; it is not ok if out is none.
func openScreen(in, out *os.File) (s *screen, ok bool) {
	if _, err := unix.IoctlGetTermios(int(out.Fd()), unix.TCGETS); err != nil {
		return nil, false
	}
	s = &screen{in: in, out: out}
	if t, err := unix.IoctlGetTermios(int(in.Fd()), unix.TCGETS); err == nil {
		keys := *t
		keys.Lflag &^= unix.ICANON | unix.ECHO // each key at once, and not shown; Ctrl-C is a signal as before
		keys.Cc[unix.VSUSP] = 0                // Ctrl-Z would leave the terminal as it is
		if unix.IoctlSetTermios(int(in.Fd()), unix.TCSETS, &keys) == nil {
			s.before = t
		}
	}
	_, _ = out.WriteString(enterScreen)
	return s, true
}

// quitBy calls quit when q is pressed.
func (s *screen) quitBy(quit func()) {
	if s.before == nil {
		return
	}
	var key [1]byte
	for {
		if n, err := s.in.Read(key[:]); err != nil || n == 0 {
			return
		}
		if key[0] == 'q' || key[0] == 'Q' {
			quit()
			return
		}
	}
}

// show puts a text in place of the one before, as much as there is room for.
func (s *screen) show(_, text []byte) error {
	width, height := 80, 24
	if size, err := unix.IoctlGetWinsize(int(s.out.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 && size.Row > 1 {
		width, height = int(size.Col), int(size.Row)
	}
	b := bytes.NewBufferString(home)
	lines := bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
	for i, line := range lines[:min(len(lines), height-1)] {
		if i > 0 {
			b.WriteString("\r\n")
		}
		for n := 0; n < width && len(line) > 0; n++ {
			_, size := utf8.DecodeRune(line)
			b.Write(line[:size])
			line = line[size:]
		}
		b.WriteString(clearLine)
	}
	b.WriteString(clearBelow)
	_, err := s.out.Write(b.Bytes())
	return err
}

// close gives the terminal back as it was.
func (s *screen) close() {
	_, _ = s.out.WriteString(leaveScreen)
	if s.before != nil {
		_ = unix.IoctlSetTermios(int(s.in.Fd()), unix.TCSETS, s.before)
	}
}
