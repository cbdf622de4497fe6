package convert

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/metric"
)

// A sampleSink notes the samples that it is given, and the users of GPUs.
type sampleSink struct{ got []string }

func (s *sampleSink) Take(events []timeline.Event) error {
	for _, e := range events {
		switch e := e.(type) {
		case *timeline.Samples:
			for _, x := range e.List {
				s.got = append(s.got, fmt.Sprintf("%d-%d=%g", x.Start, x.End, x.Values[0]))
			}
		case *timeline.GPUUser:
			s.got = append(s.got, "user "+e.Name)
		}
	}
	return nil
}

func (s *sampleSink) End(err error) error { return err }

// A sample that crosses a border is in both parts, cut there. Every part knows who else used the GPU.
func TestSamples(t *testing.T) {
	t.Parallel()
	var sinks [2]sampleSink
	s := newPartsSink([]partWindow{{0, 150}, {150, timeline.Never}}, func(part int) (timeline.Sink, error) { return &sinks[part], nil })
	set := &timeline.MetricSet{Metrics: []metric.Metric{{Name: "a"}}}
	sample := func(start, end uint64, v float64) timeline.Sample {
		return timeline.Sample{Start: start, End: end, Values: []float64{v}}
	}
	err := s.Take([]timeline.Event{
		&timeline.Recording{},
		&timeline.GPUUser{Name: "other"},
		&timeline.Samples{Set: set, List: []timeline.Sample{sample(0, 100, 1), sample(100, 200, 2), sample(200, 200, 3)}},
	})
	if err == nil {
		err = s.End(nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(sinks[0].got, " ") + " | " + strings.Join(sinks[1].got, " ")
	if diff := cmp.Diff("user other 0-100=1 100-150=2 | user other 150-200=2 200-200=3", got); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}
