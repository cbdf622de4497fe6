package pfsink

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/perfetto"
)

// A rankRow is a rank on a GPU.
type rankRow struct {
	*activity.Part
	gpu uint32 // GPU.Index
}

// rankRows returns the rows by rank, none where all work is of one rank. Work of a process without a rank is in no row.
func (s *Sink) rankRows() (rows []rankRow) {
	for gpu, d := range s.counters.Devices {
		for _, p := range d.Parts {
			if p.Process.Rank.Known {
				rows = append(rows, rankRow{p, gpu})
			}
		}
	}
	slices.SortFunc(rows, func(a, b rankRow) int {
		return cmp.Or(a.Process.Rank.Compare(b.Process.Rank), cmp.Compare(a.Process.PID, b.Process.PID),
			cmp.Compare(a.gpu, b.gpu))
	})
	if !slices.ContainsFunc(rows, func(r rankRow) bool { return r.Process.Rank != rows[0].Process.Rank }) {
		return nil
	}
	return rows
}

// writeOverview writes what each rank did over time, one track for each in a group of their own. Slices of states are
// one row of colours a rank, where counters would be one graph a state. Time that was mostly idle has none: the UI has
// its loudest colour for slices named idle.
func (s *Sink) writeOverview() {
	rows := s.rankRows()
	if len(rows) == 0 {
		return
	}
	group := s.w.Group(perfetto.TrackInfo{Name: "All ranks"})
	for i, r := range rows {
		list := slices.DeleteFunc(r.Slices(), func(x activity.Slice) bool { return x.State == activity.Idles })
		track := s.w.Track(perfetto.TrackInfo{Name: rowName(rows, i), Group: group, Rank: i})
		for k := range list {
			x := &list[k]
			s.once.Encode(s.w, x.State.String(), "rank", sliceArgs(x))
			track.Begin(x.Start, &s.once, perfetto.Links{})
			track.End(x.End)
		}
		s.shown += uint64(len(list))
	}
}

// rowName names a row: by its rank, and by the GPU where the rank used several.
func rowName(rows []rankRow, i int) string {
	r := rows[i]
	name := fmt.Sprintf("rank %d", r.Process.Rank.Number)
	same := func(k int) bool { return k >= 0 && k < len(rows) && rows[k].Process.Rank == r.Process.Rank }
	if same(i-1) || same(i+1) {
		name += fmt.Sprintf(", GPU %d", r.gpu)
	}
	if r.Late() > 0 {
		name += " (too much work came in another order than that of time: not exact)"
	}
	return name
}

// sliceArgs are the times of a slice, by the names that 'cudatrace stats' has for them.
func sliceArgs(x *activity.Slice) (args []perfetto.Arg) {
	for _, a := range []struct {
		name string
		ns   uint64
	}{
		{"compute_ns", x.Compute}, {"communication_ns", x.Communication},
		{"communication_overlap_ns", x.CommunicationOverlap},
		{"exposed_ns", x.Exposed()}, {"copy_ns", x.Copies}, {"idle_ns", x.Idle()},
	} {
		if a.ns > 0 {
			args = append(args, perfetto.Uint(a.name, a.ns))
		}
	}
	return args
}
