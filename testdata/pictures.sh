#!/bin/sh
# Draws report.png and timeline.png anew, from logs of real GPUs that are in the repository: screenshots of what `cudatrace report` makes, by
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

picture() { # FILE SCALE WIDTH HEIGHT PAGE
	chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --force-device-scale-factor="$2" \
		--user-data-dir="$work/chromium" --window-size="$3,$4" --screenshot="$work/$1" "file://$work/$5" 2>"$work/log" || {
		cat "$work/log" >&2
		exit 1
	}
	pngquant --force --strip --output "$1" 64 "$work/$1"
}

ranks='../testdata/gpu/logs/ranks/loader-rank0.cudatrace ../testdata/gpu/logs/ranks/loader-rank3.cudatrace'
# shellcheck disable=SC2086 # two logs
cudatrace report $ranks -o "$work/report.html" 2>/dev/null
# The footer has the version. The policy of the page forbids other styles.
styled() { # FILE OUT STYLE
	sed "s|http-equiv=\"Content-Security-Policy\"|name=\"policy\"|; s|</head>|<style>footer { display: none } $3</style></head>|" "$work/$1" >"$work/$2"
}
styled report.html all.html ''
picture report.png 0.7 1104 4400 all.html
styled report.html timeline.html 'header, .figures, section:not(#timeline), #tl-help { display: none } body { padding-top: 12px }'
# A kernel of the typical step is selected.
sed -i "s|</body>|<script>const of = document.getElementById('tl-search'); of.value = 'ncclDevKernel'; of.dispatchEvent(new Event('input')); document.getElementById('tl-next').click(); of.value = ''; of.dispatchEvent(new Event('input'))</script></body>|" "$work/timeline.html"
picture timeline.png 1 1104 905 timeline.html
