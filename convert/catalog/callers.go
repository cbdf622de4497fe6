package catalog

import (
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A Caller is a caller of the log, with what joining asks of it.
type Caller struct {
	Place    *timeline.Caller // where the call was made, nil when not known
	Function string           // the runtime's function around the recorded call, "" for none
	traits   cudaapi.Traits   // of that function
	base     string           // its name without suffixes of version and stream

	recorded, called *Function // the latest function that Called was asked about, and what a successful call is called
}

// maxCallers bounds the callers that are kept: more are not known.
const maxCallers = 1 << 17

// Callers are the callers of a log, by ID.
type Callers struct{ list []*Caller }

func (l *Callers) take(b *tracelog.Block, i int) {
	var r tracelog.Caller
	r.Read(b, i)
	if r.ID == 0 || r.ID >= maxCallers {
		return
	}
	for int(r.ID) >= len(l.list) {
		l.list = append(l.list, nil)
	}
	c := &Caller{Function: r.Function, traits: cudaapi.TraitsOf(r.Function), base: cudaapi.Unversioned(r.Function)}
	if r.Module != "" {
		c.Place = &timeline.Caller{Module: r.Module, BuildID: r.BuildID, Address: r.Address,
			Symbol: r.Symbol, SymbolOffset: r.SymbolOffset, ID: r.ID}
	}
	l.list[r.ID] = c
}

// ByID returns the caller that a call names, nil when it is not known.
func (l *Callers) ByID(id uint32) *Caller {
	if int(id) >= len(l.list) {
		return nil
	}
	return l.list[id]
}

// Any says whether callers were recorded.
func (l *Callers) Any() bool { return len(l.list) > 0 }

// Prepares says whether a call of a driver's function made here belongs to a call of the
// runtime that creates GPU work and does not create it itself, as the loading of a module on
// first use does. The driver call that creates the work stands for both.
func (c *Caller) Prepares(f *Function, ret int32) bool {
	return c.traits.MayWork && f.Driver && !f.MayWork && ret == 0
}
