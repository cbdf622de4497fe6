#!/bin/sh
# Puts what is installed below a prefix into a folder: the program, manual pages, completion and documents.
# usage: tree.sh PROGRAM FOLDER [HERE]
# PROGRAM may be that of another architecture; HERE is one that runs here, for the texts that it makes.
set -eu
program=$1 folder=$2 here=${3:-$1}
root=$(dirname "$0")/..
man=$folder/share/man/man1
bash=$folder/share/bash-completion/completions
fish=$folder/share/fish/vendor_completions.d
zsh=$folder/share/zsh/${ZSH_FOLDER:-site-functions}
doc=$folder/share/doc/cudatrace

test -x "$program" || {
	echo "packaging: there is no $program: run 'make build' first" >&2
	exit 1
}
install -d "$folder/bin" "$man" "$bash" "$fish" "$zsh" "$doc/docs"
install -m 755 "$program" "$folder/bin/cudatrace"
# Under sudo the files would be made with the rights of the user who called it; root installs.
env -u SUDO_UID -u SUDO_GID "$here" man -o "$man"
"$here" completion bash >"$bash/cudatrace"
"$here" completion fish >"$fish/cudatrace.fish"
"$here" completion zsh >"$zsh/_cudatrace"
install -m 644 "$root/README.md" "$root/CHANGELOG.md" "$root/LICENSE" "$root/SECURITY.md" "$doc"
install -m 644 "$root"/docs/* "$doc/docs"
install -m 644 "$root/packaging/ci.sh" "$root/packaging/gitlab.yml" "$doc"
chmod 644 "$man"/cudatrace*.1 "$bash/cudatrace" "$fish/cudatrace.fish" "$zsh/_cudatrace"
