package guest

import (
	_ "embed"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/guest/wire"
)

// NIC is an end of a veth pair that a guest uses as its interface vec0, vec1 and so on. Give the end no
// address, because the host's stack receives its frames, too.
type NIC struct {
	Link string // in the guest's namespace
	MAC  net.HardwareAddr
}

// StartUML boots user-mode Linux in a namespace. It needs the Debian packages
// user-mode-linux, iproute2 and, for modprobe, kmod.
func StartUML(ns *lab.Namespace, nics ...NIC) (*Guest, error) {
	g, err := prepare(ns, "uml")
	if err != nil {
		return nil, fmt.Errorf("start user-mode Linux: %w", err)
	}
	if err := g.bootUML(nics); err != nil {
		g.Close()
		return nil, fmt.Errorf("start user-mode Linux: %w", err)
	}
	return g, nil
}

func (g *Guest) bootUML(nics []NIC) error {
	modules, err := filepath.Glob("/usr/lib/uml/modules/*")
	if err != nil {
		return err
	}
	if len(modules) != 1 {
		return fmt.Errorf("find its modules: want one version of them below /usr/lib/uml/modules, found %q (Debian package user-mode-linux)", modules)
	}
	err = g.configure(wire.Config{
		Insert:  []string{filepath.Join(modules[0], "kernel/fs/overlayfs/overlay.ko")},
		Modules: modules[0],
		Control: "/dev/ttyS0",
	})
	if err != nil {
		return err
	}
	args := []string{
		"mem=256M", "uml_dir=" + g.dir, "umid=uml", "quiet", "panic=-1", "cryptomgr.notests",
		"root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "init=" + filepath.Join(g.dir, "agent"),
		"con=null", "con0=null,fd:1", "ssl=null", "ssl0=fd:3",
	}
	for i, n := range nics {
		args = append(args, fmt.Sprintf("vec%d:transport=raw,ifname=%s,mac=%s,depth=128,gro=0", i, n.Link, n.MAC))
	}
	preload, err := g.completeRegisters()
	if err != nil {
		return err
	}
	return g.boot(nil, "env", append([]string{preload, "linux.uml"}, args...)...)
}

//go:embed xstate/xstate.c
var xstate string

// completeRegisters builds the library that user-mode Linux needs on processors with AMX, and returns the
// setting that preloads it. Elsewhere the setting has no effect.
func (g *Guest) completeRegisters() (setting string, err error) {
	cpu, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "", err
	}
	if !strings.Contains(string(cpu), " amx_tile ") {
		return "LD_PRELOAD=", nil
	}
	library := filepath.Join(g.dir, "xstate.so")
	build := exec.Command("cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-x", "c", "-o", library, "-")
	build.Stdin = strings.NewReader(xstate)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build a library for processors with AMX (it needs a C compiler: apt-get install gcc libc6-dev): %w: %s", err, out)
	}
	return "LD_PRELOAD=" + library, nil
}
