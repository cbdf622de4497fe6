package figures

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes a text safe in one line of a terminal and in HTML and XML: what is no UTF-8, a control character and a
// mark that changes the direction of writing become U+FFFD.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == 0xfffe || r == 0xffff || unicode.Is(unicode.Bidi_Control, r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// LongText is the most characters of a text that a person is shown: a name, or a line with names in it.
const LongText = 1000

// Cut shortens a text in its middle: both ends of a kernel's name say which one it is.
func Cut(s string, width int) string {
	if len(s) <= width || utf8.RuneCountInString(s) <= width {
		return s
	}
	if width < 2 {
		return "…"
	}
	runes := []rune(s)
	tail := (width - 1) / 2
	return string(runes[:width-1-tail]) + "…" + string(runes[len(runes)-tail:])
}

// UUID gives a GPU's UUID of 32 hexadecimal digits, which logs have, the form of nvidia-smi; "" for what is not one.
func UUID(digits string) string {
	if len(digits) != 32 {
		return ""
	}
	return fmt.Sprintf("GPU-%s-%s-%s-%s-%s", digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
}
