#!/bin/sh
# packages.sh VERSION EPOCH DIR PROGRAM... writes a .deb, an .rpm and an SBOM (CycloneDX) of each program, as
# `make build man` has built it in BIN, to DIR. All times in them are EPOCH, in seconds since 1970, so
# that every build of a commit gives the same bytes.
#
# nfpm and cyclonedx-gomod have a module of their own, packaging/go.mod.
set -eu
umask 022

version=$1 epoch=$2
rm -rf "$3"
mkdir -p "$3"
dir=$(realpath "$3")
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mtime=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
export SOURCE_DATE_EPOCH="$epoch"

for name; do
	root=$work/$name
	scripts/install.sh $name "$root" /usr
	find "$root" -exec touch -h -d "@$epoch" {} +
	sed "s|@VERSION@|$version|; s|@ARCH@|$(go env GOARCH)|; s|@MTIME@|$mtime|; s|@ROOT@|$root|" packaging/$name.yaml >"$work/nfpm.yaml"
	for format in deb rpm; do
		(cd packaging && go tool nfpm package --config "$work/nfpm.yaml" --packager $format --target "$dir/")
	done
	sbom=$dir/$name.cdx.json
	(cd packaging && go tool cyclonedx-gomod bin -json -noserial -version "$version" -output "$sbom" "$root/usr/bin/$name")
	sed -i "s/\"timestamp\": \"[^\"]*\"/\"timestamp\": \"$mtime\"/" "$sbom"
done
(cd "$dir" && sha256sum -- *)
