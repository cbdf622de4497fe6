#!/bin/sh
# Removes what tree.sh has put below a prefix, and the folders that are its own.
# usage: uninstall.sh FOLDER
set -eu
cd "$1"
rm -f bin/cudatrace share/man/man1/cudatrace.1 share/man/man1/cudatrace-*.1 share/bash-completion/completions/cudatrace \
	share/fish/vendor_completions.d/cudatrace.fish share/zsh/site-functions/_cudatrace
rm -rf share/doc/cudatrace
