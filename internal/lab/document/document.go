// Package document finds the code blocks of documents that tests run.
//
// A block is marked by its info string, behind the language:
//
//	sh run                  run on the reader's only host
//	sh run gw1 host2        run on one or more hosts of a lab
//	sh run gw1 background   run until the end of the document
//	yaml file /etc/f        write a file
//	yaml file gw1,gw2:/etc/f
//	text output             output of the block before it
package document

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Kind is what a test does with a block.
type Kind int

const (
	Run Kind = iota
	Background
	File
)

// Step is a block that a test runs or writes.
type Step struct {
	Line    int
	Section string // heading of level 2 above it
	Kind    Kind
	Hosts   []string // none: the reader's only host
	Path    string   // of a file
	Text    string   // the script or the file
	Output  string   // what the script prints, as Compare compares it
}

// output is the marking of an expected output.
const output = "output"

// Parse returns the marked blocks of a document in order. Other blocks are ignored, unless their
// marking looks like one of these.
func Parse(text string) (steps []Step, err error) {
	var open *Step
	fenced, section := false, ""
	fail := func(line int, format string, args ...any) {
		err = errors.Join(err, fmt.Errorf("line %d: "+format, append([]any{line}, args...)...))
	}
	for i, line := range strings.Split(text, "\n") {
		info, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence && fenced:
			switch {
			case open == nil:
			case open.Output == output && len(steps) == 0:
				fail(open.Line, "output of no block")
			case open.Output == output:
				last := &steps[len(steps)-1]
				if last.Kind != Run || last.Output != "" {
					fail(open.Line, "the block before the output does not print it")
				}
				last.Output = open.Text
			default:
				steps = append(steps, *open)
			}
			open, fenced = nil, false
		case isFence:
			fenced = true
			step, marked, problem := marking(info)
			if problem != nil {
				fail(i+1, "%w", problem)
			}
			if marked {
				step.Line, step.Section = i+1, section
				open = &step
			}
		case open != nil:
			open.Text += line + "\n"
		case !fenced && strings.HasPrefix(line, "## "):
			section = strings.TrimSpace(line[3:])
		}
	}
	if fenced {
		err = errors.Join(err, errors.New("the last code block does not end"))
	}
	return steps, err
}

// marking parses an info string.
func marking(info string) (s Step, marked bool, err error) {
	words := strings.Fields(info)
	if len(words) < 2 {
		return s, false, nil
	}
	unknown := fmt.Errorf("unknown marking %q", info)
	switch verb, args := words[1], words[2:]; verb {
	case "run":
		if n := len(args); n > 0 && args[n-1] == "background" {
			s.Kind, args = Background, args[:n-1]
		}
		if words[0] != "sh" || slices.Contains(args, "background") {
			return s, false, unknown
		}
		s.Hosts = args
	case "file":
		if len(args) != 1 {
			return s, false, unknown
		}
		hosts, path, ok := strings.Cut(args[0], ":")
		if !ok {
			hosts, path = "", args[0]
		}
		if ok == (hosts == "") || !strings.HasPrefix(path, "/") {
			return s, false, unknown
		}
		s.Kind, s.Path = File, path
		if ok {
			s.Hosts = strings.Split(hosts, ",")
		}
	case output:
		if len(args) > 0 {
			return s, false, unknown
		}
		s.Output = output
	default:
		return s, false, unknown
	}
	return s, true, nil
}
