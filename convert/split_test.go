package convert

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/convert/timeline/timelinetest"
	"github.com/cudatrace/cudatrace/perfetto/tptest"
)

// bordersOf are thirds of a timeline, and the beginning and the end of something in it.
func bordersOf(tl *timelinetest.Timeline) []uint64 {
	var times []uint64
	for _, p := range tl.Processes {
		for _, th := range p.Threads {
			for _, sl := range th.Slices {
				times = append(times, sl.Start, sl.End)
			}
		}
		for _, s := range p.Streams {
			for _, w := range s.Work {
				times = append(times, w.Start, w.Start+w.Dur)
			}
		}
	}
	if len(times) == 0 {
		return []uint64{tl.Recording.Start + 1000}
	}
	first, last := slices.Min(times), slices.Max(times)
	borders := []uint64{first + (last-first)/3, first + (last-first)/3*2, times[len(times)/2], times[len(times)/2+1], last}
	slices.Sort(borders)
	borders = slices.Compact(borders)
	return slices.DeleteFunc(borders, func(b uint64) bool { return b == 0 })
}

// A tally has the sums of timelines.
type tally map[string]uint64

// add adds a timeline. Only what begins in it is counted; times are those of all pieces.
func (y tally) add(tl *timelinetest.Timeline) {
	for _, p := range tl.Processes {
		for _, th := range p.Threads {
			for _, sl := range th.Slices {
				y.piece(fmt.Sprintf("thread %d %s", th.TID, sl.Name), sl.Start, sl.End, sl.Flags)
			}
			y.tracks(th.Tracks)
		}
		for _, s := range p.Streams {
			for _, w := range s.Work {
				y.piece(fmt.Sprintf("stream %d kind %d", s.ID, w.Kind), w.Start, w.Start+w.Dur, w.Cut)
			}
		}
		y.tracks(p.Tracks)
		for range p.Allocations {
			y["allocations"]++
		}
	}
	y["remarks"] += uint64(len(tl.Remarks))
}

func (y tally) tracks(list []*timelinetest.Track) {
	for _, k := range list {
		for _, sp := range k.Spans {
			flags := uint16(0)
			for _, d := range sp.Args {
				if d.Name == timeline.CutName && strings.HasPrefix(d.Text, "began before") {
					flags = timeline.CutBefore
				}
			}
			if !sp.Open {
				y.piece("span "+k.Name+" "+sp.Name, sp.Start, sp.End, flags)
			}
		}
	}
}

func (y tally) piece(name string, start, end uint64, flags uint16) {
	y[name+", time"] += end - start
	if flags&timeline.CutBefore == 0 {
		y[name+", number"]++
	}
}

// TestSplitTimelines: the times of the parts of a timeline add up to those of the whole, and so do
// numbers, without what began in an earlier part; counters begin with the value that they had.
func TestSplitTimelines(t *testing.T) {
	t.Parallel()
	logs, err := filepath.Glob("testdata/*.log.txt")
	if err != nil || len(logs) == 0 {
		t.Fatalf("no logs in testdata: %v", err)
	}
	for _, path := range logs {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".log.txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			open := logtest.Assemble(t, string(text))
			whole, _ := timelineOf(t, open)
			windows := windowsBetween(always, bordersOf(whole))
			collectors := make([]*timelinetest.Collector, len(windows))
			sink := newPartsSink(windows, func(part int) (timeline.Sink, error) {
				collectors[part] = timelinetest.NewCollector(t)
				return collectors[part], nil
			})
			if _, err := Timeline([]Log{{Open: open}}, Options{}, sink); err != nil {
				t.Fatal(err)
			}
			want, got := tally{}, tally{}
			want.add(whole)
			for i, c := range collectors {
				if c != nil {
					tl := c.Timeline()
					got.add(tl)
					checkWindow(t, tl, windows[i])
					checkCounters(t, whole, tl, windows[i])
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("sums (-whole +parts):\n%s", diff)
			}
		})
	}
}

// checkWindow: nothing of a part lies outside of its window.
func checkWindow(t *testing.T, tl *timelinetest.Timeline, w partWindow) {
	t.Helper()
	check := func(what string, from, to uint64) {
		if from < w.From || to > w.To {
			t.Errorf("%s from %d to %d is in the part from %d to %d", what, from, to, w.From, w.To)
		}
	}
	for _, p := range tl.Processes {
		for _, th := range p.Threads {
			for _, sl := range th.Slices {
				check(sl.Name, sl.Start, sl.End)
			}
		}
		for _, s := range p.Streams {
			for _, work := range s.Work {
				check("work", work.Start, work.Start+work.Dur)
			}
		}
		for _, k := range p.Tracks {
			for _, sp := range k.Spans {
				check(sp.Name, sp.Start, sp.End)
			}
		}
	}
}

