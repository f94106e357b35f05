#!/bin/sh
# After installation or upgrade. The router is neither enabled nor started: it needs a configuration first.
# A running router hands over to the new version, almost without loss.
set -e

# The user of the units.
if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers warproute.conf
elif ! getent passwd warproute >/dev/null; then
	useradd --system --user-group --home-dir /var/lib/warproute --shell /usr/sbin/nologin warproute
fi

# Earlier versions ran as root. Files of root that only root can read become those of the user: the configuration, the
# key files that it names, and the stored sequence numbers. Links are left alone.
give() {
	if [ -f "$1" ] && [ ! -L "$1" ] && [ "$(stat -c %u "$1")" = 0 ]; then
		case $(stat -c %a "$1") in
		*00) chown warproute: "$1" ;;
		esac
	fi
}
config=/etc/warproute.yaml
# Only a file of root decides about others.
if [ -f $config ] && [ "$(stat -c %u $config)" = 0 ]; then
	grep -o 'key_file: *[^],}# ]*' $config | sed "s/key_file: *//; s/[\"']//g" | while read -r file; do
		case $file in
		/*) give "$file" ;;
		*) give "/etc/$file" ;;
		esac
	done
	give $config
fi
state=/var/lib/warproute
if [ -d $state ] && [ ! -L $state ] && [ "$(stat -c %u $state)" = 0 ]; then
	chown -Rh warproute: $state
fi

[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
systemctl is-active --quiet warproute.service || exit 0
code=0
warproute upgrade || code=$?
case $code in
0) ;;
69) systemctl try-restart warproute.service || true ;; # its version does not know hot upgrade
*) echo "warproute: the running router continues with its version. To replace it: systemctl restart warproute" >&2 ;;
esac
