package activity

import "math/bits"

// A series is the sum of a quantity in bins of time of one width. The width doubles when there would
// be too many bins, so that a series takes little memory, however long the recording.
type series struct {
	shift  uint   // the width is 1<<shift ns
	base   uint64 // number of the first bin: its start, divided by the width
	bins   []float64
	events uint64
	zoom   *zoom // nil for means alone
}

const maxBins = 1 << 10

// countEvent counts an event: a quantity of rate a nanosecond over an interval.
func (s *series) countEvent(from, to uint64, rate float64) {
	if from < to {
		s.events++
		s.spread(from, to, rate)
	}
}

// spread adds a quantity of rate a nanosecond over an interval.
func (s *series) spread(from, to uint64, rate float64) {
	if from >= to {
		return
	}
	s.cover(from, to-1)
	first, last := from>>s.shift, (to-1)>>s.shift
	if first == last {
		s.bins[first-s.base] += float64(to-from) * rate
		return
	}
	width := uint64(1) << s.shift
	s.bins[first-s.base] += float64(width-from&(width-1)) * rate
	for i := first + 1; i < last; i++ {
		s.bins[i-s.base] += float64(width) * rate
	}
	s.bins[last-s.base] += float64((to-1)&(width-1)+1) * rate
}

// cover makes sure that there are bins for two times.
func (s *series) cover(from, to uint64) {
	if len(s.bins) == 0 {
		s.shift = max(firstShift, uint(bits.Len64((to-from)/(maxBins-1))))
		s.base = from >> s.shift
	}
	end := s.base + uint64(len(s.bins))
	if first := from >> s.shift; first >= s.base && to>>s.shift < end {
		return
	}
	for max(end, to>>s.shift+1)-min(s.base, from>>s.shift) > maxBins {
		s.halve()
		end = s.base + uint64(len(s.bins))
	}
	if first := from >> s.shift; first < s.base {
		s.bins = append(make([]float64, s.base-first, maxBins), s.bins...)
		s.base = first
	}
	if last := to >> s.shift; last >= end {
		s.bins = append(s.bins, make([]float64, last+1-end)...)
	}
}

// halve doubles the width of the bins.
func (s *series) halve() {
	base := s.base >> 1
	n := 0
	for i, v := range s.bins {
		at := int((s.base+uint64(i))>>1 - base)
		s.bins[i] = 0
		s.bins[at] += v
		n = at + 1
	}
	s.shift, s.base, s.bins = s.shift+1, base, s.bins[:n]
}

// A Sample is the value of a counter from a time on.
type Sample struct {
	Time  uint64
	Value float64
}

const (
	// eventsPerSample is the number of events of a counter for each of its samples: a sample takes
	// about as many bytes in a trace as an event.
	eventsPerSample = 128

	// leastSamples are allowed for any counter.
	leastSamples = 16

	// MaxSamples bounds the samples of a counter.
	MaxSamples = 256
)

// samples returns the mean of each bin, times a factor, where it changes. first and last are the
// bounds of the trace: a bin that begins before or ends after them counts as far as it lies within.
func (s *series) samples(first, last uint64, factor float64) (list []Sample) {
	most := min(MaxSamples, max(leastSamples, s.events/eventsPerSample))
	for uint64(len(s.bins)) > most {
		s.halve()
	}
	latest := 0.0
	for i, v := range s.bins {
		from := max(first, (s.base+uint64(i))<<s.shift)
		to := min(last, from|(1<<s.shift-1))
		if from > to {
			continue
		}
		value := rounded(v / float64(to-from+1) * factor)
		if value != latest || len(list) == 0 {
			list = append(list, Sample{from, value})
			latest = value
		}
	}
	end := (s.base + uint64(len(s.bins))) << s.shift
	if latest != 0 && end > list[len(list)-1].Time && end <= last {
		list = append(list, Sample{end, 0})
	}
	if s.zoom != nil && len(list) > 0 {
		return s.zoom.into(list, factor)
	}
	return list
}
