#!/bin/sh
# nics.sh DIR [KERNEL...] unpacks a QEMU with emulated NICs to DIR/qemu and Debian's stock kernels to
# DIR/KERNEL, for tests of drivers (internal/e2e/nics). It installs nothing, and skips what DIR has.
#
#   KERNEL  6.1 (Debian 12), 6.12 (Debian 13) or 7 (backport to Debian 13); default: all
#   QEMU    backport to Debian 12, because igb is emulated since QEMU 8.0
#
# apt checks the signatures of Debian's archive. The lists are in DIR, so the host's stay as they are.
set -eu

dir=$1
shift
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
key=/usr/share/keyrings/debian-archive-keyring.gpg
lists=$dir/apt

missing=
[ -e "$dir/qemu" ] || missing=qemu
for kernel in ${*:-6.1 6.12 7}; do
	[ -e "$dir/$kernel" ] || missing="$missing $kernel"
done
[ -n "$missing" ] || exit 0

# The host's mirror, if it has one of Debian: the first in its lists.
mirror=$(cat /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list /etc/apt/sources.list 2>/dev/null |
	sed -n 's#^\(URIs:\|deb\( \[[^]]*\]\)\?\) *\(https\?://[^ ]*/debian/\?\)\( .*\)\?$#\3#p' | head -n 1)
apt() {
	command=$1
	shift
	"$command" -o "Dir::Etc::sourcelist=$lists/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::Lists=$lists/lists" \
		-o "Dir::Cache=$lists/cache" -o APT::Sandbox::User=root "$@"
}
mkdir -p "$lists/lists/partial" "$lists/cache/archives/partial"
for suite in bookworm bookworm-backports trixie trixie-backports; do
	echo "deb [signed-by=$key] ${mirror:-http://deb.debian.org/debian} $suite main"
done >"$lists/sources.list"
apt apt-get -qq update >&2

# fetch ROOT PACKAGE... unpacks packages, each with /SUITE or =VERSION.
fetch() {
	root=$1
	shift
	mkdir -p "$root"
	(cd "$root" && apt apt-get -qq download "$@" >&2 && for deb in ./*.deb; do dpkg -x "$deb" . && rm "$deb"; done)
}

# version SUITE prints the release of the suite's newest kernel, such as 6.12.57+deb13-amd64.
version() {
	apt apt-cache show "linux-image-amd64/$1" | sed -n 's/^Depends:.*linux-image-\([0-9][^ ,]*\).*/\1/p' | head -n 1
}

# kernel SUITE ROOT unpacks a kernel. Since 7.0 it consists of several packages.
kernel() {
	release=$(version "$1")
	case $1 in
	*-backports) fetch "$2" "linux-binary-$release/$1" "linux-base-$release/$1" "linux-modules-$release/$1" ;;
	*) fetch "$2" "linux-image-$release/$1" ;;
	esac
	[ -e "$2/lib" ] || ln -s usr/lib "$2/lib"
	modules=$2/lib/modules/$release
	mkdir -p "$2/boot"
	[ -e "$2/boot/vmlinuz-$release" ] || mv "$modules/vmlinuz" "$2/boot/vmlinuz-$release"
	# A guest has none of these devices, and insmod reads no compressed module.
	(cd "$modules/kernel" && rm -rf sound drivers/gpu drivers/media drivers/iio drivers/staging drivers/infiniband drivers/scsi drivers/usb drivers/hid drivers/net/wireless)
	find "$modules" -name '*.ko.xz' -print0 | xargs -0 -r -P 2 -n 64 xz -d
	depmod -b "$2" "$release"
}

for what in $missing; do
	new=$dir/$what.new
	rm -rf "$new"
	case $what in
	qemu) fetch "$new" qemu-system-x86/bookworm-backports qemu-system-common/bookworm-backports qemu-system-data/bookworm-backports ;;
	6.1) kernel bookworm "$new" ;;
	6.12) kernel trixie "$new" ;;
	7) kernel trixie-backports "$new" ;;
	*) echo "nics.sh: no kernel $what: use 6.1, 6.12 or 7" >&2 && exit 2 ;;
	esac
	mv "$new" "$dir/$what" # atomically
done
