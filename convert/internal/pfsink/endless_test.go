package pfsink

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/perfetto/tptest"
	"github.com/cudatrace/cudatrace/record/must"
)

// A range of NCCL's that makes a communicator, and of which the log has no end, ends where the next range of its track begins, or
// the one around it ends. The last one of a track goes on: it may be a hang. Other ranges without an end go on, too.
func TestEndlessProcessor(t *testing.T) {
	t.Parallel()
	track := func(tid uint32) *timeline.Track {
		return &timeline.Track{Process: process, Thread: &timeline.Thread{Process: process, TID: tid}, Category: timeline.NVTX, Domain: timeline.NCCLDomain}
	}
	span := func(name string, start, end uint64, flags uint16) timeline.Span {
		return timeline.Span{Name: name, Start: start, End: end, Flags: flags}
	}
	begin := func(of *timeline.Track, x timeline.Span) timeline.Event {
		return &timeline.SpanBegin{Track: of, Span: x}
	}
	end := func(of *timeline.Track, x timeline.Span) timeline.Event { return &timeline.SpanEnd{Track: of, Span: x} }
	const init = "ncclCommInitRankConfig"
	followed, enclosed, last, other := track(20), track(21), track(22), track(23)
	first, reduce := span(init, 200, 900, timeline.Unfinished), span("ncclAllReduce", 400, 500, 0)
	outer, inner := span("ncclGroup", 100, 300, 0), span(init, 200, 900, timeline.Unfinished)
	hang, own := span(init, 200, 900, timeline.Unfinished), span("mine", 200, 900, timeline.Unfinished)
	path := filepath.Join(t.TempDir(), "trace.pftrace")
	must.Do(t, os.WriteFile(path, encoded(t, []timeline.Event{recording, process,
		begin(followed, first), begin(followed, reduce), end(followed, reduce), end(followed, first),
		begin(enclosed, outer), begin(enclosed, inner), end(enclosed, outer), end(enclosed, inner),
		begin(last, hang), end(last, hang), begin(other, own), begin(other, reduce), end(other, reduce), end(other, own),
	}), 0o644))
	tr := tptest.Open(t, path)
	tptest.NoErrors(t, tr)
	want := []string{"20 ncclAllReduce 400 100 0", "20 " + init + " 200 200 0", "21 " + init + " 200 100 1", "21 ncclGroup 100 200 0",
		"22 " + init + " 200 700 0", "23 mine 200 700 0", "23 ncclAllReduce 400 100 1"}
	rows := tr.Values(`select tid || ' ' || s.name || ' ' || ts || ' ' || dur || ' ' || depth from slice s
		join thread on utid = (select extract_arg(dimension_arg_set_id, 'utid') from track where id = s.track_id) order by tid, s.name`)
	for i, row := range rows {
		if i >= len(want) || row[0] != want[i] {
			t.Errorf("slice %d: %v, want %q", i, row[0], want)
		}
	}
	if len(rows) != len(want) {
		t.Errorf("%d slices, want %d", len(rows), len(want))
	}
}
