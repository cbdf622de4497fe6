# What the interactive zsh of capture.zsh does first: it completes once, writes the words to the file HITS, and ends.
PROMPT=
autoload -Uz compinit && compinit -u -d $HOME/.zcompdump
source $1
zle-line-init() { print re''ady }
zle -N zle-line-init
bindkey '^I' complete-word
zstyle ':completion:*' insert-tab false
comppostfuncs=(exit)
compadd() {
	if [[ ${@[1,(i)(-|--)]} != *-(O|A|D)\ * ]]; then
		local -a hits
		builtin compadd -A hits "$@"
		print -lr -- $hits >>$HITS
	fi
	builtin compadd "$@"
}
