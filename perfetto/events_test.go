package perfetto

// begin opens a slice with a template of its own.
func begin(t *Track, ts uint64, name, category string, submitted []uint64, args []Arg) {
	var e TrackEventTemplate
	e.Encode(t.w, name, category, args)
	t.BeginWith(ts, &e, submitted, UintArgs{})
}

// instant writes an instant event with a template of its own.
func instant(t *Track, ts uint64, name, category string, args []Arg) {
	var e TrackEventTemplate
	e.Encode(t.w, name, category, args)
	t.Instant(ts, &e)
}

// work writes GPU work with a template of its own.
func work(q *Queue, id, start, dur uint64, e RenderStageEvent) {
	var t RenderStageTemplate
	t.Encode(q.sequence.w, &e)
	q.Event(&t, id, start, dur, UintArgs{})
}
