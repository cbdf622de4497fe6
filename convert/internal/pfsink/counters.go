package pfsink

import (
	"math"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/perfetto"
)

// writeCounters writes the sampled counters. Those of a GPU stand in a group beside the processes,
// those of a stream in the group that its process has for the GPU.
func (s *Sink) writeCounters() {
	for v := range s.gauges.Values {
		s.tracks.counterValue(v)
	}
	if s.marks.last == 0 {
		return // there is no activity
	}
	s.zoomCounters()
	for i, c := range s.counters.All(s.marks.first, s.marks.last) {
		info := perfetto.TrackInfo{Name: c.Name, Rank: placeSampled + i}
		switch {
		case c.Stream != nil:
			info.Name += ", " + streamName(c.Stream)
			info.Group, info.Rank = s.tracks.group(c.Process, int64(c.GPU)), placeSampled+streamPlace(c.Stream, 0)
		case c.OnGPU:
			if c.Name == activity.Busy {
				s.busy = append(s.busy, c.Samples)
			}
			info.Group = s.tracks.group(nil, int64(c.GPU))
		case c.Process != nil:
			info.Group = s.tracks.group(c.Process, noGPU)
		}
		counter := s.w.Counter(info, perfetto.Unit(c.Unit))
		for _, sample := range c.Samples {
			writeNumber(counter, sample.Time, sample.Value)
		}
	}
}

// slicesPerChange bounds how often counters change in the steps that are shown at first, so that the trace grows by 3 %
// at most: of a compressed trace a change takes about 3 bytes, a slice 9.
const slicesPerChange = 12

// zoomCounters has counters change with each piece of work in the steps that are shown at first, else in the median one
// alone.
func (s *Sink) zoomCounters() {
	x := s.main().step
	if x == nil {
		return
	}
	most := int(s.shown / slicesPerChange)
	zoom := func(from, to uint64) bool {
		return s.counters.Zoom(max(from, s.marks.first), min(to, s.marks.last), most,
			func(p *timeline.Process) bool { return s.paths.Collector.Until(p) >= to },
			func(of *timeline.Stream, give func(*activity.Run)) { s.paths.Collector.Runs(of, from, to, give) })
	}
	if !zoom(around(x)) {
		zoom(x.Start, x.End)
	}
}

// writeNumber writes a value of a counter, a whole number as such.
func writeNumber(c *perfetto.Counter, at uint64, v float64) {
	if whole := math.Trunc(v); whole == v && math.Abs(whole) < 1<<53 {
		c.Value(at, int64(whole))
	} else {
		c.Fraction(at, v)
	}
}
