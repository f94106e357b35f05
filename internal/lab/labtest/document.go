package labtest

import (
	"os"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// Block returns the only fenced code block of a document that contains a text.
func Block(t testing.TB, file, text string) (block string) {
	t.Helper()
	document, err := os.ReadFile(file)
	require.NoError(t, err)
	found := 0
	for _, b := range lab.Blocks(string(document)) {
		if strings.Contains(b.Text, text) {
			block = b.Text
			found++
		}
	}
	if found != 1 {
		t.Fatalf("%s has %d code blocks with %q, want one", file, found, text)
	}
	return block
}
