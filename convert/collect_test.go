package convert

import (
	"io"
	"testing"

	"github.com/cudatrace/cudatrace/convert/internal/timelinetest"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/must"
)

// timelineOf makes the timeline of a log.
func timelineOf(t testing.TB, open logtest.Opener) (*timelinetest.Timeline, Summary) {
	t.Helper()
	c := timelinetest.NewCollector(t)
	sum := build(t, open, c)
	return c.Timeline(), sum
}

// build gives a log to a sink.
func build(t testing.TB, open logtest.Opener, s timeline.Sink) Summary {
	t.Helper()
	all := must.Get(Timeline([]Log{{"test", open}}, Options{}, s))(t)
	return all[0]
}

func traceTo(t testing.TB, open logtest.Opener, o TraceOptions, w io.Writer) Summary {
	t.Helper()
	all, _, err := toTrace([]Log{{"test", open}}, w, o)
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}
