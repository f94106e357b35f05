package privilege

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/warproute/warproute/internal/require"
)

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile("../../" + path)
	require.NoError(t, err)
	return string(text)
}

// listed returns the words of the lines that begin with a prefix.
func listed(text, prefix string) (words []string) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			words = append(words, strings.Fields(rest)...)
		}
	}
	return words
}

// The unit, the manifests of containers and the document have the same capabilities, and the document their reasons.
func TestAllListsOfCapabilitiesAreTheSame(t *testing.T) {
	var names []string
	for _, c := range Kept {
		names = append(names, c.Name)
	}
	unit, quadlet := readText(t, "contrib/warproute.service"), readText(t, "packaging/container/warproute.container")
	lists := map[string][]string{
		"ambient set of the unit":  listed(unit, "AmbientCapabilities="),
		"bounding set of the unit": listed(unit, "CapabilityBoundingSet="),
		"quadlet":                  listed(quadlet, "AddCapability="),
	}
	for _, m := range manifest(t).Spec.Template.Spec.Containers {
		for _, c := range m.SecurityContext.Capabilities.Add {
			lists["Kubernetes"] = append(lists["Kubernetes"], "CAP_"+c)
		}
		if !slices.Equal(m.SecurityContext.Capabilities.Drop, []string{"ALL"}) || m.SecurityContext.AllowPrivilegeEscalation || m.SecurityContext.Privileged {
			t.Errorf("Kubernetes: %+v", m.SecurityContext)
		}
	}
	lists["Containerfile"] = regexp.MustCompile(`CAP_\w+`).FindAllString(readText(t, "packaging/container/Containerfile"), -1)
	for what, got := range lists {
		if !slices.Equal(got, names) {
			t.Errorf("%s: %v, want %v", what, got, names)
		}
	}
	if !slices.Equal(listed(quadlet, "DropCapability="), []string{"all"}) {
		t.Error("the quadlet does not drop other capabilities")
	}
	document := readText(t, "docs/install.md")
	for _, c := range append(slices.Clone(Kept), Realtime) {
		if !strings.Contains(document, "| `"+c.Name+"` | "+c.Why) {
			t.Errorf("docs/install.md has no row for %s: %s", c.Name, c.Why)
		}
	}
	if n := strings.Count(document, "| `CAP_"); n != len(Kept)+1 {
		t.Errorf("docs/install.md has %d capabilities", n)
	}
}

// The document lists the system calls of a worker's thread.
func TestSystemCallsOfWorkersAreDocumented(t *testing.T) {
	call := regexp.MustCompile(`unix\.SYS_(\w+)`)
	_, source, _ := strings.Cut(readText(t, "internal/privilege/worker.go"), "var workerCalls")
	allowed, rest, found := strings.Cut(source, "\n}\n")
	_, document, documented := strings.Cut(readText(t, "docs/install.md"), "### System calls of a worker\n")
	list, restricted, ok := strings.Cut(document, "\nRestricted: ")
	restricted, _, _ = strings.Cut(restricted, "\n")
	if !found || !documented || !ok {
		t.Fatal("no list of system calls")
	}
	names := func(code string) (names []string) {
		for _, m := range call.FindAllStringSubmatch(code, -1) {
			names = append(names, strings.ToLower(m[1]))
		}
		return names
	}
	want := names(allowed)
	if len(want) != len(workerCalls) {
		t.Errorf("%d names, %d system calls", len(want), len(workerCalls))
	}
	var got []string
	for _, m := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(list, -1) {
		got = append(got, m[1])
	}
	if !slices.Equal(got, want) {
		t.Errorf("the document lists %v, want %v", got, want)
	}
	for _, name := range append(names(rest), "kill", "tgkill") { // restrictSignals
		if !strings.Contains(restricted, "`"+name+"`") {
			t.Errorf("%s is restricted, and the document lacks it", name)
		}
	}
}

// daemonSet has the fields of apps/v1 DaemonSet that the manifest uses. Fields that Kubernetes does not know are errors.
type daemonSet struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   metadata
	Spec       struct {
		Selector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		UpdateStrategy struct {
			Type          string
			RollingUpdate struct {
				MaxUnavailable int `yaml:"maxUnavailable"`
			} `yaml:"rollingUpdate"`
		} `yaml:"updateStrategy"`
		Template struct {
			Metadata metadata
			Spec     podSpec
		}
	}
}

