#!/bin/sh
# Builds a container image with cudatrace for this machine, from the archives in a folder.
# usage: image.sh FOLDER [NAME]
set -eu
folder=$1
name=${2:-cudatrace}
here=$(dirname "$0")
for builder in podman buildah docker; do
	if command -v $builder >/dev/null; then
		exec $builder build --build-arg "TARGETARCH=$(${GO:-go} env GOARCH)" -f "$here/Containerfile" -t "$name" "$folder"
	fi
done
echo "packaging: there is no podman, buildah or docker: install one of them" >&2
exit 1
