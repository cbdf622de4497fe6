package parquetsink

import (
	"math"

	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/parquet"
)

// steps adds a row for each step.
func (s *Sink) steps() {
	for x := range s.reports.Steps(s.options.Gaps) {
		b := s.part(x.Process).buffer(stepTable)
		b.int(s.unix(x.Start))
		b.uint(x.End - min(x.Start, x.End))
		b.text(x.Name)
		b.int(x.Number)
		b.text(x.Source)
		b.text(stats.Confidence(x.Certain))
		b.small(s.options.HostPID(x.Process.PID))
		b.flag(x.Starting)
		for _, ns := range x.Made {
			if x.Known {
				b.uint(ns)
			} else {
				b.int(parquet.NullInt)
			}
		}
		s.end(b)
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
		b := s.part(x.Process).buffer(findingTable)
		b.int(s.unix(x.First))
		b.int(s.unix(x.Last))
		b.int(int64(i + 1))
		b.text(x.Kind)
		b.text(x.Title)
		b.text(stats.Confidence(x.Certain()))
		b.small(s.options.HostPID(x.Process.PID))
		gpu := uint32(null)
		if x.GPU != nil {
			gpu = *x.GPU
		}
		b.small(gpu)
		b.knownWide(x.Cost)
		share := x.Share
		if share == 0 {
			share = math.NaN() // null
		}
		b.float(share)
		b.uint(x.Count)
		b.text(x.Evidence)
		b.text(x.Try)
		b.text(s.reports.Query(x))
		s.end(b)
	}
}
