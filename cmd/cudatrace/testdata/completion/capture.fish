# Completes a command line in fish, and prints the words that it offers.
# usage: fish capture.fish SCRIPT LINE
source $argv[1]
complete -C $argv[2] | string replace -r '\t.*' ''
exit 0
