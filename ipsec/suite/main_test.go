package suite

import (
	"os"
	"testing"
)

// TestMain runs all tests without vector instructions, too.
func TestMain(m *testing.M) {
	code := m.Run()
	if vectors {
		vectors = false
		code = max(code, m.Run())
	}
	os.Exit(code)
}
