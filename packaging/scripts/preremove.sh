#!/bin/sh
# Before removal, not before an upgrade: Debian passes "remove", Red Hat 0.
set -e
case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
	systemctl disable --now warproute.service warproute-guard.service || true
fi
# The nftables table of a gateway, and ports that a killed router left.
warproute release || true
