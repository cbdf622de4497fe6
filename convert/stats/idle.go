package stats

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/activity"
	"github.com/cudatrace/cudatrace/convert/stats/ranks"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// causes are the names of the causes of idle time.
var causes = [activity.Causes]string{"launched late", "dependency", "other work", "other"}

// idleTable returns the report of idle time by cause.
func (b *busy) idleTable() *table.Table {
	t := &table.Table{Name: "idle", Title: "idle time of GPUs by its cause", Columns: []table.Column{
		name("cause"), column("what", "meanwhile", table.Text, 0), id("gpu", "GPU", 2), count("count", "gaps", 1), duration("total_ns", "total", 1),
		column("share", "share", table.Share, 2), duration("max_ns", "longest", 3), column("max_at_ns", "at", table.Moment, 4),
	}}
	late := uint64(0)
	for _, d := range b.sorted() {
		if late += d.Late; d.Late > 0 {
			continue
		}
		idle := d.Last - d.First - d.Busy()
		for reason, r := range d.Idle.Rows {
			t.Rows = append(t.Rows, []any{causes[reason.Cause], reason.What, uint64(d.index), r.Count, r.Total, share(r.Total, idle), r.Max, b.clock.since(r.MaxAt)})
		}
	}
	t.Sort("total_ns")
	t.Notes = note(late, "idle times")
	return t
}

// ranked is a row of a process.
type ranked struct {
	process *timeline.Process
	row     []any
}

// waitCells are the cells of what a rank waited for others in collectives, and others for it.
func waitCells(w ranks.Waits) []any {
	if !w.Known {
		return make([]any, 4)
	}
	return []any{w.Waited, w.Awaited, w.Collectives, w.Last}
}

// loads are what each process did on each GPU.
func (b *busy) loads(c *ranks.Collector) (all []ranks.Load) {
	for _, d := range b.sorted() {
		if d.Late > 0 {
			continue
		}
		for _, p := range d.Parts {
			if m := p.Times(); p.First < p.Last {
				all = append(all, ranks.Load{Process: c.Process(p.Process), GPU: d.index, Compute: m.Compute(), Exposed: m.Communication() - m.CommunicationOverlap(),
					Span: p.Last - p.First, First: p.First, Last: p.Last})
			}
		}
	}
	return all
}

// rankTable returns the report of what each process did on each GPU.
func (b *busy) rankTable(c *ranks.Collector) *table.Table {
	t := &table.Table{Name: "ranks", Title: "processes on their GPUs: compute, communication and copies"}
	t.Columns = slices.Concat([]table.Column{name("process"), id("pid", "number", 1), column("host", "host", table.Text, 7), id("gpu", "GPU", 1), id("rank", "", 0)}, busyColumns(),
		[]table.Column{duration("compute_ns", "compute", 2), duration("communication_ns", "communication", 2),
			duration("communication_overlap_ns", "with compute", 3), duration("exposed_ns", "exposed", 2), duration("copy_ns", "copying", 3),
			duration("waited_ns", "waited", 2), duration("awaited_ns", "awaited", 2), count("collectives", "", 0), count("last", "last", 3)})
	late, ranks := uint64(0), []ranked{}
	for _, d := range b.sorted() {
		late += d.Late
		for _, p := range d.Parts {
			if p.First > p.Last {
				continue
			}
			m, more := p.Times(), make([]any, 5)
			if d.Late == 0 {
				more = []any{m.Compute(), m.Communication(), m.CommunicationOverlap(), m.Communication() - m.CommunicationOverlap(), m.Copies()}
			}
			var rank any
			if p.Process.Rank.Known {
				rank = uint64(p.Process.Rank.Number)
			}
			ranks = append(ranks, ranked{p.Process, slices.Concat([]any{p.Process.Name, uint64(p.Process.PID), text(p.Process.Host), uint64(d.index), rank},
				b.busyCells(m.Busy(), p.First, p.Last, d.Late == 0), more, waitCells(c.Waits(c.Process(p.Process))))})
		}
	}
	slices.SortStableFunc(ranks, func(a, b ranked) int {
		return cmp.Or(a.process.Rank.Compare(b.process.Rank), cmp.Compare(a.process.PID, b.process.PID))
	})
	for _, r := range ranks {
		t.Rows = append(t.Rows, r.row)
	}
	t.Notes = note(late, "busy times")
	return t
}
