package perfetto

import "testing"

// Beginnings of slices go to one sequence where they lie in no other slice, and to another
// one inside of slices. An end too many changes nothing.
func TestTrackSequences(t *testing.T) {
	t.Parallel()
	w := NewWriter(new(countingWriter), Options{})
	track := w.Thread(Thread{PID: 1, TID: 1})
	var e TrackEventTemplate
	e.Encode(w, "call", "driver", nil)
	last := func() (times [trackSequences]uint64) {
		for i, s := range track.sequences {
			if s != nil {
				times[i] = s.last
			}
		}
		return times
	}
	for _, step := range []struct {
		write func()
		want  [trackSequences]uint64
	}{
		{func() { track.End(1) }, [...]uint64{0, 0, 1}},
		{func() { track.Begin(2, &e, 0, UintArgs{}) }, [...]uint64{2, 0, 1}},
		{func() { track.Instant(3, &e) }, [...]uint64{2, 3, 1}},
		{func() { track.BeginWith(4, &e, nil, UintArgs{}) }, [...]uint64{2, 4, 1}},
		{func() { track.End(5) }, [...]uint64{2, 4, 5}},
		{func() { track.End(6) }, [...]uint64{2, 4, 6}},
		{func() { track.Instant(7, &e) }, [...]uint64{7, 4, 6}},
	} {
		step.write()
		if got := last(); got != step.want {
			t.Errorf("the sequences end at %v, want %v", got, step.want)
		}
	}
}
