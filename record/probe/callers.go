package probe

import "github.com/cudatrace/cudatrace/record/probe/eventstore"

// Callers is the memory of the chains of return addresses that were delivered to the Sink.
// After Close it does nothing.
func (p *Prober) Callers() *eventstore.Callers { return p.callers }
