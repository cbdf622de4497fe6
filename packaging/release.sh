#!/bin/bash
# Makes a release in a folder: for each architecture an archive, a .deb, a .rpm, a wheel and a list of the modules in the program
# (SBOM), and the checksums of all. The same sources, version and tools give the same bytes.
# usage: VERSION=1.2.3 SOURCE_DATE_EPOCH=SECONDS release.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
out=$1
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC CGO_ENABLED=0
umask 022

summary='trace recorder for CUDA programs'
description='Records what a CUDA program does, its calls, kernels and copies,
 and makes traces for Perfetto and statistics of it.'
homepage=https://github.com/cudatrace/cudatrace
# There is no address for mail: this is where SECURITY.md and CODE_OF_CONDUCT.md send people, and it reaches the maintainers alone.
maintainer="cudatrace maintainers <$homepage/security/advisories/new>"
# In the order of versions, 1.2.3~rc1 is less than 1.2.3. A - would begin the package's own revision.
package_version=${VERSION//-/\~}
case $VERSION in
*[!0-9A-Za-z.+~-]* | [!0-9]* | '')
	echo "packaging: VERSION=$VERSION is no version: write 1.2.3 or 1.2.3-rc1" >&2
	exit 1
	;;
esac

for tool in dpkg-deb rpmbuild tar gzip sha256sum; do
	command -v $tool >/dev/null || {
		echo "packaging: $tool is missing: run packaging/install-tools.sh (needs root), or install it" >&2
		exit 1
	}
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

program() { echo "$work/cudatrace-$1"; }

build() { # ARCH
	GOOS=linux GOARCH=$1 $go build -trimpath -buildvcs=false -ldflags "-s -w -X main.release=$VERSION" -o "$(program "$1")" ./cmd/cudatrace
}

tree() { # ARCH FOLDER
	packaging/tree.sh "$(program "$1")" "$2" "$here"
	cp "$work/licenses-$1" "$2/share/doc/cudatrace/THIRD-PARTY-LICENSES"
	find "$2" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
}

archive() { # ARCH
	local name=cudatrace-$VERSION-linux-$1
	tree "$1" "$work/$name"
	tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --format=gnu -cf - "$name" | gzip -n >"$out/$name.tar.gz"
}

deb() { # ARCH
	local root=$work/deb-$1
	ZSH_FOLDER=vendor-completions tree "$1" "$root/usr"
	gzip -9n "$root"/usr/share/man/man1/*.1
	cat LICENSE - "$work/licenses-$1" >"$root/usr/share/doc/cudatrace/copyright" <<<$'\nThe eBPF program is under "Dual BSD/GPL".\n'
	rm "$root/usr/share/doc/cudatrace/"{LICENSE,THIRD-PARTY-LICENSES}
	mkdir "$root/DEBIAN"
	cat >"$root/DEBIAN/control" <<-END
		Package: cudatrace
		Version: $package_version
		Architecture: $1
		Maintainer: $maintainer
		Homepage: $homepage
		Installed-Size: $(du -sk --apparent-size "$root/usr" | cut -f1)
		Section: devel
		Priority: optional
		Description: $summary
		 $description
	END
	(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
	dpkg-deb --root-owner-group -Zxz -z3 --build "$root" "$out/cudatrace_${package_version}_$1.deb" >/dev/null
}

rpm() { # ARCH
	local arch=x86_64 root=$work/rpm-$1
	test "$1" = arm64 && arch=aarch64
	tree "$1" "$root/usr"
	gzip -9n "$root"/usr/share/man/man1/*.1
	rpmbuild --quiet -bb --target $arch-linux --buildroot "$work/rpm-root-$1" \
		--define "_topdir $work/rpm-top-$1" --define "_rpmdir $work/rpm-out" --define "tree $root" \
		--define "package_version $package_version" --define "package_url $homepage" --define "package_maintainer $maintainer" --define "package_summary $summary" --define "package_description ${description//$'\n'/}" \
		packaging/cudatrace.spec >"$work/rpmbuild-$1" 2>&1 || {
		cat "$work/rpmbuild-$1" >&2
		return 1
	}
	mv "$work"/rpm-out/$arch/*.rpm "$out"
}

modules() { # ARCH
	GOOS=linux GOARCH=$1 "$work/cyclonedx-gomod" bin -json -output-version 1.5 -std -noserial -notimestamp -version "$VERSION" "$(program "$1")" |
		sed "s/^  \"metadata\": {/&\n    \"timestamp\": \"$(date -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)\",/" \
		>"$out/cudatrace-$VERSION-linux-$1.cdx.json"
}

packages() { # ARCH
	packaging/licenses.sh "$(program "$1")" >"$work/licenses-$1"
	modules "$1"
	archive "$1"
	deb "$1"
	rpm "$1"
	"$work/wheel" "$(program "$1")" "$1" "$VERSION" "$out"
}

rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)
build amd64
build arm64
$go build -trimpath -modfile=packaging/sbom.mod -o "$work/cyclonedx-gomod" github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod
$go build -trimpath -o "$work/wheel" ./packaging/wheel
here=$(program "$($go env GOHOSTARCH)")
packages amd64 &
amd64=$!
packages arm64 &
wait $amd64
wait $!
(cd "$out" && sha256sum -- * >SHA256SUMS)
