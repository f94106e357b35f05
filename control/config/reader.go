package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// reader collects what is wrong with a tree while values are taken from it.
type reader struct {
	config *Config
	errs   Errors
}

// value reads a node into a variable that it holds. key is the value's own, for
// errors and for the record of positions.
type value func(r *reader, key string, n ast.Node)

// field is a key of a mapping and what reads its value.
type field struct {
	key  string
	read value
}

// mapping reads a mapping that has no other keys than these.
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
			name, sub := keyName(entry.Key), entry.Key.GetToken()
			full := strings.TrimPrefix(key+"."+name, ".")
			line, column := place(sub)
			if old, twice := first[name]; twice {
				r.fail(full, entry.Key, fmt.Sprintf("key %q is given twice, first in line %d", name, old.line), "keep one of them")
				continue
			}
			first[name] = position{line, column}
			i := slices.Index(names, name)
			if i < 0 {
				r.unknownKey(key, name, names, entry.Key)
				continue
			}
			r.read(fields[i].read, full, entry.Value)
		}
	}
}

// list reads a sequence; item returns what reads its i-th element.
func list(item func(i int) value) value {
	return func(r *reader, key string, n ast.Node) {
		seq, ok := n.(*ast.SequenceNode)
		if !ok {
			r.wrongType(key, n, "a list", "begin each of its entries with `- `")
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
			mend := "write plain text"
			if s, ok := n.(ast.ScalarNode); ok {
				mend = fmt.Sprintf("put it in quotes if it is meant: %q", s.GetToken().Value)
			}
			r.wrongType(key, n, "text", mend)
		}
	}
}

// oneOf reads a string that Check compares with the choices.
func oneOf[T ~string](dst *T, choices ...T) value {
	return func(r *reader, key string, n ast.Node) {
		s, ok := n.(*ast.StringNode)
		if !ok {
			r.wrongType(key, n, "a word", "write "+alternatives(choices))
			return
		}
		*dst = T(s.Value)
		if !slices.Contains(choices, *dst) {
			r.fail(key, n, notOneOf(key, *dst), "write "+alternatives(choices))
		}
	}
}

// integer reads a whole number, of which sample is one.
func integer[T int | uint16 | uint32 | uint64](dst *T, sample string) value {
	return func(r *reader, key string, n ast.Node) {
		node, ok := n.(*ast.IntegerNode)
		if text, isText := n.(*ast.StringNode); isText { // what the parser makes of a number that it has no room for
			if _, err := strconv.ParseInt(text.Value, 0, 64); errors.Is(err, strconv.ErrRange) {
				r.fail(key, n, fmt.Sprintf("%s: %s is not a number that fits here", key, text.Value), "write one such as "+sample)
				return
			}
		}
		if !ok {
			r.wrongType(key, n, "a whole number", "write one, as in "+sample)
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
			r.fail(key, n, fmt.Sprintf("%s: %v is not a number that fits here", key, node.Value), "write one such as "+sample)
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
			r.wrongType(key, n, "true or false", "write one of the two")
			return
		}
		*dst = b.Value
	}
}

// duration reads a time with its unit, as time.ParseDuration does; 0 needs none.
func duration(dst *time.Duration) value {
	return func(r *reader, key string, n ast.Node) {
		switch n.(type) {
		case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode:
		default:
			r.wrongType(key, n, "a duration", "write a number and its unit, as in 50us or 1ms")
			return
		}
		s := n.GetToken().Value
		d, err := time.ParseDuration(s)
		if err != nil {
			r.fail(key, n, fmt.Sprintf("%s: %q is not a duration", key, s), "write a number and its unit (ns, us, ms, s), as in 50us or 1ms")
			return
		}
		*dst = d
	}
}

// read reads one value, after what holds for all of them.
func (r *reader) read(v value, key string, n ast.Node) {
	if tag, ok := n.(*ast.TagNode); ok {
		n = tag.Value
	}
	if anchor, ok := n.(*ast.AnchorNode); ok {
		n = anchor.Value
	}
	if n == nil { // as after a tag without a value
		r.fail(key, nil, key+" has no value", "give it one, or remove the line to have the default")
		return
	}
	line, column := place(n.GetToken())
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 { // its own token is the first colon
		line, column = place(m.Values[0].Key.GetToken())
	}
	r.config.at[key] = position{line, column}
	switch n.(type) {
	case *ast.NullNode:
		r.fail(key, n, key+" has no value", "give it one, or remove the line to have the default")
	case *ast.AliasNode:
		r.fail(key, n, key+" refers to an anchor", "write the value itself; aliases are not read here")
	default:
		v(r, key, n)
	}
}

func (r *reader) wrongType(key string, n ast.Node, want, mend string) {
	what := "the file"
	if key != "" {
		what = key
	}
	r.fail(key, n, fmt.Sprintf("%s must be %s, not %s", what, want, describe(n)), mend)
}

func (r *reader) unknownKey(parent, name string, known []string, n ast.Node) {
	key, where := name, ""
	if parent != "" {
		where = " in " + parent
	}
	mend := "the keys here are " + strings.Join(known, ", ")
	if near := nearest(name, known); near != "" {
		key, mend = near, fmt.Sprintf("did you mean %q?", near)
	}
	r.fail(strings.TrimPrefix(parent+"."+key, "."), n, fmt.Sprintf("unknown key %q%s", name, where), mend)
}

// fail records an error at a node, or at none, and returns it.
func (r *reader) fail(key string, n ast.Node, msg, mend string) *Error {
	err := newError(r.config.file, key, msg, mend)
	if n != nil {
		err.Line, err.Column = place(n.GetToken())
		if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 {
			err.Line, err.Column = place(m.Values[0].Key.GetToken())
		}
	}
	r.errs = append(r.errs, err)
	return err
}

func place(t *token.Token) (line, column int) {
	if t == nil || t.Position == nil {
		return 1, 1
	}
	return t.Position.Line, t.Position.Column
}

func keyName(k ast.MapKeyNode) string {
	if t := k.GetToken(); t != nil {
		return t.Value
	}
	return ""
}

// describe names a value as a person would.
func describe(n ast.Node) string {
	switch n := n.(type) {
	case *ast.MappingNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode:
		return fmt.Sprintf("the text %.40q", hideKeys(n.Value)) // which may be a whole file that is none of ours
	case *ast.LiteralNode:
		return "a block of text"
	case *ast.BoolNode:
		return "the truth value " + n.GetToken().Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "the number " + n.GetToken().Value
	}
	return "this"
}
