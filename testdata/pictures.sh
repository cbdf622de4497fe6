#!/bin/sh
# Draws report.png anew, from logs of real GPUs that are in the repository: a screenshot of what `cudatrace report` makes, by
# chromium, with fewer colours by pngquant (Debian's packages of these names). Look at them before they are committed: a page that has grown is cut.
# trace.png is taken by hand, of 1104 columns: the trace of testdata/gpu/logs/ranks/straggler-rank*.cudatrace as `cudatrace open` shows it, with a
# "waits for rank 3" of rank 0 selected.
set -eu
cd "$(dirname "$0")/../docs"
for tool in cudatrace chromium pngquant; do
	command -v $tool >/dev/null || {
		echo "docs: $tool is missing: install it, or run 'make build' and put bin into PATH" >&2
		exit 1
	}
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

ranks='../testdata/gpu/logs/ranks/loader-rank0.cudatrace ../testdata/gpu/logs/ranks/loader-rank3.cudatrace'
# shellcheck disable=SC2086 # two logs
cudatrace report $ranks -o "$work/report.html" 2>/dev/null
# The footer has the version.
sed -i 's|</head>|<style>footer { display: none }</style></head>|' "$work/report.html"
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --force-device-scale-factor=0.7 \
	--user-data-dir="$work/chromium" --window-size=1104,4225 --screenshot="$work/report.png" "file://$work/report.html" 2>"$work/log" || {
	cat "$work/log" >&2
	exit 1
}
pngquant --force --strip --output report.png 64 "$work/report.png"
