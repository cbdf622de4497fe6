package cupti

// namesBytesMax is the most bytes of names that are kept per process.
const namesBytesMax = 64 << 20

// A nameTable holds the names that a process has sent, by number.
type nameTable struct {
	names []string // name number N is names[N-1]
	bytes int
}

// add adds the next name; numbers run from 1 without a gap.
func (t *nameTable) add(number uint32, name []byte) error {
	if int64(number) != int64(len(t.names))+1 || number > namesMax {
		return malformed("name number %d after %d", number, len(t.names))
	}
	t.bytes += len(name)
	if t.bytes > namesBytesMax {
		return malformed("more than %d bytes of names", namesBytesMax)
	}
	t.names = append(t.names, string(name))
	return nil
}

// name returns a name by its number; 0 is the empty name.
func (t *nameTable) name(number uint32) (string, error) {
	if number == 0 {
		return "", nil
	}
	if int64(number) > int64(len(t.names)) {
		return "", malformed("name number %d, which was never sent", number)
	}
	return t.names[number-1], nil
}

func decodeString(d *decoder, b []byte) error {
	number, length := le.Uint32(b[4:]), le.Uint32(b[8:])
	if length > nameMax || int(length) > len(b)-stringSize {
		return malformed("a name of %d bytes in %d", length, len(b))
	}
	return d.names.add(number, b[stringSize:stringSize+length])
}

// textsMax is the most texts that a textCache remembers.
const textsMax = 4096

// A textCache holds recent texts, so that each is allocated once. A marker holds its text
// itself, not a number.
type textCache map[string]string

// text returns bytes as a string, without an allocation when the cache has it.
func (c *textCache) text(b []byte) string {
	if s, ok := (*c)[string(b)]; ok {
		return s
	}
	if *c == nil || len(*c) == textsMax {
		*c = textCache{}
	}
	s := string(b)
	(*c)[s] = s
	return s
}
