#!/bin/sh
# need.sh WHAT:PACKAGE... installs the Debian packages of missing commands and files.
#
# WHAT is a command or the path of a file. Without root it prints the command that installs the packages.
set -eu

missing=
for need in "$@"; do
	what=${need%%:*} package=${need#*:}
	case $what in
	/*) [ -e "$what" ] && continue ;;
	*) command -v "$what" >/dev/null && continue ;;
	esac
	missing="$missing $package"
done
[ -z "$missing" ] && exit 0

if [ "$(id -u)" -ne 0 ]; then
	echo "missing packages; install them and try again:" >&2
	echo "  sudo apt-get install -y --no-install-recommends$missing" >&2
	exit 1
fi
if ! command -v apt-get >/dev/null; then
	echo "missing packages, and no apt-get to install them:$missing" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # several packages
apt-get install -y --no-install-recommends $missing >&2 || {
	apt-get update >&2
	apt-get install -y --no-install-recommends $missing >&2
}
