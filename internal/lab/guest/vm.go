package guest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/guest/wire"
)

// VM describes a virtual machine.
type VM struct {
	Kernel string // directory of scripts/kernel.sh, or of a kernel of scripts/nics.sh
	QEMU   string // directory of QEMU of scripts/nics.sh, "": the host's, without igb
	CPUs   int    // 0: one
	Nodes  int    // NUMA nodes, 0: one; each has as many CPUs and as much memory
	Memory int    // in MiB, 0: 1,024
	NICs   []EmulatedNIC
}

// StartVM boots the stock kernel from a directory of scripts/kernel.sh in QEMU without KVM. It needs the
// Debian packages qemu-system-x86, qemu-system-common, iproute2 and kmod.
func StartVM(kernel string) (*Guest, error) { return VM{Kernel: kernel}.Start() }

// Start boots the virtual machine.
func (v VM) Start() (*Guest, error) {
	ns, err := lab.New("vm")
	if err != nil {
		return nil, fmt.Errorf("start a virtual machine: %w", err)
	}
	defer ns.Close() // its processes keep it
	g, err := prepare(ns, "vm")
	if err == nil {
		err = g.bootVM(v)
	}
	if err != nil {
		g.Close()
		return nil, fmt.Errorf("start a virtual machine: %w", err)
	}
	return g, nil
}

// firstModules are the kernel modules for mounting the host's files.
var firstModules = []string{"virtio_pci", "virtiofs", "overlay", "virtio_console"}

func (g *Guest) bootVM(v VM) error {
	kernel, err := filepath.Abs(v.Kernel)
	if err != nil {
		return err
	}
	images, err := filepath.Glob(filepath.Join(kernel, "boot/vmlinuz-*"))
	if err != nil {
		return err
	}
	if len(images) != 1 {
		return fmt.Errorf("find its kernel: want one in %s, found %q (scripts/kernel.sh or scripts/nics.sh fetches it)", filepath.Join(kernel, "boot"), images)
	}
	version := strings.TrimPrefix(filepath.Base(images[0]), "vmlinuz-")
	initrd := filepath.Join(g.dir, "initrd")
	if err := g.writeInitrd(initrd, kernel, version); err != nil {
		return fmt.Errorf("write the first root: %w", err)
	}
	share, err := g.shareRoot()
	if err != nil {
		return fmt.Errorf("share the host's files: %w", err)
	}
	cpus, nodes, memory := max(1, v.CPUs), max(1, v.Nodes), cmp.Or(v.Memory, 1024)
	args := []string{
		"-M", "q35,usb=off", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-accel", "tcg,thread=multi", "-cpu", "max,la57=off", "-smp", fmt.Sprint(cpus), "-m", fmt.Sprintf("%dM", memory),
		"-kernel", images[0], "-initrd", initrd,
		"-append", "rdinit=/agent console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable no_timer_check net.ifnames=0 cryptomgr.notests",
		"-serial", "stdio",
		"-chardev", "socket,id=monitor,server=on,wait=off,path=" + filepath.Join(g.dir, monitorFile), "-mon", "chardev=monitor,mode=control",
		"-device", "virtio-serial-pci", "-chardev", "socket,id=control,fd=3", "-device", "virtserialport,chardev=control,name=" + controlPort,
		"-chardev", "socket,id=share,path=" + share, "-device", "vhost-user-fs-pci,chardev=share,tag=root",
	}
	for n := range nodes { // memory is shared with virtiofsd
		args = append(args, "-object", fmt.Sprintf("memory-backend-memfd,id=memory%d,size=%dM,share=on", n, memory/nodes),
			"-numa", fmt.Sprintf("node,memdev=memory%d,cpus=%d-%d", n, n*cpus/nodes, (n+1)*cpus/nodes-1))
	}
	var taps []*os.File
	defer func() {
		for _, f := range taps {
			f.Close()
		}
	}()
	for i, n := range v.NICs {
		more, files, err := n.args(i, firstTap+len(taps))
		if err != nil {
			return err
		}
		args, taps = append(args, more...), append(taps, files...)
	}
	qemu := "qemu-system-x86_64"
	if v.QEMU != "" {
		qemu = filepath.Join(v.QEMU, "usr/bin", qemu)
		args = append(args, "-L", filepath.Join(v.QEMU, "usr/share/qemu"), "-L", "/usr/share/seabios")
	}
	return g.boot(taps, qemu, args...)
}

// firstTap is the descriptor of the first TAP link in QEMU.
const firstTap = 4

// controlPort is the virtio port for commands.
const controlPort = "control"

// shareRoot starts virtiofsd for the host's files and returns its socket.
func (g *Guest) shareRoot() (string, error) {
	path := filepath.Join(g.dir, "share.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		return "", err
	}
	l.SetUnlinkOnClose(false)
	defer l.Close()
	f, err := l.File()
	if err != nil {
		return "", err
	}
	defer f.Close()
	return path, g.start([]*os.File{f}, "/usr/lib/qemu/virtiofsd", "-f", "--fd=3", "-o", "source=/,sandbox=chroot,cache=always,log_level=warn", "--thread-pool-size=0")
}

// writeInitrd writes the initramfs: the agent, its configuration and its kernel modules.
func (g *Guest) writeInitrd(file, kernel, version string) error {
	var archive cpio
	config := wire.Config{Share: "virtiofs", Modules: filepath.Join(kernel, "lib/modules", version), Control: controlPort}
	for _, m := range firstModules {
		cmd := exec.Command("modprobe", "-d", kernel, "-S", version, "--show-depends", m)
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("%s: %w", cmd, err)
		}
		for line := range strings.Lines(string(out)) {
			f := strings.Fields(line)
			if len(f) < 2 || f[0] != "insmod" {
				continue // built in
			}
			name := "/" + filepath.Base(f[1])
			if slices.Contains(config.Insert, name) {
				continue
			}
			config.Insert = append(config.Insert, name)
			if err := archive.addFile(name, f[1]); err != nil {
				return err
			}
		}
	}
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	archive.add(wire.ConfigFile, 0o100644, text)
	if err := archive.addFile("agent", filepath.Join(g.dir, "agent")); err != nil {
		return err
	}
	for _, d := range firstDirs {
		archive.add(d, 0o040755, nil)
	}
	archive.add("dev", 0o040755, nil)
	return os.WriteFile(file, archive.bytes(), 0o644)
}
