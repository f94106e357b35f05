package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/document"
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

// blockLimit is the time limit of a block.
const blockLimit = time.Minute

// runDocument runs the blocks of a document in order, from a directory, in the namespace of a
// host with the ports eth1 and eth2.
func runDocument(t *testing.T, dir, text string) (ran int, err error) {
	t.Helper()
	steps, err := document.Parse(text)
	if err != nil || len(steps) == 0 {
		return 0, err
	}
	n := build(t, lab.VethOptions{}, `
left eth0 10.1.0.2/24 fd01::2/64 -- host eth1 10.1.0.1/24 fd01::1/64
right eth0 10.2.0.2/24 fd02::2/64 -- host eth2 10.2.0.1/24 fd02::1/64
left route default 10.1.0.1
right route default 10.2.0.1`)
	bin := t.TempDir() // a test may run without sudo
	for name, target := range map[string]string{"warproute": program, "warproute-bench": benchProgram} {
		if err := os.Symlink(target, filepath.Join(bin, name)); err != nil {
			return 0, err
		}
	}
	if err := os.WriteFile(filepath.Join(bin, "sudo"), []byte("#!/bin/sh\nexec \"$@\"\n"), 0o755); err != nil {
		return 0, err
	}
	var background []func() error
	for _, s := range steps {
		if len(s.Hosts) > 0 {
			return ran, fmt.Errorf("line %d: names hosts, which only how-tos have", s.Line)
		}
		end, err := runBlock(n["host"], dir, bin, s)
		if err != nil {
			err = fmt.Errorf("line %d: %w", s.Line, err)
		}
		if end != nil {
			background = append(background, end)
		}
		if err != nil {
			for _, end := range background {
				err = errors.Join(err, end())
			}
			return ran, err
		}
		ran++
	}
	for _, end := range background {
		err = errors.Join(err, end())
	}
	return ran, err
}

// runBlock runs a block to its end, or starts a background block and returns a function that
// ends it.
func runBlock(ns *lab.Namespace, dir, bin string, s document.Step) (end func() error, err error) {
	var out labtest.Output
	script, background := s.Text, s.Kind == document.Background
	if background {
		script = "exec " + strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(script), "sudo "))
	}
	cmd := exec.Command("sh", "-e", "-c", script)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	p, err := ns.Start(cmd)
	if err != nil {
		return nil, err
	}
	limit := blockLimit
	if background {
		limit = 3 * time.Second // it is up then
	}
	failed := func(err error) error { return fmt.Errorf("%s%w\n%s", s.Text, err, out.String()) }
	select {
	case <-p.Done():
		if err := p.Wait(); err != nil || background {
			return nil, failed(errors.Join(err, errors.New("the block ended")))
		}
		if err := document.Compare(out.String(), s.Output); err != nil {
			return nil, failed(err)
		}
		return nil, nil
	case <-time.After(limit):
	}
	if !background {
		_ = p.Signal(unix.SIGKILL)
		return nil, failed(fmt.Errorf("not finished after %v", limit))
	}
	return func() error {
		if err := p.Stop(5 * time.Second); err != nil {
			return failed(err)
		}
		return nil
	}, nil
}

func TestCommandsInDocumentsRun(t *testing.T) {
	const root = "../.."
	total := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "out" || path != root && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".md") || path == filepath.Join(root, "docs/howto", d.Name()): // package systemd runs these
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte("```")) {
			return err
		}
		name, _ := filepath.Rel(root, path)
		t.Run(name, func(t *testing.T) {
			ran, err := runDocument(t, root, string(text))
			if err != nil {
				t.Error(err)
			}
			total += ran
		})
		return nil
	})
	require.NoError(t, err)
	if total == 0 {
		t.Error("no document has a block marked `sh run`")
	}
}

func TestFailingCommandsInDocumentsAreReported(t *testing.T) {
	const fence = "```"
	for _, c := range []struct {
		name, text, want string
		ran              int
	}{
		{"success", "a\n" + fence + "sh run\nwarproute version\ntest -d internal\n" + fence + "\n", "", 1},
		{"failure", fence + "sh run\nfalse\n" + fence + "\n", "line 1: ", 0},
		{"failure before the last line", fence + "sh run\nfalse\ntrue\n" + fence + "\n", "exit status 1", 0},
		{"unmarked", fence + "sh\nfalse\n" + fence + "\n", "", 0},
		{"second block", fence + "sh run\ntrue\n" + fence + "\n" + fence + "sh run\nno-such-command\n" + fence + "\n", "line 4: ", 1},
		{"background that ends", fence + "sh run background\nsudo true\n" + fence + "\n", "the block ended", 0},
		{"unknown marking", fence + "sh run background later\ntrue\n" + fence + "\n", `unknown marking "sh run background later"`, 0},
		{"host", fence + "sh run gw1\ntrue\n" + fence + "\n", "names hosts", 0},
		{"output", fence + "sh run\necho 1 a\n" + fence + "\n" + fence + "text output\n2 a\n" + fence + "\n", "", 1},
		{"other output", fence + "sh run\necho 1 a\n" + fence + "\n" + fence + "text output\n2 b\n" + fence + "\n", `no line "2 b"`, 0},
		{"open block", fence + "sh run\ntrue\n", "does not end", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			ran, err := runDocument(t, "../..", c.text)
			if got := fmt.Sprint(err); ran != c.ran || c.want == "" && err != nil || !strings.Contains(got, c.want) {
				t.Errorf("%d blocks ran: %v, want %d and %q", ran, err, c.ran, c.want)
			}
		})
	}
}
