package config

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Parse parses and checks the text of a configuration file. It does not read key files. The error
// is an Errors.
//
// It walks the syntax tree, because a decoder into a struct stops at the first error.
func Parse(name string, data []byte) (*Config, error) { return read(name, data).finish() }

// read reads the values without checking them.
func read(name string, data []byte) *reader {
	c := Default()
	c.file, c.at = name, map[string]position{}
	r := &reader{config: c}
	if body := r.syntax(data); body != nil {
		r.root()(r, "", body)
	}
	return r
}

// finish checks the values. It overwrites the keys of an invalid configuration.
func (r *reader) finish() (*Config, error) {
	c := r.config
	if len(r.errs) == 0 || len(c.at) > 0 { // report no missing values if nothing was read
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

// root returns the reader of the whole file.
func (r *reader) root() value {
	c := r.config
	return mapping(
		field{"ports", r.ports()},
		field{"max_ports", integer(&c.MaxPorts, "0")},
		field{"engine", oneOf(&c.Engine, engines...)},
		field{"gpu", mapping(
			field{"park", duration(&c.GPU.Park)},
			field{"multiprocessors", integer(&c.GPU.Multiprocessors, "0")},
			field{"memory", oneOf(&c.GPU.Memory, gpuMemories...)},
		)},
		field{"shadow", integer(&c.Shadow, "1024")},
		field{"workers", integer(&c.Workers, "0")},
		field{"cores", coreList(&c.Cores)},
		field{"batch", mapping(
			field{"max_packets", integer(&c.Batch.MaxPackets, "1024")},
			field{"max_bytes", integer(&c.Batch.MaxBytes, "65536")},
			field{"max_in_flight", integer(&c.Batch.MaxInFlight, "6")},
			field{"max_delay", duration(&c.Batch.MaxDelay)},
		)},
		field{"lanes", r.lanes()},
		field{"metrics", mapping(field{"listen", text(&c.Metrics.Listen)}, field{"web_config", text(&c.Metrics.WebConfig)})},
		field{"status", mapping(field{"listen", text(&c.Status.Listen)})},
		field{"control", mapping(field{"socket", text(&c.Control.Socket)}, field{"group", text(&c.Control.Group)})},
		field{"privileges", mapping(field{"user", text(&c.Privileges.User)}, field{"seccomp", boolean(&c.Privileges.Seccomp)})},
		field{"napi", oneOf(&c.NAPI, napis...)},
		field{"busy_poll", duration(&c.BusyPoll)},
		field{"log", mapping(field{"format", oneOf(&c.Log.Format, logFormats...)}, field{"level", oneOf(&c.Log.Level, logLevels...)})},
		field{"checksum", oneOf(&c.Checksum, checksums...)},
		field{"icmp", mapping(
			field{"per_second", integer(&c.ICMP.PerSecond, "1000")},
			field{"burst", integer(&c.ICMP.Burst, "100")},
			field{"source_per_second", integer(&c.ICMP.SourcePerSecond, "10")},
			field{"source_burst", integer(&c.ICMP.SourceBurst, "10")},
		)},
		field{"exit", mapping(
			field{"linux", oneOf(&c.Exit.Linux, exits...)},
			field{"share", integer(&c.Exit.Share, "50")},
		)},
		field{"ipsec", r.ipsec()},
	)
}

// byteOrderMark is written at the start of a file by some editors (YAML 1.2, section 5.2).
var byteOrderMark = []byte("\ufeff")

// syntax returns the syntax tree of the only document in data, nil for none.
func (r *reader) syntax(data []byte) ast.Node {
	if len(data) > maxFileSize {
		r.fail("", nil, fmt.Sprintf("%d bytes exceed the limit of %d", len(data), maxFileSize), sampleHint)
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
			r.fail("", doc.Body, "second YAML document", "keep one, and remove the line `---` before it")
		}
	}
	return body
}

// Limits of the nesting depth, with which the memory of the parser grows quadratically. The length
// of a line limits the depth of blocks. Configurations need far less.
const (
	maxLine    = 1024 // bytes
	maxNesting = 64   // brackets
)

const sampleHint = "see configs/full.yaml for a sample"

// failShape reports input beyond these limits.
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
			msg = fmt.Sprintf("line longer than %d bytes", maxLine)
		default:
			continue
		}
		e := r.fail("", nil, msg, sampleHint)
		e.Line, e.Column = line, column
		return
	}
}

// failSyntax reports an error of the parser.
func (r *reader) failSyntax(err error) {
	var syntax yaml.Error
	if !errors.As(err, &syntax) || syntax.GetToken() == nil {
		r.fail("", nil, "invalid YAML: "+err.Error(), sampleHint)
		return
	}
	e := r.fail("", nil, "invalid YAML: "+syntax.GetMessage(), "check the indentation, colons and quotes here")
	p := tokenPosition(syntax.GetToken())
	e.Line, e.Column = p.line, p.column
}
