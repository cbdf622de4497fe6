package diff

import "strings"

// How a kernel of BASE was found under another name in NEW.
const (
	byParameters = "parameters" // its parameters changed
	byHash       = "hash"       // a hash in its name changed
	byTemplate   = "template"   // its template arguments changed
	byPython     = "python"     // another Python function launches it
)

// A plainer makes names equal that differ only in what may change from build to build; "" if it
// cannot tell.
type plainer struct {
	match string
	plain func(string) string
}

// plainers go from the safest to the boldest.
var plainers = []plainer{
	{byPython, nil},
	{byParameters, func(name string) string { return name }},
	{byHash, withoutHashes},
	{byTemplate, func(name string) string { return withoutTemplates(withoutHashes(name)) }},
}

// leastHash is the number of digits of the shortest hash.
const leastHash = 8

// withoutHashes writes # for each word of at least eight hexadecimal digits, such as nvcc and
// Triton put into names. A word of letters alone is none.
func withoutHashes(name string) string {
	var b strings.Builder
	for len(name) > 0 {
		n := 0
		for n < len(name) && isLetterOrDigit(name[n]) {
			n++
		}
		if n == 0 {
			b.WriteByte(name[0])
			name = name[1:]
			continue
		}
		if word := name[:n]; isHash(word) {
			b.WriteByte('#')
		} else {
			b.WriteString(word)
		}
		name = name[n:]
	}
	return b.String()
}

func isLetterOrDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func isHash(word string) bool {
	return len(word) >= leastHash && strings.Trim(word, "0123456789abcdef") == "" &&
		strings.ContainsAny(word, "0123456789")
}

// withoutTemplates leaves template arguments out. It returns "" for a name without any, and for
// one whose < and > may be operators.
func withoutTemplates(name string) string {
	if !strings.Contains(name, "<") || strings.Contains(name, "operator") || strings.Contains(name, "->") {
		return ""
	}
	var b strings.Builder
	depth := 0
	for _, c := range name {
		switch c {
		case '<':
			depth++
		case '>':
			if depth--; depth < 0 {
				return ""
			}
		default:
			if depth == 0 {
				b.WriteRune(c)
			}
		}
	}
	if depth != 0 {
		return ""
	}
	return b.String()
}
