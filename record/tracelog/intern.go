package tracelog

import "strings"

// fullText stands for every text that came after the string table was full.
const fullText = "(string table full)"

// cutMark ends a text that was too long.
const cutMark = "... (cut)"

// An interner gives each distinct text a number, from 1 on, and keeps the new ones
// until they are written. It holds every text of the log, up to a limit: what
// comes after is named fullText and counted.
type interner struct {
	ids      map[string]uint64
	bytes    int // of all texts
	maxCount int
	maxBytes int
	full     uint64 // id of fullText once the table is full
	lost     uint64 // texts cut, and uses of texts refused

	pending []string // texts not yet written, the ids of which end at len(ids)
}

// The last texts of a log have a place in the table kept free for them: the reason
// for which it is not complete, and fullText itself.
const (
	reserveCount = 8
	reserveBytes = 64 << 10
)

func newInterner(maxCount, maxBytes int) interner {
	return interner{ids: make(map[string]uint64), maxCount: maxCount - reserveCount, maxBytes: maxBytes - reserveBytes}
}

// useReserve makes room for the last texts.
func (in *interner) useReserve() {
	in.maxCount += reserveCount - 1 // one is for fullText
	in.maxBytes += reserveBytes - len(fullText)
}

// forget frees the table when nothing can be written any more.
func (in *interner) forget() {
	in.ids, in.pending, in.full = make(map[string]uint64), nil, 0
}

// id returns the number of a text.
func (in *interner) id(s string) uint64 {
	if s == "" {
		return 0
	}
	if id := in.ids[s]; id != 0 {
		return id
	}
	return in.add(s)
}

func (in *interner) add(s string) uint64 {
	if len(s) > MaxString {
		in.lost++
		return in.id(s[:MaxString-len(cutMark)] + cutMark)
	}
	if len(in.ids) >= in.maxCount || in.bytes+len(s) > in.maxBytes {
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

func (in *interner) append(s string) uint64 {
	id := uint64(len(in.ids) + 1)
	in.ids[s] = id
	in.bytes += len(s)
	in.pending = append(in.pending, s)
	return id
}

// A stringTable is the reader's side: the texts by number.
type stringTable struct {
	texts []string
	bytes int
}

// set notes the text of an id and reports whether the table may hold it.
func (t *stringTable) set(id uint64, text string) bool {
	if id == 0 || id > MaxStrings || t.bytes+len(text) > MaxStringBytes {
		return false
	}
	for uint64(len(t.texts)) < id {
		t.texts = append(t.texts, lostText)
	}
	t.texts[id-1] = text
	t.bytes += len(text)
	return true
}

// lostText stands for a text whose block is damaged.
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
