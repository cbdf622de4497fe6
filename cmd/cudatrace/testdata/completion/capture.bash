# Completes a command line in bash, and prints the words that it offers.
# usage: bash capture.bash SCRIPT LINE
source "$1"
compopt() { :; } # only for a real completion
read -ra COMP_WORDS <<<"${2//=/ = }"
[[ $2 == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_cudatrace
printf '%s\n' "${COMPREPLY[@]}"
