package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// reader reads values from a syntax tree and collects errors.
type reader struct {
	config *Config
	errs   Errors
}

// value reads a node into a variable. The key identifies the value in errors and positions.
type value func(r *reader, key string, n ast.Node)

// field is a key of a mapping with the reader of its value.
type field struct {
	key  string
	read value
}

// mapping reads a mapping and rejects unknown keys.
func mapping(fields ...field) value {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.key
	}
	return func(r *reader, key string, n ast.Node) {
		m, ok := n.(*ast.MappingNode)
		if !ok {
			r.wrongType(key, n, "a mapping with the keys "+strings.Join(names, ", "), "write `key: value` lines below it")
			return
		}
		first := map[string]position{}
		for _, entry := range m.Values {
			name := keyName(entry.Key)
			full := strings.TrimPrefix(key+"."+name, ".")
			if old, twice := first[name]; twice {
				r.fail(full, entry.Key, fmt.Sprintf("duplicate key %q, first in line %d", name, old.line), "remove one of the two")
				continue
			}
			first[name] = tokenPosition(entry.Key.GetToken())
			i := slices.Index(names, name)
			if i < 0 {
				r.unknownKey(key, name, names, entry.Key)
				continue
			}
			r.read(fields[i].read, full, entry.Value)
		}
	}
}

// list reads a sequence; item returns the reader of the i-th element.
func list(item func(i int) value) value {
	return func(r *reader, key string, n ast.Node) {
		seq, ok := n.(*ast.SequenceNode)
		if !ok {
			r.wrongType(key, n, "a list", "begin each entry with `- `")
			return
		}
		for i, v := range seq.Values {
			r.read(item(i), fmt.Sprintf("%s[%d]", key, i), v)
		}
	}
}

// text reads a string.
func text[T ~string](dst *T) value {
	return func(r *reader, key string, n ast.Node) {
		switch n := n.(type) {
		case *ast.StringNode:
			*dst = T(n.Value)
		case *ast.LiteralNode:
			*dst = T(n.Value.Value)
		default:
			hint := "write a string"
			if s, ok := n.(ast.ScalarNode); ok {
				hint = fmt.Sprintf("quote the value: %q", s.GetToken().Value)
			}
			r.wrongType(key, n, "a string", hint)
		}
	}
}

// oneOf reads one of the choices. Check checks the value again.
func oneOf[T ~string](dst *T, choices ...T) value {
	return func(r *reader, key string, n ast.Node) {
		s, ok := n.(*ast.StringNode)
		if !ok {
			r.wrongType(key, n, "a string", "write "+alternatives(choices))
			return
		}
		*dst = T(s.Value)
		if !slices.Contains(choices, *dst) {
			r.fail(key, n, unknownValue(key, *dst), "write "+alternatives(choices))
		}
	}
}

// integer reads an integer; sample is an example for the hint.
func integer[T int | uint16 | uint32 | uint64](dst *T, sample string) value {
	return func(r *reader, key string, n ast.Node) {
		node, ok := n.(*ast.IntegerNode)
		if text, isText := n.(*ast.StringNode); isText { // the parser returns a large number as a string
			if _, err := strconv.ParseInt(text.Value, 0, 64); errors.Is(err, strconv.ErrRange) {
				r.fail(key, n, fmt.Sprintf("%s: %s is out of range", key, text.Value), "write an integer such as "+sample)
				return
			}
		}
		if !ok {
			r.wrongType(key, n, "an integer", "write an integer such as "+sample)
			return
		}
		var v T
		switch given := node.Value.(type) {
		case int64:
			v = T(given)
			ok = int64(v) == given && (v < 0) == (given < 0)
		case uint64:
			v = T(given)
			ok = uint64(v) == given && v >= 0
		}
		if !ok {
			r.fail(key, n, fmt.Sprintf("%s: %v is out of range", key, node.Value), "write an integer such as "+sample)
			return
		}
		*dst = v
	}
}

// boolean reads true or false.
func boolean(dst *bool) value {
	return func(r *reader, key string, n ast.Node) {
		b, ok := n.(*ast.BoolNode)
		if !ok {
			r.wrongType(key, n, "a boolean", "write true or false")
			return
		}
		*dst = b.Value
	}
}

