package config

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Parse reads and checks the text of a file called name, and opens no other: keys that
// are in files of their own are missing. An error is an Errors.
//
// It walks the syntax tree instead of decoding into a struct, because a decoder
// stops at the first mistake.
func Parse(name string, data []byte) (*Config, error) { return read(name, data).finish() }

// read takes the values from the text.
func read(name string, data []byte) *reader {
	c := Default()
	c.file, c.at = name, map[string]position{}
	r := &reader{config: c}
	if body := r.syntax(data); body != nil {
		r.root()(r, "", body)
	}
	return r
}

// finish checks the values. Keys of what it refuses are overwritten.
func (r *reader) finish() (*Config, error) {
	c := r.config
	if len(r.errs) == 0 || len(c.at) > 0 { // a file of which nothing was understood lacks nothing
		known := faulty{}
		for _, err := range r.errs {
			known[err.key] = true
		}
		for _, err := range c.check() {
			if !known.cover(err.key) {
				known[err.key] = true
				r.errs = append(r.errs, err)
			}
		}
	}
	if err := r.errs.orNil(); err != nil {
		c.IPsec.Zero()
		return nil, err
	}
	return c, nil
}

// root describes the whole file.
func (r *reader) root() value {
	c := r.config
	return mapping(
		field{"ports", list(func(int) value {
			c.Ports = append(c.Ports, Port{Mode: ModeAuto, ReversePath: ReversePathAuto})
			p := &c.Ports[len(c.Ports)-1]
			queues := "all" // the only choice yet
			return mapping(
				field{"interface", text(&p.Interface)},
				field{"queues", oneOf(&queues, "all")},
				field{"mode", oneOf(&p.Mode, modes...)},
				field{"reverse_path", oneOf(&p.ReversePath, reversePaths...)},
			)
		})},
		field{"engine", oneOf(&c.Engine, engines...)},
		field{"shadow", integer(&c.Shadow, "1024")},
		field{"workers", integer(&c.Workers, "0")},
		field{"batch", mapping(
			field{"max_packets", integer(&c.Batch.MaxPackets, "1024")},
			field{"max_delay", duration(&c.Batch.MaxDelay)},
		)},
		field{"metrics", mapping(field{"listen", text(&c.Metrics.Listen)})},
		field{"control", mapping(field{"socket", text(&c.Control.Socket)})},
		field{"napi", oneOf(&c.NAPI, napis...)},
		field{"busy_poll", duration(&c.BusyPoll)},
		field{"checksum", oneOf(&c.Checksum, checksums...)},
		field{"icmp", mapping(
			field{"per_second", integer(&c.ICMP.PerSecond, "1000")},
			field{"burst", integer(&c.ICMP.Burst, "100")},
			field{"source_per_second", integer(&c.ICMP.SourcePerSecond, "10")},
			field{"source_burst", integer(&c.ICMP.SourceBurst, "10")},
		)},
		field{"ipsec", r.ipsec()},
	)
}

// byteOrderMark is what some editors begin a file with (YAML 1.2, section 5.2).
var byteOrderMark = []byte("\ufeff")

// syntax returns the tree of the only document in data, nil if there is none.
func (r *reader) syntax(data []byte) ast.Node {
	if len(data) > maxFileSize {
		r.fail("", nil, fmt.Sprintf("%d bytes is more than a configuration can have", len(data)),
			fmt.Sprintf("keep it below %d", maxFileSize))
		return nil
	}
	data = bytes.TrimPrefix(data, byteOrderMark)
	if r.failShape(data); len(r.errs) > 0 {
		return nil
	}
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.failSyntax(err)
		return nil
	}
	var body ast.Node
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil:
		case body == nil:
			body = doc.Body
		default:
			r.fail("", doc.Body, "a second YAML document begins here", "keep one, and remove the line `---` before it")
		}
	}
	return body
}

// What no configuration comes near, and what keeps the parser, whose memory
// grows with the square of the depth of nesting, from being fed garbage: a block
// is nested no deeper than its line is long, a bracket no deeper than it counts.
const (
	maxLine    = 1024 // bytes
	maxNesting = 64   // brackets
)

func (r *reader) failShape(data []byte) {
	line, column, open := 1, 0, 0
	for _, b := range data {
		column++
		switch b {
		case '\n':
			line, column = line+1, 0
		case '[', '{':
			open++
		case ']', '}':
			open = max(open-1, 0)
		}
		msg := ""
		switch {
		case open > maxNesting:
			msg = fmt.Sprintf("brackets are nested more than %d deep", maxNesting)
		case column > maxLine:
			msg = fmt.Sprintf("a line of more than %d bytes", maxLine)
		default:
			continue
		}
		e := r.fail("", nil, msg, "is this the configuration? see configs/full.yaml for one")
		e.Line, e.Column = line, column
		return
	}
}

func (r *reader) failSyntax(err error) {
	var syntax yaml.Error
	if !errors.As(err, &syntax) || syntax.GetToken() == nil {
		r.fail("", nil, "not YAML: "+err.Error(), "see configs/full.yaml for a sample")
		return
	}
	e := r.fail("", nil, "not YAML: "+syntax.GetMessage(), "check the indentation, colons and quotes here")
	e.Line, e.Column = place(syntax.GetToken())
}
