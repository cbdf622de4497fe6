#!/usr/bin/env bash
# Runs the README's two commands, `make demo` and `make test`, on fresh clones of HEAD, as a newcomer does: ROUNDS
# times (6 by default), every second time under nohup beside five busy loops. Prints a line a round and the tests
# that failed; exits with 1 if a round failed. Logs go to $OUT, or build/freshclone. Needs what `make test` needs.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
out=${OUT:-$root/build/freshclone}
mkdir -p "$out"
failed=0
for ((round = 1; round <= ${ROUNDS:-6}; round++)); do
	clone=$(mktemp -d)
	git clone -q "$root" "$clone/cudatrace" || exit 1
	load=() how=idle
	if ((round % 2 == 0)); then
		how="five busy loops, nohup"
		for _ in 1 2 3 4 5; do
			(while :; do :; done) &
			load+=($!)
		done
	fi
	begin=$SECONDS
	(cd "$clone/cudatrace" && if ((round % 2)); then make demo && make test; else nohup sh -c 'make demo && make test'; fi) \
		>"$out/$round.log" 2>&1 </dev/null
	status=$?
	((${#load[@]})) && kill "${load[@]}" && wait "${load[@]}" 2>/dev/null
	echo "round $round ($how): exit code $status after $((SECONDS - begin)) s"
	if ((status)); then
		failed=1
		grep -E '^ *--- FAIL|^FAIL|panic:' "$out/$round.log" | head -20
	fi
	rm -rf "$clone"
done
exit $failed
