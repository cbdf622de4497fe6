package convert

import "github.com/cudatrace/cudatrace/record/tracelog"

// Recorded says how a log was recorded, as far as its records tell. Two logs whose modes differ
// do not have the same figures for one program. A "" is not known.
type Recorded struct {
	Calls     string   // "uprobes" or "cupti"
	GPU       string   // "cupti" or "none"
	Memory    string   // "calls", "cupti" or "none": where allocations come from
	Schedule  string   // the options that left parts of the program out
	Functions []string // that were probed, sorted
	Python    bool     // calls have Python frames
}

// recorded derives the mode of a recording from its records.
func (l *log) recorded(s *Summary) Recorded {
	r := Recorded{GPU: "none", Schedule: l.catalog.Meta[tracelog.MetaSchedule]}
	switch {
	case s.Pairs > 0 && !l.catalog.CallsFromCallbacks():
		r.Calls = "uprobes"
		r.Functions = l.catalog.Functions.Recorded()
	case s.APIRecords > 0:
		r.Calls = "cupti"
	}
	for _, x := range l.catalog.Outcome.CUPTI {
		if x.Status == "on" {
			r.GPU = "cupti"
		}
	}
	if s.Kernels+s.Copies+s.Memsets > 0 {
		r.GPU = "cupti"
	}
	r.Memory = l.catalog.MemorySource()
	r.Python = l.catalog.Pythons.Any()
	return r
}
