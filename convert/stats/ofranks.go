package stats

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/stats/ranks"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

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

var ranksReport = Report{
	Name: "ranks", Title: "processes on their GPUs: compute, communication and copies", OfRanks: true,
	needs: gpuWork, whyEmpty: "no GPU work",
	table: func(s *Sink, _ Facts) *table.Table { return s.busy.rankTable(s.ranks) },
}

// rankTable returns the report of what each process did on each GPU.
func (b *busy) rankTable(c *ranks.Collector) *table.Table {
	t := new(table.Table)
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

var collectivesReport = Report{
	Name: "collectives", Title: "collectives of NCCL by communicator: who comes last, and how long the others wait", OfRanks: true,
	needs: gpuWork, whyEmpty: "no collectives of NCCL that several ranks of the logs run together",
	table: func(s *Sink, f Facts) *table.Table { return f.togetherOf(s.ranks.Collectives()) },
}

var lateCollectivesReport = Report{
	Name: "late_collectives", Title: "the collectives in which ranks waited longest", Detail: true, OfRanks: true,
	needs: gpuWork, whyEmpty: "no rank is known to have waited in a collective",
	table: func(s *Sink, _ Facts) *table.Table { return s.ranks.Worst() },
}

var messageSizesReport = Report{
	Name: "message_sizes", Title: "collectives of NCCL by the size of their messages, with the bandwidths of nccl-tests", OfRanks: true,
	needs: gpuWork, whyEmpty: "no collectives of NCCL",
	table: func(s *Sink, _ Facts) *table.Table { return s.ranks.MessageSizes() },
}

var stepsReport = Report{
	Name: "steps", Title: "steps over the ranks", OfRanks: true,
	table: func(s *Sink, _ Facts) *table.Table { return s.ranks.StepTable() },
}

// togetherOf adds to the reason why collectives of several ranks were not put together what the recording lacks.
func (f Facts) togetherOf(t *table.Table) *table.Table {
	if t.Reason == "" {
		return t
	}
	if f.Filtered {
		t.Reason += "; a filter selects a part of the logs"
	}
	if f.Broken != "" {
		t.Reason += "; " + f.Broken
	}
	return t
}
