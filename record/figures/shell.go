package figures

import (
	"regexp"
	"strings"
)

// plainWord matches what a shell takes as it is.
var plainWord = regexp.MustCompile(`^[\w%+,./:=@-]+$`)

// Shell writes words as a command line that a person can paste into a shell.
func Shell(words ...string) string {
	var line strings.Builder
	for i, word := range words {
		if i > 0 {
			line.WriteByte(' ')
		}
		if !plainWord.MatchString(word) {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		line.WriteString(word)
	}
	return line.String()
}

// Breakable splits a text at the spaces where a line may end. Commands stay whole, so that they can be pasted: those in
// quotes ('cudatrace help'), and one at the end of a text, behind a colon.
func Breakable(text string) (parts []string) {
	words := strings.Split(text, " ")
	for i := 0; i < len(words); {
		n := 1
		switch {
		case words[i] == "cudatrace" && (i == 0 || strings.HasSuffix(words[i-1], ":")):
			n = len(words) - i
		case words[i] == "'cudatrace":
			for i+n < len(words) && !strings.Contains(words[i+n], "'") {
				n++
			}
			n = min(n+1, len(words)-i)
		}
		parts = append(parts, strings.Join(words[i:i+n], " "))
		i += n
	}
	return parts
}
