package pyframes

// A LineTable is a format of the table by which a code object finds the line of an instruction.
type LineTable int

// The formats.
const (
	LineNumberTable LineTable = iota // co_lnotab, up to 3.9
	RangeTable                       // co_linetable of 3.10
	LocationTable                    // co_linetable from 3.11 on
)

// Line returns the line of the instruction at an offset in the code, from the code object's table and its first line.
// 0 is an instruction without a line, such as those of the interpreter's own frames. The table may be anything.
func (l *Layout) Line(table []byte, firstLine, offset int) int {
	line := 0
	switch l.Lines {
	case LineNumberTable:
		line = lineByNumbers(table, firstLine, offset)
	case RangeTable:
		line = lineByRanges(table, firstLine, offset)
	case LocationTable:
		line = lineByLocations(table, firstLine, offset)
	}
	return max(line, 0)
}

// lineByNumbers reads pairs of bytes: how much the offset grows, and the signed change of the line from there on.
func lineByNumbers(table []byte, line, offset int) int {
	at := 0
	for ; len(table) >= 2; table = table[2:] {
		if at += int(table[0]); at > offset {
			break
		}
		line += int(int8(table[1]))
	}
	return line
}

// lineByRanges reads pairs of bytes: the length of a range, and the signed change of the line at its beginning; -128
// says that the range has no line.
func lineByRanges(table []byte, line, offset int) int {
	const noLine = -128
	end := 0
	for ; len(table) >= 2; table = table[2:] {
		end += int(table[0])
		change := int(int8(table[1]))
		if change != noLine {
			line += change
		}
		if end > offset {
			if change == noLine {
				return 0
			}
			return line
		}
	}
	return 0
}

// lineByLocations reads entries. The first byte of an entry has its highest bit set; then come 4 bits of the kind, and
// 3 bits of the length in instructions of 2 bytes, less 1.
func lineByLocations(table []byte, line, offset int) int {
	end := 0
	for len(table) > 0 {
		kind := table[0] >> 3 & 15
		end += (int(table[0]&7) + 1) * 2
		line += lineChange(kind, table[1:])
		if end > offset {
			if kind == locationNone {
				return 0
			}
			return line
		}
		for table = table[1:]; len(table) > 0 && table[0]&0x80 == 0; {
			table = table[1:]
		}
	}
	return 0
}

// Kinds of location, of those with a change of the line. locationLines is for no change; the next two kinds are for one
// line and for two.
const (
	locationLines     = 10
	locationNoColumns = 13
	locationLong      = 14
	locationNone      = 15
)

func lineChange(kind byte, rest []byte) int {
	switch kind {
	case locationNone:
		return 0
	case locationLong, locationNoColumns:
		return signedVarint(rest)
	case locationLines, locationLines + 1, locationLines + 2:
		return int(kind - locationLines)
	}
	return 0
}

// signedVarint reads a number in groups of 6 bits, the lowest first; bit 6 says that another one follows, and the
// number's lowest bit is its sign. No line needs more bits than are read.
func signedVarint(b []byte) int {
	value := uint64(0)
	for i := 0; i < len(b) && i < 6; i++ {
		value |= uint64(b[i]&63) << (6 * i)
		if b[i]&64 == 0 {
			break
		}
	}
	if value&1 != 0 {
		return -int(value >> 1)
	}
	return int(value >> 1)
}
