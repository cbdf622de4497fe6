package stats

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/stats/usage"
)

// causes are the names of the causes of idle time.
var causes = [usage.Causes]string{"launched late", "dependency", "other work", "other"}

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

// rankTable returns the report of what each process did on each GPU.
func (b *busy) rankTable() *table.Table {
	t := &table.Table{Name: "ranks", Title: "processes on their GPUs: compute, communication and copies"}
	t.Columns = slices.Concat([]table.Column{name("process"), id("pid", "number", 1), column("host", "host", table.Text, 7), id("gpu", "GPU", 1)}, busyColumns(),
		[]table.Column{duration("compute_ns", "compute", 2), duration("communication_ns", "communication", 2),
			duration("communication_overlap_ns", "with compute", 3), duration("exposed_ns", "exposed", 2), duration("copy_ns", "copying", 3)})
	late := uint64(0)
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
			t.Rows = append(t.Rows, slices.Concat([]any{p.Process.Name, uint64(p.Process.PID), text(p.Process.Host), uint64(d.index)},
				b.busyCells(m.Busy(), p.First, p.Last, d.Late == 0), more))
		}
	}
	slices.SortStableFunc(t.Rows, func(a, b []any) int {
		return cmp.Or(cmp.Compare(a[1].(uint64), b[1].(uint64)), cmp.Compare(a[3].(uint64), b[3].(uint64)))
	})
	t.Notes = note(late, "busy times")
	return t
}