type metadata struct {
	Name, Namespace string
	Labels          map[string]string
}

type podSpec struct {
	HostNetwork                   bool              `yaml:"hostNetwork"`
	DNSPolicy                     string            `yaml:"dnsPolicy"`
	AutomountServiceAccountToken  bool              `yaml:"automountServiceAccountToken"`
	EnableServiceLinks            bool              `yaml:"enableServiceLinks"`
	RuntimeClassName              string            `yaml:"runtimeClassName"`
	PriorityClassName             string            `yaml:"priorityClassName"`
	NodeSelector                  map[string]string `yaml:"nodeSelector"`
	TerminationGracePeriodSeconds int               `yaml:"terminationGracePeriodSeconds"`
	Containers                    []struct {
		Name, Image     string
		Args            []string
		SecurityContext struct {
			Privileged               bool
			RunAsUser                int               `yaml:"runAsUser"`
			AllowPrivilegeEscalation bool              `yaml:"allowPrivilegeEscalation"`
			ReadOnlyRootFilesystem   bool              `yaml:"readOnlyRootFilesystem"`
			SeccompProfile           map[string]string `yaml:"seccompProfile"`
			Capabilities             struct{ Drop, Add []string }
		} `yaml:"securityContext"`
		Resources      struct{ Requests, Limits map[string]any }
		ReadinessProbe probe `yaml:"readinessProbe"`
		LivenessProbe  probe `yaml:"livenessProbe"`
		VolumeMounts   []struct {
			Name      string
			MountPath string `yaml:"mountPath"`
			ReadOnly  bool   `yaml:"readOnly"`
		} `yaml:"volumeMounts"`
	}
	Volumes []struct {
		Name     string
		HostPath struct{ Path, Type string } `yaml:"hostPath"`
	}
}

type probe struct {
	Exec                struct{ Command []string }
	InitialDelaySeconds int `yaml:"initialDelaySeconds"`
	PeriodSeconds       int `yaml:"periodSeconds"`
	FailureThreshold    int `yaml:"failureThreshold"`
}

func manifest(t *testing.T) (d daemonSet) {
	t.Helper()
	require.NoError(t, yaml.UnmarshalWithOptions([]byte(readText(t, "packaging/container/kubernetes.yaml")), &d, yaml.Strict()))
	return d
}

// The manifest selects its own pods, shares the host's network, and mounts the directories of the image's volumes.
func TestKubernetesManifestIsConsistent(t *testing.T) {
	d := manifest(t)
	pod := d.Spec.Template.Spec
	if d.Kind != "DaemonSet" || d.APIVersion != "apps/v1" || !pod.HostNetwork || len(pod.Containers) != 1 {
		t.Errorf("%+v", d)
	}
	for key, value := range d.Spec.Selector.MatchLabels {
		if d.Spec.Template.Metadata.Labels[key] != value {
			t.Errorf("the selector %s=%s does not match the labels %v", key, value, d.Spec.Template.Metadata.Labels)
		}
	}
	volumes := map[string]string{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = v.HostPath.Path
	}
	for _, m := range pod.Containers[0].VolumeMounts {
		if volumes[m.Name] != m.MountPath {
			t.Errorf("%s of the host is mounted at %s", volumes[m.Name], m.MountPath)
		}
		delete(volumes, m.Name)
	}
	if len(volumes) > 0 {
		t.Errorf("volumes without a mount: %v", volumes)
	}
	image, quadlet := readText(t, "packaging/container/Containerfile"), readText(t, "packaging/container/warproute.container")
	for _, dir := range []string{"/var/lib/warproute", "/run/warproute"} {
		if !strings.Contains(image, `"`+dir+`"`) || !strings.Contains(quadlet, "Volume="+dir+":"+dir+"\n") {
			t.Errorf("%s is not a volume of the image and of the quadlet", dir)
		}
	}
	command := `CMD ["` + strings.Join(pod.Containers[0].Args, `", "`) + `"]`
	if !strings.Contains(image, command) || !strings.Contains(quadlet, "Network=host\n") {
		t.Errorf("the image has not %s", command)
	}
}