// checkCounters: at the end of a part a counter has the value that it has then.
func checkCounters(t *testing.T, whole, part *timelinetest.Timeline, w partWindow) {
	t.Helper()
	at := func(tl *timelinetest.Timeline) map[string]uint64 {
		values := make(map[string]uint64)
		for _, p := range tl.Processes {
			for _, c := range p.Counters {
				for _, v := range c.Points {
					if v.Time < w.To || w.To == timeline.Never {
						values[fmt.Sprint(p.PID, c.Name)] = v.Value
					}
				}
			}
		}
		return values
	}
	if diff := cmp.Diff(at(whole), at(part)); diff != "" {
		t.Errorf("counters before %d (-whole +part):\n%s", w.To, diff)
	}
}

// TestProcessorSplit: each part opens by itself, and what the trace processor finds in all of them adds
// up to the whole.
func TestProcessorSplit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		log Log
		o   TraceOptions
		min int
	}{
		"by time": {Path(launchesFile(t, 2000)), TraceOptions{Compress: output.None, Split: Split{Every: time.Millisecond}}, 2},
		"by size": {Path("../testdata/gpu/logs/streams.cudatrace"), TraceOptions{Split: Split{Bytes: 10 << 10}}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole, _ := openTrace(t, c.log.Open)
			windows, err := divide([]Log{c.log}, c.o)
			if err != nil {
				t.Fatal(err)
			}
			c.o.Split.Name = "x"
			dir := t.TempDir()
			all, err := Files([]Log{c.log}, filepath.Join(dir, "x.pftrace"), c.o)
			if err != nil {
				t.Fatal(err)
			}
			want, got := sums{}, sums{}
			want.add(whole)
			n, slices, arrows := 0, int64(0), int64(0)
			for i := range windows {
				path := filepath.Join(dir, "x.parts", fmt.Sprintf("x.%03d.pftrace", i+1))
				info, err := os.Stat(path)
				if errors.Is(err, os.ErrNotExist) {
					continue // nothing happened then
				}
				if err != nil || c.o.Split.Bytes > 0 && info.Size() > c.o.Split.Bytes {
					t.Errorf("%s has %d bytes: %v", path, info.Size(), err)
				}
				tr := tptest.Open(t, path)
				tptest.NoErrors(t, tr)
				got.add(tr)
				n++
				slices += tr.Int(`select count(*) from slice`)
				arrows += tr.Int(`select count(*) from flow`)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("sums (-whole +parts):\n%s", diff)
			}
			if n < c.min || slices != int64(all[0].Slices) {
				t.Errorf("%d parts with %d slices, the summary has %d", n, slices, all[0].Slices)
			}
			if want := arrowsWithin(whole, windows); arrows != want || want == 0 {
				t.Errorf("%d arrows in the parts, want %d", arrows, want)
			}
		})
	}
}

// sums are numbers and times by what the trace processor finds. Parts have no critical paths.
type sums map[string]int64

func (y sums) add(tr *tptest.Trace) {
	for _, r := range tr.Values(`select name,
			sum(coalesce(extract_arg(arg_set_id, 'debug.part'), extract_arg(arg_set_id, 'part'), '') not like 'began before%'),
			sum(max(dur, 0)) from slice where category is null or category != 'critical_path' group by name`) {
		y[r[0].(string)+", number"] += r[1].(int64)
		y[r[0].(string)+", time"] += r[2].(int64)
	}
	for _, r := range tr.Values(`select thread.tid, count(*) from thread_track join thread using (utid) group by tid`) {
		y[fmt.Sprintf("thread %d", r[0])] = 1
	}
	for _, r := range tr.Values(`select gpu, name from gpu`) {
		y[fmt.Sprintf("GPU %d %s", r[0], r[1])] = 1
	}
}

// arrowsWithin is the number of a trace's arrows, once for each window that has something of both ends.
func arrowsWithin(tr *tptest.Trace, windows []partWindow) (n int64) {
	for _, r := range tr.Values(`select o.ts, o.ts + o.dur, i.ts, i.ts + i.dur from flow join slice o on slice_out = o.id join slice i on slice_in = i.id
			where i.category is null or i.category != 'critical_path'`) {
		for _, w := range windows {
			if overlaps(w, r[0], r[1]) && overlaps(w, r[2], r[3]) {
				n++
			}
		}
	}
	return n
}

// overlaps reports whether something of an interval is in a window.
func overlaps(w partWindow, from, to any) bool {
	a, b := uint64(from.(int64)), uint64(to.(int64))
	return a >= w.From && a < w.To || a < w.From && b > w.From
}
