package figures

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// AppendJSON appends a JSON string. Bytes that are no UTF-8 become U+FFFD.
func AppendJSON(dst []byte, s string) []byte {
	dst = append(dst, '"')
	if isPlain(s) {
		dst = append(dst, s...)
	} else {
		dst = appendEscaped(dst, s)
	}
	return append(dst, '"')
}

// isPlain reports whether a text can stand in a JSON string as it is.
func isPlain(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' || c >= 0x7F || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// appendEscaped appends a text as it stands in a JSON string. A character that people cannot see
// is escaped: it could be a command to a terminal.
func appendEscaped(dst []byte, s string) []byte {
	for _, r := range s { // an invalid byte is U+FFFD
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case strconv.IsPrint(r):
			dst = utf8.AppendRune(dst, r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			dst = appendUnit(appendUnit(dst, high), low)
		default:
			dst = appendUnit(dst, r)
		}
	}
	return dst
}

// appendUnit appends a UTF-16 unit as JSON escapes it: \u001b.
func appendUnit(dst []byte, unit rune) []byte {
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'u', digits[unit>>12&15], digits[unit>>8&15], digits[unit>>4&15], digits[unit&15])
}
