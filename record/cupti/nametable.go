package cupti

import (
	"sync"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

const (
	// namesBytesMax is the most bytes of names that are kept per process.
	namesBytesMax = 64 << 20
	// peerBytesMax is the most memory that all connected processes together can make the recorder
	// take, beside a fixed amount for each.
	peerBytesMax = 256 << 20
	// nameCost is the memory of a name beside its text, numberCost that of its number in a process.
	nameCost, numberCost = 128, 32
)

// A peerMemory bounds the memory of all connected processes together. It holds their names, each
// text once: processes of one program send the same ones. The zero peerMemory is ready.
type peerMemory struct {
	most int // bytes; 0 means peerBytesMax

	mu    sync.Mutex
	taken int // bytes
	names map[string]*keptName
}

// A keptName is a name with the number of its users.
type keptName struct {
	text  string
	users int
}

// take takes some bytes, and returns false if there are not so many.
func (m *peerMemory) take(bytes int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.takeLocked(bytes)
}

func (m *peerMemory) takeLocked(bytes int) bool {
	most := m.most
	if most == 0 {
		most = peerBytesMax
	}
	if bytes > most-m.taken {
		return false
	}
	m.taken += bytes
	return true
}

func (m *peerMemory) give(bytes int) {
	m.mu.Lock()
	m.taken -= bytes
	m.mu.Unlock()
}

// keep keeps a name for one more user, and returns it. It returns false if there is no room.
func (m *peerMemory) keep(name []byte) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.takeLocked(numberCost) {
		return "", false
	}
	k := m.names[string(name)]
	if k == nil {
		if !m.takeLocked(len(name) + nameCost) {
			m.taken -= numberCost
			return "", false
		}
		k = &keptName{text: string(name)}
		if m.names == nil {
			m.names = map[string]*keptName{}
		}
		m.names[k.text] = k
	}
	k.users++
	return k.text, true
}

// drop ends one use of a name.
func (m *peerMemory) drop(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.taken -= numberCost
	k := m.names[name]
	if k.users--; k.users == 0 {
		m.taken -= len(name) + nameCost
		delete(m.names, name)
	}
}

// A nameTable holds the names that a process has sent, by number. From the first name on that finds
// no room it keeps none: each is "".
type nameTable struct {
	names []string // name number N is names[N-1]
	last  uint32   // number of the last name that was sent
	bytes int
}

// add adds the next name; numbers run from 1 without a gap. It returns false if there is no room
// for the name.
func (t *nameTable) add(m *peerMemory, number uint32, name []byte) (kept bool, err error) {
	if int64(number) != int64(t.last)+1 || number > namesMax {
		return false, malformed("name number %d after %d", number, t.last)
	}
	t.bytes += len(name)
	if t.bytes > namesBytesMax {
		return false, malformed("more than %d bytes of names", namesBytesMax)
	}
	t.last = number
	if len(t.names) != int(number)-1 {
		return false, nil
	}
	text, kept := m.keep(name)
	if kept {
		t.names = append(t.names, text)
	}
	return kept, nil
}

// name returns a name by its number; 0 is the empty name.
func (t *nameTable) name(number uint32) (string, error) {
	switch {
	case number > t.last:
		return "", malformed("name number %d, which was never sent", number)
	case number == 0 || int64(number) > int64(len(t.names)):
		return "", nil
	}
	return t.names[number-1], nil
}

// release gives up all names.
func (t *nameTable) release(m *peerMemory) {
	for _, name := range t.names {
		m.drop(name)
	}
	t.names = nil
}

const stringSize = 16 // bytes of struct ct_string

// decodeString adds a name. A name without room is counted as lost.
func decodeString(d *decoder, b []byte) error {
	if len(b) < stringSize {
		return malformed("a name in %d bytes", len(b))
	}
	number, length := le.Uint32(b[4:]), le.Uint32(b[8:])
	if length > nameMax || int(length) > len(b)-stringSize {
		return malformed("a name of %d bytes in %d", length, len(b))
	}
	kept, err := d.names.add(d.shared, number, b[stringSize:stringSize+length])
	if err == nil && !kept {
		d.unnamed++
		d.sink.Add(&tracelog.Lost{PID: d.pid, Cause: tracelog.LostStrings, Count: 1})
	}
	return err
}

const (
	textsMax      = 4096      // texts that a textCache remembers
	textsBytesMax = 256 << 10 // bytes of these
)

// A textCache holds recent texts, so that each is allocated once. A marker holds its text
// itself, not a number.
type textCache struct {
	texts map[string]string
	bytes int
}

// text returns bytes as a string, without an allocation when the cache has it.
func (c *textCache) text(b []byte) string {
	if s, ok := c.texts[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(s) > textsBytesMax/16 {
		return s
	}
	if c.texts == nil || len(c.texts) == textsMax || c.bytes+len(s) > textsBytesMax {
		*c = textCache{texts: map[string]string{}}
	}
	c.texts[s] = s
	c.bytes += len(s)
	return s
}
