package stats

import (
	"github.com/cudatrace/cudatrace/convert/activity"
	"github.com/cudatrace/cudatrace/convert/stats/table"
)

// causes are the names of the causes of idle time.
var causes = [activity.Causes]string{"launched late", "dependency", "other work", "other"}

var idleReport = Report{
	Name: "idle", Title: "idle time of GPUs by its cause",
	needs: gpuWork, whyEmpty: "no idle time between GPU work",
	table: func(s *Sink, _ Facts) *table.Table { return s.busy.idleTable() },
	Keys: []Key{
		{"name, what", "the cause, as above"},
		{"gpu", "the GPU"},
		{"count, total_ns", "gaps with such a time, and the time"},
		{"share", "part of the idle time of the GPU"},
		{"max_ns, max_at_ns", "the longest such time in one gap, and the moment at which it begins: that of the gap, for \"launched late\""},
	},
}

// idleTable returns the report of idle time by cause.
func (b *busy) idleTable() *table.Table {
	t := &table.Table{Columns: []table.Column{
		name("cause"), column("what", "meanwhile", table.Text, 0), id("gpu", "GPU", 2), count("count", "gaps", 1), duration("total_ns", "total", 1),
		column("share", "share", table.Share, 2), duration("max_ns", "longest", 3), column("max_at_ns", "at", table.Moment, 4),
	}}
	late := uint64(0)
	for _, d := range b.sorted() {
		if late += d.Late; d.Late > 0 {
			continue
		}
		d.Idle.Pool()
		idle := d.Last - d.First - d.Busy()
		for reason, r := range d.Idle.Rows {
			t.Rows = append(t.Rows, []any{causes[reason.Cause], reason.What, uint64(d.index), r.Count, r.Time, table.ShareOf(r.Time, idle), r.Longest, b.clock.since(r.MaxAt)})
		}
	}
	t.Sort("total_ns")
	t.Notes = note(late, "idle times")
	return t
}
