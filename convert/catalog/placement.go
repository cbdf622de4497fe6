package catalog

import "github.com/cudatrace/cudatrace/record/tracelog"

// A Placement names the fields of a kind of event that give its time and its place.
type Placement struct {
	Start, Dur  string // Dur is "" for an event without a duration
	context, id string // fields of the thread or stream, "" for none
	device      string
	as          tracelog.Kind // the kind whose watermarks it shares
	zero        bool          // a start of 0 is a time like any other
	own         bool          // each thread or stream has watermarks of its own
}

var work = Placement{Start: "start", Dur: "dur", context: "context", id: "stream", device: "device", as: tracelog.KindKernel, own: true}

// placements has the kinds of event: kinds with a time, of which there are many records.
var placements = map[tracelog.Kind]*Placement{
	tracelog.KindCall:       {Start: "enter", Dur: "dur", id: "tid", as: tracelog.KindCall, zero: true, own: true},
	tracelog.KindAPI:        {Start: "start", Dur: "dur", id: "tid", as: tracelog.KindAPI, zero: true, own: true},
	tracelog.KindKernel:     &work,
	tracelog.KindMemcpy:     &work,
	tracelog.KindMemset:     &work,
	tracelog.KindGraph:      &work,
	tracelog.KindSync:       {Start: "start", Dur: "dur", as: tracelog.KindSync, zero: true},
	tracelog.KindOverhead:   {Start: "start", Dur: "dur", as: tracelog.KindOverhead, zero: true},
	tracelog.KindMarker:     {Start: "time", as: tracelog.KindMarker, zero: true},
	tracelog.KindNCCLCall:   {Start: "time", as: tracelog.KindMarker, zero: true},
	tracelog.KindMemory:     {Start: "time", device: "device", as: tracelog.KindMemory, zero: true},
	tracelog.KindSample:     {Start: "start", Dur: "dur", id: "set", as: tracelog.KindSample, zero: true, own: true},
	tracelog.KindMemoryPool: {Start: "time", device: "device", as: tracelog.KindMemoryPool, zero: true},
}

var placementOf = func() (all [256]*Placement) {
	for k, p := range placements {
		all[k] = p
	}
	return all
}()

// PlacementOf returns the placement of a kind of event, nil for other kinds.
func PlacementOf(k tracelog.Kind) *Placement { return placementOf[k] }
