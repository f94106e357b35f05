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
	"github.com/warproute/warproute/internal/lab/labtest"
	"github.com/warproute/warproute/internal/require"
)

// block is a fenced code block of a document that the test runs.
type block struct {
	line       int
	script     string
	background bool // it runs until the document ends
}

// blockLimit is the time limit of a block.
const blockLimit = time.Minute

// runnable returns the blocks of a document with the info string "sh run", or "sh run
// background" for a router, and an error for other info strings that contain "run".
func runnable(text string) (blocks []block, err error) {
	var open *block
	fenced := false
	for i, line := range strings.Split(text, "\n") {
		info, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && fenced:
			if open != nil {
				blocks = append(blocks, *open)
			}
			open, fenced = nil, false
		case isFence:
			fenced = true
			switch info {
			case "sh run", "sh run background":
				open = &block{line: i + 1, background: strings.HasSuffix(info, "background")}
			default:
				if strings.Contains(info, "run") {
					err = errors.Join(err, fmt.Errorf("line %d: unknown marking %q", i+1, info))
				}
			}
		case open != nil:
			open.script += line + "\n"
		}
	}
	if fenced {
		err = errors.Join(err, errors.New("the last code block does not end"))
	}
	return blocks, err
}

// runDocument runs the blocks of a document in order, from a directory, in the namespace of a
// host with the ports eth1 and eth2.
func runDocument(t *testing.T, dir, text string) (ran int, err error) {
	t.Helper()
	blocks, err := runnable(text)
	if err != nil || len(blocks) == 0 {
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
	for _, b := range blocks {
		end, err := runBlock(n["host"], dir, bin, b)
		if err != nil {
			err = fmt.Errorf("line %d: %w", b.line, err)
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
func runBlock(ns *lab.Namespace, dir, bin string, b block) (end func() error, err error) {
	var out labtest.Output
	script := b.script
	if b.background {
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
	if b.background {
		limit = 3 * time.Second // it is up then
	}
	failed := func(err error) error { return fmt.Errorf("%s%w\n%s", b.script, err, out.String()) }
	select {
	case <-p.Done():
		if err := p.Wait(); err != nil || b.background {
			return nil, failed(errors.Join(err, errors.New("the block ended")))
		}
		return nil, nil
	case <-time.After(limit):
	}
	if !b.background {
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
		case !strings.HasSuffix(path, ".md"):
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
		{"unknown marking", fence + "sh run later\ntrue\n" + fence + "\n", `unknown marking "sh run later"`, 0},
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
