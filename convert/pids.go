package convert

import "github.com/cudatrace/cudatrace/convert/internal/read"

// A pidSpace makes the PIDs and TIDs of several logs different: the trace processor identifies
// a thread by its number alone.
type pidSpace struct{ taken map[uint32]bool }

// pidBits is the number of bits of the largest PID on Linux (PID_MAX_LIMIT).
const pidBits = 22

// number finds the programs of logs and makes the numbers of their processes and threads different.
func (s *pidSpace) number(logs []*log) error {
	for _, l := range logs {
		if err := l.catalog.Processes.Resolve(l.Open, l.catalog.Contents); err != nil {
			return err
		}
		l.offset = s.offset(l.catalog)
	}
	return nil
}

// offset returns the number to add to the PIDs and TIDs of a log, so that no other log has
// them.
func (s *pidSpace) offset(c *read.Catalog) uint32 {
	own := make(map[uint32]bool)
	for _, pid := range c.Processes.PIDs {
		own[pid] = true
	}
	threads := c.Watermarks.Threads(c)
	threads.TIDs(func(key read.ThreadKey) { own[key.TID] = true })
	offset := uint32(0)
	for s.collides(own, offset) {
		offset += 1 << pidBits
	}
	if s.taken == nil {
		s.taken = make(map[uint32]bool)
	}
	for number := range own {
		s.taken[number+offset] = true
	}
	return offset
}

func (s *pidSpace) collides(own map[uint32]bool, offset uint32) bool {
	for number := range own {
		if s.taken[number+offset] {
			return true
		}
	}
	return false
}
