#!/bin/sh
# need.sh WHAT:PACKAGE... sees to it that what a target needs is there.
#
# WHAT is a command, or the path of a file. What is missing is installed from its
# Debian package when this runs as root, and named with the line that installs it
# when not.
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
	echo "missing, and this is no Debian to install them on:$missing" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # several packages
apt-get install -y --no-install-recommends $missing >&2 || {
	apt-get update >&2
	apt-get install -y --no-install-recommends $missing >&2
}
