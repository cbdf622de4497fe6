package parquetsink

import (
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/parquet"
)

// An openRange is an NVTX range whose end has not come.
type openRange struct {
	name, ranges string
	start        uint64
	unfinished   bool
}

func (s *Sink) spanBegin(e *timeline.SpanBegin) {
	if e.Track.Category == timeline.Functions {
		s.functionBegin(e)
		return
	}
	if e.Track.Category != timeline.NVTX {
		return
	}
	s.open[e.Track] = append(s.open[e.Track], &openRange{e.Name, s.part(e.Track.Process).ranges(e.Ranges), e.Start,
		slices.ContainsFunc(e.Args, func(d timeline.Detail) bool { return d.Name == "unfinished" })})
}

func (s *Sink) spanEnd(e *timeline.SpanEnd) {
	if e.Track.Category == timeline.Functions {
		s.functionEnd(e)
		return
	}
	open := s.open[e.Track]
	if len(open) == 0 {
		return
	}
	o := open[len(open)-1]
	s.open[e.Track] = open[:len(open)-1]
	dur := int64(parquet.NullInt)
	if !o.unfinished {
		dur = int64(min(e.Time-min(o.start, e.Time), 1<<62))
	}
	s.nvtx(e.Track, o, "range", dur)
}

func (s *Sink) instant(e *timeline.Instant) {
	if e.Track.Category == timeline.Functions {
		s.functionRow(e.Track, &e.Span, parquet.NullInt)
		return
	}
	if e.Track.Category == timeline.NVTX {
		s.nvtx(e.Track, &openRange{name: e.Name, ranges: s.part(e.Track.Process).ranges(e.Ranges), start: e.Start}, "mark", parquet.NullInt)
	}
}

func (s *Sink) nvtx(t *timeline.Track, o *openRange, kind string, dur int64) {
	b := s.part(t.Process).buffer(nvtxTable)
	b.int(s.unix(o.start))
	b.int(dur)
	b.text(o.name)
	_, domain, _ := strings.Cut(t.Name, ": ")
	b.text(domain)
	b.text(kind)
	b.small(s.options.HostPID(t.Process.PID))
	tid := uint32(null)
	if t.Thread != nil {
		tid = s.options.HostPID(t.Thread.TID)
	}
	b.small(tid)
	b.text(o.ranges)
	s.end(b)
}
