#compdef cudatrace
# Completes command lines of cudatrace in zsh. Made by: cudatrace completion zsh

_cudatrace() {
	local offer line
	local -a lines choices
	lines=("${(@f)$("${(Q)words[1]}" complete-words "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
	offer=$lines[1]
	case $offer in
	words)
		for line in "${(@)lines[2,-1]}"; do
			choices+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
		done
		_describe cudatrace choices
		;;
	files)
		_files
		;;
	files\ *)
		_files -g "*.(${${offer#files }// /|})(-.)"
		;;
	folders)
		_files -/
		;;
	program\ *)
		line=$((${offer#program } + 1))
		shift $line words
		((CURRENT -= line))
		_normal
		;;
	esac
}

if [[ $funcstack[1] == _cudatrace ]]; then
	_cudatrace "$@"
else
	compdef _cudatrace cudatrace
fi
