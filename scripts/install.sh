#!/bin/sh
# install.sh PROGRAM DESTDIR PREFIX installs a program that `make build man` has built in BIN, with its manual
# pages and shell completion; with warproute also systemd units, their user and examples of configurations. It
# changes no configuration and starts nothing.
#
# Systemd, man and shells search the directories below /usr and /usr/local.
set -eu

name=$1
prefix=$3
root=$2$prefix
install -D -m 755 "$BIN/$name" "$root/bin/$name"
install -d "$root/share/man/man8" "$root/share/bash-completion/completions" "$root/share/zsh/site-functions" "$root/share/fish/vendor_completions.d"
for page in "$BIN/man/$name"/*.8; do
	gzip -9nc "$page" >"$root/share/man/man8/${page##*/}.gz"
done
"$BIN/$name" completion bash >"$root/share/bash-completion/completions/$name"
"$BIN/$name" completion zsh >"$root/share/zsh/site-functions/_$name"
"$BIN/$name" completion fish >"$root/share/fish/vendor_completions.d/$name.fish"
install -D -m 644 -t "$root/share/doc/$name" README.md CHANGELOG.md LICENSE
if [ "$name" = warproute ]; then
	install -D -m 644 -t "$root/share/doc/warproute/examples" configs/*.yaml contrib/prometheus/warproute.rules.yml contrib/grafana/warproute.json
	install -D -m 644 -t "$root/lib/sysusers.d" packaging/sysusers.d/warproute.conf
	install -D -m 644 -t "$root/share/doc/warproute/examples/container" packaging/container/*
	install -d "$root/lib/systemd/system"
	for unit in contrib/*.service; do
		sed "s|/usr/local/bin/|$prefix/bin/|" "$unit" >"$root/lib/systemd/system/${unit##*/}"
	done
fi
