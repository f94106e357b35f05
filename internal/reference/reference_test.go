package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestReferencesAreFresh(t *testing.T) {
	documents, err := generate("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range documents {
		got, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is not what the source code says; run make gen", name)
		}
	}
}

// The generator refuses a metric that nothing sends, and a type that does not exist.
func TestGeneratorRefusesUnknownNames(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "control/metrics")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	source := "package metrics\n\nvar lost = desc(\"lost_total\", \"Lost packets.\", \"port\")\n"
	if err := os.WriteFile(filepath.Join(dir, "metrics.go"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile("../../docs/reference/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
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
