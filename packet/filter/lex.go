package filter

import (
	"fmt"
	"strings"
)

// token is a word or an operator with its offset.
type token struct {
	text string
	at   int
}

// operators, the longest first.
var operators = []string{"&&", "||", "==", "!=", "<=", ">=", "<<", ">>", "(", ")", "[", "]", "=", "<", ">", "!", "+", "-", "*", "/", "%", "&", "|", "^", ":"}

// lex splits an expression into tokens. Outside of brackets a word may contain the characters of
// addresses, masks and ranges: 10.0.0.0/8, 2001:db8::1, 22-25.
func lex(expr string) (tokens []token, err error) {
	brackets := 0
	for at := 0; at < len(expr); {
		c := expr[at]
		if strings.IndexByte(" \t\r\n", c) >= 0 {
			at++
			continue
		}
		start := at
		if isWord(c) || c == '\\' || c == ':' && brackets == 0 {
			more := ".:/-_"
			if brackets > 0 {
				more = "-_"
			}
			for at++; at < len(expr) && (isWord(expr[at]) || strings.IndexByte(more, expr[at]) >= 0); at++ {
			}
		} else {
			op := operator(expr[at:])
			if op == "" {
				return nil, fmt.Errorf("column %d: unexpected character %q", at+1, string(c))
			}
			switch op {
			case "[":
				brackets++
			case "]":
				brackets--
			}
			at += len(op)
		}
		tokens = append(tokens, token{expr[start:at], start})
	}
	return tokens, nil
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func operator(s string) string {
	for _, op := range operators {
		if strings.HasPrefix(s, op) {
			return op
		}
	}
	return ""
}
