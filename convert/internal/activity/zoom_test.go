package activity

import (
	"testing"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/goldentest"
)

// Within the time that is zoomed counters change with each piece of work, cut at its borders; before and behind it they
// have the means that they would have. So they have within it where there would be too many changes, or where not all
// work of the GPU is known.
func TestZoom(t *testing.T) {
	t.Parallel()
	process, other := &timeline.Process{PID: 10}, &timeline.Process{PID: 11}
	of := func(p *timeline.Process, gpu, id uint32) *timeline.Stream {
		return &timeline.Stream{Context: &timeline.Context{Process: p, GPU: gpu}, ID: id}
	}
	first, second, third := of(process, 0, 7), of(process, 0, 13), of(other, 1, 7)
	copied := &timeline.Shape{Memcpy: timeline.MemcpyShape{Bytes: 1000, CopyKind: 1}}
	work := map[*timeline.Stream][]timeline.Work{
		first:  {{Start: 1000, Dur: 500}, {Start: 1600, Dur: 200}, {Start: 2400, Dur: 800}},
		second: {{Start: 1400, Dur: 100}, {Start: 1500, Dur: 100, Kind: timeline.MemcpyWork}},
		third:  {{Start: 1024, Dur: 512}},
	}
	const onOther = "kernels in flight of GPU 1 1024=1 1536=0 kernels\n"
	const means = `kernels in flight of GPU 0 768=0.0938 1024=1 1280=1.25 1536=0.75 1792=0.0313 2048=0 ` +
		`2304=0.625 2560=1 3072=0.5 3328=0 kernels
copies HtoD of GPU 0 1280=1.41 1536=2.5 1792=0 GB/s
` + onOther + `launch queue of GPU 0 of process 10 of stream 7 1280=0.336 1536=0.25 1792=0 launches
`
	const zoomed = `kernels in flight of GPU 0 768=0.0938 1024=1 1400=2 1500=0 1600=1 1800=0 ` +
		`2400=1 2500=0.625 2560=1 3072=0.5 3328=0 kernels
copies HtoD of GPU 0 1200=0 1500=10 1600=0 GB/s
` + onOther + `launch queue of GPU 0 of process 10 of stream 7 1200=0 1450=1 1600=0 launches
`
	for name, c := range map[string]struct {
		most  int
		whole bool
		want  string
	}{
		"as many changes as there may be": {12, true, zoomed},
		"one too many":                    {11, true, means},
		"work that is not known":          {12, false, means},
	} {
		counters := NewCounters(false)
		for _, s := range []*timeline.Stream{first, second, third} {
			for i := range work[s] {
				w := &work[s][i]
				w.Shape = copied
				if w.Start == 1600 {
					w.Call = timeline.Call{Function: new(timeline.Function), End: 1450}
				}
			}
			counters.Work(&timeline.WorkList{Stream: s, List: work[s]})
		}
		whole := func(p *timeline.Process) bool { return c.whole && p == process }
		ok := counters.Zoom(1200, 2500, c.most, whole, func(of *timeline.Stream, give func(*Run)) {
			for _, w := range work[of] {
				give(&Run{w.Call.End, w.Start, w.Start + w.Dur, w.Kind, 1, 1000})
			}
		})
		if ok != (c.most == 12) {
			t.Errorf("%s: %t", name, ok)
		}
		var all []Counter
		for _, k := range counters.All(0, 4096) {
			if k.Name != Busy {
				all = append(all, k)
			}
		}
		goldentest.Same(t, c.want, countersText(all), "%s: counters", name)
	}
}
