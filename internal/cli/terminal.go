package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Count returns a number with its noun: "1 port", "2 ports".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// ColorLevels colors FAIL red and WARN yellow at the beginning of lines, if w is a terminal and
// NO_COLOR is not set.
func ColorLevels(w io.Writer, text string) string {
	if !IsTerminal(w) || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return text
	}
	return colorLevels(text)
}

func colorLevels(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		for level, color := range map[string]string{"FAIL": "31", "WARN": "33"} {
			if rest, ok := strings.CutPrefix(line, level+" "); ok {
				line = "\x1b[" + color + "m" + level + "\x1b[0m " + rest
			}
		}
		b.WriteString(line)
	}
	return b.String()
}

// Progress shows the current step of a long command on one line of a terminal. It writes nothing
// elsewhere.
type Progress struct{ w io.Writer }

// NewProgress returns the progress line of w.
func NewProgress(w io.Writer) *Progress {
	if !IsTerminal(w) {
		w = io.Discard
	}
	return &Progress{w}
}

// Step replaces the line.
func (p *Progress) Step(format string, args ...any) {
	fmt.Fprintf(p.w, "\r\x1b[K"+format, args...)
}

// Done clears the line.
func (p *Progress) Done() { fmt.Fprint(p.w, "\r\x1b[K") }
