package read

import (
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A Caller says where calls were made, and inside which function of the runtime.
type Caller struct {
	Place    *timeline.Caller // the place of the calls, nil if unknown
	Function string           // the runtime's function around the recorded call, "" for none
	traits   cudaapi.Traits   // of Function
	base     string           // Function without suffixes of version and stream

	recorded, called *Function // the latest argument of Called, and the result for a successful call
}

// maxCallerIDs bounds the IDs of callers. A recorder numbers at most 1<<20 chains of return
// addresses. Calls with a larger ID have no caller.
const maxCallerIDs = 1 << 21

// Callers are the callers of a log, by ID. Records with equal contents are one Caller: a recorder
// writes a record for each chain of return addresses.
type Callers struct {
	byID     []*Caller // nil where the log has no record
	distinct map[tracelog.Caller]*Caller
	texts    int // bytes of their texts
}

func (l *Callers) learn(b *tracelog.Block, i int) {
	var r tracelog.Caller
	r.Read(b, i)
	if r.ID == 0 || r.ID >= maxCallerIDs {
		return
	}
	if n := int(r.ID) + 1 - len(l.byID); n > 0 {
		l.byID = append(l.byID, make([]*Caller, n)...)
	}
	l.byID[r.ID] = l.one(&r)
}

// one returns the Caller for the contents of a record.
func (l *Callers) one(r *tracelog.Caller) *Caller {
	content := *r
	content.ID = 0
	c := l.distinct[content]
	if c != nil {
		return c
	}
	c = &Caller{Function: r.Function, traits: cudaapi.TraitsOf(r.Function), base: cudaapi.Unversioned(r.Function)}
	if r.Module != "" {
		c.Place = &timeline.Caller{Module: r.Module, BuildID: r.BuildID, Address: r.Address,
			Symbol: r.Symbol, SymbolOffset: r.SymbolOffset, ID: r.ID, Stub: hostStub(r.Symbol)}
	}
	l.distinct[content] = c
	l.texts += len(r.Function) + len(r.Module) + len(r.Symbol)
	return c
}

// ByID returns the caller with an ID, nil if the log has no record of it: the recorder gives each
// chain of return addresses an ID before it knows whether the chain tells anything.
func (l *Callers) ByID(id uint32) *Caller {
	if int(id) >= len(l.byID) {
		return nil
	}
	return l.byID[id]
}

// Any reports whether the log has a record of a caller.
func (l *Callers) Any() bool { return len(l.byID) > 0 }

// Prepares reports whether a call of the driver's function f at c only prepares GPU work of the
// runtime call around it, as the loading of a module on first use does. Another driver call, which
// creates the work, stands for the runtime call.
func (c *Caller) Prepares(f *Function, ret int32) bool {
	return c.traits.MayWork && f.Driver && !f.MayWork && ret == 0
}
