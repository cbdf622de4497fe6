#!/usr/bin/env bash
# The steps of a job that records a program and compares it with the last run on the main branch: action.yml and
# gitlab.yml call them. All files are in the folder $CUDATRACE_FOLDER (cudatrace-ci): runs, stats, base, diff.md.
# usage: ci.sh install|record|base|compare|publish|comment|gate
set -euo pipefail
folder=${CUDATRACE_FOLDER:-cudatrace-ci}
marker='<!-- cudatrace -->'
change=${GITHUB_BASE_REF:-${CI_MERGE_REQUEST_TARGET_BRANCH_NAME:-}} # the branch that a change goes to; empty on that branch

say() { echo "cudatrace: $*" >&2; }

# From $CUDATRACE_ARCHIVE, a file or an address; else what PATH has; else from these sources, by Go.
install() {
	local to=${RUNNER_TEMP:-${TMPDIR:-/tmp}}/cudatrace archive=${CUDATRACE_ARCHIVE:-}
	if [ -z "$archive" ] && command -v cudatrace >/dev/null; then
		cudatrace --version
		return
	fi
	mkdir -p "$to/bin"
	case $archive in
	'') GOBIN=$to/bin CGO_ENABLED=0 go -C "$(dirname "$0")/.." install -trimpath -ldflags '-s -w' ./cmd/cudatrace ;;
	https://*) curl --fail --silent --show-error --location "$archive" | tar -xzf - -C "$to" --strip-components=1 ;;
	*) tar -xf "$archive" -C "$to" --strip-components=1 ;;
	esac
	[ -z "${GITHUB_PATH:-}" ] || echo "$to/bin" >>"$GITHUB_PATH"
	"$to/bin/cudatrace" --version
}

# $CUDATRACE_COMMAND is a line of shell, $CUDATRACE_RUNS how often it runs. A program that fails ends the job.
record() {
	local i options
	read -ra options <<<"${CUDATRACE_OPTIONS:-}"
	mkdir -p "$folder/runs" "$folder/stats"
	for i in $(seq "${CUDATRACE_RUNS:-5}"); do
		cudatrace record -q "${options[@]}" -o "$folder/runs/run$i" -- sh -c "${CUDATRACE_COMMAND:?names no program}"
		cudatrace stats "$folder/runs/run$i.cudatrace" --format json >"$folder/stats/run$i.json"
	done
}

# Fetches the statistics of the main branch into base. Without any there is nothing to compare with.
base() {
	[ -n "$change" ] || return 0
	rm -rf "$folder/base"
	if [ -n "${GITHUB_ACTIONS:-}" ]; then
		local run
		run=$(gh run list --repo "$GITHUB_REPOSITORY" --branch "$change" --workflow "$GITHUB_WORKFLOW" --status success --limit 1 \
			--json databaseId --jq '.[0].databaseId')
		[ -n "$run" ] && gh run download "$run" --repo "$GITHUB_REPOSITORY" \
			--name "${CUDATRACE_ARTIFACT:-cudatrace-stats}" --dir "$folder/base" && return
	elif curl --fail --silent --show-error --header "JOB-TOKEN: $CI_JOB_TOKEN" --output "$folder/base.tar" "$CUDATRACE_BASELINE"; then
		mkdir -p "$folder/base"
		tar -xf "$folder/base.tar" -C "$folder/base"
		return
	fi
	say "$change has no statistics yet: nothing is compared"
}

# Writes diff.md, and the exit code of diff into the file code: comments come before the gate.
compare() {
	local code=0 budget=() path=${CUDATRACE_BUDGET:-gpu.budget}
	[ ! -e "$path" ] || budget=(--budget "$path")
	mkdir -p "$folder"
	if [ ! -d "$folder/base" ]; then
		echo 0 >"$folder/code"
		return
	fi
	{
		echo "$marker"
		cudatrace diff "$folder/base" "$folder/stats" "${budget[@]}" --format markdown --top 5
	} >"$folder/diff.md" || code=$?
	cudatrace diff "$folder/base" "$folder/stats" "${budget[@]}" --format junit >"$folder/junit.xml" || [ "$code" != 0 ]
	echo "$code" >"$folder/code"
	[ -z "${GITHUB_STEP_SUMMARY:-}" ] || cat "$folder/diff.md" >>"$GITHUB_STEP_SUMMARY"
}

# GitLab: on the main branch, the statistics become the next baseline. GitHub has artifacts.
publish() {
	[ -z "$change" ] || return 0
	tar -cf "$folder/stats.tar" -C "$folder/stats" .
	curl --fail --silent --show-error --header "JOB-TOKEN: $CI_JOB_TOKEN" --upload-file "$folder/stats.tar" "$CUDATRACE_BASELINE"
}

# One comment of the pull request, which the next run replaces. In a pull request of a fork the token may only read.
comment() {
	[ -n "$change" ] && [ -e "$folder/diff.md" ] || return 0
	local comments=repos/$GITHUB_REPOSITORY/issues id to
	id=$(gh api --paginate "$comments/$CUDATRACE_PULL_REQUEST/comments" --jq ".[] | select(.body | startswith(\"$marker\")) | .id" | head -n 1)
	to=("$comments/$CUDATRACE_PULL_REQUEST/comments")
	[ -z "$id" ] || to=(--method PATCH "$comments/comments/$id")
	gh api --silent "${to[@]}" --field "body=@$folder/diff.md" ||
		echo "::warning::the comparison is in the job's summary alone: the token may not write comments (pull-requests: write)"
}

gate() {
	return "$(cat "$folder/code")"
}

case ${1:-} in
install | record | base | compare | publish | comment | gate) "$1" ;;
*)
	say "ci.sh install|record|base|compare|publish|comment|gate"
	exit 2
	;;
esac
