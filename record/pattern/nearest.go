package pattern

import "github.com/xrash/smetrics"

// Nearest returns the name that a person most likely meant by a word, "" where no name is alike. It measures as the
// library of the command line does, which suggests some name for any word.
func Nearest(word string, names []string) string {
	best, most := "", 0.8
	for _, name := range names {
		if like := smetrics.JaroWinkler(name, word, 0.7, 4); len(word) > 1 && like > most {
			best, most = name, like
		}
	}
	return best
}
