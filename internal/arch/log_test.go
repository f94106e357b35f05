package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"
)

// logKeys are the keys of log messages, in the order in which a message has them.
var logKeys = []string{
	"port", "worker", "gpu", "sa", "policy", // subjects
	"gateway", "family", "ipv4", "ipv6", "change", "table", "request", "uid", "pid", // details of a subject
	"from", "to", "mode", "up", "mtu", "mac", "index", "queues", "sockets", "frames", "free", "withheld", "interface", "routes", "prefixes", "limit", "duration", // values
	"err", "reason", "hint",
}

// logMethods are the methods of slog with the positions of their messages.
var logMethods = map[string]int{"Debug": 0, "Info": 0, "Warn": 0, "Error": 0, "DebugContext": 1, "InfoContext": 1, "WarnContext": 1, "ErrorContext": 1, "Log": 2}

// checkLogs wants log messages that are literals, begin in lower case and have no final period,
// with literal keys of logKeys.
func checkLogs(s *source) (problems []string) {
	if s.test() {
		return nil
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && isLogger(f.X) {
				if at, ok := logMethods[f.Sel.Name]; ok && len(n.Args) > at {
					problems = append(problems, checkMessage(n.Args[at])...)
					problems = append(problems, checkKeys(n.Args[at+1:], n.Ellipsis.IsValid())...)
				} else if f.Sel.Name == "With" {
					problems = append(problems, checkKeys(n.Args, n.Ellipsis.IsValid())...)
				}
			}
		case *ast.FuncDecl:
			if n.Name.Name == "logAttrs" {
				ast.Inspect(n, func(n ast.Node) bool {
					if l, ok := n.(*ast.CompositeLit); ok {
						problems = append(problems, checkKeys(l.Elts, false)...)
					}
					return true
				})
			}
		}
		return true
	})
	return problems
}

// isLogger reports whether an expression is a logger, by its name.
func isLogger(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name == "log" || e.Name == "slog"
	case *ast.SelectorExpr:
		return e.Sel.Name == "log" || e.Sel.Name == "Log"
	}
	return false
}

func checkMessage(e ast.Expr) []string {
	text, ok := stringOf(e)
	switch {
	case !ok:
		return []string{"logs a message that is no string literal"}
	case text == "" || unicode.IsUpper([]rune(text)[0]):
		return []string{fmt.Sprintf("logs %q, which does not begin in lower case", text)}
	case strings.HasSuffix(text, "."):
		return []string{fmt.Sprintf("logs %q, which ends with a period", text)}
	}
	return nil
}

// checkKeys checks alternating keys and values. The last argument of a variadic call is a call of
// logAttrs or of append to it.
func checkKeys(args []ast.Expr, variadic bool) (problems []string) {
	if variadic {
		call, ok := args[len(args)-1].(*ast.CallExpr)
		if ok && nameOf(call.Fun) == "append" && len(call.Args) > 0 {
			problems = checkKeys(call.Args[1:], false)
			call, ok = call.Args[0].(*ast.CallExpr)
		}
		if !ok || nameOf(call.Fun) != "logAttrs" {
			problems = append(problems, "logs keys that are neither literals nor from a function logAttrs")
		}
		args = args[:len(args)-1]
	}
	for i := 0; i < len(args); i += 2 {
		key, ok := stringOf(args[i])
		if !ok {
			problems = append(problems, "logs a key that is no string literal")
		} else if !slices.Contains(logKeys, key) {
			problems = append(problems, fmt.Sprintf("logs the key %q, which is not in logKeys", key))
		}
	}
	return problems
}

func stringOf(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(l.Value)
	return text, err == nil
}

// nameOf returns the name of a called function or method.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

func TestLogRuleCatchesViolations(t *testing.T) {
	for call, want := range map[string]string{
		`s.log.Info("port open", "port", p, "err", err)`:        "",
		`log.Error("Port open")`:                                "lower case",
		`s.log.Warn("port open.")`:                              "period",
		`s.log.Warn(text, "port", p)`:                           "no string literal",
		`s.log.Info("port open", "error", err)`:                 `"error"`,
		`s.log.Info("port open", key, err)`:                     "key that is no string literal",
		`s.log.Log(ctx, level, "Port open", "port", p)`:         "lower case",
		`s.log.With("because", why)`:                            `"because"`,
		`s.log.Info("port open", attrs...)`:                     "logAttrs",
		`s.log.Info("port open", append(a.logAttrs(), "x")...)`: `"x"`,
		`t.Log("Anything")`:                                     "",
	} {
		tree := fstest.MapFS{"p/a.go": {Data: []byte("package p\n\nfunc f() {\n\t" + call + "\n}\n")}}
		if got := strings.Join(checkLogs(sources(t, tree)[0]), "; "); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", call, got, want)
		}
	}
	tree := fstest.MapFS{"p/a.go": {Data: []byte("package p\n\nfunc (a *x) logAttrs() []any { return []any{\"spi\", 1} }\n")}}
	if got := checkLogs(sources(t, tree)[0]); len(got) != 1 {
		t.Errorf("a key in logAttrs: %q", got)
	}
}
