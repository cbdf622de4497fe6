// Package nearest corrects slips. Input: a word that a person typed and the names that there are.
// Output: the name that was meant.
package nearest

import "strings"

// To is the name that a person most likely meant by a word: one that begins with the word, or
// the one that needs the fewest changes, at most one and another for every five letters; "" if
// there is none.
func To(word string, names []string) string {
	best, least := "", 2+len(word)/5
	if len(word) < 2 {
		return ""
	}
	for _, name := range names {
		if strings.HasPrefix(name, word) {
			return name
		}
		if n := slips(strings.ToLower(word), name); n < least && n < len(name)-1 {
			best, least = name, n
		}
	}
	return best
}

// slips counts the letters to insert, to drop, to replace, or to swap with their neighbour to make
// b of a.
func slips(a, b string) int {
	before, row := []int(nil), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			differ := 1
			if a[i] == b[j] {
				differ = 0
			}
			next[j+1] = min(row[j]+differ, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
