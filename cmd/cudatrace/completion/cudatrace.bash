# Completes command lines of cudatrace in bash. Made by: cudatrace completion bash

_cudatrace() {
	local cur=${COMP_WORDS[COMP_CWORD]} offer kind text IFS=$'\n'
	local -a lines
	mapfile -t lines < <("${COMP_WORDS[0]}" complete-words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
	offer=${lines[0]-}
	COMPREPLY=()
	[[ $cur == = ]] && cur=
	case $offer in
	words)
		for text in "${lines[@]:1}"; do
			text=${text%%$'\t'*}
			# A word ends for bash at a sign of equality.
			[[ $text == --*=* && $COMP_WORDBREAKS == *=* ]] && text=${text#--*=}
			COMPREPLY+=("$text")
		done
		[[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *: ]] && compopt -o nospace
		;;
	files)
		compopt -o filenames
		COMPREPLY=($(compgen -f -- "$cur"))
		;;
	files\ *)
		compopt -o filenames
		COMPREPLY=($(compgen -d -- "$cur"))
		IFS=' '
		for kind in ${offer#files }; do
			IFS=$'\n'
			COMPREPLY+=($(compgen -f -X "!*.$kind" -- "$cur"))
		done
		;;
	folders)
		compopt -o filenames
		COMPREPLY=($(compgen -d -- "$cur"))
		;;
	program\ *)
		if declare -F _command_offset >/dev/null; then
			IFS=$' \t\n'
			_command_offset $((${offer#program } + 1))
		elif ((COMP_CWORD == ${offer#program } + 1)); then
			compopt -o filenames
			COMPREPLY=($(compgen -c -- "$cur") $(compgen -d -- "$cur"))
		else
			compopt -o filenames
			COMPREPLY=($(compgen -f -- "$cur"))
		fi
		;;
	esac
}
complete -F _cudatrace cudatrace
