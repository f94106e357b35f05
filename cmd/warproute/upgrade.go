package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/cli"
	"github.com/warproute/warproute/internal/service"
	"github.com/warproute/warproute/internal/spawner"
)

// upgradeFlag is the hidden flag of `run` for the process that an upgrade starts. Versions that do not know hot upgrade
// reject it.
const upgradeFlag = "upgrade-fd"

func newUpgradeCommand() *cobra.Command {
	q, timeout := new(queryFlags), time.Duration(0)
	c := &cobra.Command{
		Use:   "upgrade [--timeout TIME]",
		Short: "Replace the running router by the installed binary, almost without loss",
		Long: `Make the running router start the binary at its own path, with the same arguments, and hand
its ports and SAs over to it. The new process loads the configuration, mirrors Linux's
tables and allocates memory while the old one forwards. Then the old one stops, and the new
one continues: packets of some tens of milliseconds are lost. Sequence numbers and
anti-replay windows continue exactly. A downgrade works the same way.

If the new process fails before it is ready, for example because of its configuration, the
old one continues without loss. If it fails later, the old version starts again.

During the upgrade, the host has the memory of both processes. The ports must be those of
the configuration (run ` + "`warproute reload`" + ` first), and ipsec.source, state and interface,
privileges.user and control must be unchanged, and napi must not become thread; other keys
may change. A router that is process 1 of a container cannot upgrade.

Exit codes: 0 upgraded, 1 not upgraded, and a router forwards all the same, 69 no router
that knows hot upgrade answers: restart it.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			path := "/upgrade"
			if timeout != 0 {
				path += "?timeout=" + url.QueryEscape(timeout.String())
			}
			var u status.Upgrade
			if err := socket.Post(c.Context(), q.socket, path, &u); err != nil {
				return unavailable(err)
			}
			var failed error
			if u.Result != status.UpgradeDone {
				failed = errors.New(u.Summary())
			}
			if u.Result != status.UpgradeRefused {
				failed = errors.Join(failed, awaitRouter(c.Context(), q.socket))
			}
			if q.json {
				if err := cli.WriteJSON(c.OutOrStdout(), u); err != nil {
					return err
				}
				return cli.Printed(failed)
			}
			if failed != nil {
				return failed
			}
			return status.WriteUpgrade(c.OutOrStdout(), u)
		},
	}
	q.addFlags(c)
	c.Flags().DurationVar(&timeout, "timeout", 0, "`TIME` that the new process has to get ready (default 1m)")
	return c
}

// unavailable marks the error of a request that no router knows.
func unavailable(err error) error {
	switch {
	case errors.Is(err, socket.ErrUnknownRequest):
		return cli.WithCode(fmt.Errorf("%w; restart it instead: systemctl restart warproute", err), cli.ExitUnavailable)
	case errors.Is(err, socket.ErrNoRouter):
		return cli.WithCode(err, cli.ExitUnavailable)
	}
	return err
}

// awaitRouter waits until the next process serves the control socket.
func awaitRouter(ctx context.Context, path string) error {
	const patience, pause = 30 * time.Second, 20 * time.Millisecond
	for end := time.Now().Add(patience); ; time.Sleep(pause) {
		var v status.Version
		err := socket.Get(ctx, path, "/version", &v)
		if err == nil && !v.HandingOver {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the next process does not serve its control socket: %w", errors.Join(err, socket.ErrNoRouter))
		}
	}
}

// ownPath returns the path by which this program was started, which may be a symbolic link to another version later.
func ownPath() (string, error) {
	path, err := exec.LookPath(os.Args[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return os.Executable()
	}
	return path, nil
}

// startSpawner starts the spawner of this process for the installed binary. Process 1 of a container cannot upgrade.
func startSpawner() (*spawner.Spawner, error) {
	if os.Getpid() == 1 {
		return nil, nil
	}
	program, err := ownPath()
	if err != nil {
		return nil, err
	}
	return spawner.Start(program, upgradeArgs(os.Args[1:]))
}

// predecessor returns the router that this one replaces, nil for none.
func (f *runFlags) predecessor() (*service.Predecessor, error) {
	if f.upgradeFD == 0 {
		return nil, nil
	}
	return service.Connect(f.upgradeFD)
}

// upgrade hands over to the installed binary. It reports whether this process has ended its work.
func (r *running) upgrade(q service.UpgradeRequest) (ended bool, err error) {
	version := cli.Build().Version
	u := r.Upgrade(r.cmd.Context(), r.spawner, version, q.Timeout)
	q.Answer(u.Result)
	switch {
	case u.Done():
		r.stop()
		r.manager.mainPID(u.Result.PID)
		u.Release()
		return true, nil
	case u.From == nil:
		return false, nil
	}
	r.stop()
	cfg, err := r.f.load()
	if err != nil {
		return false, err
	}
	return false, r.start(cfg, u.From)
}

// upgradeArgs returns the arguments of this process for the one that replaces it.
func upgradeArgs(args []string) (next []string) {
	for _, a := range args {
		if !strings.HasPrefix(a, "--"+upgradeFlag+"=") {
			next = append(next, a)
		}
	}
	return append(next, fmt.Sprintf("--%s=%d", upgradeFlag, service.UpgradeFD))
}
