#!/bin/sh
# After installation or upgrade. The router is neither enabled nor started: it needs a configuration first.
# A running router is upgraded at once.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
systemctl try-restart warproute.service || true
