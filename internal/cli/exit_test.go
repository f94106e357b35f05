package cli

import (
	"errors"
	"testing"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/doctor"
)

func TestExitCodesSeparateConfigurationFromCrashes(t *testing.T) {
	wrong, missing := &config.Error{Msg: "wrong"}, &config.Error{Msg: "missing", Transient: true}
	for _, tt := range []struct {
		name string
		err  error
		want int
	}{
		{"success", nil, 0},
		{"failure", errors.New("failure"), 1},
		{"usage", UsageError(errors.New("usage")), 64},
		{"unreadable file", ConfigError(errors.New("no such file")), 78},
		{"wrong value", ConfigError(config.Errors{wrong}), 78},
		{"missing port", ConfigError(config.Errors{missing}), 75},
		{"wrong value and missing port", ConfigError(config.Errors{missing, wrong}), 78},
		{"printed", Printed(ConfigError(config.Errors{missing})), 75},
	} {
		if got := ExitCode(tt.err); got != tt.want {
			t.Errorf("%s: exit code %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestPrivilegeErrorNamesCapabilitiesAndRemedy(t *testing.T) {
	if err := privilegeError(nil, "warproute"); err != nil {
		t.Errorf("no missing capability: %v", err)
	}
	err := privilegeError([]doctor.Capability{{Name: "CAP_NET_RAW", Why: "open AF_XDP sockets"}}, "/usr/bin/warproute")
	want := `missing capabilities:
  CAP_NET_RAW    to open AF_XDP sockets
run it with sudo, or once:
  sudo setcap cap_net_admin,cap_net_raw,cap_bpf,cap_perfmon,cap_ipc_lock+ep /usr/bin/warproute`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}
