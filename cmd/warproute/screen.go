package main

import (
	"bytes"
	"os"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/cli"
)

// screen replaces the text on a terminal in place. Closing it restores the previous contents.
type screen struct {
	in, out *os.File
	before  *unix.Termios // saved settings; nil if keys are not read
}

// Control sequences of xterm.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // the alternate screen, no cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	home        = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// openScreen opens the alternate screen. It is not ok if out is not a terminal.
func openScreen(in, out *os.File) (s *screen, ok bool) {
	if !cli.IsTerminal(out) {
		return nil, false
	}
	s = &screen{in: in, out: out}
	if t, err := unix.IoctlGetTermios(int(in.Fd()), unix.TCGETS); err == nil {
		keys := *t
		keys.Lflag &^= unix.ICANON | unix.ECHO // unbuffered keys without echo; Ctrl-C stays a signal
		keys.Cc[unix.VSUSP] = 0                // Ctrl-Z would leave the terminal in this state
		if unix.IoctlSetTermios(int(in.Fd()), unix.TCSETS, &keys) == nil {
			s.before = t
		}
	}
	_, _ = out.WriteString(enterScreen)
	return s, true
}

// quitBy calls quit when the user presses q.
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

// show replaces the text, cut to the size of the terminal.
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

// close restores the terminal.
func (s *screen) close() {
	_, _ = s.out.WriteString(leaveScreen)
	if s.before != nil {
		_ = unix.IoctlSetTermios(int(s.in.Fd()), unix.TCSETS, s.before)
	}
}
