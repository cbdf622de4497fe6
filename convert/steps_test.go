package convert

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/internal/timelinetest"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/pattern"
)

// stepsLog is the log of a process whose steps are ranges of these names: step i lasts from 1000*i to 1000*i+500, with a call in it, and another call
// between it and the next one. The steps are of two threads in turn. A process without steps makes calls at the same times. The last step never ends.
func stepsLog(t *testing.T, names ...string) Log {
	t.Helper()
	return stepsLogOf(t, "", names...)
}

// stepsLogOf is such a log that begins with other records.
func stepsLogOf(t *testing.T, first string, names ...string) Log {
	t.Helper()
	var b strings.Builder
	b.WriteString(first + "process pid=40 start=100\nprocess pid=50 start=100\nthread pid=40 tid=40\nthread pid=40 tid=41\n")
	for i, name := range names {
		at := 1000 * (i + 1)
		tid := 40 + i%2
		fmt.Fprintf(&b, "marker pid=40 tid=%d flags=0x2 id=%d time=%d name=%q domain=d\n", tid, i+1, at, name)
		fmt.Fprintf(&b, "call pid=40 tid=%d func=#1 enter=%d dur=5\ncall pid=50 tid=50 func=#1 enter=%d dur=5\n", tid, at+100, at+200)
		if i+1 < len(names) {
			fmt.Fprintf(&b, "marker pid=40 tid=%d flags=0x4 id=%d time=%d\n", tid, i+1, at+500)
		}
		fmt.Fprintf(&b, "call pid=40 tid=%d func=#1 enter=%d dur=5\n", tid, at+700)
	}
	return Log{"log", logtest.Assemble(t, b.String())}
}

