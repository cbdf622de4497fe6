# Completes a command line in an interactive zsh, and prints the words that it offers.
# usage: zsh -f capture.zsh SCRIPT LINE
zmodload zsh/zpty
export HITS=$(mktemp)
zpty z zsh -f -i
zpty -w z "source ${(q)0:A:h}/inner.zsh ${(q)1}"
while zpty -r z text '*ready*'; do break; done
zpty -w -n z "$2"$'\t'
while zpty -r z text; do :; done # until zsh has ended
sort -u $HITS
rm $HITS
