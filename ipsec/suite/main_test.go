package suite

import (
	"os"
	"testing"
)

// TestMain runs all tests without vectors too, for processors that have none.
func TestMain(m *testing.M) {
	code := m.Run()
	if vectors {
		vectors = false
		code = max(code, m.Run())
	}
	os.Exit(code)
}
