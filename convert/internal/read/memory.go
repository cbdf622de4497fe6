package read

import "github.com/cudatrace/cudatrace/record/tracelog"

// The sources of what a log knows of allocated memory.
const (
	MemoryOfCalls = "calls"
	MemoryOfCUPTI = "cupti" // records that CUPTI wrote, of early versions
	NoMemory      = "none"
)

// MemorySource returns where the log's knowledge of allocated memory comes from; "" if that is not known.
func (c *Catalog) MemorySource() string {
	switch c.Meta[tracelog.MetaMemory] {
	case tracelog.MemoryOfCalls, tracelog.MemoryOfCallbacks:
		return MemoryOfCalls
	case "":
		if c.Totals[tracelog.KindMemory] > 0 {
			return MemoryOfCUPTI
		}
		return ""
	}
	return NoMemory
}

// MemoryFromCalls reports whether allocations are to be read from calls. A log of the last part of a recording has
// records of them, which know what came before.
func (c *Catalog) MemoryFromCalls() bool {
	return c.MemorySource() == MemoryOfCalls && c.Totals[tracelog.KindMemory] == 0
}

// CallsFromCallbacks reports whether records of calls with arguments are CUPTI's, not those of probes: there are some
// of functions that do something to memory alone.
func (c *Catalog) CallsFromCallbacks() bool {
	return c.Meta[tracelog.MetaMemory] == tracelog.MemoryOfCallbacks
}

// WithoutMemory says why the log knows nothing of allocated memory; "" if it does.
func (c *Catalog) WithoutMemory() string {
	if c.MemorySource() != NoMemory {
		return ""
	}
	if why := c.Meta[tracelog.MetaMemory]; why != tracelog.MemoryOfCUPTI {
		return why
	}
	return "not known: the log has CUPTI's records of memory, which cudatrace no longer reads"
}
