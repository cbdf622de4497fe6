package parquet

import (
	"strings"
	"testing"
)

// The bounds of long texts are short, and lie around them in the order of bytes.
func TestCutTexts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", longestBound)
	for s, want := range map[string]string{
		"":                               "",
		long:                             long,
		long + "y":                       long[1:] + "y",
		long[1:] + "ß":                   long[2:] + "y", // the bound ends before a letter that has no room
		long[4:] + "\U0010FFFF" + "y":    long[5:] + "y",
		long[2:] + "ßy":                  long[2:] + "à",
		long[3:] + "\uD7FF" + "y":        long[3:] + "\uE000",
		strings.Repeat("\U0010FFFF", 20): "-",
		long[1:] + "\xff\xff":            "-",
	} {
		got, ok := cutAbove(s)
		if !ok {
			got = "-"
		}
		if got != want || ok && got < s || len(got) > longestBound || prefix(s) > s || len(prefix(s)) > longestBound {
			t.Errorf("%q is below %q, want %q; it begins with %q", s, got, want, prefix(s))
		}
	}
}
