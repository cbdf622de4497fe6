package findings

import (
	"path"

	"github.com/cudatrace/cudatrace/convert/internal/critical"
	"github.com/cudatrace/cudatrace/record/figures"
)

func (r *report) waits() {
	calls := r.process.waits.since(r.steady.From)
	if e := total(calls); r.worth(e, LeastRepeats) {
		place, named := "", make(tally[string])
		for f, of := range calls { // nil for those without room
			if f != nil {
				named.of(f.Title()).join(of)
			}
			if f != nil && f.Place != "" && of.cost > e.cost/2 {
				place = " at " + path.Base(f.Place)
			}
		}
		r.add("device_waits", e, Finding{Without: (*critical.Without).DeviceWaits,
			Title: figures.Count(e.count, "wait", "waits") + " for the whole device" + place + ", with an idle GPU behind " +
				"each",
			Evidence: "idle until the next launch after " + parts(named, 2),
			Try: "wait only where the CPU needs a result, and for its stream or event: work of one stream runs in order " +
				"without waits"})
	}
}