// scalar reads a string or a number with parse, which returns a problem and a hint, "" for none and for
// the usual hint. want and hint are for nodes of other types.
func scalar[T any](dst *T, want, hint string, parse func(text string) (v T, problem, better string)) value {
	return func(r *reader, key string, n ast.Node) {
		s, ok := scalarText(n)
		if !ok {
			r.wrongType(key, n, want, hint)
			return
		}
		v, problem, better := parse(s)
		if problem != "" {
			r.fail(key, n, key+": "+problem, cmp.Or(better, hint))
			return
		}
		*dst = v
	}
}

// scalarText returns the source text of a string or a number. It is not ok for other nodes.
func scalarText(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.IntegerNode, *ast.FloatNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// duration reads a duration in the format of time.ParseDuration.
func duration(dst *time.Duration) value {
	return scalar(dst, "a duration", "write a number and its unit, as in 50us or 1ms", func(s string) (time.Duration, string, string) {
		d, err := time.ParseDuration(s)
		if err != nil {
			return 0, fmt.Sprintf("%q is not a duration", s), "write a number and its unit (ns, us, ms, s), as in 50us or 1ms"
		}
		return d, "", ""
	})
}

// read reads a value. It records the position, and rejects null values and aliases.
func (r *reader) read(v value, key string, n ast.Node) {
	if tag, ok := n.(*ast.TagNode); ok {
		n = tag.Value
	}
	if anchor, ok := n.(*ast.AnchorNode); ok {
		n = anchor.Value
	}
	if n == nil { // a tag without a value
		r.fail(key, nil, key+" has no value", "add a value, or remove the line to use the default")
		return
	}
	r.config.at[key] = nodePosition(n)
	switch n.(type) {
	case *ast.NullNode:
		r.fail(key, n, key+" has no value", "add a value, or remove the line to use the default")
	case *ast.AliasNode:
		r.fail(key, n, key+" is an alias, which is not supported", "write the value itself")
	default:
		v(r, key, n)
	}
}

// wrongType reports a node of another type.
func (r *reader) wrongType(key string, n ast.Node, want, hint string) {
	what := "the file"
	if key != "" {
		what = key
	}
	r.fail(key, n, fmt.Sprintf("%s must be %s, not %s", what, want, describe(n)), hint)
}

// unknownKey reports an unknown key of a mapping.
func (r *reader) unknownKey(parent, name string, known []string, n ast.Node) {
	key, where := name, ""
	if parent != "" {
		where = " in " + parent
	}
	hint := "the known keys are " + strings.Join(known, ", ")
	if near := nearest(name, known); near != "" {
		key, hint = near, fmt.Sprintf("did you mean %q?", near)
	}
	r.fail(strings.TrimPrefix(parent+"."+key, "."), n, fmt.Sprintf("unknown key %q%s", name, where), hint)
}

// fail adds an error, with the position of n unless n is nil, and returns it.
func (r *reader) fail(key string, n ast.Node, msg, hint string) *Error {
	err := newError(r.config.file, key, msg, hint)
	if n != nil {
		p := nodePosition(n)
		err.Line, err.Column = p.line, p.column
	}
	r.errs = append(r.errs, err)
	return err
}

// nodePosition returns the position of a node.
func nodePosition(n ast.Node) position {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 { // the token of a mapping is its first colon
		n = m.Values[0].Key
	}
	return tokenPosition(n.GetToken())
}

func tokenPosition(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{1, 1}
	}
	return position{t.Position.Line, t.Position.Column}
}

func keyName(k ast.MapKeyNode) string {
	if t := k.GetToken(); t != nil {
		return t.Value
	}
	return ""
}

// describe returns the type of a node, with the value of a scalar, for errors.
func describe(n ast.Node) string {
	switch n := n.(type) {
	case *ast.MappingNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode:
		return fmt.Sprintf("the string %.40q", hideKeys(n.Value)) // possibly the whole text of another file
	case *ast.LiteralNode:
		return "a block scalar"
	case *ast.BoolNode:
		return "the boolean " + n.GetToken().Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "the number " + n.GetToken().Value
	}
	return "another type"
}
