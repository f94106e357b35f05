package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

func TestReferencesAreFresh(t *testing.T) {
	documents, err := generate("../..")
	require.NoError(t, err)
	for name, want := range documents {
		got, err := os.ReadFile(filepath.Join("../..", name))
		require.NoError(t, err)
		if string(got) != want {
			t.Errorf("%s is not what the source code says; run make gen", name)
		}
	}
}

// The generator refuses a metric that nothing sends, and a type that does not exist.
func TestGeneratorRefusesUnknownNames(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "control/metrics")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	source := "package metrics\n\nvar lost = desc(\"lost_total\", \"Lost packets.\", \"port\")\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "metrics.go"), []byte(source), 0o644))
	if _, err := metricsReference(root); err == nil || !strings.Contains(err.Error(), "lost_total") {
		t.Errorf("a metric that nothing sends: %v", err)
	}
	if _, err := jsonReference(root); err == nil || !strings.Contains(err.Error(), "control/status.Port") {
		t.Errorf("types that do not exist: %v", err)
	}
}

// Every key of configs/full.yaml is in the configuration reference.
func TestConfigurationReferenceHasEveryKey(t *testing.T) {
	sample, err := os.ReadFile("../../configs/full.yaml")
	require.NoError(t, err)
	document, err := os.ReadFile("../../docs/reference/configuration.md")
	require.NoError(t, err)
	keys := regexp.MustCompile(`(?m)^\s*#? *(?:- )?([a-z_]+): *(?:[^ ].*)?$`).FindAllSubmatch(sample, -1)
	if len(keys) < 40 {
		t.Fatalf("found %d keys in configs/full.yaml, want at least 40", len(keys))
	}
	for _, k := range keys {
		if !regexp.MustCompile("[`.]" + string(k[1]) + "[`.\\[]").Match(document) {
			t.Errorf("docs/reference/configuration.md lacks the key %s", k[1])
		}
	}
}
