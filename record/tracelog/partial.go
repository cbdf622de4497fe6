package tracelog

import (
	"path/filepath"
	"unicode/utf8"
)

// nameMax is the number of bytes that Linux's file systems allow a file's name.
const nameMax = 255

// PartialName is the name of a file while it grows into the one at path: beside it, so
// that the renaming cannot fail for want of space, and with a tail that tells apart who
// writes it. Of a long name the end is cut off, so that there is room for the rest.
func PartialName(path, tail string) string {
	dir, base := filepath.Split(path)
	tail = ".partial-" + tail
	if most := nameMax - len(tail); len(base) > most {
		cut := max(most, 0)
		for cut > 0 && !utf8.RuneStart(base[cut]) {
			cut--
		}
		base = base[:cut]
	}
	return dir + base + tail
}
