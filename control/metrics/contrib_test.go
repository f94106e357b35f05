package metrics

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

const contrib = "../../contrib/"

// The alerting rules are valid, and each fires at its condition.
func TestPrometheusRules(t *testing.T) {
	promtool(t, "check", "rules", contrib+"prometheus/warproute.rules.yml")
	promtool(t, "test", "rules", contrib+"prometheus/warproute.test.yml")
	rules := read(t, "prometheus/warproute.rules.yml")
	tests := read(t, "prometheus/warproute.test.yml")
	for _, alert := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(rules, -1) {
		if !strings.Contains(tests, `alertname="`+alert[1]+`"`) {
			t.Errorf("no test fires %s", alert[1])
		}
	}
	exported(t, "the rules", rules)
	exported(t, "the rules' test", tests)
}

// Each query of the dashboard is valid PromQL over exported metrics and labels.
func TestGrafanaDashboard(t *testing.T) {
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(read(t, "grafana/warproute.json")), &dashboard))
	var rules strings.Builder
	rules.WriteString("groups:\n- name: dashboard\n  rules:\n")
	variables := strings.NewReplacer("$__rate_interval", "1m", "$job", "j", "$instance", ".*")
	for _, p := range dashboard.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("panel %q has no query", p.Title)
		}
		for _, target := range p.Targets {
			expr, err := json.Marshal(variables.Replace(target.Expr))
			require.NoError(t, err)
			rules.WriteString("  - {record: \"a:b:c\", expr: " + string(expr) + "}\n")
			exported(t, p.Title, target.Expr)
		}
	}
	if len(dashboard.Panels) == 0 {
		t.Error("no panel")
	}
	file := filepath.Join(t.TempDir(), "dashboard.yml")
	require.NoError(t, os.WriteFile(file, []byte(rules.String()), 0o600))
	promtool(t, "check", "rules", "--lint=none", file)
}

func promtool(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %q: %v\n%s", args, err, out)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(contrib + file)
	require.NoError(t, err)
	return string(text)
}

// exported checks that each metric of a text, and each label in its selectors, is in the reference.
func exported(t *testing.T, what, text string) {
	t.Helper()
	reference, err := os.ReadFile("../../docs/reference/metrics.md")
	require.NoError(t, err)
	labels := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(warproute_\\w+)` \\| (\\w+) \\| (.*?) \\|").FindAllStringSubmatch(string(reference), -1) {
		labels[row[1]] = row[3]
		if row[2] == "histogram" {
			labels[row[1]+"_bucket"] = row[3] + "`le`"
		}
	}
	for _, use := range regexp.MustCompile(`\b(warproute_\w+)(\{[^}]*\})?`).FindAllStringSubmatch(text, -1) {
		known, found := labels[use[1]]
		if !found {
			t.Errorf("%s: no metric %s", what, use[1])
		}
		for _, label := range regexp.MustCompile(`(\w+)=~?"`).FindAllStringSubmatch(use[2], -1) {
			if label[1] != "job" && label[1] != "instance" && !strings.Contains(known, "`"+label[1]+"`") {
				t.Errorf("%s: %s has no label %s", what, use[1], label[1])
			}
		}
	}
}
