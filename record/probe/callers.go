package probe

import (
	"github.com/cudatrace/cudatrace/record/probe/decode"
	"github.com/cudatrace/cudatrace/record/probe/eventstore"
)

// Unplaced are calls that have no caller, by the reason.
type Unplaced = decode.Unplaced

// Unplaced counts the calls that were delivered and whose chain was not.
func (p *Prober) Unplaced() Unplaced { return p.events.unplaced() }

// Callers is the memory of the chains of return addresses that were delivered to the Sink.
// After Close it does nothing.
func (p *Prober) Callers() *eventstore.Callers { return p.callers }
