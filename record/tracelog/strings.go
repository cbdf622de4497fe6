package tracelog

import (
	"errors"
	"slices"
	"strings"
	"unsafe"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// fullText stands for each text that no longer fits into the string table.
const fullText = "(string table full)"

// cutMark ends a text that was cut because it was too long.
const cutMark = "... (cut)"

// An interner gives each distinct text a number, from 1 on, and keeps the new ones
// until they are written. It holds every text of the log, up to a limit. Texts beyond
// the limit are counted and get the number of fullText, but for the causes of loss.
type interner struct {
	ids      map[string]uint64
	recent   [recentTexts]recentText
	last     uint64 // the largest id given
	bytes    int    // of all texts
	maxCount int
	maxBytes int
	full     uint64 // id of fullText once the table is full
	lost     uint64 // texts cut, and uses of texts refused

	pending []string // texts not yet written, the newest with the id last
}

// Room in the table for the last texts of a log (the reason why it is not complete), for fullText and for the causes of
// loss.
const (
	lastTexts    = 7
	reserveBytes = 64 << 10
	causeBytes   = 4 << 10 // of fullText and the causes
)

func newInterner(maxCount, maxBytes int) interner {
	reserved := lastTexts + 1 + len(LostCauses)
	return interner{
		ids: make(map[string]uint64), maxCount: max(maxCount-reserved, 0), maxBytes: max(maxBytes-reserveBytes, 0),
	}
}

// useReserve makes room for the last texts.
func (in *interner) useReserve() {
	in.maxCount = max(in.maxCount, int(in.last)) + lastTexts
	in.maxBytes += reserveBytes - causeBytes
}

// forget frees the table when nothing can be written any more.
func (in *interner) forget() {
	in.ids, in.pending, in.full = make(map[string]uint64), nil, 0
	clear(in.recent[:])
}

// unwritten takes back the numbers of texts that did not reach the log. The next use of
// such a text gives it a new number.
func (in *interner) unwritten(texts []string) {
	for _, s := range texts {
		delete(in.ids, s)
	}
	in.full = 0
	clear(in.recent[:])
}

// A recentText is a text used lately, found by the address of its bytes. Names come from
// tables of the caller, so that equal names mostly have the same address.
type recentText struct {
	text string
	id   uint64
}

const recentTexts = 256

// id returns the number of a text.
func (in *interner) id(s string) uint64 {
	if s == "" {
		return 0
	}
	at := uintptr(unsafe.Pointer(unsafe.StringData(s)))
	r := &in.recent[(at>>3^at>>11)%recentTexts]
	if len(r.text) == len(s) && unsafe.StringData(r.text) == unsafe.StringData(s) {
		return r.id
	}
	id := in.ids[s]
	if id == 0 {
		return in.intern(s)
	}
	r.text, r.id = s, id
	return id
}

// intern gives a text a number, or refuses it.
func (in *interner) intern(s string) uint64 {
	if len(s) > schema.MaxString {
		in.lost++
		return in.id(s[:schema.MaxString-len(cutMark)] + cutMark)
	}
	full := in.last >= uint64(in.maxCount) || in.bytes+len(s) > in.maxBytes
	switch {
	case in.last >= schema.MaxStrings: // numbers were taken back again and again: the text is empty
		in.lost++
		return 0
	case full && !slices.Contains(LostCauses, s):
		in.lost++
		if in.full == 0 {
			in.full = in.ids[fullText]
		}
		if in.full == 0 {
			in.full = in.append(fullText)
		}
		return in.full
	}
	return in.append(strings.Clone(s))
}

// append gives a text the next number.
func (in *interner) append(s string) uint64 {
	in.last++
	id := in.last
	in.ids[s] = id
	in.bytes += len(s)
	in.pending = append(in.pending, s)
	return id
}

// A stringTable has the texts of a log by their numbers, for its reader.
type stringTable struct {
	texts  []string
	bytes  int
	shared int // number of texts that kept blocks may read at the same time
}

// share returns the table as it is, for the use of another goroutine.
func (t *stringTable) share() *stringTable {
	t.shared = len(t.texts)
	return &stringTable{texts: t.texts}
}

var errStrings = errors.New("its strings are too many, too large or have impossible numbers")

// addTexts takes in a block of strings, or none of them. most is the number of bytes that all may have.
func (t *stringTable) addTexts(b *Block, most int) error {
	bytes := t.bytes
	for i := range b.N {
		id, text := b.at(0, i), b.own[1].Text(i)
		if bytes += len(text); id == 0 || id > schema.MaxStrings || bytes > most || t.differs(id, text) {
			return errStrings
		}
	}
	for i := range b.N {
		t.set(b.at(0, i), b.own[1].Text(i))
	}
	return nil
}

// differs reports whether an id has another text already. A number stands for one text, but for
// those that a repair may need.
func (t *stringTable) differs(id uint64, text string) bool {
	return id <= schema.MaxStrings-repairStrings && id <= uint64(len(t.texts)) && t.texts[id-1] != text &&
		t.texts[id-1] != lostText
}

// set notes the text of an id.
func (t *stringTable) set(id uint64, text string) {
	if id <= uint64(t.shared) { // only in a log with blocks out of place
		t.texts, t.shared = slices.Clone(t.texts), 0
	}
	for uint64(len(t.texts)) < id {
		t.texts = append(t.texts, lostText)
	}
	t.texts[id-1] = text
	t.bytes += len(text)
}

// lostText stands for a text that is lost because its block is damaged.
const lostText = "(lost)"

func (t *stringTable) text(id uint64) string {
	switch {
	case id == 0:
		return ""
	case id > uint64(len(t.texts)):
		return lostText
	}
	return t.texts[id-1]
}
