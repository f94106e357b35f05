#!/bin/sh
# After removal. `purge` (Debian) deletes the sequence numbers of SAs: static keys that were in use must not be
# used again.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
if [ "$1" = purge ]; then
	rm -rf /var/lib/warproute
fi
