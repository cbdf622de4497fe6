package console

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/cudatrace/cudatrace/record/figures"
)

// Escape makes a text safe to show in one line: a line break, a control character and a mark
// that changes the direction of writing become \n, \u001b or \u202e, and a byte that is no
// UTF-8 becomes U+FFFD.
func Escape(s string) string { return escape(s, false) }

// line makes a text safe, and cuts one that no person would read to its end.
func line(s string) string { return Escape(figures.Cut(s, figures.LongText)) }

// escape leaves line breaks and tabs as they are in a text of many lines.
func escape(s string, lines bool) string {
	if isPlain([]byte(s)) && (lines || !strings.Contains(s, "\n")) {
		return s
	}
	var b strings.Builder
	for _, r := range s { // an invalid byte is U+FFFD
		switch {
		case unicode.IsPrint(r), lines && (r == '\n' || r == '\t'):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// isPlain reports whether a text is of printable ASCII and line breaks.
func isPlain(b []byte) bool {
	for _, c := range b {
		if (c < ' ' || c >= 0x7f) && c != '\n' {
			return false
		}
	}
	return true
}
