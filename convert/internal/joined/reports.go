package joined

import (
	"math"

	"github.com/cudatrace/cudatrace/convert/stats"
)

// steps adds a row for each step.
func (s *Sink) steps() {
	for x := range s.reports.Steps(s.options.Gaps) {
		r := Step{
			Start: s.unix(x.Start), Dur: bounded(x.End - min(x.Start, x.End)), Name: x.Name, Number: x.Number, Source: x.Source,
			Confidence: stats.Confidence(x.Certain), PID: s.options.HostPID(x.Process.PID), Starting: x.Starting,
			Compute: NoNumber, Exposed: NoNumber, Copy: NoNumber, Idle: NoNumber,
		}
		if m := x.Made; x.Known {
			r.Compute, r.Exposed, r.Copy, r.Idle = bounded(m[0]), bounded(m[1]), bounded(m[2]), bounded(m[3])
		}
		row(s.part(x.Process), r)
	}
}

// findings adds a row for each finding.
func (s *Sink) findings() {
	if s.options.Gaps {
		return
	}
	incomplete := false
	for _, l := range s.logs {
		incomplete = incomplete || s.options.Outcome(l.Log).Lacks
	}
	list, _ := s.reports.Findings(incomplete)
	for i := range list {
		x := &list[i]
		r := Finding{
			Start: s.unix(x.First), Last: s.unix(x.Last), Place: int64(i + 1), Name: x.Kind, Title: x.Title,
			Confidence: stats.Confidence(x.Certain()), PID: s.options.HostPID(x.Process.PID), GPU: None,
			Cost: knownWide(x.Cost), Share: x.Share, Count: bounded(x.Count),
			Evidence: x.Evidence, Try: x.Try, Query: s.reports.Query(x, ""),
		}
		if x.GPU != nil {
			r.GPU = *x.GPU
		}
		if x.Share == 0 {
			r.Share = math.NaN()
		}
		row(s.part(x.Process), r)
	}
}