// TestSteps shows the time of some steps, in all processes, whatever the names of the steps are. The ranges of the timeline have the numbers of the
// steps that they are.
func TestSteps(t *testing.T) {
	t.Parallel()
	numbered, counted := []string{"step 0", "step 1", "step 2", "step 3"}, []string{"step", "load", "step", "step, seq = 9"}
	for name, c := range map[string]struct {
		names       []string
		first, last int64
		want        string
	}{
		"some":            {numbered, 1, 2, "40@3100 41@2100 41@2700 50@2200 50@3200, steps 2 1"},
		"one":             {numbered, 2, 2, "40@3100 50@3200, steps 2"},
		"more than are":   {numbered, 0, 0, "40@1100 50@1200, steps 0"},
		"without an end":  {numbered, 3, 99, "41@4100 41@4700 50@4200, steps 3"},
		"counted":         {counted, 1, 1, "40@3100 50@3200, steps 1"},
		"to the last one": {counted, 1, 2, "40@3100 40@3700 41@4100 41@4700 50@3200 50@4200, steps 1 2"},
		"once":            {[]string{"step 0", "step 1", "step 0", "step 1", "end"}, 1, 1, "41@2100 50@2200, steps 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := Steps{Ranges: pattern.Ranges{Name: "step", Domain: "d"}, Chosen: true, First: c.first, Last: c.last}
			tl, _ := timelineWith(t, Options{Filter: Filter{Steps: steps}}, stepsLog(t, c.names...))
			got := chosen(tl) + ", steps"
			for _, p := range tl.Processes {
				for _, th := range p.Threads {
					for _, tr := range th.Tracks {
						for _, sp := range tr.Spans {
							if tr.Category == timeline.NVTX && sp.Ranges.Step != nil {
								got += fmt.Sprint(" ", sp.Ranges.Step.Number)
							}
						}
					}
				}
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// A recording of some steps has them as its steps, without being asked, by the numbers of the whole run: those at the ends
// of names, or counted from the first one that was recorded.
func TestRecordedSteps(t *testing.T) {
	t.Parallel()
	counted := []string{"step", "load", "step", "step, seq = 9"}
	log := func(schedule string, names ...string) Log {
		return stepsLogOf(t, fmt.Sprintf("meta key=schedule value=%q\n", schedule), names...)
	}
	step := Steps{Ranges: pattern.Ranges{Name: "step", Domain: "*"}, Chosen: true, First: 101, Last: 101}
	all, other := step, step
	all.First, all.Last, other.Name, other.First, other.Last = 0, 1<<40, "st*", 1, 1
	for name, c := range map[string]struct {
		log  Log
		of   Steps
		want string
	}{
		"without names":         {log("delay 1s, capture range nvtx:step, steps 100-102", counted...), Steps{}, "100 101 102"},
		"of numbers":            {log("capture range nvtx:step@d, steps 7", "step 7", "step 8", "load"), Steps{}, "7 8"},
		"chosen":                {log("capture range nvtx:step, steps 100-102", counted...), step, "101"},
		"all":                   {log("capture range nvtx:step, steps 100-102", counted...), all, "100 101 102"},
		"other ranges":          {log("capture range nvtx:step, steps 100-102", counted...), other, "1"},
		"no numbers":            {log("capture range nvtx:step", counted...), Steps{}, ""},
		"a name with a comma":   {log("capture range nvtx:step, steps 5*, steps 100", counted...), Steps{}, ""},
		"a number that is none": {log("capture range nvtx:step, steps x", counted...), Steps{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := strings.Join(stepsOf(t, c.log, Filter{Steps: c.of}), " "); got != c.want {
				t.Errorf("steps %s, want %s", got, c.want)
			}
		})
	}
}

// stepsOf returns the numbers of the steps of a log that a filter shows.
func stepsOf(t *testing.T, l Log, f Filter) (numbers []string) {
	t.Helper()
	tl, _ := timelineWith(t, Options{Filter: f}, l)
	for _, p := range tl.Processes {
		for _, th := range p.Threads {
			for _, tr := range th.Tracks {
				for _, sp := range tr.Spans {
					if tr.Category == timeline.NVTX && sp.Ranges.Step != nil {
						numbers = append(numbers, fmt.Sprint(sp.Ranges.Step.Number))
					}
				}
			}
		}
	}
	slices.Sort(numbers)
	return numbers
}

// Logs without the chosen steps are an error that says which there are. One of several such logs shows nothing.
// Without steps there are no steps to show: the error has the names of the ranges that there are.
func TestUnknownSteps(t *testing.T) {
	t.Parallel()
	logs := []Log{stepsLog(t, "step 2", "load"), stepsLog(t, "step 3", "eval", "load")}
	for name, want := range map[string][]string{"nosuch": {"eval", "load", "step"}, "eval": nil, "step": nil} {
		_, err := Timeline(logs, Options{Filter: Filter{Steps: Steps{Ranges: pattern.Ranges{Name: name, Domain: "*"}}}}, timelinetest.NewCollector(t))
		var none *NoStepError
		if errors.As(err, &none); (want == nil) != (err == nil) || want != nil && (none == nil || !slices.Equal(none.Names, want)) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

func TestNoSteps(t *testing.T) {
	t.Parallel()
	of := func(names ...string) []Log { return []Log{stepsLog(t, names...)} }
	for want, logs := range map[string][]Log{
		`no NVTX range matches "step"`:                         of("load"),
		"there are no steps 7 to 8: the steps step are 2 to 9": append(of("step 2", "step 9"), of("step 3", "load")...),
		"": append(of("step 7", "step 8", "load"), of("step 2", "step 3")...),
	} {
		collector := timelinetest.NewCollector(t)
		_, err := Timeline(logs, Options{Filter: Filter{Steps: Steps{Ranges: pattern.Ranges{Name: "step", Domain: "*"}, Chosen: true, First: 7, Last: 8}}}, collector)
		var none *NoStepError
		switch {
		case want == "" && err != nil, want != "" && (!errors.As(err, &none) || err.Error() != want):
			t.Errorf("%v, want %s", err, want)
		case want == "":
			if got := chosen(collector.Timeline()); got != "40@1100 40@1700 41@2100 50@1200 50@2200" {
				t.Errorf("of two logs: %s", got)
			}
		}
	}
}
